//! The server as its users hold it: built once, cloned freely, served over sockets or called in process.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use jiff::Timestamp;
use tower::Service;

use crate::admission::{AdmissionHandler, ServiceResolver, Transport};
use crate::auth::{AllowEverything, Authenticator, Authorizer, TrustEveryone, User};
use crate::core::Core;
use crate::ports::{Clock, Identities};
use crate::rest::{self, ApiBody};
use crate::store::{DEFAULT_HISTORY_LIMIT, Store};

/// An embedded Kubernetes API server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), kube::Error> {
/// use coppice_apiserver::ApiServer;
///
/// let server = ApiServer::builder().seed(1).build();
/// let client = kube::Client::new(server.service(), "default");
/// let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(client);
/// assert!(namespaces.get_opt("default").await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ApiServer {
    core: Arc<Core>,
}

/// Builds an [`ApiServer`].
pub struct Builder {
    clock: Clock,
    seed: Option<u64>,
    history_limit: usize,
    authenticator: Arc<dyn Authenticator>,
    authorizer: Arc<dyn Authorizer>,
    transport: Transport,
}

impl Builder {
    /// Where timestamps come from; the machine's clock unless set.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Clock::new(now);
        self
    }

    /// Makes uids and generated names a function of the seed and the order of requests.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many commits of each resource watchers and paged lists can go back.
    #[must_use]
    pub fn history_limit(mut self, commits: usize) -> Self {
        self.history_limit = commits;
        self
    }

    /// Who is asked about the sender of a request.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Arc::new(authenticator);
        self
    }

    /// Who is asked whether a request may be carried out.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        self.authorizer = Arc::new(authorizer);
        self
    }

    /// Calls `handler` instead of the address of every webhook of that name.
    #[must_use]
    pub fn admission_handler(mut self, webhook: &str, handler: impl AdmissionHandler) -> Self {
        self.transport.handlers.insert(webhook.to_owned(), Arc::new(handler));
        self
    }

    /// Who is asked for the address of a service that a webhook configuration names.
    #[must_use]
    pub fn service_resolver(mut self, resolver: impl ServiceResolver) -> Self {
        self.transport.resolver = Some(Arc::new(resolver));
        self
    }

    /// The server, with the objects every cluster has (namespaces, system priority classes, its own service).
    pub fn build(self) -> ApiServer {
        let identities = self.seed.map_or_else(Identities::from_entropy, Identities::seeded);
        let store = Store::new(self.history_limit);
        let core = Core::new(
            store,
            self.clock,
            identities,
            self.authenticator,
            self.authorizer,
            self.transport,
        );
        crate::bootstrap::create_initial_objects(&core);
        ApiServer { core: Arc::new(core) }
    }
}

impl ApiServer {
    /// Starts building a server.
    pub fn builder() -> Builder {
        Builder {
            clock: Clock::new(Timestamp::now),
            seed: None,
            history_limit: DEFAULT_HISTORY_LIMIT,
            authenticator: Arc::new(TrustEveryone),
            authorizer: Arc::new(AllowEverything),
            transport: Transport::default(),
        }
    }

    /// The server as a tower service over any body; `kube::Client::new` takes it as it is.
    pub fn service(&self) -> ApiService {
        ApiService {
            core: self.core.clone(),
        }
    }

    /// The store, for observers.
    pub fn store(&self) -> &Store {
        &self.core.store
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ApiServer")
            .field("store", &self.core.store)
            .finish_non_exhaustive()
    }
}

/// The server as a tower service. Never fails and is always ready.
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
}

impl ApiService {
    /// Whose token it is, if this server gave it out and it is still good.
    pub(crate) fn user_of_token(&self, token: &str) -> Option<User> {
        let core = &self.core;
        core.tokens.user(token, &core.store, core.clock.now())
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = self.core.clone();
        Box::pin(async move { Ok(rest::handle(core, request).await) })
    }
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ApiService")
    }
}
