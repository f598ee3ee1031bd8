//! The state of one clique: what is stored, which template it has, which pods are its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::canonical::TemplateIdentity;
use coppice_api::names::labels;
use coppice_api::types::PodClique;

use super::attempt::Attempt;
use super::edits;

use crate::conditions::{self, ConditionType};
use crate::context::SetContext;
use crate::layout::{CliqueLayout, Place, ReplicaLayout};
use crate::snapshot::{PodFacts, ReplicaSnapshot};

/// The state of one clique.
#[derive(Clone, Debug)]
pub struct CliqueState<'a> {
    /// The PodClique, when it exists.
    pub stored: Option<&'a Arc<PodClique>>,
    /// Where it stands.
    pub place: Place,
    /// The pods it should have by its size.
    pub replicas: u32,
    /// The pods it should have in each of its gangs, as the map has them.
    pub planned: Vec<u32>,
    /// How many must be there.
    pub min_available: u32,
    /// The identity of the stored template, as its label and its pods carry it.
    pub hash: String,
    /// Whether the stored template means the same as the set's.
    pub current: bool,
    /// The identity of the set's template.
    pub wanted: TemplateIdentity,
    /// Its own pods that count, by index.
    pub active: Vec<&'a Arc<PodFacts>>,
    /// Those of them in each of its gangs, at the positions of the layout's shares.
    pub parts: Vec<Vec<&'a Arc<PodFacts>>>,
    /// Those of them in gangs that the map does not have them in any more.
    pub strays: Vec<&'a Arc<PodFacts>>,
    /// Its own pods that are being deleted or have ended.
    pub leaving: Vec<&'a Arc<PodFacts>>,
    /// Pods with its labels that belong to an earlier object of the same name.
    pub orphans: Vec<&'a Arc<PodFacts>>,
    /// Whether its scaling group is being deleted, and takes it along.
    pub doomed: bool,
    /// Whether it gets no further pods, because its size or that of its gang is beyond the bounds.
    pub held: bool,
    /// What the names of its new pods are made from.
    pub attempt: Attempt,
    /// Whether another client edited what follows from the set.
    pub edited: bool,
}

/// How it is found out which gang a pod belongs to.
#[derive(Clone, Debug)]
pub(crate) enum Homes<'a> {
    /// All pods of a clique belong to its one gang, whatever their labels say.
    ByClique,
    /// By their labels: the gangs that are known, and their positions in the layout where they have one. A pod that names
    /// no known gang is adopted by the newest gang of its clique.
    ByLabel(BTreeMap<&'a str, Option<usize>>),
}

impl Homes<'_> {
    /// The pods of a clique by its shares, and those that belong to none of them.
    fn divide<'p>(&self, clique: &CliqueLayout, active: &[&'p Arc<PodFacts>]) -> Divided<'p> {
        let newest = clique.shares.len() - 1;
        let mut parts = vec![Vec::new(); clique.shares.len()];
        let mut strays = Vec::new();
        for pod in active {
            let known = match self {
                Self::ByClique => None,
                Self::ByLabel(gangs) => gangs.get(pod.membership.gang.as_str()),
            };
            let share = match known {
                None => Some(newest),
                Some(gang) => gang.and_then(|gang| clique.shares.iter().position(|share| share.gang == gang)),
            };
            match share {
                Some(share) => parts[share].push(*pod),
                None => strays.push(*pod),
            }
        }
        (parts, strays)
    }
}

type Divided<'p> = (Vec<Vec<&'p Arc<PodFacts>>>, Vec<&'p Arc<PodFacts>>);

impl<'a> CliqueState<'a> {
    /// Reads the state of one clique. `pods` are those with its labels.
    pub(crate) fn read(
        context: &SetContext<'_>,
        snapshot: &'a ReplicaSnapshot,
        layout: &ReplicaLayout,
        clique: &CliqueLayout,
        homes: &Homes<'_>,
        pods: Vec<&'a Arc<PodFacts>>,
    ) -> Self {
        let stored = snapshot.cliques.get(&clique.name);
        let uid = stored.and_then(|stored| stored.metadata.uid.as_deref());
        let (own, orphans): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .partition(|pod| uid.is_some_and(|uid| pod.owner_uid == uid));
        let (mut active, leaving): (Vec<_>, Vec<_>) = own.into_iter().partition(|pod| pod.active());
        active.sort_by(|left, right| (left.index, &left.name).cmp(&(right.index, &right.name)));
        let (parts, strays) = homes.divide(clique, &active);
        let wanted = context.identities[clique.position];
        let (mut hash, current) = match stored {
            None => (wanted.label(), true),
            Some(stored) => template_of(context, layout, clique, stored),
        };
        // A foreign name for the same template is adopted with the pods that carry it. When they carry ours, it is an edit.
        let carry_ours = !active.is_empty() && active.iter().all(|pod| wanted.matches_label(&pod.template_hash));
        let renamed = current && !wanted.matches_label(&hash) && carry_ours;
        if renamed {
            hash = wanted.label();
        }
        let lacks_pods = active.len() < clique.pods() as usize;
        let edited = stored.is_some_and(|stored| {
            let observed = stored.status.as_ref().and_then(|status| status.observed_generation);
            let may_differ = lacks_pods || observed != stored.metadata.generation;
            let is_ours = current && wanted.matches_label(&hash);
            renamed || (is_ours && may_differ && edits::is_edited(context, layout, clique, stored))
        });
        let deleting = leaving.iter().filter(|pod| pod.deleting).count();
        let attempt = Attempt::read(
            stored.map(AsRef::as_ref),
            leaving.iter().copied(),
            snapshot.departed.iter(),
            active.len() + deleting,
        );
        Self {
            stored,
            place: clique.place,
            replicas: clique.replicas,
            planned: clique.shares.iter().map(|share| share.pods).collect(),
            parts,
            strays,
            min_available: clique.min_available,
            hash,
            current,
            wanted,
            active,
            leaving,
            orphans,
            held: clique.held,
            attempt,
            edited,
            doomed: matches!(clique.place, Place::Member { group, .. } if going(snapshot, &layout.groups[group].name)),
        }
    }

    /// Its own pods that ended and are not being deleted, the one that ended last first.
    pub fn ended(&self) -> Vec<&'a PodFacts> {
        let mut ended: Vec<&'a PodFacts> = self
            .leaving
            .iter()
            .map(|pod| &***pod)
            .filter(|pod| !pod.deleting)
            .collect();
        // Times have whole seconds. Within one, the pod that was written last ended last: versions of one resource are ordered.
        let version = |pod: &PodFacts| pod.resource_version.parse::<u64>().ok();
        ended.sort_by_key(|pod| std::cmp::Reverse((pod.ended, pod.created, version(pod))));
        ended
    }

    /// Whether the PodClique exists and is not being deleted.
    pub fn alive(&self) -> bool {
        let stored = self
            .stored
            .is_some_and(|stored| stored.metadata.deletion_timestamp.is_none());
        stored && !self.doomed
    }

    /// Whether it belongs to no scaling group.
    pub fn standalone(&self) -> bool {
        self.place == Place::Standalone
    }

    /// The copy of a group that it belongs to.
    pub fn copy_of(&self, wanted: usize) -> Option<u32> {
        match self.place {
            Place::Member { group, copy } if group == wanted => Some(copy),
            _ => None,
        }
    }

    /// Whether a pod has the stored template.
    pub fn has_template(&self, pod: &PodFacts) -> bool {
        pod.template_hash == self.hash
    }

    /// Pods with a node.
    pub fn scheduled(&self) -> u32 {
        self.count(|pod| pod.scheduled)
    }

    /// Ready pods.
    pub fn ready(&self) -> u32 {
        self.count(|pod| pod.ready)
    }

    /// Pods with the stored template.
    pub fn with_template(&self) -> u32 {
        self.count(|pod| self.has_template(pod))
    }

    /// Whether a pod has the set's template: what "updated" means to readers of a status.
    pub fn is_updated(&self, pod: &PodFacts) -> bool {
        if self.current {
            self.has_template(pod)
        } else {
            self.wanted.matches_label(&pod.template_hash)
        }
    }

    /// Pods with the set's template.
    pub fn with_current_template(&self) -> u32 {
        self.count(|pod| self.is_updated(pod))
    }

    /// Whether the stored status could be read as "updated" by more pods than are. One that speaks of an older
    /// generation cannot.
    pub fn overstated(&self) -> bool {
        let Some(stored) = self.stored else { return false };
        let Some(status) = &stored.status else { return false };
        let says = u32::try_from(status.updated_replicas).unwrap_or(0);
        status.observed_generation == stored.metadata.generation && says > self.with_current_template()
    }

    /// Counts active pods.
    pub fn count(&self, wanted: impl Fn(&PodFacts) -> bool) -> u32 {
        u32::try_from(self.active.iter().filter(|pod| wanted(pod)).count()).unwrap_or(u32::MAX)
    }

    /// The pods that an update waits for: those it should have, or those it has where it gets no more.
    pub fn desired(&self) -> u32 {
        if self.held {
            self.count(|_| true).min(self.replicas)
        } else {
            self.replicas
        }
    }

    /// Whether its minimum is ready.
    pub fn available(&self) -> bool {
        self.alive() && self.ready() >= self.min_available
    }

    /// Whether it has the set's template in all its pods, and its minimum ready.
    pub fn updated(&self) -> bool {
        let all_pods = u32::try_from(self.active.len()).unwrap_or(u32::MAX);
        self.current && self.available() && all_pods == self.replicas && self.with_template() == all_pods
    }

    /// Whether its status says that it has fallen below its minimum.
    pub fn breached(&self) -> bool {
        self.stored
            .and_then(|stored| stored.status.as_ref())
            .is_some_and(|status| conditions::is_true(&status.conditions, ConditionType::MinAvailableBreached))
    }
}

/// Whether a scaling group is being deleted.
fn going(snapshot: &ReplicaSnapshot, group: &str) -> bool {
    let stored = snapshot.groups.get(group);
    stored.is_some_and(|stored| stored.metadata.deletion_timestamp.is_some())
}

/// The identity of a stored template, and whether it means what the set's template means.
///
/// A label of ours answers by itself. Any other label (of the Go operator, or of an older version of ours) is a name
/// for whatever the stored template means: if that is what we would store, the clique and its pods are up to date
/// under the name they have.
fn template_of(
    context: &SetContext<'_>,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    stored: &PodClique,
) -> (String, bool) {
    let identity = &context.identities[clique.position];
    let labels = stored.metadata.labels.as_ref();
    let label = labels.and_then(|all| all.get(labels::POD_TEMPLATE_HASH)).cloned();
    let label = label.unwrap_or_default();
    let current = identity.matches_label(&label) || edits::is_as_in_the_set(context, layout, clique, stored);
    (label, current)
}
