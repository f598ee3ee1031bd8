//! Building clients: from a configuration or over a service in the same process, with our layers and without retries.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
};
use tower::{BoxError, Layer, Service, ServiceExt, buffer::BufferLayer, util::BoxCloneService};

use super::{FaultHook, FaultLayer, LimitLayer, Limits, MetricsLayer, Transport, UserAgentLayer};
use crate::metrics::Metrics;

/// What a client is like.
#[derive(Clone, Default)]
pub struct Options {
    /// How it presents itself; `coppice` and the version when not given.
    pub user_agent: Option<String>,
    /// How much it may ask.
    pub limits: Limits,
    /// Where it counts.
    pub metrics: Metrics,
    /// What may go wrong, in tests and simulations.
    pub faults: Option<Arc<dyn FaultHook>>,
}

/// A client of the cluster that `config` names, without kube's retries.
///
/// # Errors
/// When the configuration cannot be used (certificates, proxy).
pub fn client(mut config: Config, options: &Options) -> Result<Client, kube::Error> {
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config)?
        .with_layer(&BufferLayer::new(1024))
        .with_layer(&tower::layer::layer_fn(transport))
        .with_layer(&tower::layer::layer_fn(|inner| stack(inner, options)));
    Ok(builder.build())
}

/// A client of a service in the same process, such as the router of the embedded API server.
pub fn client_of_service<S, B>(service: S, namespace: &str, options: &Options) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Client::new(stack(transport(service), options), namespace)
}

/// Gives any service the type that our layers wrap.
pub fn transport<S, B>(service: S) -> Transport
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service
        .map_response(|answer: Response<B>| answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        .map_err(Into::into);
    BoxCloneService::new(service)
}

/// From the outside in: who calls, counting, limits, faults.
fn stack(mut transport: Transport, options: &Options) -> Transport {
    if let Some(hook) = &options.faults {
        transport = FaultLayer::new(hook.clone()).layer(transport);
    }
    let agent = options
        .user_agent
        .as_deref()
        .unwrap_or(concat!("coppice/", env!("CARGO_PKG_VERSION")));
    let limited = LimitLayer::new(options.limits).layer(transport);
    let counted = MetricsLayer::new(options.metrics.clone()).layer(limited);
    UserAgentLayer::new(agent).layer(counted)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
