//! Puts the webhook configurations into a cluster: for embedded control planes and tests. On others a chart does.
//!
//! Applied with an own field manager, so that a second run changes nothing and an injected CA bundle stays.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};

use super::Endpoint;
use super::configurations::{Address, configuration};

const FIELD_MANAGER: &str = "coppice-webhooks";

/// The resource of an endpoint's configuration.
#[must_use]
pub fn resource(endpoint: Endpoint) -> ApiResource {
    let (kind, plural) = if endpoint.mutates() {
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
    } else {
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
    };
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind),
        plural,
    )
}

/// Installs the configurations of these questions.
///
/// # Errors
/// When the API server refuses one.
pub async fn install(client: &Client, endpoints: &[Endpoint], address: &Address) -> Result<(), Error> {
    for endpoint in endpoints {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(*endpoint));
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let object = configuration(*endpoint, address);
        api.patch(endpoint.configuration(), &params, &Patch::Apply(&object))
            .await?;
    }
    Ok(())
}
