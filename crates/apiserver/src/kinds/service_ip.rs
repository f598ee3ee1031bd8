//! Cluster addresses of services: the first free one of a fixed range.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::store::Store;

/// The address of the API server in 10.96.0.0/16, the range that most clusters have; .0 is the network's.
pub(crate) const API_SERVER_ADDRESS: &str = "10.96.0.1";
const FIRST: u32 = 0x0a60_0002;
const LAST: u32 = 0x0a60_fffe;

/// Gives a new service its address and what belongs to it, unless it wants none.
pub(super) fn allocate(service: &mut Value, store: &Store) {
    let kind = service
        .pointer("/spec/type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if kind == "ExternalName" {
        return;
    }
    let wanted = service
        .pointer("/spec/clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let address = if wanted.is_empty() { free(store) } else { wanted };
    service["spec"]["clusterIP"] = json!(address);
    service["spec"]["clusterIPs"] = json!([address]);
    // A headless service without selector says nothing about its endpoints, so they may be of both families.
    let both = address == "None" && service.pointer("/spec/selector").is_none();
    if service.pointer("/spec/ipFamilies").is_none() {
        service["spec"]["ipFamilies"] = if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
    }
    if service.pointer("/spec/ipFamilyPolicy").is_none() {
        service["spec"]["ipFamilyPolicy"] = json!(if both { "RequireDualStack" } else { "SingleStack" });
    }
}

fn free(store: &Store) -> String {
    let taken: BTreeSet<u32> = store
        .all("services", "")
        .iter()
        .filter_map(|service| {
            let address = service.facts().fields.get("spec.clusterIP")?;
            address.parse::<Ipv4Addr>().ok().map(u32::from)
        })
        .collect();
    let address = (FIRST..=LAST)
        .find(|candidate| !taken.contains(candidate))
        .unwrap_or(LAST);
    Ipv4Addr::from(address).to_string()
}

/// Keeps what was allocated when an update leaves it out.
pub(super) fn keep(service: &mut Value, old: &Value) {
    let kind = |value: &Value| value.pointer("/spec/type").and_then(Value::as_str).map(str::to_owned);
    if kind(service) == Some("ExternalName".to_owned()) || kind(old) == Some("ExternalName".to_owned()) {
        return;
    }
    for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let absent = service["spec"]
            .get(name)
            .is_none_or(|value| value.is_null() || value == "");
        if let Some(value) = old["spec"].get(name).filter(|_| absent) {
            service["spec"][name] = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_once() {
        let mut service = json!({"spec": {"type": "ClusterIP"}});
        allocate(&mut service, &Store::default());
        assert_eq!(service["spec"]["clusterIP"], "10.96.0.2");
        let mut headless = json!({"spec": {"clusterIP": "None"}});
        allocate(&mut headless, &Store::default());
        assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
        let mut update = json!({"spec": {"type": "ClusterIP"}});
        keep(&mut update, &service);
        assert_eq!(update["spec"]["clusterIP"], "10.96.0.2");
    }
}
