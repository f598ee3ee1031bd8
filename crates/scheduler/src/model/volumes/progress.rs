//! What to do next for a claim whose pods have a node in mind.

use super::{ClaimRecord, Provision, VolumeRecord};

/// What to do next for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: it is bound.
    Done,
    /// Ask for a volume near the node.
    Select,
    /// Reserve the volume for it.
    Reserve,
    /// Wait for others.
    Wait,
    /// It will not come about.
    GiveUp(String),
}

/// What to do next for a claim. `selected`: it has named a node before.
pub(crate) fn next_step(
    provision: &Provision,
    claim: Option<&ClaimRecord>,
    volume: Option<&VolumeRecord>,
    selected: bool,
) -> Step {
    let what = &provision.what;
    let node = &provision.promise.node;
    let Some(claim) = claim.filter(|claim| claim.meta.uid == provision.uid && !claim.deleting) else {
        return Step::GiveUp(format!("{what} is gone"));
    };
    if claim.lost {
        return Step::GiveUp(format!("{what} has lost its volume"));
    }
    if claim.bound {
        return Step::Done;
    }
    if claim.volume.is_some() {
        return Step::Wait;
    }
    match (&provision.promise.volume, volume) {
        (Some(name), None) => Step::GiveUp(format!("volume {name:?} for {what} does not exist any more")),
        (Some(name), Some(volume)) => match &volume.claim {
            None => Step::Reserve,
            Some((key, uid)) if *key == provision.claim && uid.as_ref().is_none_or(|uid| *uid == claim.meta.uid) => {
                Step::Wait
            }
            Some((key, _)) => Step::GiveUp(format!("volume {name:?} for {what} was given to volume claim {key}")),
        },
        (None, _) if claim.selected_node.is_some() => Step::Wait,
        (None, _) if selected => Step::GiveUp(format!("no volume could be made for {what} on node {node}")),
        (None, _) => Step::Select,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Promise;
    use super::super::tests::{claim, volume};
    use super::*;
    use serde_json::json;

    fn provision(volume: Option<&str>) -> Provision {
        Provision {
            claim: coppice_runtime::cache::ObjectKey::new("n", "c"),
            uid: "c".into(),
            what: "volume claim \"c\"".into(),
            promise: Promise {
                volume: volume.map(Into::into),
                node: "n1".into(),
            },
        }
    }

    #[test]
    fn a_claim_is_selected_once_and_given_up_when_the_provisioner_takes_it_back() {
        let made = provision(None);
        let open = claim("c", json!({}), json!({}));
        assert_eq!(next_step(&made, Some(&open), None, false), Step::Select);
        let selected = claim("c", json!({"volume.kubernetes.io/selected-node": "n1"}), json!({}));
        assert_eq!(next_step(&made, Some(&selected), None, false), Step::Wait);
        assert!(matches!(next_step(&made, Some(&open), None, true), Step::GiveUp(_)));
        let bound = claim(
            "c",
            json!({"pv.kubernetes.io/bind-completed": "yes"}),
            json!({"volumeName": "v"}),
        );
        assert_eq!(next_step(&made, Some(&bound), None, true), Step::Done);
        assert!(matches!(next_step(&made, None, None, false), Step::GiveUp(_)));
    }

    #[test]
    fn a_volume_that_exists_is_reserved_unless_another_claim_has_it() {
        let reserve = provision(Some("v"));
        let open = claim("c", json!({}), json!({}));
        let of = |reference| volume("v", json!({"claimRef": reference}));
        assert_eq!(
            next_step(&reserve, Some(&open), Some(&of(json!(null))), false),
            Step::Reserve
        );
        let ours = of(json!({"namespace": "n", "name": "c", "uid": "c"}));
        assert_eq!(next_step(&reserve, Some(&open), Some(&ours), false), Step::Wait);
        let other = of(json!({"namespace": "n", "name": "c", "uid": "former"}));
        assert!(matches!(
            next_step(&reserve, Some(&open), Some(&other), false),
            Step::GiveUp(_)
        ));
        assert!(matches!(next_step(&reserve, Some(&open), None, false), Step::GiveUp(_)));
    }
}
