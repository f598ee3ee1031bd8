//! What all requests share: the store, the ports, the registry.

use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use crate::admission::Transport;
use crate::auth::{Authenticator, Authorizer};
use crate::crd;
use crate::discovery::Documents;
use crate::ports::{Clock, Identities};
use crate::registry::{Registry, Served, builtin_resources};
use crate::store::Store;
use crate::tokens::Tokens;

/// The inside of a server.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) identities: Identities,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) transport: Transport,
    pub(crate) tokens: Tokens,
    catalogue: RwLock<Catalogue>,
}

/// The served resources and what has been written about them.
#[derive(Clone)]
struct Catalogue {
    registry: Arc<Registry>,
    documents: Arc<Documents>,
}

impl Catalogue {
    fn new(registry: Registry) -> Self {
        Self {
            registry: Arc::new(registry),
            documents: Arc::default(),
        }
    }
}

impl Core {
    /// The inside of a server without objects.
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        identities: Identities,
        authenticator: Arc<dyn Authenticator>,
        authorizer: Arc<dyn Authorizer>,
        transport: Transport,
    ) -> Self {
        let catalogue = RwLock::new(Catalogue::new(Registry::new(builtin_resources())));
        Self {
            store,
            clock,
            identities,
            authenticator,
            authorizer,
            transport,
            tokens: Tokens::default(),
            catalogue,
        }
    }

    /// The resources as of now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.catalogue.read().registry.clone()
    }

    /// The resources as of now and their documents.
    pub(crate) fn registry_and_documents(&self) -> (Arc<Registry>, Arc<Documents>) {
        let catalogue = self.catalogue.read();
        (catalogue.registry.clone(), catalogue.documents.clone())
    }

    /// Lets the server follow a write that concerns itself.
    pub(crate) fn after_write(&self, served: &Served, object: &Value) {
        if &*served.id == crd::DEFINITIONS {
            crd::after_write(self, object);
        } else if served.custom {
            crd::after_instance_write(self, served);
        }
    }

    /// Serves the custom resources that the store defines now.
    pub(crate) fn reload_custom_resources(&self) {
        // Under the lock, so that of two changes at once the later one is served.
        let mut catalogue = self.catalogue.write();
        let custom = crd::served_resources(&self.store);
        *catalogue = Catalogue::new(Registry::new(builtin_resources().into_iter().chain(custom)));
    }
}
