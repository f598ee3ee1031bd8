//! What a gang shares with the other gangs of its replica of the set: packing, domain, topology, neighbourhood.
//!
//! The packing of a replica is that of its anchor and holds across its gangs, so whichever gang comes first decides where all of
//! them go. That gang is asked about together with the others as their PodGangs say them (sizes, packing), whether their pods exist
//! or not; pods that do not exist yet will demand what those of the same clique in another copy of their scaling group do, of which
//! the anchor has at least one (`copies`). Never looks at a gang of another replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_placement::shape::ShapeId;
use coppice_placement::topology::DomainPath;
use coppice_placement::{Gang, Group, GroupConfig, Overfull, Pack, PlacementGroup, Reason, ReasonCode, Sibling};

use super::copies::Copies;
use super::question::{Members, count};
use super::{GangRecord, Model};

impl Model {
    /// Adds to a gang what it shares with the others of its replica. Returns what is not known of them yet and should be
    /// before the gang decides where they go.
    pub(super) fn share(&mut self, gang: &mut Gang, record: &GangRecord, own: &[Members]) -> Option<Reason> {
        let base = self.base_of(record).and_then(|base| self.gangs.get(&base).cloned());
        if gang.topology.is_empty()
            && let Some(base) = &base
        {
            gang.topology = self.topology(base);
        }
        let pack = match &base {
            Some(base) => base.pack.clone(),
            None => std::mem::take(&mut gang.pack),
        };
        if gang.pack == pack {
            gang.pack = Pack::none();
        }
        let siblings: Vec<(Arc<GangRecord>, Vec<Members>)> = self
            .siblings_of(record)
            .map(|sibling| (sibling.clone(), self.members_of(sibling)))
            .collect();
        let placed = |members: &Members| members.placed.iter().map(|(_, node)| node.clone()).collect::<Vec<_>>();
        let near: BTreeSet<Arc<str>> = siblings
            .iter()
            .flat_map(|(_, groups)| groups)
            .flat_map(placed)
            .collect();
        let nodes: BTreeSet<Arc<str>> = near.iter().cloned().chain(own.iter().flat_map(placed)).collect();
        let required = pack.required.as_ref();
        let pinned = required.and_then(|key| self.domain_of(&gang.topology, key, &nodes));
        let mut shared = PlacementGroup {
            pinned,
            overfull: Overfull::Block,
            ahead: self.still_to_come(record, own),
            siblings: Vec::new(),
            near: near.into_iter().collect(),
            pack,
        };
        let mut arriving = None;
        if base.is_none() && shared.pinned.is_none() && shared.pack != Pack::none() {
            let mut siblings = siblings;
            // In the order in which they were decided; names of copies with more digits come later.
            siblings.sort_by_cached_key(|(sibling, _)| {
                let epoch = sibling.entry.as_ref().map(|(epoch, _)| *epoch);
                let name = sibling.meta.key.name.clone();
                (epoch, name.len(), name)
            });
            let copies = Copies::of(record, own.iter().chain(siblings.iter().flat_map(|(_, groups)| groups)));
            for (sibling, members) in &siblings {
                let (of_sibling, unknown) = self.sibling(sibling, members, &shared.pack, &copies);
                let comes = of_sibling.groups.iter().any(|group| group.missing() > 0);
                shared.siblings.extend(Some(of_sibling).filter(|_| comes));
                arriving = arriving.or(unknown);
            }
        }
        gang.placement_group = Some(shared);
        arriving
    }

    /// Pods of the gang itself that do not exist or may not be placed yet, by shape.
    fn still_to_come(&mut self, record: &GangRecord, own: &[Members]) -> Vec<(ShapeId, u32)> {
        let mut ahead: BTreeMap<ShapeId, u32> = BTreeMap::new();
        for (group, members) in record.groups.iter().zip(own) {
            let known = members.placed.len() + members.waiting.len() + members.held.len();
            let still = group.expected.saturating_sub(count(known)) + count(members.held.len());
            let some = members.waiting.iter().chain(&members.held).next().cloned();
            if let Some(pod) = some.filter(|_| still > 0) {
                *ahead.entry(self.shape(&pod)).or_default() += still;
            }
        }
        ahead.into_iter().collect()
    }

    /// A sibling as it will be, and what is not known of it.
    fn sibling(
        &mut self,
        record: &GangRecord,
        members: &[Members],
        shared: &Pack,
        copies: &Copies,
    ) -> (Sibling, Option<Reason>) {
        let mut unknown = None;
        let mut groups = Vec::with_capacity(record.groups.len());
        for (group, members) in record.groups.iter().zip(members) {
            let there = count(members.placed.len() + members.waiting.len() + members.held.len());
            let to_come = there.max(group.expected).saturating_sub(count(members.placed.len()));
            let bound: Vec<String> = members.placed.iter().map(|(_, node)| node.to_string()).collect();
            let pods = members.waiting.iter().chain(&members.held);
            let some = pods.chain(members.placed.iter().map(|(pod, _)| pod)).next().cloned();
            let shape = some
                .or_else(|| copies.pod_like(&group.name))
                .map(|pod| self.shape(&pod));
            if shape.is_none() && to_come > 0 {
                let message = format!("what pods of {} will request is not known yet", group.name);
                unknown = Some(Reason::new(ReasonCode::WaitingForPods, message));
            }
            let to_come = if shape.is_some() { to_come } else { 0 };
            groups.push(Group {
                name: group.name.clone(),
                shape: shape.unwrap_or_else(|| self.state.shape(&Default::default())),
                floor: to_come.saturating_add(count(bound.len())),
                pending: vec![String::new(); to_come as usize],
                bound,
                pack: group.pack.clone(),
            });
        }
        let config = |(name, groups, pack): &(String, Vec<usize>, Pack)| GroupConfig {
            name: name.clone(),
            groups: groups.clone(),
            pack: pack.clone(),
        };
        let sibling = Sibling {
            name: record.meta.key.to_string(),
            pack: Some(&record.pack)
                .filter(|pack| *pack != shared)
                .cloned()
                .unwrap_or_default(),
            configs: record.configs.iter().map(config).collect(),
            groups,
        };
        (sibling, unknown)
    }

    /// The one domain of a level that holds all these nodes.
    fn domain_of(&self, topology: &str, key: &str, nodes: &BTreeSet<Arc<str>>) -> Option<DomainPath> {
        let view = self.state.view(self.state.view_named(topology)?);
        let depth = view.depth_of(key)?;
        let ids = nodes.iter().filter_map(|node| self.state.node_id(node));
        let domains: BTreeSet<_> = ids.filter_map(|id| view.domain_of(id, depth)).collect();
        let only = domains.first().filter(|_| domains.len() == 1)?;
        Some(view.domain(*only).path.clone())
    }

    /// The topology of a gang: the one it names, else the first that has all its keys. A gang without keys is placed by
    /// nearness in the first there is.
    pub(super) fn topology(&self, record: &GangRecord) -> String {
        if !record.topology.is_empty() {
            return record.topology.clone();
        }
        let packs = record.groups.iter().map(|group| &group.pack);
        let packs = packs
            .chain(record.configs.iter().map(|(_, _, pack)| pack))
            .chain([&record.pack]);
        let keys: BTreeSet<&String> = packs
            .flat_map(|pack| pack.required.iter().chain(&pack.preferred))
            .collect();
        let having = |more: Option<&String>| {
            let all = |levels: &Vec<String>| keys.iter().copied().chain(more).all(|key| levels.contains(key));
            let mut found = self.topologies.iter().filter(|(_, levels)| all(levels));
            found.next().map(|(name, _)| name.clone())
        };
        let unknown = |key: &String| format!("with {key}");
        match (&record.spread, keys.first()) {
            (None, None) => having(None).unwrap_or_default(),
            (None, Some(first)) => having(None).unwrap_or_else(|| unknown(first)),
            (Some((over, true)), _) => having(Some(over)).unwrap_or_else(|| unknown(over)),
            // A wish about a level that no topology has is not met.
            (Some((over, false)), None) => having(Some(over)).or_else(|| having(None)).unwrap_or_default(),
            (Some((over, false)), Some(first)) => having(Some(over))
                .or_else(|| having(None))
                .unwrap_or_else(|| unknown(first)),
        }
    }
}
