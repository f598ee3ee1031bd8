//! The devices that a node publishes: channel 0 and, where daemons are ours to run, the daemon.

use serde_json::{Value, json};

use crate::api::{limits, names};

/// The devices of a node's slice. The clique is an attribute of both, so that the controller knows it before any daemon
/// runs, and schedulers can match on it.
pub fn published(clique_id: &str, host_managed: bool) -> Vec<Value> {
    let device = |name: &str, kind: &str| {
        let mut attributes = json!({"type": {"string": kind}, "id": {"int": 0}});
        if limits::is_clique_id(clique_id) {
            attributes[names::CLIQUE_ATTRIBUTE] = json!({"string": clique_id});
        } else {
            // Empty says that the node has no fabric; a missing attribute says that nobody knows.
            attributes[names::CLIQUE_ATTRIBUTE] = json!({"string": ""});
        }
        json!({"name": name, "attributes": attributes})
    };
    let mut devices = vec![device(names::CHANNEL_DEVICE, "channel")];
    if !host_managed {
        devices.push(device(names::DAEMON_DEVICE, "daemon"));
    }
    devices
}

/// The clique that a slice of this driver publishes: none when it has no such attribute.
pub fn published_clique(slice_devices: &Value) -> Option<String> {
    let devices = slice_devices.as_array()?;
    let clique = devices
        .iter()
        .find_map(|device| device["attributes"][names::CLIQUE_ATTRIBUTE]["string"].as_str())?;
    (clique.is_empty() || limits::is_clique_id(clique)).then(|| clique.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_those_of_the_driver_and_tell_the_clique() {
        let devices = published("u.1", false);
        let expected = json!({"name": "channel-0",
            "attributes": {"type": {"string": "channel"}, "id": {"int": 0}, "cliqueID": {"string": "u.1"}}});
        assert_eq!(devices[0], expected);
        assert_eq!(devices[1]["name"], "daemon-0");
        assert_eq!(published("u.1", true).len(), 1);
        assert_eq!(published_clique(&json!(devices)), Some("u.1".into()));
        assert_eq!(published_clique(&json!(published("", false))), Some(String::new()));
        assert_eq!(published_clique(&json!([{"name": "channel-0"}])), None);
        assert_eq!(
            published_clique(&json!([{"attributes": {"cliqueID": {"string": "../x"}}}])),
            None
        );
    }
}
