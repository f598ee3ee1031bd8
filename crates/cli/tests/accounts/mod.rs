//! Service accounts of a real control plane: what a pod would know of itself.

use coppice_harness::control_plane::ControlPlane;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::json;

/// The control plane's kubeconfig with the user replaced by a token of `account`.
pub(crate) async fn kubeconfig_of(control_plane: &ControlPlane, namespace: &str, account: &str) -> String {
    kubeconfig_with(control_plane, namespace, account, None).await
}

async fn kubeconfig_with(
    control_plane: &ControlPlane,
    namespace: &str,
    account: &str,
    bound: Option<BoundObjectReference>,
) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(control_plane.client(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(3607),
            bound_object_ref: bound,
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

/// The same for a pod of `account` that is bound to `node`: the token names the node, as a kubelet's would.
#[allow(dead_code, reason = "not every test has such a pod")]
pub(crate) async fn kubeconfig_of_pod(
    control_plane: &ControlPlane,
    namespace: &str,
    account: &str,
    node: &str,
) -> String {
    let pods: Api<Pod> = Api::namespaced(control_plane.client(), namespace);
    let pod = json!({"metadata": {"name": format!("{account}-{node}")}, "spec": {
        "serviceAccountName": account, "nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    let pod = pods
        .create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
        .await
        .unwrap();
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name,
        uid: pod.metadata.uid,
    };
    kubeconfig_with(control_plane, namespace, account, Some(bound)).await
}
