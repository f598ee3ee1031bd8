//! Builds the view of a set from its objects.
//!
//! Objects are told apart by labels and owners. An object that should exist and does not is shown with nothing in it, so
//! a set that has just been applied already has its whole shape.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::object_names::ReplicaName;
use coppice_api::names::parsing::parse_index;
use coppice_api::names::{annotations, labels};
use coppice_api::types::{
    ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueSetStatus, PodGang,
};
use coppice_domains::api::{ComputeDomain, DomainNode, DomainStatus, Readiness};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};

use super::indexed::Indexed;
use super::revisions::Revisions;
use super::{
    API_VERSION, CliqueView, CopyView, Count, DomainView, GangView, GroupView, PodView, ReplicaView, SetState, SetView,
    UpdateView, pod_state, versions,
};

/// What a view is built from.
#[derive(Default)]
pub struct Objects {
    pub cliques: Vec<PodClique>,
    pub groups: Vec<PodCliqueScalingGroup>,
    pub gangs: Vec<PodGang>,
    pub pods: Vec<Pod>,
    /// Empty where they may not be read; pods are then old or new by the hash of their clique.
    pub revisions: Vec<ControllerRevision>,
    /// Empty where nodes may not be read; places are left out then.
    pub nodes: BTreeMap<String, Node>,
    pub topologies: Vec<ClusterTopologyBinding>,
    /// Empty where the cluster does not serve ComputeDomains.
    pub domains: Vec<ComputeDomain>,
}

/// The view of a set.
pub fn set_view(set: &PodCliqueSet, objects: &Objects) -> SetView {
    let name = set.name_any();
    let indexed = Indexed::new(objects);
    let indices: BTreeSet<u32> = (0..u32::try_from(set.spec.replicas).unwrap_or(0))
        .chain(objects.cliques.iter().filter_map(replica_index))
        .collect();
    let revisions = Revisions::of(set, &objects.revisions);
    let replicas: Vec<ReplicaView> = indices
        .into_iter()
        .map(|index| replica_view(set, index, &indexed, &revisions))
        .collect();
    let (mut pods, mut gpus) = (Count::default(), Count::default());
    for clique in replicas.iter().flat_map(cliques_of) {
        pods.add(clique.count);
    }
    for pod in &objects.pods {
        gpus.add(gpu_count(pod));
    }
    let empty = PodCliqueSetStatus::default();
    let status = set.status.as_ref().unwrap_or(&empty);
    let (state, message) = set_state(set, status);
    SetView {
        api_version: API_VERSION,
        kind: "SetView",
        namespace: set.namespace().unwrap_or_default(),
        name,
        state,
        message,
        unplaced: unplaced(&objects.gangs),
        desired_replicas: set.spec.replicas,
        available_replicas: status.available_replicas,
        updated_replicas: status.updated_replicas,
        pods,
        gpus,
        update: update_view(status),
        errors: status
            .last_errors
            .iter()
            .map(|error| error.description.clone())
            .collect(),
        replicas,
    }
}

/// All cliques of a replica: its own, and those of its groups.
pub fn cliques_of(replica: &ReplicaView) -> impl Iterator<Item = &CliqueView> {
    let copies = replica.groups.iter().flat_map(|group| &group.copies);
    replica.cliques.iter().chain(copies.flat_map(|copy| &copy.cliques))
}

/// The state of a set, and why.
pub fn set_state(set: &PodCliqueSet, status: &PodCliqueSetStatus) -> (SetState, Option<String>) {
    let find = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let message = |condition: Option<&Condition>| condition.map(|condition| condition.message.clone());
    if set.metadata.deletion_timestamp.is_some() {
        return (SetState::Deleting, None);
    }
    if let Some(degraded) = find("Degraded").filter(|condition| condition.status == "True") {
        return (SetState::Degraded, message(Some(degraded)));
    }
    if update_view(status).is_some() {
        return (SetState::Updating, message(find("Progressing")));
    }
    let seen = status.observed_generation == set.metadata.generation;
    match find("Ready") {
        Some(ready) if ready.status == "True" && seen => (SetState::Ready, None),
        ready => (SetState::Progressing, message(ready)),
    }
}

fn update_view(status: &PodCliqueSetStatus) -> Option<UpdateView> {
    let progress = status.update_progress.as_ref()?;
    if progress.update_ended_at.is_some() || progress.update_started_at.is_none() {
        return None;
    }
    let current = progress.currently_updating.iter();
    Some(UpdateView {
        updated_cliques: progress.updated_pod_cliques_count,
        total_cliques: progress.total_pod_cliques_count,
        updated_groups: progress.updated_pod_clique_scaling_groups_count,
        total_groups: progress.total_pod_clique_scaling_groups_count,
        current_replicas: current.map(|replica| replica.replica_index).collect(),
    })
}

fn replica_view(set: &PodCliqueSet, index: u32, objects: &Indexed<'_>, revisions: &Revisions) -> ReplicaView {
    let name = set.name_any();
    let template = &set.spec.template;
    let in_groups: BTreeSet<&str> = template
        .pod_clique_scaling_groups
        .iter()
        .flat_map(|group| group.clique_names.iter().map(String::as_str))
        .collect();
    let cliques = template
        .cliques
        .iter()
        .filter(|clique| !in_groups.contains(clique.name.as_str()))
        .map(|clique| {
            let object = ReplicaName::new(&name, index).clique_name(&clique.name);
            clique_view(
                &clique.name,
                &object,
                clique.spec.replicas,
                clique.spec.min_available,
                objects,
                revisions,
            )
        })
        .collect();
    let groups = template.pod_clique_scaling_groups.iter();
    ReplicaView {
        index,
        gangs: gangs_of(set, index, objects),
        domains: domains_of(index, objects),
        cliques,
        groups: groups
            .map(|config| group_view(set, index, config, objects, revisions))
            .collect(),
    }
}

fn group_view(
    set: &PodCliqueSet,
    replica: u32,
    config: &coppice_api::types::PodCliqueScalingGroupConfig,
    objects: &Indexed<'_>,
    revisions: &Revisions,
) -> GroupView {
    let name = set.name_any();
    let group = ReplicaName::new(&name, replica).scaling_group(&config.name);
    let object = group.to_string();
    let live = objects.groups.get(object.as_str());
    let desired = live.map_or_else(|| config.replicas.unwrap_or(1), |group| group.spec.replicas);
    let status = live.and_then(|group| group.status.as_ref());
    let members: &[&PodClique] = objects.of_group.get(object.as_str()).map_or(&[], Vec::as_slice);
    let mut of_copy: BTreeMap<u32, Vec<&PodClique>> = BTreeMap::new();
    for clique in members {
        if let Some(copy) = copy_index(*clique) {
            of_copy.entry(copy).or_default().push(clique);
        }
    }
    let indices: BTreeSet<u32> = (0..u32::try_from(desired).unwrap_or(0))
        .chain(of_copy.keys().copied())
        .collect();
    let copies = indices.into_iter().map(|index| {
        let mut own = of_copy.get(&index).into_iter().flatten();
        let gang = own.find_map(|clique| clique.labels().get(labels::POD_GANG).cloned());
        let cliques = config.clique_names.iter().map(|clique| {
            let object = group.clique_name(index, clique);
            let template = set
                .spec
                .template
                .cliques
                .iter()
                .find(|template| template.name == *clique);
            let replicas = template.map_or(1, |template| template.spec.replicas);
            clique_view(
                clique,
                &object,
                replicas,
                template.and_then(|template| template.spec.min_available),
                objects,
                revisions,
            )
        });
        CopyView {
            index,
            gang,
            cliques: cliques.collect(),
        }
    });
    let copies: Vec<CopyView> = copies.collect();
    GroupView {
        name: config.name.clone(),
        desired,
        available: status.map_or(0, |status| status.available_replicas),
        min_available: config.min_available.unwrap_or(1),
        versions: versions::of_copies(&copies),
        copies,
        object,
    }
}

fn clique_view(
    name: &str,
    object: &str,
    replicas: i32,
    min_available: Option<i32>,
    objects: &Indexed<'_>,
    revisions: &Revisions,
) -> CliqueView {
    let live = objects.cliques.get(object);
    let revision = live.and_then(|clique| clique.labels().get(labels::POD_TEMPLATE_HASH));
    let mut pods: Vec<PodView> = objects
        .pods
        .get(object)
        .into_iter()
        .flatten()
        .map(|pod| pod_view(pod, revision, name, revisions))
        .collect();
    pods.sort_by(|one, other| (one.index, &one.name).cmp(&(other.index, &other.name)));
    // A pod that ended is shown while it is kept, and counts for nothing.
    let (ended, gone) = (pod_state::PodState::Ended, pod_state::PodState::Terminating);
    let serving = pods.iter().filter(|pod| ![ended, gone].contains(&pod.state));
    let mut count = Count {
        desired: i64::from(live.map_or(replicas, |clique| clique.spec.replicas)),
        ..Count::default()
    };
    for pod in serving {
        count.scheduled += i64::from(pod.node.is_some());
        count.ready += i64::from(pod.state == pod_state::PodState::Ready);
    }
    CliqueView {
        name: name.to_owned(),
        object: object.to_owned(),
        min_available: min_available.unwrap_or(replicas),
        count,
        outdated: pods
            .iter()
            .map(|pod| i64::from(pod.outdated && pod.state != ended))
            .sum(),
        versions: versions::of_pods(&pods),
        pods,
    }
}

fn pod_view(pod: &Pod, hash: Option<&String>, clique: &str, revisions: &Revisions) -> PodView {
    let (state, reason) = pod_state::of(pod);
    let own = pod.labels().get(labels::POD_TEMPLATE_HASH);
    let revision = own.and_then(|own| revisions.of_pod(clique, own));
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    PodView {
        name: pod.name_any(),
        uid: pod.uid(),
        index: pod.labels().get(labels::POD_INDEX).and_then(|index| parse_index(index)),
        state,
        reason,
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        outdated: own.is_some_and(|own| {
            let known = revisions.is_outdated(clique, own);
            known.unwrap_or_else(|| hash.is_some_and(|hash| own != hash))
        }),
        revision: revision.map(|revision| revision.number),
        template_hash: own.cloned(),
        restarts: statuses.map(|status| status.restart_count).sum(),
    }
}

fn gangs_of(set: &PodCliqueSet, replica: u32, objects: &Indexed<'_>) -> Vec<GangView> {
    // Gangs of versions without PodGangMaps have no index; the cliques name them.
    let cliques = objects.of_replica.get(&replica).into_iter().flatten();
    let names: BTreeSet<&str> = cliques
        .filter_map(|clique| clique.labels().get(labels::POD_GANG).map(String::as_str))
        .collect();
    let named = names.iter().filter_map(|name| objects.gangs.get(name).copied());
    let named = named.filter(|gang| replica_index(*gang).is_none());
    let indexed = objects.gangs_of_replica.get(&replica).into_iter().flatten().copied();
    let gangs = indexed.chain(named);
    let mut views: Vec<GangView> = gangs
        .map(|gang| {
            let members = objects
                .of_gang
                .get(gang.name_any().as_str())
                .into_iter()
                .flatten()
                .copied();
            gang_view(gang, gang_content(set, replica, gang, members), objects)
        })
        .collect();
    views.sort_by(|one, other| one.name.cmp(&other.name));
    views
}

/// What a gang consists of: one copy of a scaling group, or else the anchor of the replica.
pub fn gang_content<'a>(
    set: &PodCliqueSet,
    replica: u32,
    gang: &PodGang,
    cliques: impl IntoIterator<Item = &'a PodClique>,
) -> String {
    let (set_name, gang_name) = (set.name_any(), gang.name_any());
    let anchor = match gang.labels().get(labels::POD_GANG_ROLE) {
        Some(role) => role == "Anchor",
        None => gang_name == ReplicaName::new(&set_name, replica).to_string(),
    };
    let mut members = cliques
        .into_iter()
        .filter(|clique| clique.labels().get(labels::POD_GANG) == Some(&gang_name));
    let of_copy = members.find_map(|clique| {
        let group = clique.labels().get(labels::SCALING_GROUP)?;
        let mut configs = set.spec.template.pod_clique_scaling_groups.iter();
        let config = configs.find(|config| {
            let named = ReplicaName::new(&set_name, replica).scaling_group(&config.name);
            named.to_string() == *group
        })?;
        Some(format!("{} copy {}", config.name, copy_index(clique)?))
    });
    match of_copy {
        Some(copy) if !anchor => copy,
        _ => "anchor".to_owned(),
    }
}

/// Why a gang cannot be placed, in the words of Coppice's scheduler; none when it is placed or was not tried yet.
pub fn gang_unplaced(gang: &PodGang) -> Option<String> {
    let conditions = gang.status.iter().flat_map(|status| &status.conditions);
    let mut placed = conditions.filter(|condition| condition.type_ == coppice_scheduler::PLACED);
    let condition = placed.find(|condition| condition.status == "False")?;
    Some(format!("{}: {}", condition.reason, condition.message))
}

/// The first gang that cannot be placed, why, and how many others there are.
fn unplaced(gangs: &[PodGang]) -> Option<String> {
    let unplaced: Vec<(String, String)> = gangs
        .iter()
        .filter(|gang| gang.metadata.deletion_timestamp.is_none())
        .filter_map(|gang| Some((gang.name_any(), gang_unplaced(gang)?)))
        .collect();
    let (name, why) = unplaced.iter().min()?;
    let more = match unplaced.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more gang)".to_owned(),
        others => format!(" (and {others} more gangs)"),
    };
    Some(format!("gang {name} cannot be placed{more}: {why}"))
}

/// The condition by which the operator says what an object waits for, and until when.
const WAITING: &str = coppice_core::conditions::ConditionType::Waiting.as_str();

/// Why a gang is not scheduled or not ready: what it waits for by the operator, then by its scheduler.
pub fn gang_waiting(gang: &PodGang) -> Option<String> {
    let status = gang.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    gang_waits(gang).or_else(|| {
        [coppice_scheduler::PLACED, "Scheduled", "Ready"]
            .iter()
            .find_map(|kind| {
                let condition = conditions.iter().find(|condition| condition.type_ == **kind)?;
                (condition.status != "True").then(|| format!("{}: {}", condition.reason, condition.message))
            })
    })
}

/// What the operator says that a gang waits for, and until when.
pub fn gang_waits(gang: &PodGang) -> Option<String> {
    let mut conditions = gang.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|condition| condition.type_ == WAITING && condition.status == "True")?;
    Some(format!("{}: {}", found.reason, found.message))
}

fn gang_view(gang: &PodGang, content: String, objects: &Indexed<'_>) -> GangView {
    let name = gang.name_any();
    let status = gang.status.as_ref();
    GangView {
        phase: status.map_or_else(|| "Pending".to_owned(), |status| status.phase.as_str().to_owned()),
        // The score of a placement that is no more says nothing.
        placement_score: status
            .and_then(|status| status.placement_score)
            .filter(|_| has_nodes(&name, objects)),
        place: place_of(&name, gang, objects),
        waiting: gang_waiting(gang),
        content,
        name,
    }
}

/// Pods of a gang that are not leaving.
fn staying<'a>(gang: &str, objects: &Indexed<'a>) -> impl Iterator<Item = &'a Pod> {
    let pods = objects.pods_of_gang.get(gang).cloned().unwrap_or_default();
    pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none())
}

/// Whether a pod of the gang has a node.
fn has_nodes(gang: &str, objects: &Indexed<'_>) -> bool {
    staying(gang, objects).any(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
}

/// The narrowest level of its topology in which all placed pods of a gang are.
fn place_of(name: &str, gang: &PodGang, indexed: &Indexed<'_>) -> Option<String> {
    let objects = indexed.objects;
    let named = gang.annotations().get(annotations::TOPOLOGY_NAME);
    let topology = match named {
        Some(named) => objects
            .topologies
            .iter()
            .find(|topology| topology.name_any() == *named)?,
        // Nobody asked for packing; with a single topology its levels are still worth knowing.
        None => match objects.topologies.as_slice() {
            [only] => only,
            _ => return None,
        },
    };
    let nodes: BTreeSet<&str> = staying(name, indexed)
        .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref())
        .collect();
    let nodes: Vec<&Node> = nodes.into_iter().filter_map(|node| objects.nodes.get(node)).collect();
    let (first, others) = nodes.split_first()?;
    topology.spec.levels.iter().rev().find_map(|level| {
        let value = first.labels().get(&level.key)?;
        let shared = others.iter().all(|node| node.labels().get(&level.key) == Some(value));
        shared.then(|| format!("{} {value}", level.domain))
    })
}

/// How far the GPUs of a pod have come.
fn gpu_count(pod: &Pod) -> Count {
    if pod.metadata.deletion_timestamp.is_some() {
        return Count::default();
    }
    let desired = gpus_of(pod);
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let ready = pod_state::of(pod).0 == pod_state::PodState::Ready;
    Count {
        desired,
        scheduled: if placed { desired } else { 0 },
        ready: if ready { desired } else { 0 },
    }
}

/// The GPUs that a pod asks for.
pub fn gpus_of(pod: &Pod) -> i64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let amounts = containers
        .filter_map(|container| container.resources.as_ref())
        .flat_map(|resources| {
            // Extended resources are not overcommitted: limits and requests are equal, and either may be left out.
            let named = resources.limits.as_ref().or(resources.requests.as_ref());
            named.into_iter().flatten().filter(|(name, _)| name.ends_with("/gpu"))
        });
    amounts.filter_map(|(_, amount)| amount.0.parse::<i64>().ok()).sum()
}

fn domains_of(index: u32, objects: &Indexed<'_>) -> Vec<DomainView> {
    let mut ours: Vec<&ComputeDomain> = objects.objects.domains.iter().collect();
    ours.retain(|domain| replica_index(*domain) == Some(index));
    ours.sort_by_key(|domain| domain.name_any());
    ours.into_iter().map(domain_view).collect()
}

fn domain_view(domain: &ComputeDomain) -> DomainView {
    let empty = DomainStatus::default();
    let status = domain.status.as_ref().unwrap_or(&empty);
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let is_ready = |node: &&DomainNode| node.status == Readiness::Ready;
    let cliques: BTreeSet<&str> = status.nodes.iter().map(|node| node.clique_id.as_str()).collect();
    DomainView {
        name: domain.name_any(),
        state: match ready {
            Some(ready) if ready.status != "True" => ready.reason.clone(),
            _ if status.status == Readiness::Ready => "Ready".to_owned(),
            _ => "NotReady".to_owned(),
        },
        ready_nodes: status.nodes.iter().filter(is_ready).count(),
        nodes: status.nodes.len(),
        cliques: cliques.into_iter().filter(|clique| !clique.is_empty()).count(),
    }
}

/// The replica of the set that an object belongs to.
pub fn replica_index(object: &impl Resource) -> Option<u32> {
    object
        .labels()
        .get(labels::SET_REPLICA_INDEX)
        .and_then(|index| parse_index(index))
}

fn copy_index(object: &impl Resource) -> Option<u32> {
    object
        .labels()
        .get(labels::SCALING_GROUP_REPLICA_INDEX)
        .and_then(|index| parse_index(index))
}
