//! A kubelet: the client side of both services.

use coppice_domain_plugin::wire;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::node::Stage;

#[derive(Clone)]
pub struct Kubelet {
    registration: std::path::PathBuf,
    dra: std::path::PathBuf,
    service: &'static str,
}

impl Kubelet {
    pub fn new(stage: &Stage) -> Self {
        Self {
            registration: stage.settings.registration_socket(),
            dra: stage.settings.dra_socket(),
            service: wire::DRA_V1,
        }
    }

    /// One that does not know `dra.v1` yet.
    pub fn old(&self) -> Self {
        Self {
            service: wire::DRA_V1BETA1,
            ..self.clone()
        }
    }

    async fn call<Q, R>(&self, socket: &std::path::Path, service: &str, method: &str, request: Q) -> R
    where
        Q: prost::Message + Default + 'static,
        R: prost::Message + Default + 'static,
    {
        let socket = socket.to_owned();
        let connect = move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        };
        let endpoint = Endpoint::from_static("http://localhost");
        let channel: Channel = endpoint
            .connect_with_connector(tower::service_fn(connect))
            .await
            .unwrap();
        let mut client = Grpc::new(channel);
        client.ready().await.unwrap();
        let path = format!("/{service}/{method}").parse().unwrap();
        let answer = client
            .unary(tonic::Request::new(request), path, ProstCodec::default())
            .await;
        answer.unwrap().into_inner()
    }

    pub async fn info(&self) -> wire::PluginInfo {
        self.call(&self.registration, wire::REGISTRATION, "GetInfo", wire::InfoRequest {})
            .await
    }

    pub async fn registered(&self) {
        let status = wire::RegistrationStatus {
            plugin_registered: true,
            error: String::new(),
        };
        let _: wire::RegistrationStatusResponse = self
            .call(
                &self.registration,
                wire::REGISTRATION,
                "NotifyRegistrationStatus",
                status,
            )
            .await;
    }

    pub async fn prepare(&self, claim: &wire::Claim) -> Result<Vec<wire::Device>, String> {
        let request = wire::NodePrepareResourcesRequest {
            claims: vec![claim.clone()],
        };
        let mut answer: wire::NodePrepareResourcesResponse = self
            .call(&self.dra, self.service, "NodePrepareResources", request)
            .await;
        let claim = answer.claims.remove(&claim.uid).unwrap();
        if claim.error.is_empty() {
            Ok(claim.devices)
        } else {
            Err(claim.error)
        }
    }

    pub async fn unprepare(&self, claim: &wire::Claim) -> Result<(), String> {
        let request = wire::NodeUnprepareResourcesRequest {
            claims: vec![claim.clone()],
        };
        let mut answer: wire::NodeUnprepareResourcesResponse = self
            .call(&self.dra, self.service, "NodeUnprepareResources", request)
            .await;
        let claim = answer.claims.remove(&claim.uid).unwrap();
        if claim.error.is_empty() {
            Ok(())
        } else {
            Err(claim.error)
        }
    }
}
