//! A gang as a flat tree of scopes.
//!
//! Scope 0 is the placement group, scope 1 the gang, then configs and groups, then siblings that are planned along; parents before children. Label keys are
//! resolved to depths, bound pods pin or split domains, and scopes that are alike get the same kind, so that identical
//! siblings can be counted instead of searched.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::gang::{Gang, Group, Overfull, Pack, PlacementGroup};
use crate::reasons::{Reason, ReasonCode};
use crate::shape::ShapeId;
use crate::state::{ClusterState, NodeId};
use crate::topology::{DomainId, View};

/// How deep the tree is: placement group, gang, config, group.
pub(super) const RANKS: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) name: String,
    pub(super) rank: usize,
    pub(super) parent: usize,
    pub(super) children: Vec<usize>,
    pub(super) group: Option<usize>,
    pub(super) required: Option<usize>,
    pub(super) preferred: Option<usize>,
    /// The only domain allowed.
    pub(super) pinned: Option<DomainId>,
    pub(super) bound: Vec<NodeId>,
    /// Bound pods sit in several domains of the required level.
    pub(super) split: bool,
    pub(super) kind: usize,
    /// It belongs to a sibling that is planned along.
    pub(super) of_companion: bool,
    /// Floor pods to place in the subtree, by local shape.
    pub(super) need: Vec<u32>,
    /// Floor and extra pods to place in the subtree, by local shape.
    pub(super) want: Vec<u32>,
    /// Pods of siblings to leave room for, by local shape.
    pub(super) ahead: Vec<u32>,
}

impl Scope {
    /// Without floor pods to place: only extras, which preferred levels do not bind.
    pub(super) fn idle(&self) -> bool {
        self.need.iter().all(|count| *count == 0)
    }

    pub(super) fn constrained(&self) -> bool {
        self.required.is_some() || self.preferred.is_some() || self.pinned.is_some()
    }
}

/// The tree with its shapes.
#[derive(Debug, Clone)]
pub(super) struct Scopes {
    pub(super) scopes: Vec<Scope>,
    /// Distinct shapes; positions in this list are local shapes.
    pub(super) shapes: Vec<ShapeId>,
    /// One scope of each kind.
    pub(super) kinds: Vec<usize>,
    pub(super) notes: Vec<Reason>,
}

impl Scopes {
    /// The local shape of a group.
    pub(super) fn local(&self, shape: ShapeId) -> usize {
        self.shapes
            .binary_search(&shape)
            .expect("every shape of the gang is listed")
    }

    /// For each group, its nearest constrained scope (or the root).
    pub(super) fn owner_of(&self, scope: usize) -> usize {
        let mut at = scope;
        while at != 0 && !self.scopes[at].constrained() {
            at = self.scopes[at].parent;
        }
        at
    }
}

/// Builds the tree; a key that does not exist, or a pinned domain that is gone, is a reason to refuse.
pub(super) fn build(state: &ClusterState, view: &View, gang: &Gang, spill: bool) -> Result<Scopes, Reason> {
    let mut builder = Builder {
        view,
        state,
        scopes: Vec::new(),
        notes: Vec::new(),
        shapes: shapes_of(gang),
    };
    let outer = gang.placement_group.clone().unwrap_or_default();
    let all: Vec<usize> = (0..gang.groups.len()).collect();
    builder.add("placement group", 0, 0, &outer.pack, gang, &all, None)?;
    for (shape, count) in ahead_of(&outer) {
        let local = builder.shapes.binary_search(&shape).expect("listed above");
        let ahead = &mut builder.scopes[0].ahead[local];
        *ahead = ahead.saturating_add(count);
    }
    if let Some(path) = &outer.pinned
        && !spill
    {
        match view.find(path) {
            Some(domain) => builder.scopes[0].pinned = Some(domain),
            None if outer.overfull == Overfull::Spill => {}
            None => {
                let name: Vec<_> = path.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
                let message = format!("domain {} of the placement group has no nodes", name.join("/"));
                return Err(Reason::new(ReasonCode::PinnedDomainGone, message));
            }
        }
    }
    let own = gang.own_groups();
    let own_configs = gang
        .companions
        .first()
        .map_or(gang.configs.len(), |companion| companion.configs.start);
    builder.add_gang((&gang.name, &gang.pack), gang, 0..own, 0..own_configs)?;
    let before = builder.scopes.len();
    for companion in &gang.companions {
        let name = (companion.name.as_str(), &companion.pack);
        builder.add_gang(name, gang, companion.groups.clone(), companion.configs.clone())?;
    }
    for scope in &mut builder.scopes[before..] {
        scope.of_companion = true;
    }
    Ok(builder.finish())
}

/// Steps to build the tree: every scope counts every shape.
pub(super) fn cost(gang: &Gang) -> usize {
    (2 + gang.configs.len() + gang.groups.len()).saturating_mul(shapes_of(gang).len())
}

/// What will want to come later, by shape.
fn ahead_of(outer: &PlacementGroup) -> impl Iterator<Item = (ShapeId, u32)> + '_ {
    let of_siblings = outer.siblings.iter().flat_map(|sibling| &sibling.groups);
    let of_siblings = of_siblings.map(|group| (group.shape, group.missing()));
    outer.ahead.iter().copied().chain(of_siblings)
}

fn shapes_of(gang: &Gang) -> Vec<ShapeId> {
    let ahead = gang
        .placement_group
        .iter()
        .flat_map(|outer| ahead_of(outer).map(|(shape, _)| shape));
    let mut shapes: Vec<ShapeId> = gang.groups.iter().map(|group| group.shape).chain(ahead).collect();
    shapes.sort_unstable();
    shapes.dedup();
    shapes
}

struct Builder<'a> {
    view: &'a View,
    state: &'a ClusterState,
    scopes: Vec<Scope>,
    notes: Vec<Reason>,
    shapes: Vec<ShapeId>,
}

impl Builder<'_> {
    #[expect(
        clippy::too_many_arguments,
        reason = "one private constructor for four kinds of scope"
    )]
    fn add(
        &mut self,
        name: &str,
        rank: usize,
        parent: usize,
        pack: &Pack,
        gang: &Gang,
        members: &[usize],
        group: Option<usize>,
    ) -> Result<usize, Reason> {
        let depth = |key: &Option<String>| match key {
            None => Ok(None),
            Some(key) => self.view.depth_of(key).map(Some).ok_or_else(|| {
                let levels = match self.view.keys() {
                    [] => "it has none".to_owned(),
                    keys => format!("its levels are {}", keys.join(", ")),
                };
                let message = format!(
                    "{name}: topology {:?} has no level with key {key:?}; {levels}",
                    gang.topology
                );
                Reason::new(ReasonCode::UnknownTopology, message)
            }),
        };
        let required = depth(&pack.required)?;
        // A preferred level that is not narrower than the required one is met by it.
        let preferred = depth(&pack.preferred)?.filter(|depth| required.is_none_or(|required| *depth > required));
        let mut scope = Scope {
            name: name.to_owned(),
            rank,
            parent,
            children: Vec::new(),
            group,
            required,
            preferred,
            pinned: None,
            bound: Vec::new(),
            split: false,
            kind: 0,
            of_companion: false,
            need: vec![0; self.shapes.len()],
            want: vec![0; self.shapes.len()],
            ahead: vec![0; self.shapes.len()],
        };
        for member in members {
            let group: &Group = &gang.groups[*member];
            let local = self.shapes.binary_search(&group.shape).expect("listed above");
            let (need, want) = (&mut scope.need[local], &mut scope.want[local]);
            *need = need.saturating_add(group.missing());
            *want = want.saturating_add(group.missing()).saturating_add(group.extras());
            scope
                .bound
                .extend(group.bound.iter().filter_map(|node| self.state.node_id(node)));
        }
        self.pin(&mut scope);
        let at = self.scopes.len();
        if at > 0 {
            self.scopes[parent].children.push(at);
        }
        self.scopes.push(scope);
        Ok(at)
    }

    /// Adds a gang with its configs and groups.
    fn add_gang(
        &mut self,
        (name, pack): (&str, &Pack),
        gang: &Gang,
        groups: Range<usize>,
        configs: Range<usize>,
    ) -> Result<(), Reason> {
        let members: Vec<usize> = groups.clone().collect();
        let at = self.add(name, 1, 0, pack, gang, &members, None)?;
        let mut loose = vec![true; groups.len()];
        for config in &gang.configs[configs] {
            let inner = self.add(&config.name, 2, at, &config.pack, gang, &config.groups, None)?;
            for group in &config.groups {
                self.add_group(gang, *group, inner)?;
                loose[*group - groups.start] = false;
            }
        }
        for group in groups.clone().filter(|group| loose[*group - groups.start]) {
            self.add_group(gang, group, at)?;
        }
        Ok(())
    }

    fn add_group(&mut self, gang: &Gang, group: usize, parent: usize) -> Result<(), Reason> {
        let (name, pack) = (&gang.groups[group].name, &gang.groups[group].pack);
        self.add(name, 3, parent, pack, gang, &[group], Some(group))?;
        Ok(())
    }

    /// Bound pods decide the required domain, or, if they disagree, turn it into a wish.
    fn pin(&mut self, scope: &mut Scope) {
        let Some(depth) = scope.required else { return };
        let mut domains: Vec<_> = scope
            .bound
            .iter()
            .map(|node| self.view.domain_of(*node, depth))
            .collect();
        domains.sort_unstable();
        domains.dedup();
        match domains.as_slice() {
            [] => {}
            [Some(domain)] => scope.pinned = Some(*domain),
            _ => {
                scope.split = true;
                scope.preferred = Some(depth);
                scope.required = None;
                let key = self.view.key_of(depth).unwrap_or_default();
                let message = format!("{}: bound pods are not in one domain of {key}", scope.name);
                self.notes.push(Reason::new(ReasonCode::SplitAcrossDomains, message));
            }
        }
    }

    fn finish(mut self) -> Scopes {
        let mut kinds: Vec<usize> = Vec::new();
        let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for at in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[at];
            let mut children: Vec<usize> = scope.children.iter().map(|child| self.scopes[*child].kind).collect();
            children.sort_unstable();
            let option = |value: Option<usize>| value.map_or(0, |value| value + 1);
            let unique = if scope.bound.is_empty() { 0 } else { at + 1 };
            let mut key = vec![scope.rank, unique, option(scope.required), option(scope.preferred)];
            key.push(option(scope.pinned.map(DomainId::index)));
            key.extend(scope.need.iter().chain(&scope.want).map(|count| *count as usize));
            key.extend(children);
            let next = kinds.len();
            let kind = *known.entry(key).or_insert(next);
            if kind == next {
                kinds.push(at);
            }
            self.scopes[at].kind = kind;
        }
        Scopes {
            scopes: self.scopes,
            shapes: self.shapes,
            kinds,
            notes: self.notes,
        }
    }
}
