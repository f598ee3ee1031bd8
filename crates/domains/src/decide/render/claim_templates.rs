//! The two ResourceClaimTemplates of a domain.

use serde_json::{Value, json};

use super::RenderSettings;
use crate::api::{AllocationMode, ClaimParameters, ComputeDomain, names};

/// The template of the daemons' claims, in the namespace of the driver.
pub fn daemon_template(domain: &ComputeDomain, settings: &RenderSettings) -> Value {
    let parameters = ClaimParameters::Daemon {
        domain_uid: domain.uid().to_owned(),
    };
    let name = names::daemon_set(domain.uid());
    let request = (names::DAEMON_REQUEST, names::DAEMON_CLASS);
    let mut template = template(
        &settings.namespace,
        &name,
        domain.uid(),
        names::TARGET_DAEMON,
        request,
        &parameters,
    );
    // The claims are in another namespace than the domain.
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let hint = format!("{}/{}", text(&domain.metadata.namespace), text(&domain.metadata.name));
    template["spec"]["metadata"] = json!({"annotations": {names::DOMAIN_ANNOTATION: hint}});
    template
}

/// The template of the workload's claims, in the namespace and under the name that the domain says.
pub fn workload_template(domain: &ComputeDomain, settings: &RenderSettings) -> Value {
    // A daemon of the host serves channel 0 only.
    let mode = if settings.host_managed {
        AllocationMode::Single
    } else {
        domain.spec.channel.allocation_mode
    };
    let parameters = ClaimParameters::Channel {
        domain_uid: domain.uid().to_owned(),
        mode,
    };
    let namespace = domain.metadata.namespace.as_deref().unwrap_or_default();
    let name = &domain.spec.channel.resource_claim_template.name;
    let request = (names::CHANNEL_REQUEST, names::CHANNEL_CLASS);
    template(
        namespace,
        name,
        domain.uid(),
        names::TARGET_WORKLOAD,
        request,
        &parameters,
    )
}

fn template(
    namespace: &str,
    name: &str,
    domain_uid: &str,
    target: &str,
    (request, class): (&str, &str),
    parameters: &ClaimParameters,
) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "finalizers": [names::FINALIZER],
            "labels": {names::DOMAIN_LABEL: domain_uid, names::TARGET_LABEL: target},
        },
        "spec": {"spec": {"devices": {
            "requests": [{"name": request, "exactly": {"deviceClassName": class}}],
            "config": [{
                "requests": [request],
                "opaque": {"driver": names::DRIVER, "parameters": parameters.encode()},
            }],
        }}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn domain() -> ComputeDomain {
        serde_json::from_value(json!({
            "metadata": {"name": "imex", "namespace": "team", "uid": "0b5e-1"},
            "spec": {"channel": {"resourceClaimTemplate": {"name": "chan"}, "allocationMode": "All"}},
        }))
        .unwrap()
    }

    #[test]
    fn templates_are_those_of_the_driver() {
        let settings = RenderSettings {
            namespace: "driver".into(),
            ..RenderSettings::default()
        };
        let expected = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"namespace": "team", "name": "chan", "finalizers": ["resource.nvidia.com/computeDomain"],
                "labels": {"resource.nvidia.com/computeDomain": "0b5e-1",
                    "resource.nvidia.com/computeDomainTarget": "Workload"}},
            "spec": {"spec": {"devices": {
                "requests": [{"name": "channel",
                    "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}}],
                "config": [{"requests": ["channel"], "opaque": {"driver": "compute-domain.nvidia.com", "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
                    "domainID": "0b5e-1", "allocationMode": "All"}}}]}}},
        });
        assert_eq!(workload_template(&domain(), &settings), expected);
        let daemon = daemon_template(&domain(), &settings);
        assert_eq!(daemon["metadata"]["name"], "computedomain-daemon-0b5e-1");
        assert_eq!(daemon["metadata"]["namespace"], "driver");
        let request = &daemon["spec"]["spec"]["devices"]["requests"][0];
        assert_eq!(
            request["exactly"]["deviceClassName"],
            "compute-domain-daemon.nvidia.com"
        );
    }

    #[test]
    fn a_daemon_of_the_host_serves_one_channel() {
        let settings = RenderSettings {
            host_managed: true,
            ..RenderSettings::default()
        };
        let template = workload_template(&domain(), &settings);
        let parameters = &template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"];
        assert_eq!(parameters["allocationMode"], "Single");
    }
}
