//! A survey for explanations: per part of the gang and per level, the best domain and what it lacks.
//!
//! Counts slots of each shape alone, so "fits" here means "this shape alone fits"; what several shapes lack together is
//! reported by resource. Reads only.

use std::collections::BTreeMap;

use crate::budget::Steps;
use crate::gang::Gang;
use crate::predicates::RuledOut;
use crate::state::ClusterState;
use crate::topology::DomainId;

use super::scopes::{Scope, Scopes};
use super::table::{Excluded, Table, ruled_out};
use super::volumes::Claims;
use super::{Options, excluded, scopes};

/// What one shape finds in a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots {
    /// The groups with this shape.
    pub(crate) groups: Vec<String>,
    pub(crate) have: u64,
    pub(crate) need: u32,
}

/// Room that is enough in sum, but on too many nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scattered {
    pub(crate) domain: DomainId,
    /// A group whose pods do not find enough on one node.
    pub(crate) group: String,
    pub(crate) resource: String,
    /// How much of it the nodes that count have free together.
    pub(crate) free: i64,
    /// How much of it one pod needs.
    pub(crate) request: i64,
    pub(crate) have: u64,
    pub(crate) need: u32,
}

/// The best domain of one level for one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) scope: String,
    /// How many identical parts there are.
    pub(crate) copies: usize,
    pub(crate) depth: usize,
    pub(crate) required: bool,
    pub(crate) domain: DomainId,
    pub(crate) slots: Vec<Slots>,
    pub(crate) lacks: BTreeMap<String, i64>,
    /// A domain of this level with room enough in sum, if no domain has enough slots.
    pub(crate) scattered: Option<Scattered>,
}

/// Everything worth telling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) levels: Vec<Level>,
    /// By shape (named by its first group): reason and number of nodes.
    pub(crate) ruled_out: Vec<(String, BTreeMap<RuledOut, usize>)>,
    /// By shape: nodes that have the room but hold a pod that may not share it.
    pub(crate) conflicts: Vec<(String, usize)>,
}

/// Surveys the cluster for a gang; nothing if its topology cannot be resolved.
pub(crate) fn survey(state: &mut ClusterState, gang: &Gang, options: &Options) -> Option<Survey> {
    let view = state.view_named(&gang.topology)?;
    let scopes = scopes::build(state, state.view(view), gang, false).ok()?;
    let claims = Claims::of(state, gang, &mut Steps::new(u64::MAX)).ok()?;
    let excluded = Excluded::new(excluded(state, view, gang, options), &claims);
    let shapes = scopes.shapes.clone();
    let table = Table::scan(state, view, DomainId::ROOT, shapes, &excluded, Steps::new(u64::MAX)).ok()?;
    let mut survey = Survey::default();
    for (kind, at) in scopes.kinds.iter().enumerate() {
        let scope = &scopes.scopes[*at];
        let wanted = scope.constrained() || scope.rank == 1;
        if scope.idle() || !wanted {
            continue;
        }
        let copies = scopes.scopes.iter().filter(|other| other.kind == kind).count();
        let narrowest = scope.preferred.max(scope.required).unwrap_or(0);
        for depth in 0..=narrowest {
            if let Some(level) = best(&table, &scopes, gang, scope, depth, copies) {
                survey.levels.push(level);
            }
        }
    }
    survey.levels.reverse();
    for (local, shape) in scopes.shapes.iter().enumerate() {
        let Some(group) = gang.groups.iter().find(|group| group.shape == *shape) else {
            continue;
        };
        let mut counts: BTreeMap<RuledOut, usize> = BTreeMap::new();
        let mut clashes = 0;
        for node in table.view().nodes_in(DomainId::ROOT) {
            match ruled_out(table.state, *shape, *node, &excluded) {
                Some(reason) => *counts.entry(reason).or_default() += 1,
                None => {
                    let has_room = table.state.room_ignoring_conflicts(*node, *shape) > 0;
                    clashes += usize::from(has_room && table.slots(local, *node) == 0);
                }
            }
        }
        survey.ruled_out.push((group.name.clone(), counts));
        survey.conflicts.push((group.name.clone(), clashes));
    }
    Some(survey)
}

fn best(table: &Table<'_>, scopes: &Scopes, gang: &Gang, scope: &Scope, depth: usize, copies: usize) -> Option<Level> {
    let view = table.view();
    let fit = |domain: DomainId| -> u64 {
        let each = scope.need.iter().enumerate();
        each.map(|(local, need)| table.sum(local, domain).min(u64::from(*need)))
            .sum()
    };
    let lacking = |domain: DomainId| lacks(table, scope, domain);
    let all = view.inside(DomainId::ROOT, depth).iter().copied();
    let possible = all.filter(|domain| {
        scope
            .pinned
            .is_none_or(|pinned| view.contains(pinned, *domain) || depth == 0)
    });
    let possible: Vec<DomainId> = possible.collect();
    let domain = possible.iter().copied().min_by_key(|domain| {
        let short = lacking(*domain).values().copied().fold(0, i64::saturating_add);
        (std::cmp::Reverse(fit(*domain)), short, *domain)
    })?;
    let slots = scope
        .need
        .iter()
        .enumerate()
        .filter(|(_, need)| **need > 0)
        .map(|(local, need)| Slots {
            groups: members(scopes, gang, scope, local),
            have: table.sum(local, domain).min(u64::from(*need)),
            need: *need,
        });
    Some(Level {
        scope: scope.name.clone(),
        copies,
        depth,
        required: scope.required == Some(depth),
        domain,
        slots: slots.collect(),
        lacks: lacking(domain),
        scattered: scattered(table, gang, scopes, scope, &possible),
    })
}

/// The first domain in which all shapes together find room in sum and some shape finds too few slots.
fn scattered(
    table: &Table<'_>,
    gang: &Gang,
    scopes: &Scopes,
    scope: &Scope,
    domains: &[DomainId],
) -> Option<Scattered> {
    let holds = |domain: &DomainId| {
        let mut each = scope.need.iter().enumerate();
        each.all(|(local, need)| u64::from(*need) <= table.sum(local, *domain))
    };
    if domains.iter().any(holds) {
        return None;
    }
    let columns = table.state.columns();
    let asked: Vec<i64> = (columns.all())
        .map(|column| {
            let of = |local: usize| {
                let requests = &table.state.shape_of(table.shapes[local]).requests;
                let found = requests.iter().find(|(at, _)| *at == column);
                found.map_or(0, |(_, request)| *request)
            };
            let each = scope.need.iter().enumerate();
            let asked = each.map(|(local, need)| of(local).saturating_mul(i64::from(*need)));
            asked.fold(0, i64::saturating_add)
        })
        .collect();
    domains.iter().find_map(|domain| {
        let missing = |(local, need): (usize, &u32)| {
            let have = table.sum(local, *domain);
            (have < u64::from(*need)).then_some((local, have, *need))
        };
        let (local, have, need) = scope.need.iter().enumerate().find_map(missing)?;
        let shape = table.shapes[local];
        let nodes = table.view().nodes_in(*domain).iter();
        let open: Vec<_> = nodes.filter(|node| table.allows(local, **node)).collect();
        let free = |column| {
            let free = open.iter().map(|node| table.state.free_on(**node, column).max(0));
            free.fold(0, i64::saturating_add)
        };
        if columns.all().any(|column| free(column) < asked[column.index()]) {
            return None;
        }
        // The resource that leaves the fewest slots is the one that is scattered.
        let requests = table.state.shape_of(shape).requests.iter();
        let (column, request) = requests.min_by_key(|(column, request)| -> i64 {
            open.iter()
                .map(|node| table.state.free_on(**node, *column).max(0) / request)
                .fold(0, i64::saturating_add)
        })?;
        Some(Scattered {
            domain: *domain,
            group: members(scopes, gang, scope, local)
                .into_iter()
                .next()
                .unwrap_or_default(),
            resource: columns.name(*column).to_owned(),
            free: free(*column),
            request: *request,
            have,
            need,
        })
    })
}

fn members(scopes: &Scopes, gang: &Gang, scope: &Scope, local: usize) -> Vec<String> {
    let mut open: Vec<&Scope> = vec![scope];
    let mut names = Vec::new();
    while let Some(at) = open.pop() {
        open.extend(at.children.iter().map(|child| &scopes.scopes[*child]));
        let group = at.group.map(|group| &gang.groups[group]);
        names.extend(
            group
                .filter(|group| scopes.local(group.shape) == local)
                .map(|group| group.name.clone()),
        );
    }
    names.sort();
    names
}

/// What a domain would need in addition: for missing slots what those pods request, else what all shapes lack in sum.
fn lacks(table: &Table<'_>, scope: &Scope, domain: DomainId) -> BTreeMap<String, i64> {
    let columns = table.state.columns();
    let mut lacks: BTreeMap<String, i64> = BTreeMap::new();
    for (local, need) in scope.need.iter().enumerate() {
        let missing = i64::from(*need)
            - i64::try_from(table.sum(local, domain))
                .unwrap_or(i64::MAX)
                .min(i64::from(*need));
        for (column, request) in &table.state.shape_of(table.shapes[local]).requests {
            let free = table.state.free_in(table.view, domain, *column);
            // A resource with plenty free everywhere is not what is missing.
            if missing > 0 && free < request.saturating_mul(i64::from(*need)) {
                let lack = lacks.entry(columns.name(*column).to_owned()).or_default();
                *lack = lack.saturating_add(request.saturating_mul(missing));
            }
        }
    }
    if lacks.is_empty()
        && let Some((column, amount)) = table.shortage(domain, &scope.need)
    {
        lacks.insert(columns.name(column).to_owned(), amount);
    }
    lacks
}
