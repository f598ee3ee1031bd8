//! Facts about the pod spec itself and the small objects shared by its parts.

use super::container::{CONTAINER, EPHEMERAL_CONTAINER, PLAIN_RESOURCE_REQUIREMENTS};
use super::placement::{AFFINITY, TOLERATION, TOPOLOGY_SPREAD_CONSTRAINT};
use super::volume::VOLUME;
use super::{
    Fill, Kind, Object, by, flag, list, object, optional, quantities, scalars, set, special, text, texts_by_key,
};

pub(in crate::canonical) static POD_SPEC: Object = Object::counted(&[
    optional("activeDeadlineSeconds"),
    object("affinity", &AFFINITY),
    optional("automountServiceAccountToken"),
    set("containers", &[by("name")], &CONTAINER),
    object("dnsConfig", &POD_DNS_CONFIG),
    text("dnsPolicy").or(Fill::Text("ClusterFirst")),
    optional("enableServiceLinks").or(Fill::Flag(true)),
    set("ephemeralContainers", &[by("name")], &EPHEMERAL_CONTAINER),
    set("hostAliases", &[by("ip")], &HOST_ALIAS),
    flag("hostIPC"),
    flag("hostNetwork"),
    flag("hostPID"),
    optional("hostUsers"),
    text("hostname"),
    optional("hostnameOverride"),
    set("imagePullSecrets", &[by("name")], &LOCAL_OBJECT_REFERENCE),
    list("initContainers", &CONTAINER),
    text("nodeName"),
    texts_by_key("nodeSelector"),
    object("os", &POD_OS),
    quantities("overhead"),
    optional("preemptionPolicy"),
    optional("priority"),
    special("priorityClassName", Kind::PriorityClass),
    list("readinessGates", &POD_READINESS_GATE),
    set("resourceClaims", &[by("name")], &POD_RESOURCE_CLAIM),
    object("resources", &PLAIN_RESOURCE_REQUIREMENTS),
    text("restartPolicy").or(Fill::Text("Always")),
    optional("runtimeClassName"),
    text("schedulerName"),
    list("schedulingGates", &POD_SCHEDULING_GATE),
    object("schedulingGroup", &POD_SCHEDULING_GROUP),
    object("securityContext", &POD_SECURITY_CONTEXT),
    special("serviceAccount", Kind::Superseded),
    special("serviceAccountName", Kind::ServiceAccount),
    optional("setHostnameAsFQDN"),
    optional("shareProcessNamespace"),
    text("subdomain"),
    optional("terminationGracePeriodSeconds").or(Fill::Integer(30)),
    list("tolerations", &TOLERATION),
    set(
        "topologySpreadConstraints",
        &[by("topologyKey"), by("whenUnsatisfiable")],
        &TOPOLOGY_SPREAD_CONSTRAINT,
    ),
    set("volumes", &[by("name")], &VOLUME),
]);

pub(in crate::canonical) static POD_SECURITY_CONTEXT: Object = Object::transparent(&[
    object("appArmorProfile", &APP_ARMOR_PROFILE),
    optional("fsGroup"),
    optional("fsGroupChangePolicy"),
    optional("runAsGroup"),
    optional("runAsNonRoot"),
    optional("runAsUser"),
    optional("seLinuxChangePolicy"),
    object("seLinuxOptions", &SELINUX_OPTIONS),
    object("seccompProfile", &SECCOMP_PROFILE),
    scalars("supplementalGroups"),
    optional("supplementalGroupsPolicy"),
    list("sysctls", &SYSCTL),
    object("windowsOptions", &WINDOWS_SECURITY_CONTEXT_OPTIONS),
]);

pub(in crate::canonical) static SYSCTL: Object = Object::counted(&[text("name"), text("value")]);

pub(in crate::canonical) static POD_DNS_CONFIG: Object = Object::transparent(&[
    scalars("nameservers"),
    list("options", &POD_DNS_CONFIG_OPTION),
    scalars("searches"),
]);

pub(in crate::canonical) static POD_DNS_CONFIG_OPTION: Object = Object::counted(&[text("name"), optional("value")]);

pub(in crate::canonical) static HOST_ALIAS: Object = Object::counted(&[scalars("hostnames"), text("ip")]);

pub(in crate::canonical) static LOCAL_OBJECT_REFERENCE: Object = Object::counted(&[text("name")]);

pub(in crate::canonical) static POD_OS: Object = Object::counted(&[text("name")]);

pub(in crate::canonical) static POD_READINESS_GATE: Object = Object::counted(&[text("conditionType")]);

pub(in crate::canonical) static POD_SCHEDULING_GATE: Object = Object::counted(&[text("name")]);

pub(in crate::canonical) static POD_SCHEDULING_GROUP: Object = Object::counted(&[optional("podGroupName")]);

pub(in crate::canonical) static POD_RESOURCE_CLAIM: Object = Object::counted(&[
    text("name"),
    optional("resourceClaimName"),
    optional("resourceClaimTemplateName"),
]);

pub(in crate::canonical) static SELINUX_OPTIONS: Object =
    Object::counted(&[text("level"), text("role"), text("type"), text("user")]);

pub(in crate::canonical) static SECCOMP_PROFILE: Object =
    Object::counted(&[optional("localhostProfile"), text("type")]);

pub(in crate::canonical) static APP_ARMOR_PROFILE: Object =
    Object::counted(&[optional("localhostProfile"), text("type")]);

pub(in crate::canonical) static WINDOWS_SECURITY_CONTEXT_OPTIONS: Object = Object::counted(&[
    optional("gmsaCredentialSpec"),
    optional("gmsaCredentialSpecName"),
    optional("hostProcess"),
    optional("runAsUserName"),
]);

pub(in crate::canonical) static LABEL_SELECTOR: Object = Object::counted(&[
    list("matchExpressions", &LABEL_SELECTOR_REQUIREMENT),
    texts_by_key("matchLabels"),
]);

pub(in crate::canonical) static LABEL_SELECTOR_REQUIREMENT: Object =
    Object::counted(&[text("key"), text("operator"), scalars("values")]);

pub(in crate::canonical) static OBJECT_FIELD_SELECTOR: Object =
    Object::counted(&[text("apiVersion").or(Fill::Text("v1")), text("fieldPath")]);

pub(in crate::canonical) static RESOURCE_FIELD_SELECTOR: Object = Object::counted(&[
    text("containerName"),
    special("divisor", Kind::PlainQuantity),
    text("resource"),
]);
