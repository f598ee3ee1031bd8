//! Which devices of a node a claim gets.
//!
//! Owns the pure choice: the first devices of the node's slices, by pool and name, that class and request select and that
//! no other claim has. Left out, and refused where a claim asks for it: `firstAvailable`, constraints between devices, devices
//! that are not of one node, shared capacity and tolerations of device taints.

use super::selector::selects;
use super::view::{Claim, DeviceClass, Slice};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Driver, pool and name of a device.
pub(crate) type DeviceId = (String, String, String);

/// The allocation of a claim on a node, and the devices that nobody else may have then; or why there is none.
pub(crate) fn allocate(
    claim: &Claim,
    node: &str,
    slices: &[Arc<Slice>],
    class_of: impl Fn(&str) -> Option<Arc<DeviceClass>>,
    taken: &BTreeSet<DeviceId>,
) -> Result<(Value, Vec<DeviceId>), String> {
    let wanted = &claim.wanted;
    if wanted["constraints"].as_array().is_some_and(|all| !all.is_empty()) {
        return Err("claim has constraints between devices, which this scheduler does not support".to_owned());
    }
    let (mut results, mut config, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
    for request in wanted["requests"].as_array().into_iter().flatten() {
        let name = request["name"].as_str().unwrap_or_default();
        let exactly = &request["exactly"];
        let Some(class_name) = exactly["deviceClassName"].as_str() else {
            return Err("claim asks for the first available request, which this scheduler does not support".to_owned());
        };
        let class = class_of(class_name).ok_or_else(|| format!("device class {class_name:?} not found"))?;
        let admin = exactly["adminAccess"] == true;
        let selectors = || {
            let own = exactly["selectors"].as_array().into_iter().flatten();
            class.selectors.iter().chain(own)
        };
        let free = candidates(slices).filter(|(slice, device)| {
            let id = (slice.driver.clone(), slice.pool.clone(), device.name.clone());
            device.taints.is_empty()
                && (admin || (!taken.contains(&id) && !chosen.contains(&id)))
                && selects(selectors(), &slice.driver, device)
        });
        let found: Vec<_> = if exactly["allocationMode"] == "All" {
            let all = candidates(slices).filter(|(slice, device)| selects(selectors(), &slice.driver, device));
            let (free, all) = (free.collect::<Vec<_>>(), all.count());
            if free.is_empty() || free.len() < all {
                return Err("cannot allocate all claims".to_owned());
            }
            free
        } else {
            let count = usize::try_from(exactly["count"].as_u64().unwrap_or(1)).unwrap_or(usize::MAX);
            let found: Vec<_> = free.take(count).collect();
            if found.len() < count {
                return Err("cannot allocate all claims".to_owned());
            }
            found
        };
        let mut of_request = Vec::new();
        for (slice, device) in found {
            let mut result = json!({
                "request": name, "driver": slice.driver, "pool": slice.pool, "device": device.name,
            });
            if admin {
                result["adminAccess"] = json!(true);
            } else {
                of_request.push((slice.driver.clone(), slice.pool.clone(), device.name.clone()));
            }
            results.push(result);
        }
        chosen.extend(of_request);
        config.extend(class.config.iter().map(|entry| {
            let mut entry = entry.clone();
            (entry["source"], entry["requests"]) = (json!("FromClass"), json!([name]));
            entry
        }));
    }
    config.extend(wanted["config"].as_array().into_iter().flatten().map(|entry| {
        let mut entry = entry.clone();
        entry["source"] = json!("FromClaim");
        entry
    }));
    let mut devices = json!({"results": results});
    if !config.is_empty() {
        devices["config"] = json!(config);
    }
    let here = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
    Ok((
        json!({"devices": devices, "nodeSelector": {"nodeSelectorTerms": here}}),
        chosen,
    ))
}

fn candidates(slices: &[Arc<Slice>]) -> impl Iterator<Item = (&Slice, &super::view::Device)> {
    slices
        .iter()
        .flat_map(|slice| slice.devices.iter().map(move |device| (&**slice, device)))
}

/// The devices that an allocation keeps from others.
pub(crate) fn held(allocation: &Value) -> impl Iterator<Item = DeviceId> {
    let results = allocation["devices"]["results"].as_array().into_iter().flatten();
    let own = results.filter(|result| result["adminAccess"] != true);
    own.map(|result| {
        let text = |field: &str| result[field].as_str().unwrap_or_default().to_owned();
        (text("driver"), text("pool"), text("device"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::view::Device;
    use super::*;
    use coppice_runtime::cache::Meta;

    fn slice() -> Arc<Slice> {
        let device = |name: &str, kind: &str| Device {
            name: name.to_owned(),
            attributes: [
                ("type".to_owned(), json!({"string": kind})),
                ("example.com/size".to_owned(), json!({"int": 3})),
            ]
            .into(),
            ..Device::default()
        };
        Arc::new(Slice {
            driver: "fast.example.com".to_owned(),
            pool: "n".to_owned(),
            generation: 1,
            node: Some("n".into()),
            devices: vec![device("a", "big"), device("b", "small"), device("c", "big")],
        })
    }

    #[allow(clippy::needless_pass_by_value, reason = "tests pass literals")]
    fn claim(request: Value) -> Claim {
        let parameters = json!({"driver": "fast.example.com", "parameters": {}});
        Claim {
            meta: Meta::default(),
            deleting: false,
            pod: None,
            wanted: json!({"requests": [{"name": "r", "exactly": request}], "config": [{"opaque": parameters}]}),
            allocation: None,
            reserved_for: Vec::new(),
        }
    }

    fn class(name: &str) -> Option<Arc<DeviceClass>> {
        let expression = "device.driver == 'fast.example.com' && \
            device.attributes['fast.example.com'].type == 'big' && device.attributes['example.com'].size > 2";
        (name == "big").then(|| {
            Arc::new(DeviceClass {
                selectors: vec![json!({"cel": {"expression": expression}})],
                config: Vec::new(),
            })
        })
    }

    fn devices(request: Value, taken: &[&str]) -> Result<Vec<String>, String> {
        let id = |name: &&str| ("fast.example.com".to_owned(), "n".to_owned(), (*name).to_owned());
        let taken = taken.iter().map(id).collect();
        let (allocation, _) = allocate(&claim(request), "n", &[slice()], class, &taken)?;
        assert_eq!(allocation["devices"]["config"][0]["source"], "FromClaim");
        Ok(held(&allocation).map(|(_, _, device)| device).collect())
    }

    #[test]
    fn selected_and_free_devices_are_allocated_in_order() {
        let big = |more: Value| {
            let mut request = json!({"deviceClassName": "big"});
            for (key, value) in more.as_object().unwrap() {
                request[key] = value.clone();
            }
            request
        };
        assert_eq!(devices(big(json!({})), &[]), Ok(vec!["a".to_owned()]));
        assert_eq!(devices(big(json!({})), &["a"]), Ok(vec!["c".to_owned()]));
        let none = Err("cannot allocate all claims".to_owned());
        assert_eq!(devices(big(json!({})), &["a", "c"]), none);
        assert_eq!(devices(big(json!({"count": 2})), &[]).unwrap(), ["a", "c"]);
        assert_eq!(devices(big(json!({"count": u64::MAX})), &[]), none);
        assert_eq!(devices(big(json!({"allocationMode": "All"})), &[]).unwrap(), ["a", "c"]);
        assert_eq!(devices(big(json!({"allocationMode": "All"})), &["c"]), none);
        let missing = json!({"deviceClassName": "other"});
        assert_eq!(
            devices(missing, &[]),
            Err("device class \"other\" not found".to_owned())
        );
        let own = json!([{"cel": {"expression": "device.attributes['x.y'].z == 1"}}]);
        assert_eq!(
            devices(big(json!({"selectors": own})), &[]),
            none,
            "an attribute that is not there"
        );
    }

    #[test]
    fn a_device_for_administration_is_given_beside_its_owner() {
        let taken = [("fast.example.com".to_owned(), "n".to_owned(), "a".to_owned())].into();
        let claim = claim(json!({"deviceClassName": "big", "adminAccess": true}));
        let (allocation, exclusive) = allocate(&claim, "n", &[slice()], class, &taken).unwrap();
        assert_eq!(allocation["devices"]["results"][0]["device"], "a");
        assert!(exclusive.is_empty() && held(&allocation).next().is_none());
    }
}
