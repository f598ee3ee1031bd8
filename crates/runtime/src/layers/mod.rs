//! Layers under `kube::Client`, and the constructors that put them there.
//!
//! Owns limits (in flight, rate), request metrics, the user agent and the fault hook. A client made here has no retry
//! layer: kube's default one repeats a POST whose answer was lost, and the queue retries anyway. Layers see calls as
//! [`Call`]s. Never changes what a request asks for.
//!
//! ```
//! use coppice_runtime::layers::{self, Options};
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! // In process: any service that answers HTTP requests is a cluster.
//! let service = tower::service_fn(|_request: http::Request<kube::client::Body>| async {
//!     let version = r#"{"major":"1","minor":"37","gitVersion":"v1.37.0"}"#;
//!     Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::from(version)))
//! });
//! let client = layers::client_of_service(service, "default", &Options::default());
//! let info = client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
//! assert!(info.contains("v1.37.0"));
//! # }
//! ```

mod call;
mod client;
mod fault;
mod limit;
mod observe;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tower::{BoxError, util::BoxCloneService};

pub use call::Call;
pub use client::{Options, client, client_of_service, transport};
pub use fault::{Ending, Fault, FaultHook, FaultLayer};
pub use limit::{LimitLayer, Limits};
pub use observe::{MetricsLayer, UserAgentLayer};

/// The body of a response, whatever made it.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// The service that all layers here wrap and are.
pub type Transport = BoxCloneService<Request<Body>, Response<ResponseBody>, BoxError>;
