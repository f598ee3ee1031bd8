//! Pod templates made from the published schema, and other spellings of the same template.
//!
//! Owns the tests' own idea of what a template means: the sets, defaults and spellings below are stated here a second
//! time, from the API documentation, and not taken from the table under test.
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod generate;
pub(crate) mod respell;
pub(crate) mod templates;

use std::collections::BTreeMap;

use coppice_api::canonical::{TemplateIdentity, TemplateView};
use coppice_schema::{Cursor, Definitions};
use serde_json::{Map, Value};

/// No labels, no annotations.
pub(crate) static NOTHING: BTreeMap<String, String> = BTreeMap::new();

/// A template that consists of a pod spec only.
pub(crate) fn view(spec: &Map<String, Value>) -> TemplateView<'_> {
    TemplateView {
        labels: &NOTHING,
        annotations: &NOTHING,
        priority_class: None,
        spec,
    }
}

/// The identity of a pod spec.
pub(crate) fn identity(spec: &Value) -> TemplateIdentity {
    view(spec.as_object().expect("a pod spec is an object")).identity()
}

/// The schema of the pod spec.
pub(crate) fn pod_spec(definitions: &Definitions) -> Cursor<'_> {
    definitions
        .definition("io.k8s.api.core.v1.PodSpec")
        .expect("the schema has pod specs")
}

/// The last part of a definition's name, for example `Container`.
pub(crate) fn short_name(cursor: Cursor<'_>) -> &str {
    cursor
        .node()
        .name
        .as_deref()
        .and_then(|name| name.rsplit('.').next())
        .unwrap_or_default()
}

/// The lists whose order says nothing, with the keys of their elements.
pub(crate) const SETS: &[(&str, &str, &[&str])] = &[
    ("PodSpec", "containers", &["name"]),
    ("PodSpec", "ephemeralContainers", &["name"]),
    ("PodSpec", "volumes", &["name"]),
    ("PodSpec", "imagePullSecrets", &["name"]),
    ("PodSpec", "hostAliases", &["ip"]),
    (
        "PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("PodSpec", "resourceClaims", &["name"]),
    ("ResourceRequirements", "claims", &["name"]),
    ("Container", "ports", &["containerPort", "protocol"]),
    ("Container", "volumeMounts", &["mountPath"]),
    ("Container", "volumeDevices", &["devicePath"]),
    ("Container", "resizePolicy", &["resourceName"]),
    ("EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("EphemeralContainer", "resizePolicy", &["resourceName"]),
];

/// The keys of a set, when the list is one.
pub(crate) fn set_keys(definition: &str, field: &str) -> Option<&'static [&'static str]> {
    SETS.iter()
        .find(|(owner, name, _)| *owner == definition && *name == field)
        .map(|(_, _, keys)| *keys)
}

/// The defaults that do not depend on anything else, as JSON.
pub(crate) const DEFAULTS: &[(&str, &str, &str)] = &[
    ("PodSpec", "dnsPolicy", r#""ClusterFirst""#),
    ("PodSpec", "restartPolicy", r#""Always""#),
    ("PodSpec", "terminationGracePeriodSeconds", "30"),
    ("PodSpec", "enableServiceLinks", "true"),
    ("PodSpec", "securityContext", "{}"),
    ("Container", "terminationMessagePath", r#""/dev/termination-log""#),
    ("Container", "terminationMessagePolicy", r#""File""#),
    (
        "EphemeralContainer",
        "terminationMessagePath",
        r#""/dev/termination-log""#,
    ),
    ("EphemeralContainer", "terminationMessagePolicy", r#""File""#),
    ("ContainerPort", "protocol", r#""TCP""#),
    ("SecurityContext", "procMount", r#""Default""#),
    ("Probe", "timeoutSeconds", "1"),
    ("Probe", "periodSeconds", "10"),
    ("Probe", "successThreshold", "1"),
    ("Probe", "failureThreshold", "3"),
    ("HTTPGetAction", "path", r#""/""#),
    ("HTTPGetAction", "scheme", r#""HTTP""#),
    ("GRPCAction", "service", r#""""#),
    ("ObjectFieldSelector", "apiVersion", r#""v1""#),
    ("FileKeySelector", "optional", "false"),
    ("HostPathVolumeSource", "type", r#""""#),
    ("SecretVolumeSource", "defaultMode", "420"),
    ("ConfigMapVolumeSource", "defaultMode", "420"),
    ("DownwardAPIVolumeSource", "defaultMode", "420"),
    ("ProjectedVolumeSource", "defaultMode", "420"),
    ("ServiceAccountTokenProjection", "expirationSeconds", "3600"),
    ("PersistentVolumeClaimSpec", "volumeMode", r#""Filesystem""#),
    ("ISCSIVolumeSource", "iscsiInterface", r#""default""#),
    ("RBDVolumeSource", "pool", r#""rbd""#),
    ("RBDVolumeSource", "user", r#""admin""#),
    ("RBDVolumeSource", "keyring", r#""/etc/ceph/keyring""#),
    ("AzureDiskVolumeSource", "cachingMode", r#""ReadWrite""#),
    ("AzureDiskVolumeSource", "fsType", r#""ext4""#),
    ("AzureDiskVolumeSource", "readOnly", "false"),
    ("AzureDiskVolumeSource", "kind", r#""Shared""#),
    ("ScaleIOVolumeSource", "storageMode", r#""ThinProvisioned""#),
    ("ScaleIOVolumeSource", "fsType", r#""xfs""#),
];

/// Spellings that equal absence because the Go field is a plain value.
pub(crate) const QUIET: &[(&str, &str, &str)] = &[
    ("PodSpec", "hostNetwork", "false"),
    ("PodSpec", "hostPID", "false"),
    ("PodSpec", "hostIPC", "false"),
    ("PodSpec", "hostname", r#""""#),
    ("PodSpec", "nodeName", r#""""#),
    ("PodSpec", "schedulerName", r#""""#),
    ("PodSpec", "serviceAccountName", r#""""#),
    ("PodSpec", "priorityClassName", r#""""#),
    (
        "PodSpec",
        "affinity",
        r#"{"nodeAffinity": {}, "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}"#,
    ),
    ("PodSpec", "dnsConfig", r#"{"searches": null}"#),
    ("PodSpec", "resources", r#"{"limits": {}}"#),
    ("Container", "workingDir", r#""""#),
    ("Container", "stdin", "false"),
    ("Container", "tty", "false"),
    ("Container", "resources", r#"{"limits": {}, "requests": null}"#),
    (
        "Container",
        "securityContext",
        r#"{"capabilities": {}, "procMount": "Default"}"#,
    ),
    ("Container", "lifecycle", "{}"),
    ("Container", "terminationMessagePath", r#""""#),
    ("Probe", "initialDelaySeconds", "0"),
    ("Probe", "timeoutSeconds", "0"),
    ("EnvVar", "value", r#""""#),
    ("EnvFromSource", "prefix", r#""""#),
    ("VolumeMount", "readOnly", "false"),
    ("VolumeMount", "subPath", r#""""#),
    ("Toleration", "effect", r#""""#),
    ("EmptyDirVolumeSource", "medium", r#""""#),
    ("NFSVolumeSource", "readOnly", "false"),
    ("ResourceFieldSelector", "divisor", r#""0""#),
    (
        "PersistentVolumeClaimTemplate",
        "metadata",
        r#"{"creationTimestamp": null}"#,
    ),
    (
        "PersistentVolumeClaimTemplate",
        "spec",
        r#"{"volumeMode": "Filesystem", "resources": {}}"#,
    ),
];

/// Images with the pull policy that they stand for.
pub(crate) const IMAGES: &[(&str, &str)] = &[
    ("registry:5000/team/server", "Always"),
    ("server", "Always"),
    ("server:latest", "Always"),
    ("server:1.2", "IfNotPresent"),
    ("registry:5000/server:v2", "IfNotPresent"),
    ("server@sha256:0011", "IfNotPresent"),
];

/// Groups of spellings of one amount, as JSON.
pub(crate) const AMOUNTS: &[&[&str]] = &[
    &[r#""1""#, r#""1000m""#, r#""1e0""#, "1", r#""1.0""#, r#""+1""#],
    &[
        r#""512Mi""#,
        r#""0.5Gi""#,
        r#""536870912""#,
        "536870912",
        r#""524288Ki""#,
    ],
    &[r#""250m""#, r#""0.25""#, "0.25", r#""25e-2""#],
    &[r#""2k""#, r#""2000""#, r#""2e3""#, r#""2E3""#],
    &[r#""8""#, "8", r#""08""#, r#""8000000u""#],
];

/// A JSON text of these tables as a value.
pub(crate) fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
