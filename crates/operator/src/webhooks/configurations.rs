//! The webhook configurations that tell an API server whom to ask about what. Pure.
//!
//! A chart renders the same ones. `status` is never named: it is written by operators and schedulers. `scale` is named
//! where new sizes are judged, by webhooks whose failure is ignored ([`Endpoint::fails_closed`]).

use coppice_api::names::labels;
use serde_json::{Value, json};

use super::Endpoint;

/// Where the webhooks listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A service in the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
    /// A base URL, such as `https://127.0.0.1:9443`.
    Url(String),
}

impl Address {
    fn client_config(&self, path: &str) -> Value {
        match self {
            Self::Service { namespace, name, port } => {
                json!({"service": {"namespace": namespace, "name": name, "port": port, "path": path}})
            }
            Self::Url(base) => json!({"url": format!("{}{path}", base.trim_end_matches('/'))}),
        }
    }
}

/// The configuration of one question.
#[must_use]
pub fn configuration(endpoint: Endpoint, address: &Address) -> Value {
    let kind = if endpoint.mutates() {
        "MutatingWebhookConfiguration"
    } else {
        "ValidatingWebhookConfiguration"
    };
    let mut webhook = json!({
        "name": endpoint.webhook(),
        "clientConfig": address.client_config(endpoint.path()),
        "admissionReviewVersions": ["v1"],
        "failurePolicy": if endpoint.fails_closed() { "Fail" } else { "Ignore" },
        "matchPolicy": "Exact",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": rules(endpoint),
    });
    if endpoint == Endpoint::Authorize {
        webhook["objectSelector"] = json!({"matchLabels": {labels::MANAGED_BY: labels::MANAGED_BY_VALUE}});
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": endpoint.configuration()},
        "webhooks": [webhook],
    })
}

fn rules(endpoint: Endpoint) -> Value {
    let rule = |operations: &[&str], group: &str, versions: &[&str], resources: &[&str]| json!({"operations": operations, "apiGroups": [group], "apiVersions": versions, "resources": resources});
    let written = ["CREATE", "UPDATE"];
    let (kept, all) = (["UPDATE", "DELETE"], ["CREATE", "UPDATE", "DELETE"]);
    match endpoint {
        Endpoint::DefaultPodCliqueSet | Endpoint::ValidatePodCliqueSet => {
            json!([rule(&written, "grove.io", &["v1alpha1"], &["podcliquesets"])])
        }
        Endpoint::ValidateClusterTopologyBinding => {
            json!([rule(&written, "grove.io", &["v1alpha1"], &["clustertopologybindings"])])
        }
        Endpoint::ValidatePodClique => {
            json!([rule(
                &["UPDATE"],
                "grove.io",
                &["v1alpha1"],
                &["podcliques", "podcliques/scale"]
            )])
        }
        Endpoint::ValidatePodCliqueScalingGroup => json!([rule(
            &["UPDATE"],
            "grove.io",
            &["v1alpha1"],
            &["podcliquescalinggroups", "podcliquescalinggroups/scale"]
        )]),
        Endpoint::Authorize => json!([
            rule(&kept, "", &["v1"], &["secrets", "serviceaccounts", "services"]),
            rule(&["UPDATE"], "", &["v1"], &["pods"]),
            rule(&kept, "rbac.authorization.k8s.io", &["v1"], &["roles", "rolebindings"]),
            rule(&kept, "autoscaling", &["v1", "v2"], &["horizontalpodautoscalers"]),
            rule(
                &all,
                "grove.io",
                &["v1alpha1"],
                &["podcliques", "podcliquescalinggroups", "podgangmaps"]
            ),
            rule(&all, "scheduler.grove.io", &["v1alpha1"], &["podgangs"]),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};

    use super::*;

    #[test]
    fn every_question_has_a_configuration_and_only_those_about_sizes_may_go_unanswered() {
        let service = Address::Service {
            namespace: "grove".into(),
            name: "grove-operator".into(),
            port: 9443,
        };
        for endpoint in Endpoint::ALL {
            let value = configuration(endpoint, &service);
            let webhook = &value["webhooks"][0];
            assert_eq!(webhook["clientConfig"]["service"]["path"], endpoint.path());
            let about_sizes = ["podcliques/scale", "podcliquescalinggroups/scale"]
                .iter()
                .any(|scale| webhook["rules"][0]["resources"][1] == *scale);
            assert_eq!(webhook["failurePolicy"], if about_sizes { "Ignore" } else { "Fail" });
            if endpoint.mutates() {
                serde_json::from_value::<MutatingWebhookConfiguration>(value).unwrap();
            } else {
                serde_json::from_value::<ValidatingWebhookConfiguration>(value).unwrap();
            }
        }
        let url = configuration(Endpoint::Authorize, &Address::Url("https://127.0.0.1:1/".into()));
        assert_eq!(
            url["webhooks"][0]["clientConfig"]["url"],
            "https://127.0.0.1:1/webhooks/authorizer-webhook"
        );
        assert_eq!(
            url["webhooks"][0]["objectSelector"]["matchLabels"]["app.kubernetes.io/managed-by"],
            "grove-operator"
        );
    }
}
