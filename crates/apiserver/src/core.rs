//! What all requests share: the store, the ports, the registry.

use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use crate::auth::{Authenticator, Authorizer};
use crate::ports::{Clock, Identities};
use crate::registry::{Registry, Served, builtin_resources};
use crate::store::Store;

/// The inside of a server.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) identities: Identities,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) registry: RwLock<Arc<Registry>>,
}

impl Core {
    /// The resources as of now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().clone()
    }

    /// The registry of a server without custom resources.
    pub(crate) fn builtin_registry() -> RwLock<Arc<Registry>> {
        RwLock::new(Arc::new(Registry::new(builtin_resources())))
    }

    /// Lets the server follow a write that concerns itself.
    pub(crate) fn after_write(&self, _served: &Served, _object: &Value) {}
}
