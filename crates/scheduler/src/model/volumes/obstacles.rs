//! Why a pod cannot be placed yet because of a volume.

use std::collections::BTreeSet;

use coppice_placement::{Reason, ReasonCode};
use coppice_runtime::cache::ObjectKey;

use crate::model::{Model, PodRecord};

impl Model {
    /// Why a pod has to wait for one of its volumes, if it has to. `taken` are claims that only one pod may use and
    /// that go to other pods of the same gang.
    pub(in crate::model) fn volume_obstacle(&self, pod: &PodRecord, taken: &mut BTreeSet<ObjectKey>) -> Option<Reason> {
        let mut exclusive = Vec::new();
        for volume in &pod.volumes {
            let key = volume.claim_of(pod);
            let name = &volume.claim;
            let not_ready = |text: String| Some(Reason::new(ReasonCode::VolumeNotReady, text));
            let Some(claim) = self.storage.claims.get(&key) else {
                return not_ready(match volume.ephemeral {
                    true => format!(
                        "volume claim {name:?} of {} has not been created yet",
                        volume.what(None)
                    ),
                    false => format!("volume claim {name:?} does not exist"),
                });
            };
            if volume.ephemeral && claim.pod.as_ref() != Some(&pod.meta.uid) {
                return not_ready(format!(
                    "volume claim {name:?} was not created for pod {}",
                    pod.meta.key.name
                ));
            }
            if claim.deleting {
                return not_ready(format!("volume claim {name:?} is being deleted"));
            }
            if claim.lost {
                return not_ready(format!("volume claim {name:?} has lost its volume"));
            }
            if let Some(volume) = &claim.volume {
                if !claim.bound {
                    return not_ready(format!("volume claim {name:?} is being bound to volume {volume:?}"));
                }
                if !self.storage.volumes.contains_key(volume) {
                    return not_ready(format!("volume {volume:?} of volume claim {name:?} does not exist"));
                }
            } else if !self.storage.waits(claim) {
                return not_ready(match (&claim.class, self.storage.class_of(claim)) {
                    (None, _) => format!("volume claim {name:?} is not bound yet; it names no storage class"),
                    (Some(class), None) => format!("storage class {class:?} of volume claim {name:?} does not exist"),
                    (Some(class), Some(_)) => {
                        format!(
                            "volume claim {name:?} is not bound yet; storage class {class:?} binds it before its pods are placed"
                        )
                    }
                });
            }
            if claim.is_exclusive() {
                if let Some(other) = self.other_user(&key, pod) {
                    return not_ready(format!(
                        "volume claim {name:?} is ReadWriteOncePod and in use by pod {other}"
                    ));
                }
                if taken.contains(&key) {
                    return not_ready(format!(
                        "volume claim {name:?} is ReadWriteOncePod: only one pod at a time can use it"
                    ));
                }
                exclusive.push(key);
            }
        }
        taken.extend(exclusive);
        None
    }

    /// Another pod that has a node, or is about to get one, and uses the claim.
    fn other_user(&self, claim: &ObjectKey, pod: &PodRecord) -> Option<&ObjectKey> {
        let users = self.storage.users.get(claim).into_iter().flatten();
        let others = users
            .filter(|key| **key != pod.meta.key)
            .filter_map(|key| self.pods.get(key));
        let on_node = |other: &&std::sync::Arc<PodRecord>| self.node_of(other).is_some();
        others.into_iter().find(on_node).map(|other| &other.meta.key)
    }
}
