//! The kinds that cases are made of.

use serde_json::Value;

use super::content;
use super::dice::Dice;
use super::gadget;
use super::pods;

/// A kind, where its objects are, and what they may contain.
#[derive(Debug)]
pub(super) struct Kind {
    /// The path of its objects.
    pub(super) collection: &'static str,
    /// Its group and version.
    pub(super) api_version: &'static str,
    /// Its name.
    pub(super) kind: &'static str,
    /// Fields other than metadata and status; with all that an object needs when the second argument is true.
    pub(super) content: fn(&mut Dice, bool) -> Value,
    /// The least that an object needs.
    pub(super) least: &'static str,
    /// What its status may be; absent when it has no such subresource.
    pub(super) status: Option<fn(&mut Dice) -> Value>,
    /// Whether it can be scaled.
    pub(super) scale: bool,
}

impl Kind {
    /// Whether its objects are in namespaces. Objects of other kinds carry the name of the case in theirs.
    pub(super) fn is_namespaced(&self) -> bool {
        self.collection.contains("$NS")
    }
}

const GADGET_VERSION: &str = "generated.example.com/v1";

macro_rules! kind {
    ($collection:literal, $api_version:expr, $kind:literal, $content:expr, $least:literal) => {
        kind!($collection, $api_version, $kind, $content, $least, None)
    };
    ($collection:literal, $api_version:expr, $kind:literal, $content:expr, $least:literal, $status:expr) => {
        &Kind {
            collection: $collection,
            api_version: $api_version,
            kind: $kind,
            content: $content,
            least: $least,
            status: $status,
            scale: false,
        }
    };
}

/// All of them; pods and the custom kind, which have most rules, more than once. Without daemon sets, of which a real server
/// keeps a field of an older version in an annotation.
pub(super) static KINDS: [&Kind; 24] = [
    kind!(
        "/api/v1/namespaces/$NS/configmaps",
        "v1",
        "ConfigMap",
        content::config_map,
        r#"{}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/secrets",
        "v1",
        "Secret",
        content::secret,
        r#"{}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/services",
        "v1",
        "Service",
        content::service,
        r#"{"spec": {"clusterIP": "None", "selector": {"app": "a"}}}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/serviceaccounts",
        "v1",
        "ServiceAccount",
        content::service_account,
        r#"{}"#
    ),
    kind!(
        "/api/v1/namespaces/$NS/events",
        "v1",
        "Event",
        content::event,
        r#"{"involvedObject": {"namespace": "$NS"}}"#
    ),
    kind!(
        "/api/v1/nodes",
        "v1",
        "Node",
        content::node,
        r#"{}"#,
        Some(content::node_status)
    ),
    POD,
    POD,
    POD,
    POD,
    kind!(
        "/apis/coordination.k8s.io/v1/namespaces/$NS/leases",
        "coordination.k8s.io/v1",
        "Lease",
        content::lease,
        r#"{}"#
    ),
    kind!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/roles",
        "rbac.authorization.k8s.io/v1",
        "Role",
        content::role,
        r#"{}"#
    ),
    kind!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/$NS/rolebindings",
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        content::role_binding,
        r#"{"roleRef": {"kind": "Role", "name": "r"}}"#
    ),
    kind!(
        "/apis/autoscaling/v2/namespaces/$NS/horizontalpodautoscalers",
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        content::autoscaler,
        r#"{"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "a/v1", "kind": "K", "name": "n"}}}"#,
        Some(content::autoscaler_status)
    ),
    kind!(
        "/apis/policy/v1/namespaces/$NS/poddisruptionbudgets",
        "policy/v1",
        "PodDisruptionBudget",
        content::disruption_budget,
        r#"{}"#,
        Some(content::disruption_budget_status)
    ),
    kind!(
        "/apis/apps/v1/namespaces/$NS/controllerrevisions",
        "apps/v1",
        "ControllerRevision",
        content::controller_revision,
        r#"{"data": {}}"#
    ),
    kind!(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "scheduling.k8s.io/v1",
        "PriorityClass",
        content::priority_class,
        r#"{}"#
    ),
    kind!(
        "/apis/resource.k8s.io/v1/namespaces/$NS/resourceclaims",
        "resource.k8s.io/v1",
        "ResourceClaim",
        content::claim,
        r#"{}"#
    ),
    kind!(
        "/apis/resource.k8s.io/v1/namespaces/$NS/resourceclaimtemplates",
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        content::claim_template,
        r#"{}"#
    ),
    GADGET,
    GADGET,
    GADGET,
    GADGET,
    GADGET,
];

const POD: &Kind = kind!(
    "/api/v1/namespaces/$NS/pods",
    "v1",
    "Pod",
    pods::pod,
    r#"{"spec": {"containers": [{"name": "c", "image": "i"}]}}"#,
    Some(pods::pod_status)
);

const GADGET: &Kind = &Kind {
    collection: "/apis/generated.example.com/v1/namespaces/$NS/gadgets",
    api_version: GADGET_VERSION,
    kind: "Gadget",
    content: gadget::gadget,
    least: r#"{"spec": {"colour": "red"}}"#,
    status: Some(gadget::gadget_status),
    scale: true,
};
