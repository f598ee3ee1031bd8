//! The labels of each kind of managed object.
//!
//! Precedence: on a PodClique the user's clique labels give way to ours; on a pod the labels of its clique stand, and
//! only the pod's own keys replace them; on a gang the labels of the set are mirrored, and ours replace them. So no
//! user label can detach an object from its set.

use std::collections::BTreeMap;

use super::labels::{self, Component};
use super::object_names::{role_binding_name, role_name, service_account_name, token_secret_name};
use super::{Epoch, ReplicaName, ScalingGroupName};

/// Labels by key, in sorted order.
pub type Labels = BTreeMap<String, String>;

fn put(set: &mut Labels, key: &str, value: impl Into<String>) {
    set.insert(key.to_owned(), value.into());
}

/// The labels of everything that belongs to a set.
pub fn managed_labels(set: &str) -> Labels {
    let mut all = Labels::new();
    put(&mut all, labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
    put(&mut all, labels::PART_OF, set);
    all
}

fn component_labels(set: &str, component: Component) -> Labels {
    let mut all = managed_labels(set);
    put(&mut all, labels::COMPONENT, component.as_str());
    all
}

fn named_labels(set: &str, component: Component, name: &str) -> Labels {
    let mut all = component_labels(set, component);
    put(&mut all, labels::NAME, name);
    all
}

fn replica_labels(replica: ReplicaName<'_>, component: Component, name: &str) -> Labels {
    let mut all = named_labels(replica.set, component, name);
    put(&mut all, labels::SET_REPLICA_INDEX, replica.index.to_string());
    all
}

/// Labels of a PodClique that belongs to no scaling group. Its pods may be in several gangs, so it names none.
pub fn standalone_clique_labels(user: &Labels, replica: ReplicaName<'_>, clique: &str, template_hash: &str) -> Labels {
    let name = replica.clique_name(clique);
    let mut all = without_gang(user);
    all.extend(replica_labels(replica, Component::StandaloneClique, &name));
    put(&mut all, labels::POD_TEMPLATE_HASH, template_hash);
    all
}

/// Where a member clique stands in its scaling group.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The scaling group.
    pub group: ScalingGroupName<'a>,
    /// The copy of the group.
    pub index: u32,
    /// The clique, by name in the template.
    pub clique: &'a str,
    /// The gang of this copy.
    pub gang: &'a str,
}

/// Labels of a PodClique in a scaling group.
pub fn member_clique_labels(user: &Labels, member: Member<'_>, template_hash: &str) -> Labels {
    let Member {
        group,
        index,
        clique,
        gang,
    } = member;
    let name = group.clique_name(index, clique);
    let mut all = without_gang(user);
    all.extend(replica_labels(group.replica, Component::MemberClique, &name));
    put(&mut all, labels::SCALING_GROUP, group.to_string());
    put(&mut all, labels::SCALING_GROUP_REPLICA_INDEX, index.to_string());
    put(&mut all, labels::POD_GANG, gang);
    put(&mut all, labels::POD_TEMPLATE_HASH, template_hash);
    all
}

/// Labels without those that name a gang: the author of a template cannot choose one, and cliques of other versions may
/// still carry them.
fn without_gang(all: &Labels) -> Labels {
    let mut all = all.clone();
    all.remove(labels::POD_GANG);
    all.remove(labels::BASE_POD_GANG);
    all
}

/// Labels of a pod: those of its clique, and its own.
pub fn pod_labels(
    clique_labels: &Labels,
    replica: ReplicaName<'_>,
    clique: &str,
    gang: &str,
    pod_index: u32,
) -> Labels {
    let mut all = managed_labels(replica.set);
    all.extend(without_gang(clique_labels));
    put(&mut all, labels::POD_CLIQUE, clique);
    put(&mut all, labels::SET_REPLICA_INDEX, replica.index.to_string());
    put(&mut all, labels::POD_GANG, gang);
    put(&mut all, labels::POD_INDEX, pod_index.to_string());
    all
}

/// Labels of a PodCliqueScalingGroup.
pub fn scaling_group_labels(group: ScalingGroupName<'_>) -> Labels {
    replica_labels(group.replica, Component::ScalingGroup, &group.to_string())
}

/// What the PodGangMap says of a gang.
#[derive(Clone, Copy, Debug)]
pub struct GangEntry<'a> {
    /// The epoch of its entry.
    pub epoch: Epoch,
    /// The role of its entry.
    pub role: &'a str,
    /// The templates of its entry.
    pub generation_hash: &'a str,
}

/// Labels of a PodGang: those of the set that are not ours, and our own.
pub fn pod_gang_labels(set_labels: &Labels, replica: ReplicaName<'_>, scheduler: &str, entry: GangEntry<'_>) -> Labels {
    let mut all = mirrored(set_labels);
    all.extend(component_labels(replica.set, Component::PodGang));
    put(&mut all, labels::SCHEDULER_NAME, scheduler);
    put(&mut all, labels::SET_REPLICA_INDEX, replica.index.to_string());
    put(&mut all, labels::EPOCH, entry.epoch.to_string());
    put(&mut all, labels::POD_GANG_ROLE, entry.role);
    put(&mut all, labels::SET_GENERATION_HASH, entry.generation_hash);
    all
}

/// Labels of the PodGangMap of a copy.
pub fn gang_map_labels(replica: ReplicaName<'_>) -> Labels {
    let mut all = component_labels(replica.set, Component::PodGangMap);
    put(&mut all, labels::SET_REPLICA_INDEX, replica.index.to_string());
    all
}

/// Labels or annotations of a set that its gangs take over: all that are not ours, nor bookkeeping of `kubectl`.
pub fn mirrored(of_set: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let keep = |key: &str| !labels::is_reserved(key) && key != super::annotations::LAST_APPLIED;
    of_set
        .iter()
        .filter(|(key, _)| keep(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Labels of the headless service of a copy.
pub fn headless_service_labels(replica: ReplicaName<'_>) -> Labels {
    replica_labels(replica, Component::HeadlessService, &replica.headless_service_name())
}

/// Labels of the service account of a set.
pub fn service_account_labels(set: &str) -> Labels {
    named_labels(set, Component::ServiceAccount, &service_account_name(set))
}

/// Labels of the role of that account. A label value has no colon, so the name's colons are dashes here.
pub fn role_labels(set: &str) -> Labels {
    named_labels(set, Component::Role, &role_name(set).replace(':', "-"))
}

/// Labels of the binding of that role.
pub fn role_binding_labels(set: &str) -> Labels {
    named_labels(set, Component::RoleBinding, &role_binding_name(set).replace(':', "-"))
}

/// Labels of the secret with the token of that account.
pub fn token_secret_labels(set: &str) -> Labels {
    named_labels(set, Component::TokenSecret, &token_secret_name(set))
}

/// Labels of the autoscaler of a clique or scaling group.
pub fn autoscaler_labels(set: &str, target: &str) -> Labels {
    named_labels(set, Component::Autoscaler, target)
}

/// Whose replicas share a claim.
#[derive(Clone, Copy, Debug)]
pub enum ClaimOwner<'a> {
    /// A set.
    Set(&'a str),
    /// A PodCliqueScalingGroup of a set, by object name.
    ScalingGroup(&'a str, &'a str),
    /// A PodClique of a set, by object name.
    Clique(&'a str, &'a str),
}

/// Labels of a shared claim; with an index when the claim is for one replica only.
pub fn claim_labels(owner: ClaimOwner<'_>, index: Option<u32>) -> Labels {
    let (set, own, index_key) = match owner {
        ClaimOwner::Set(set) => (set, None, labels::SET_REPLICA_INDEX),
        ClaimOwner::ScalingGroup(set, group) => (
            set,
            Some((labels::SCALING_GROUP, group)),
            labels::SCALING_GROUP_REPLICA_INDEX,
        ),
        ClaimOwner::Clique(set, clique) => (set, Some((labels::POD_CLIQUE, clique)), labels::POD_INDEX),
    };
    let mut all = component_labels(set, Component::ResourceClaim);
    if let Some((key, name)) = own {
        put(&mut all, key, name);
    }
    if let Some(index) = index {
        put(&mut all, index_key, index.to_string());
    }
    all
}

/// Labels of a ComputeDomain.
pub fn compute_domain_labels(replica: ReplicaName<'_>, mnnvl_group: &str) -> Labels {
    let mut all = replica_labels(
        replica,
        Component::ComputeDomain,
        &replica.compute_domain_name(mnnvl_group),
    );
    put(&mut all, labels::MNNVL_GROUP, mnnvl_group);
    all
}
