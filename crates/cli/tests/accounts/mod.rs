//! Service accounts of a real control plane: what a pod would know of itself.

use coppice_harness::control_plane::ControlPlane;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::json;

/// The control plane's kubeconfig with the user replaced by a token of `account`.
pub(crate) async fn kubeconfig_of(control_plane: &ControlPlane, namespace: &str, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(control_plane.client(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(3607),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let parameters = PostParams::default();
    let answer = accounts.create_token_request(account, &parameters, &request).await;
    let token = answer.unwrap().status.unwrap().token;
    let kubeconfig = Kubeconfig::read_from(control_plane.kubeconfig()).unwrap();
    let mut kubeconfig = serde_json::to_value(kubeconfig).unwrap();
    for user in kubeconfig["users"].as_array_mut().unwrap() {
        user["user"] = json!({"token": token});
    }
    kubeconfig.to_string()
}
