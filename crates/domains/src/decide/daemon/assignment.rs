//! Which index a daemon serves, and when it must not serve at all.
//!
//! The index belongs to the node and comes from the row of the clique. A daemon whose pod was replaced stands down when it
//! reads the UID of the newer pod; a daemon whose row contradicts the index of its running child stops that child first.
//! Only when no controller assigns an index for some time does it insert itself ([`self_insert`]).

use jiff::SignedDuration;

use crate::api::{DaemonRow, Readiness, limits};
use crate::decide::rows::Indices;

/// After so long without an assignment a daemon inserts itself.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(3);
/// After so long it writes its address into a row that has an index and none: a controller that reserved the row is
/// there, and collects addresses for up to two seconds.
pub const ADDRESS_PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// After so long it takes over a row that still names another pod of its node.
pub const TAKE_OVER_PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// The daemon itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Myself {
    /// Its node.
    pub node: String,
    /// Its pod.
    pub pod_uid: String,
    /// Its address.
    pub address: String,
    /// Its clique.
    pub clique_id: String,
}

/// What the rows say to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No index yet.
    Wait,
    /// Serve under this index.
    Serve(u32),
    /// The running child has another index than the row, or another node has it: stop the child before anything else.
    StopChild,
    /// A newer pod owns the row: stop the child, and serve never again.
    StandDown,
}

/// What a daemon knows of itself besides the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The index that the running child was started with.
    pub running: Option<u32>,
    /// Whether the row has named this pod before.
    pub owned_row: bool,
    /// Whether the daemon has stood down.
    pub stood_down: bool,
}

/// Reads the rows; none when the object does not exist.
pub fn standing(me: &Myself, progress: Progress, rows: Option<&[DaemonRow]>, max: u32) -> Standing {
    if progress.stood_down {
        return Standing::StandDown;
    }
    let rows = rows.unwrap_or_default();
    let Some(row) = own_row(me, rows) else {
        return match progress.running {
            Some(index) if is_taken(rows, me, index) => Standing::StopChild,
            Some(index) => Standing::Serve(index),
            None => Standing::Wait,
        };
    };
    if names_another_pod(row, me) {
        if progress.owned_row {
            return Standing::StandDown;
        }
        // The pod in the row may still serve; without an address it is known to be gone.
        if !row.ip_address.is_empty() {
            return Standing::Wait;
        }
    }
    match (row.bounded_index(max), progress.running) {
        (None, None) => Standing::Wait,
        (None, Some(_)) => Standing::StopChild,
        (Some(index), Some(running)) if index != running => Standing::StopChild,
        (Some(index), None) if is_taken(rows, me, index) => Standing::Wait,
        (Some(index), _) => Standing::Serve(index),
    }
}

/// Whether the row names this pod.
pub fn owns_row(me: &Myself, rows: &[DaemonRow]) -> bool {
    own_row(me, rows).is_some_and(|row| row.pod_uid.as_ref() == Some(&me.pod_uid))
}

fn own_row<'a>(me: &Myself, rows: &'a [DaemonRow]) -> Option<&'a DaemonRow> {
    rows.iter().find(|row| row.node_name == me.node)
}

fn names_another_pod(row: &DaemonRow, me: &Myself) -> bool {
    row.pod_uid.as_ref().is_some_and(|uid| *uid != me.pod_uid)
}

fn is_taken(rows: &[DaemonRow], me: &Myself, index: u32) -> bool {
    let mut others = rows.iter().filter(|row| row.node_name != me.node);
    others.any(|row| row.index == Some(index.into()))
}

/// The rows with this daemon's own, when it has waited long enough; none when there is nothing to write.
///
/// A child that runs keeps its index when that is free.
pub fn self_insert(
    me: &Myself,
    progress: Progress,
    rows: Option<&[DaemonRow]>,
    waited: SignedDuration,
    max: u32,
) -> Option<Result<Vec<DaemonRow>, Full>> {
    if progress.stood_down || waited < PATIENCE || limits::peer_address(&me.address).is_none() {
        return None;
    }
    let rows = rows.unwrap_or_default();
    let own = own_row(me, rows);
    if let Some(row) = own {
        let foreign = names_another_pod(row, me) && !row.ip_address.is_empty();
        let current = row.ip_address == me.address && !names_another_pod(row, me);
        let assigned = row.bounded_index(max).is_some();
        let too_early = (foreign && waited < TAKE_OVER_PATIENCE) || (assigned && waited < ADDRESS_PATIENCE);
        if current || (foreign && progress.owned_row) || too_early {
            return None;
        }
    }
    let mut indices = Indices::new(max);
    let others: Vec<&DaemonRow> = rows.iter().filter(|row| row.node_name != me.node).collect();
    for row in &others {
        if let Some(index) = row.bounded_index(max) {
            indices.hold(index);
        }
    }
    let index = match own.map(|row| row.bounded_index(max)) {
        // The index of a stored row is fixed: one that is not usable is the controller's to remove.
        Some(None) => return None,
        Some(Some(index)) if indices.is_held(index) => return None,
        Some(Some(index)) => Some(index),
        None => indices.allocate(progress.running),
    };
    let Some(index) = index else {
        return Some(Err(Full { max }));
    };
    let row = DaemonRow {
        node_name: me.node.clone(),
        ip_address: me.address.clone(),
        clique_id: me.clique_id.clone(),
        index: Some(index.into()),
        status: Readiness::NotReady,
        pod_uid: Some(me.pod_uid.clone()),
        unknown: own.map(|row| row.unknown.clone()).unwrap_or_default(),
    };
    let mut result: Vec<DaemonRow> = others.into_iter().cloned().collect();
    result.push(row);
    result.sort_by_key(|row| row.index);
    Some(Ok(result))
}

/// The next wait after which [`self_insert`] may decide otherwise, for a daemon that has waited this long.
pub fn next_patience(waited: SignedDuration) -> Option<SignedDuration> {
    let all = [PATIENCE, ADDRESS_PATIENCE, TAKE_OVER_PATIENCE];
    all.into_iter().find(|patience| *patience > waited)
}

/// Every index of the clique is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no free index: the IMEX domain already has its maximum of {max} nodes (maxNodesPerIMEXDomain)")]
pub struct Full {
    /// How many nodes a domain may have within one clique.
    pub max: u32,
}

/// The wait before the next attempt of [`self_insert`] after a conflict: anything up to 250 ms doubling to six seconds.
/// The random number comes from the shell.
pub fn insert_delay(attempt: u32, random: u32) -> SignedDuration {
    let ceiling = 250_u64.saturating_mul(1 << attempt.min(10)).min(6_000);
    let millis = ceiling * u64::from(random) / u64::from(u32::MAX);
    SignedDuration::from_millis(i64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Myself {
        Myself {
            node: "a".into(),
            pod_uid: "p2".into(),
            address: "10.0.0.2".into(),
            clique_id: "u.1".into(),
        }
    }

    fn row(node: &str, index: i64, address: &str, pod: Option<&str>) -> DaemonRow {
        DaemonRow {
            node_name: node.into(),
            ip_address: address.into(),
            index: Some(index),
            pod_uid: pod.map(Into::into),
            clique_id: "u.1".into(),
            ..DaemonRow::default()
        }
    }

    fn read(progress: Progress, rows: &[DaemonRow]) -> Standing {
        standing(&me(), progress, Some(rows), 18)
    }

    const RUNNING: Progress = Progress {
        running: Some(3),
        owned_row: true,
        stood_down: false,
    };

    #[test]
    fn an_index_is_served_as_soon_as_it_is_assigned() {
        assert_eq!(read(Progress::default(), &[]), Standing::Wait);
        assert_eq!(read(Progress::default(), &[row("a", 3, "", None)]), Standing::Serve(3));
        assert_eq!(
            read(Progress::default(), &[row("a", 3, "", Some("p1"))]),
            Standing::Serve(3)
        );
        assert_eq!(read(Progress::default(), &[row("a", 99, "", None)]), Standing::Wait);
    }

    #[test]
    fn the_older_of_two_pods_stands_down_and_the_newer_one_waits_for_its_turn() {
        let newer = [row("a", 3, "10.0.0.9", Some("p3"))];
        assert_eq!(read(RUNNING, &newer), Standing::StandDown);
        assert_eq!(read(Progress::default(), &newer), Standing::Wait);
        let for_good = Progress {
            stood_down: true,
            ..RUNNING
        };
        assert_eq!(
            read(for_good, &[row("a", 3, "10.0.0.2", Some("p2"))]),
            Standing::StandDown
        );
    }

    /// #1418: the identity of a running child never changes under it.
    #[test]
    fn a_child_with_another_index_than_the_row_is_stopped() {
        assert_eq!(
            read(RUNNING, &[row("a", 4, "10.0.0.2", Some("p2"))]),
            Standing::StopChild
        );
        assert_eq!(
            read(RUNNING, &[row("b", 3, "10.0.0.5", Some("x"))]),
            Standing::StopChild
        );
        // The row is lost, but the index is still free: go on, and insert it again.
        assert_eq!(read(RUNNING, &[row("b", 1, "10.0.0.5", Some("x"))]), Standing::Serve(3));
        assert_eq!(standing(&me(), RUNNING, None, 18), Standing::Serve(3));
    }

    #[test]
    fn without_a_controller_a_daemon_inserts_itself_after_some_time() {
        let rows = [row("b", 0, "10.0.0.5", Some("x"))];
        let insert = |progress, rows: &[DaemonRow], seconds| {
            self_insert(&me(), progress, Some(rows), SignedDuration::from_secs(seconds), 18)
        };
        assert_eq!(insert(Progress::default(), &rows, 2), None);
        let inserted = insert(Progress::default(), &rows, 3).unwrap().unwrap();
        assert_eq!(inserted[1], row("a", 1, "10.0.0.2", Some("p2")));
        assert_eq!(
            insert(Progress::default(), &inserted, 60),
            None,
            "nothing left to write"
        );
        assert_eq!(
            insert(RUNNING, &rows, 3).unwrap().unwrap()[1].index,
            Some(3),
            "keeps the index it serves"
        );
        let theirs = [row("a", 3, "10.0.0.9", Some("p3"))];
        assert_eq!(insert(Progress::default(), &theirs, 29), None);
        assert!(insert(Progress::default(), &theirs, 30).is_some());
        assert_eq!(
            insert(RUNNING, &theirs, 300),
            None,
            "an owner that lost its row does not take it back"
        );
        let full = self_insert(&me(), Progress::default(), Some(&rows), PATIENCE, 1);
        assert_eq!(full, Some(Err(Full { max: 1 })));
    }

    #[test]
    fn delays_have_full_jitter() {
        assert_eq!(insert_delay(0, 0), SignedDuration::ZERO);
        assert_eq!(insert_delay(0, u32::MAX), SignedDuration::from_millis(250));
        assert_eq!(insert_delay(40, u32::MAX), SignedDuration::from_secs(6));
    }
}
