//! Reading the checkpoint of NVIDIA's driver, so that a node changes drivers without draining it.
//!
//! Its checksums are sums over Go's own rendering and are not compared. An entry that cannot be understood is reported, not
//! dropped silently: its claim will be prepared again when kubelet asks.

use jiff::Timestamp;
use serde_json::Value;

use super::checkpoint::{Checkpoint, ClaimState, Entry, MAX_BYTES};
use super::claim::Claim;
use crate::api::limits;
use crate::api::parameters::Decoding;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The claims.
    pub checkpoint: Checkpoint,
    /// Entries that could not be understood, and why.
    pub skipped: Vec<(String, String)>,
}

/// Reads the driver's checkpoint; empty when it belongs to another boot.
pub fn import(text: &str, boot_id: &str) -> Result<Imported, String> {
    let mut imported = Imported {
        checkpoint: Checkpoint::empty(boot_id),
        skipped: Vec::new(),
    };
    if text.len() > MAX_BYTES {
        return Err(format!("{} bytes are more than the driver writes", text.len()));
    }
    let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let newest = if document["v2"].is_object() {
        &document["v2"]
    } else {
        &document["v1"]
    };
    let stored_boot = newest["nodeBootID"].as_str().unwrap_or_default();
    if !stored_boot.is_empty() && stored_boot != boot_id {
        return Ok(imported);
    }
    for (uid, claim) in newest["preparedClaims"].as_object().into_iter().flatten() {
        match entry(uid, claim) {
            Ok(entry) => drop(imported.checkpoint.claims.insert(uid.clone(), entry)),
            Err(problem) => imported.skipped.push((uid.chars().take(64).collect(), problem)),
        }
    }
    Ok(imported)
}

fn entry(uid: &str, stored: &Value) -> Result<Entry, String> {
    if !limits::is_uid(uid) {
        return Err("not a UID".to_owned());
    }
    let text = |field: &str| stored[field].as_str().unwrap_or_default().to_owned();
    let claim = Claim {
        uid: uid.to_owned(),
        name: text("name"),
        namespace: text("namespace"),
        allocation: Some(stored["status"]["allocation"].clone()),
    };
    let device = claim.device(Decoding::Lenient).map_err(|error| error.to_string())?;
    let state = match stored["checkpointState"].as_str() {
        // The first version recorded completed claims only, and no state.
        None | Some("" | "PrepareCompleted") => ClaimState::PrepareCompleted,
        Some("PrepareStarted") => ClaimState::PrepareStarted,
        Some("PrepareAborted") => {
            let at = stored["abortedAt"].as_str().and_then(|time| time.parse().ok());
            ClaimState::PrepareAborted {
                at: at.unwrap_or(Timestamp::UNIX_EPOCH),
            }
        }
        Some(other) => {
            return Err(format!(
                "unknown state {:?}",
                other.chars().take(40).collect::<String>()
            ));
        }
    };
    Ok(Entry {
        cdi_devices: cdi_devices(&stored["preparedDevices"]),
        state,
        fingerprint: claim.fingerprint(),
        domain_uid: device.parameters.domain_uid().to_owned(),
        name: claim.name,
        namespace: claim.namespace,
        device: device.device,
        pool: device.pool,
        request: device.request,
        admin_access: device.admin_access,
    })
}

fn cdi_devices(groups: &Value) -> Vec<String> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for device in list(groups).iter().flat_map(|group| list(&group["devices"])) {
        for kind in ["channel", "daemon"] {
            let ids = list(&device[kind]["device"]["CDIDeviceIDs"]);
            found.extend(ids.iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::claim::tests::channel_claim;
    use super::*;

    fn document(boot: &str) -> Value {
        let allocation = channel_claim("c", "d").allocation;
        let id = "k8s.compute-domain.nvidia.com/claim=c-channel-0";
        json!({"checksum": 1, "v1": {}, "v2": {"checksum": 2, "nodeBootID": boot, "preparedClaims": {
            "c-1": {"checkpointState": "PrepareCompleted", "status": {"allocation": allocation},
                "name": "claim", "namespace": "team",
                "preparedDevices": [{"devices": [{"channel": {"info": {"id": 0}, "device": {"Requests": ["channel"],
                    "PoolName": "node-a", "DeviceName": "channel-0", "CDIDeviceIDs": [id]}}, "daemon": null}]}]},
            "c-2": {"checkpointState": "PrepareStarted", "status": {"allocation": allocation}},
            "../x": {"checkpointState": "PrepareCompleted"},
            "c-3": {"checkpointState": "Later", "status": {"allocation": allocation}},
        }}})
    }

    #[test]
    fn claims_of_the_driver_are_taken_over() {
        let imported = import(&document("boot").to_string(), "boot").unwrap();
        let claims = &imported.checkpoint.claims;
        assert_eq!(claims.keys().collect::<Vec<_>>(), ["c-1", "c-2"]);
        assert_eq!(claims["c-1"].state, ClaimState::PrepareCompleted);
        assert_eq!(claims["c-1"].cdi_devices.len(), 1);
        assert_eq!(claims["c-1"].domain_uid, "d");
        assert_eq!(claims["c-2"].state, ClaimState::PrepareStarted);
        assert_eq!(imported.skipped.len(), 2);
    }

    #[test]
    fn another_boot_or_no_boot_and_nonsense() {
        assert!(
            import(&document("old").to_string(), "boot")
                .unwrap()
                .checkpoint
                .claims
                .is_empty()
        );
        assert_eq!(
            import(&document("").to_string(), "boot")
                .unwrap()
                .checkpoint
                .claims
                .len(),
            2
        );
        assert!(import("{", "boot").is_err());
        assert_eq!(
            import("[]", "boot").unwrap(),
            Imported {
                checkpoint: Checkpoint::empty("boot"),
                skipped: vec![]
            }
        );
    }
}
