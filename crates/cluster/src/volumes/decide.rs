//! What to do for one claim, one volume or one pod. Pure.

use super::view::{BIND_COMPLETED, Claim, Class, MADE_BY, PROVISIONER, Pod, SELECTED_NODE, Volume, WANTED_FROM};
use coppice_runtime::cache::Meta;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// A merge patch of the claim.
    Claim(Value),
    /// A merge patch of the claim's status.
    ClaimStatus(Value),
    /// A merge patch of a volume, in the version that was looked at: no other claim may have taken it meanwhile.
    Volume(Meta, Value),
    /// A merge patch of a volume's status.
    VolumeStatus(Arc<str>, Value),
    /// A new volume.
    MakeVolume(Value),
    /// The volume is deleted.
    DeleteVolume(Arc<str>),
    /// A new claim.
    MakeClaim(Value),
}

/// What the binder does for a claim. `volumes` are all; `consumer` is the node of a pod that uses it.
pub(super) fn bind(
    claim: &Claim,
    class: Option<&Class>,
    default: Option<&Class>,
    volumes: &[Arc<Volume>],
    consumer: Option<&str>,
) -> Vec<Write> {
    if claim.deleting {
        return Vec::new();
    }
    if let Some(name) = &claim.volume {
        let volume = volumes.iter().find(|volume| *volume.meta.key.name == **name);
        return match volume {
            Some(volume) if is_for(volume, claim) || volume.claim.is_none() => join(claim, volume),
            _ if claim.bound => phase(claim, "Lost"),
            _ => phase(claim, "Pending"),
        };
    }
    if claim.class.is_none()
        && let Some(default) = default
    {
        return vec![Write::Claim(json!({"spec": {"storageClassName": &*default.name}}))];
    }
    let waits = class.is_some_and(|class| class.waits);
    let reserved = volumes.iter().find(|volume| is_for(volume, claim) && !volume.deleting);
    let free = || {
        let suited = volumes.iter().filter(|volume| suits(volume, claim));
        suited.min_by(|a, b| (a.size, &a.meta.key).cmp(&(b.size, &b.meta.key)))
    };
    if let Some(volume) = reserved.or_else(|| if waits { None } else { free() }) {
        return join(claim, volume);
    }
    let mut writes = phase(claim, "Pending");
    let Some(class) = class else { return writes };
    let selected = claim.selected_node.as_deref();
    if waits && selected.is_none() {
        // The scheduler of the pod did not ask for its volume.
        if let Some(node) = consumer {
            writes.push(Write::Claim(
                json!({"metadata": {"annotations": {SELECTED_NODE: node}}}),
            ));
        }
    } else if claim.wanted_from.is_none() && class.provisioner != "kubernetes.io/no-provisioner" {
        let wanted = json!({WANTED_FROM: class.provisioner});
        writes.push(Write::Claim(json!({"metadata": {"annotations": wanted}})));
    }
    writes
}

fn is_for(volume: &Volume, claim: &Claim) -> bool {
    volume
        .claim
        .as_ref()
        .is_some_and(|(key, uid)| *key == claim.meta.key && uid.as_ref().is_none_or(|uid| **uid == *claim.meta.uid))
}

fn suits(volume: &Volume, claim: &Claim) -> bool {
    volume.claim.is_none()
        && !volume.deleting
        && volume.phase == "Available"
        && volume.class == claim.class.as_deref().unwrap_or_default()
        && volume.mode == claim.mode
        && claim.modes.is_subset(&volume.modes)
        && volume.size >= claim.size
}

fn phase(claim: &Claim, phase: &str) -> Vec<Write> {
    match claim.phase == phase {
        true => Vec::new(),
        false => vec![Write::ClaimStatus(json!({"phase": phase}))],
    }
}

/// Volume and claim come to name each other: first the volume, then the claim, so that no volume goes to two.
fn join(claim: &Claim, volume: &Volume) -> Vec<Write> {
    let mut writes = Vec::new();
    let name = volume.meta.key.name.clone();
    let known = volume.claim.as_ref().is_some_and(|(_, uid)| uid.is_some());
    if !known {
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": &*claim.meta.uid,
            "namespace": &*claim.meta.key.namespace, "name": &*claim.meta.key.name,
        });
        writes.push(Write::Volume(
            volume.meta.clone(),
            json!({"spec": {"claimRef": reference}}),
        ));
    }
    if volume.phase != "Bound" {
        writes.push(Write::VolumeStatus(name.clone(), json!({"phase": "Bound"})));
    }
    if !claim.bound || claim.volume.is_none() {
        let annotations = json!({BIND_COMPLETED: "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
        writes.push(Write::Claim(
            json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": &*name}}),
        ));
    }
    if claim.phase != "Bound" {
        let status = json!({"phase": "Bound", "accessModes": volume.modes, "capacity": {"storage": volume.capacity}});
        writes.push(Write::ClaimStatus(status));
    }
    writes
}

/// What the binder does for a volume. `claim` is the one that it names, if that exists.
pub(super) fn keep(volume: &Volume, claim: Option<&Claim>) -> Vec<Write> {
    let name = volume.meta.key.name.clone();
    let wanted = match &volume.claim {
        _ if volume.deleting => return Vec::new(),
        None => "Available",
        Some((_, None)) => "Available",
        Some((_, Some(uid))) => match claim.filter(|claim| *claim.meta.uid == **uid) {
            None => "Released",
            // The claim's own turn.
            Some(_) => return Vec::new(),
        },
    };
    match volume.phase == wanted {
        true => Vec::new(),
        false => vec![Write::VolumeStatus(name, json!({"phase": wanted}))],
    }
}

/// What the provisioner does for a claim. `labels` are those of the node that was selected.
pub(super) fn provision(claim: &Claim, class: Option<&Class>, labels: Option<&BTreeMap<String, String>>) -> Vec<Write> {
    let Some(class) = class.filter(|class| class.provisioner == PROVISIONER) else {
        return Vec::new();
    };
    let wanted = claim.wanted_from.as_deref() == Some(PROVISIONER);
    if claim.deleting || claim.volume.is_some() || !wanted || (class.waits && claim.selected_node.is_none()) {
        return Vec::new();
    }
    let mut spec = json!({
        "capacity": {"storage": claim.request}, "accessModes": claim.modes, "volumeMode": claim.mode,
        "persistentVolumeReclaimPolicy": class.reclaim, "storageClassName": &*class.name,
        "hostPath": {"path": format!("/var/lib/simulated-volumes/{}", claim.meta.uid)},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": &*claim.meta.uid,
            "namespace": &*claim.meta.key.namespace, "name": &*claim.meta.key.name},
    });
    if let Some(key) = &class.topology_key {
        match labels.and_then(|labels| labels.get(key)) {
            Some(value) => {
                let expression = json!({"key": key, "operator": "In", "values": [value]});
                spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
            }
            // No volume can be made there: the scheduler has to choose again.
            None if class.waits => {
                return vec![Write::Claim(
                    json!({"metadata": {"annotations": {SELECTED_NODE: Value::Null}}}),
                )];
            }
            None => {}
        }
    }
    let name = format!("pvc-{}", claim.meta.uid);
    vec![Write::MakeVolume(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {MADE_BY: PROVISIONER}}, "spec": spec,
    }))]
}

/// What the provisioner does for a volume.
pub(super) fn reclaim(volume: &Volume) -> Vec<Write> {
    let ours = volume.made_by.as_deref() == Some(PROVISIONER);
    match ours && volume.deletes && volume.phase == "Released" && !volume.deleting {
        true => vec![Write::DeleteVolume(volume.meta.key.name.clone())],
        false => Vec::new(),
    }
}

/// The claims of a pod's ephemeral volumes that are not there.
pub(super) fn ephemeral(pod: &Pod, exists: impl Fn(&str) -> bool) -> Vec<Write> {
    let missing = pod.ephemeral.iter().filter(|(name, _)| !pod.deleting && !exists(name));
    let make = |(name, template): &(Arc<str>, Value)| {
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": template["spec"],
            "metadata": {"name": &**name, "namespace": &*pod.meta.key.namespace,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": &*pod.meta.key.name, "uid": &*pod.meta.uid,
                    "controller": true, "blockOwnerDeletion": true}]}});
        for field in ["labels", "annotations"] {
            let value = &template["metadata"][field];
            if value.is_object() {
                claim["metadata"][field] = value.clone();
            }
        }
        Write::MakeClaim(claim)
    };
    missing.map(make).collect()
}

#[cfg(test)]
mod tests {
    use super::super::view::{ClaimObject, PodObject, VolumeObject};
    use super::*;
    use crate::view::Reduced;
    use crate::view::tests::view;

    #[allow(clippy::needless_pass_by_value, reason = "tests pass literals")]
    fn claim(annotations: Value, spec: Value) -> Claim {
        let mut whole = json!({"storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations},
            "spec": whole, "status": {"phase": "Pending"}});
        view(
            &Reduced::new(|meta: &_, object: ClaimObject, names: &_| Claim::from_object(meta, object, names)),
            object,
        )
    }

    #[allow(clippy::needless_pass_by_value, reason = "tests pass literals")]
    fn volume(name: &str, size: &str, spec: Value, phase: &str) -> Arc<Volume> {
        let mut whole = json!({"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "persistentVolumeReclaimPolicy": "Delete"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1", "annotations": {MADE_BY: PROVISIONER}},
            "spec": whole, "status": {"phase": phase}});
        Arc::new(view(
            &Reduced::new(|meta: &_, object: VolumeObject, names: &_| Volume::from_object(meta, object, names)),
            object,
        ))
    }

    fn class(waits: bool, key: Option<&str>) -> Class {
        Class {
            name: "fast".into(),
            provisioner: PROVISIONER.to_owned(),
            waits,
            is_default: true,
            reclaim: "Delete".to_owned(),
            topology_key: key.map(str::to_owned),
        }
    }

    #[test]
    fn an_immediate_claim_takes_the_smallest_volume_that_suits_it() {
        let all = [
            volume("large", "9Gi", json!({}), "Available"),
            volume("small", "2Gi", json!({}), "Available"),
            volume("tiny", "1Mi", json!({}), "Available"),
            volume(
                "taken",
                "1Gi",
                json!({"claimRef": {"namespace": "n", "name": "other", "uid": "x"}}),
                "Bound",
            ),
        ];
        let open = claim(json!({}), json!({}));
        let writes = bind(&open, Some(&class(false, None)), None, &all, None);
        assert!(
            matches!(&writes[0], Write::Volume(meta, _) if *meta.key.name == *"small"),
            "{writes:?}"
        );
        assert_eq!(writes.len(), 4, "both name each other and say so: {writes:?}");
        assert!(
            bind(&open, Some(&class(true, None)), None, &all, None).is_empty(),
            "it waits for a node"
        );
    }

    #[test]
    fn a_volume_is_made_where_the_selected_node_is() {
        let waiting = class(true, Some("zone"));
        let open = claim(json!({}), json!({}));
        assert!(provision(&open, Some(&waiting), None).is_empty());
        let selected = claim(json!({SELECTED_NODE: "n1"}), json!({}));
        let asked = bind(&selected, Some(&waiting), None, &[], None);
        assert_eq!(
            asked,
            [Write::Claim(
                json!({"metadata": {"annotations": {WANTED_FROM: PROVISIONER}}})
            )]
        );
        let wanted = claim(json!({SELECTED_NODE: "n1", WANTED_FROM: PROVISIONER}), json!({}));
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
        let made = provision(&wanted, Some(&waiting), Some(&labels));
        let Write::MakeVolume(object) = &made[0] else {
            panic!("{made:?}")
        };
        let term = &object["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
        assert_eq!(*term, json!({"key": "zone", "operator": "In", "values": ["a"]}));
        let nowhere = provision(&wanted, Some(&waiting), Some(&BTreeMap::new()));
        assert!(
            matches!(&nowhere[0], Write::Claim(_)),
            "the scheduler has to choose again"
        );
    }

    #[test]
    fn volumes_of_claims_that_are_gone_are_released_and_deleted() {
        let of = |phase| {
            volume(
                "v",
                "1Gi",
                json!({"claimRef": {"namespace": "n", "name": "c", "uid": "u"}}),
                phase,
            )
        };
        assert!(keep(&of("Bound"), Some(&claim(json!({}), json!({})))).is_empty());
        assert_eq!(
            keep(&of("Bound"), None),
            [Write::VolumeStatus("v".into(), json!({"phase": "Released"}))]
        );
        assert_eq!(reclaim(&of("Released")), [Write::DeleteVolume("v".into())]);
        assert!(reclaim(&of("Bound")).is_empty());
    }

    #[test]
    fn ephemeral_volumes_get_claims_of_their_pod_once() {
        let object = json!({"metadata": {"name": "p", "namespace": "n", "uid": "pu", "resourceVersion": "1"}, "spec": {"volumes": [
            {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"storageClassName": "fast"}}}}]}});
        let pod = view(
            &Reduced::new(|meta: &_, object: PodObject, names: &_| Pod::from_object(meta, object, names)),
            object,
        );
        let writes = ephemeral(&pod, |_| false);
        let [Write::MakeClaim(claim)] = writes.as_slice() else {
            panic!("{writes:?}")
        };
        assert_eq!(claim["metadata"]["name"], "p-cache");
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "pu");
        assert!(ephemeral(&pod, |_| true).is_empty());
    }
}
