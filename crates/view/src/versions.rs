//! How much of a component has which revision.
//!
//! A unit is a pod of a clique outside of groups, or a copy of a scaling group. A copy has the oldest revision of its
//! pods: it serves that version until the last of them is replaced. Pods that are being deleted count no more.

use std::collections::BTreeMap;

use super::pod_state::PodState;
use super::{CopyView, PodView, VersionView};

/// A revision that is older than all others comes first; pods that none explains, before them.
type Key = (bool, Option<i64>);

/// The revisions of pods.
pub(super) fn of_pods(pods: &[PodView]) -> Vec<VersionView> {
    let counted = pods
        .iter()
        .filter(|pod| counts(pod))
        .map(|pod| (key(pod), pod.state == PodState::Ready));
    collected(counted)
}

/// The revisions of the copies of a group.
pub(super) fn of_copies(copies: &[CopyView]) -> Vec<VersionView> {
    let counted = copies.iter().filter_map(|copy| {
        let pods = copy.cliques.iter().flat_map(|clique| &clique.pods);
        let oldest = pods.filter(|pod| counts(pod)).map(key).min()?;
        let mut cliques = copy.cliques.iter();
        let ready = cliques.all(|clique| clique.count.ready >= i64::from(clique.min_available));
        Some((oldest, ready))
    });
    collected(counted)
}

/// Whether any of it has another revision than the set has now.
pub fn is_mixed(versions: &[VersionView]) -> bool {
    versions.iter().any(|version| !version.current)
}

/// Revisions side by side: `rev 1 2/4  rev 3 1/4 (2 there)`, by ready units out of those that are wanted.
pub fn side_by_side(versions: &[VersionView], desired: i64) -> String {
    let parts = versions.iter().map(|version| {
        let name = match (version.revision, version.current) {
            (Some(number), _) => format!("rev {number}"),
            (None, true) => "new".to_owned(),
            (None, false) => "old".to_owned(),
        };
        let rest = match version.units - version.ready {
            0 => String::new(),
            waiting => format!(" (+{waiting} not ready)"),
        };
        format!("{name} {}/{desired}{rest}", version.ready)
    });
    parts.collect::<Vec<_>>().join("  ")
}

fn counts(pod: &PodView) -> bool {
    !matches!(pod.state, PodState::Terminating | PodState::Ended)
}

fn key(pod: &PodView) -> Key {
    (!pod.outdated, pod.revision)
}

fn collected(units: impl Iterator<Item = (Key, bool)>) -> Vec<VersionView> {
    let mut counts: BTreeMap<Key, (i64, i64)> = BTreeMap::new();
    for (key, ready) in units {
        let count = counts.entry(key).or_default();
        count.0 += 1;
        count.1 += i64::from(ready);
    }
    let views = counts
        .into_iter()
        .map(|((current, revision), (units, ready))| VersionView {
            revision,
            current,
            units,
            ready,
        });
    views.collect()
}
