//! CDI documents: what the container runtime adds to a container that holds a claim.

use serde_json::{Value, json};

use super::claim::DeviceKind;
use super::proc_files::{CharDevice, channel};
use crate::api::{AllocationMode, limits, names};

/// Vendor of the driver's CDI devices.
pub const VENDOR: &str = "k8s.compute-domain.nvidia.com";
/// The version that device names with a leading digit need.
const VERSION: &str = "0.5.0";
/// The device with the driver's libraries, which daemons get as well.
pub const LIBRARIES: &str = "k8s.compute-domain.nvidia.com/device=all";

/// The domain of a daemon, as its environment tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonIdentity {
    /// UID of the domain.
    pub domain_uid: String,
    /// Name of the domain.
    pub domain_name: String,
    /// Its namespace.
    pub domain_namespace: String,
    /// The clique of the node; empty without a fabric.
    pub clique_id: String,
    /// The node's index, when its row was there already. The daemon compares it with the row before it starts.
    pub index: Option<u32>,
}

/// The CDI device of a claim.
pub fn device_id(claim_uid: &str, kind: DeviceKind) -> String {
    format!("{VENDOR}/claim={}", device_name(claim_uid, kind))
}

fn device_name(claim_uid: &str, kind: DeviceKind) -> String {
    let device = match kind {
        DeviceKind::Channel => names::CHANNEL_DEVICE,
        DeviceKind::Daemon => names::DAEMON_DEVICE,
    };
    format!("{claim_uid}-{device}")
}

/// The file of a claim's document in the CDI directory.
pub fn file_name(claim_uid: &str) -> String {
    format!("{VENDOR}-claim_{claim_uid}.json")
}

/// Every file that a document of the claim may have, the driver's own included.
pub fn file_names(claim_uid: &str) -> [String; 2] {
    [file_name(claim_uid), format!("{VENDOR}-claim_{claim_uid}.yaml")]
}

/// The document of a workload's claim; none without a fabric, where there is nothing to add.
pub fn channel_document(
    claim_uid: &str,
    clique_id: &str,
    mode: AllocationMode,
    channels_major: u32,
    channels: u32,
) -> Option<Value> {
    if clique_id.is_empty() {
        return None;
    }
    let count = match mode {
        AllocationMode::Single => 1,
        AllocationMode::All => channels.clamp(1, limits::DEFAULT_CHANNELS),
    };
    let nodes: Vec<Value> = (0..count)
        .map(|number| device_node(&channel(channels_major, number)))
        .collect();
    Some(document(claim_uid, DeviceKind::Channel, &json!({"deviceNodes": nodes})))
}

/// The document of a daemon's claim: who it serves, its directory, and with a fabric the management device.
pub fn daemon_document(
    claim_uid: &str,
    identity: &DaemonIdentity,
    host_directory: &str,
    management: Option<&CharDevice>,
) -> Value {
    let mut environment = vec![
        format!("CLIQUE_ID={}", identity.clique_id),
        format!("COMPUTE_DOMAIN_UUID={}", identity.domain_uid),
        format!("COMPUTE_DOMAIN_NAME={}", identity.domain_name),
        format!("COMPUTE_DOMAIN_NAMESPACE={}", identity.domain_namespace),
    ];
    environment.extend(identity.index.map(|index| format!("COMPUTE_DOMAIN_INDEX={index}")));
    let mut edits = json!({
        "env": environment,
        "mounts": [{
            "containerPath": names::IMEX_DIRECTORY,
            "hostPath": host_directory,
            "options": ["rw", "nosuid", "nodev", "bind"],
        }],
    });
    if let Some(device) = management.filter(|_| !identity.clique_id.is_empty()) {
        edits["deviceNodes"] = json!([device_node(device)]);
    }
    document(claim_uid, DeviceKind::Daemon, &edits)
}

fn document(claim_uid: &str, kind: DeviceKind, edits: &Value) -> Value {
    json!({
        "cdiVersion": VERSION,
        "kind": format!("{VENDOR}/claim"),
        "devices": [{"name": device_name(claim_uid, kind), "containerEdits": edits}],
    })
}

fn device_node(device: &CharDevice) -> Value {
    json!({
        "path": device.path,
        "type": "c",
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_a_device_node() {
        let document = channel_document("0c", "u.1", AllocationMode::Single, 234, 2_048).unwrap();
        let expected = json!({
            "cdiVersion": "0.5.0",
            "kind": "k8s.compute-domain.nvidia.com/claim",
            "devices": [{"name": "0c-channel-0", "containerEdits": {"deviceNodes": [{
                "path": "/dev/nvidia-caps-imex-channels/channel0", "type": "c", "major": 234, "minor": 0, "fileMode": 438,
            }]}}],
        });
        assert_eq!(document, expected);
        assert_eq!(
            device_id("0c", DeviceKind::Channel),
            "k8s.compute-domain.nvidia.com/claim=0c-channel-0"
        );
        assert_eq!(channel_document("0c", "", AllocationMode::All, 234, 2_048), None);
    }

    /// §9.20: as many channels as the node has, and never more than a domain can have.
    #[test]
    fn all_channels_are_those_that_exist() {
        let count = |channels| {
            let document = channel_document("c", "u.1", AllocationMode::All, 234, channels).unwrap();
            document["devices"][0]["containerEdits"]["deviceNodes"]
                .as_array()
                .unwrap()
                .len()
        };
        assert_eq!((count(16), count(0), count(u32::MAX)), (16, 1, 2_048));
    }

    #[test]
    fn a_daemon_knows_its_domain_and_directory() {
        let identity = DaemonIdentity {
            domain_uid: "d".into(),
            domain_name: "imex".into(),
            domain_namespace: "team".into(),
            clique_id: "u.1".into(),
            index: Some(3),
        };
        let management = CharDevice {
            path: "/dev/nvidia-caps/nvidia-cap1".into(),
            major: 235,
            minor: 1,
            mode: 256,
        };
        let document = daemon_document("c", &identity, "/var/lib/x/domains/d", Some(&management));
        let edits = &document["devices"][0]["containerEdits"];
        let environment = json!([
            "CLIQUE_ID=u.1",
            "COMPUTE_DOMAIN_UUID=d",
            "COMPUTE_DOMAIN_NAME=imex",
            "COMPUTE_DOMAIN_NAMESPACE=team",
            "COMPUTE_DOMAIN_INDEX=3",
        ]);
        assert_eq!(edits["env"], environment);
        assert_eq!(edits["mounts"][0]["containerPath"], "/imexd");
        assert_eq!(edits["deviceNodes"][0]["minor"], 1);
        let without = DaemonIdentity {
            clique_id: String::new(),
            index: None,
            ..identity
        };
        let document = daemon_document("c", &without, "/x", Some(&management));
        assert!(document["devices"][0]["containerEdits"].get("deviceNodes").is_none());
        assert_eq!(
            document["devices"][0]["containerEdits"]["env"]
                .as_array()
                .unwrap()
                .len(),
            4
        );
    }
}
