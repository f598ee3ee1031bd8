//! When a pod must leave its node.
//!
//! Owns the pure decision of taint eviction. Pods that say nothing about unready nodes stay for the default time, as
//! the default tolerations of Kubernetes' admission would have it.

use super::health::{NOT_READY, UNREACHABLE};
use crate::tolerations::{Taint, Toleration};
use coppice_runtime::clock::later;
use jiff::Timestamp;
use std::time::Duration;

/// What becomes of a pod on a tainted node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays.
    Stays,
    /// It leaves at that moment, which may have passed.
    LeavesAt(Timestamp),
}

/// Decides the fate of a pod. `noticed` is when a taint without a time of its own was first seen.
pub(crate) fn fate(taints: &[Taint], tolerations: &[Toleration], default_stay: Duration, noticed: Timestamp) -> Fate {
    let mut leaves: Option<Timestamp> = None;
    for taint in taints.iter().filter(|taint| taint.effect == "NoExecute") {
        let since = taint.time_added.unwrap_or(noticed);
        let matching: Vec<&Toleration> = tolerations
            .iter()
            .filter(|toleration| toleration.tolerates(taint))
            .collect();
        let leave = if matching.is_empty() {
            let usual = taint.key == NOT_READY || taint.key == UNREACHABLE;
            Some(if usual { later(since, default_stay) } else { since })
        } else {
            // The shortest stay counts; a negative one means at once.
            matching
                .iter()
                .filter_map(|toleration| toleration.toleration_seconds)
                .min()
                .map(|seconds| later(since, Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
        };
        leaves = match (leaves, leave) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    leaves.map_or(Fate::Stays, Fate::LeavesAt)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Duration = Duration::from_secs(300);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taint(key: &str, effect: &str, added: Option<i64>) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            value: None,
            time_added: added.map(at),
        }
    }

    fn tolerate(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    #[test]
    fn only_no_execute_drives_out() {
        let taints = [taint(UNREACHABLE, "NoSchedule", Some(0))];
        assert_eq!(fate(&taints, &[], DEFAULT, at(0)), Fate::Stays);
    }

    #[test]
    fn pods_stay_as_long_as_they_tolerate() {
        let taints = [taint(UNREACHABLE, "NoExecute", Some(100))];
        assert_eq!(
            fate(&taints, &[tolerate(UNREACHABLE, Some(30))], DEFAULT, at(0)),
            Fate::LeavesAt(at(130))
        );
        assert_eq!(
            fate(&taints, &[tolerate(UNREACHABLE, None)], DEFAULT, at(0)),
            Fate::Stays
        );
        let both = [tolerate(UNREACHABLE, None), tolerate(UNREACHABLE, Some(5))];
        assert_eq!(fate(&taints, &both, DEFAULT, at(0)), Fate::LeavesAt(at(105)));
        assert_eq!(
            fate(&taints, &[tolerate(UNREACHABLE, Some(-3))], DEFAULT, at(0)),
            Fate::LeavesAt(at(100))
        );
    }

    #[test]
    fn silence_about_dead_nodes_means_the_default_and_about_others_at_once() {
        let dead = [taint(UNREACHABLE, "NoExecute", Some(100))];
        assert_eq!(fate(&dead, &[], DEFAULT, at(0)), Fate::LeavesAt(at(400)));
        let maintenance = [taint("maintenance", "NoExecute", None)];
        assert_eq!(fate(&maintenance, &[], DEFAULT, at(7)), Fate::LeavesAt(at(7)));
    }

    #[test]
    fn the_earliest_of_several_taints_counts() {
        let taints = [
            taint(UNREACHABLE, "NoExecute", Some(100)),
            taint("maintenance", "NoExecute", Some(200)),
        ];
        assert_eq!(fate(&taints, &[], DEFAULT, at(0)), Fate::LeavesAt(at(200)));
    }
}
