//! The gRPC services on the plugin's two sockets.
//!
//! Owns routing: method names to functions. What the functions do is in [`crate::plugin`].

use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic_prost::ProstCodec;
use tower::Service;
use tracing::{error, info};

use crate::plugin::Plugin;
use crate::wire;

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Decodes a request, calls `handler` and encodes what it returns.
async fn unary<Q, R, F>(request: Request<Body>, handler: impl Fn(Q) -> F + Send + Sync) -> Response<Body>
where
    Q: prost::Message + Default + Send + Sync + 'static,
    R: prost::Message + Default + Send + Sync + 'static,
    F: Future<Output = Result<R, Status>> + Send,
{
    let method = |request: tonic::Request<Q>| {
        let handled = handler(request.into_inner());
        async move { handled.await.map(tonic::Response::new) }
    };
    let mut grpc = Grpc::new(ProstCodec::default());
    grpc.unary(tower::service_fn(method), request).await
}

fn unknown_method(path: &str) -> Response<Body> {
    Status::unimplemented(format!("no method {path}")).into_http()
}

/// The registration service: says who is there, and logs what the kubelet makes of it.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) info: wire::PluginInfo,
}

impl NamedService for Registration {
    const NAME: &'static str = wire::REGISTRATION;
}

impl Service<Request<Body>> for Registration {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let info = self.info.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            Ok(match path.rsplit('/').next() {
                Some("GetInfo") => {
                    unary(request, |_: wire::InfoRequest| {
                        let info = info.clone();
                        async move { Ok(info) }
                    })
                    .await
                }
                Some("NotifyRegistrationStatus") => {
                    unary(request, |status: wire::RegistrationStatus| async move {
                        if status.plugin_registered {
                            info!("the kubelet has registered the plugin");
                        } else {
                            error!(error = status.error, "the kubelet refuses the plugin");
                        }
                        Ok(wire::RegistrationStatusResponse {})
                    })
                    .await
                }
                _ => unknown_method(&path),
            })
        })
    }
}

/// Which version of the DRA service.
pub(crate) trait Version: Send + Sync + 'static {
    const NAME: &'static str;
}

pub(crate) struct V1;

impl Version for V1 {
    const NAME: &'static str = wire::DRA_V1;
}

pub(crate) struct V1Beta1;

impl Version for V1Beta1 {
    const NAME: &'static str = wire::DRA_V1BETA1;
}

/// The DRA service.
pub(crate) struct Dra<V> {
    plugin: Arc<Plugin>,
    version: PhantomData<fn() -> V>,
}

impl<V> Dra<V> {
    pub(crate) fn new(plugin: Arc<Plugin>) -> Self {
        Self {
            plugin,
            version: PhantomData,
        }
    }
}

impl<V> Clone for Dra<V> {
    fn clone(&self) -> Self {
        Self::new(self.plugin.clone())
    }
}

impl<V: Version> NamedService for Dra<V> {
    const NAME: &'static str = V::NAME;
}

impl<V: Version> Service<Request<Body>> for Dra<V> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let plugin = self.plugin.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            Ok(match path.rsplit('/').next() {
                Some("NodePrepareResources") => {
                    unary(request, |request: wire::NodePrepareResourcesRequest| {
                        let plugin = plugin.clone();
                        async move { Ok(plugin.prepare_all(request.claims).await) }
                    })
                    .await
                }
                Some("NodeUnprepareResources") => {
                    unary(request, |request: wire::NodeUnprepareResourcesRequest| {
                        let plugin = plugin.clone();
                        async move { Ok(plugin.unprepare_all(request.claims).await) }
                    })
                    .await
                }
                _ => unknown_method(&path),
            })
        })
    }
}
