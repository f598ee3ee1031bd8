//! The daemon of a domain in a simulated pod: our daemon's decisions, and an `nvidia-imex` that is a few timestamps.
//!
//! Owns one child's life. Which index it serves, when it is started, stopped and restarted, and why it is not ready are
//! decided where the real daemon has them decided.

use coppice_domains::api::{DaemonRow, limits};
use coppice_domains::decide::daemon::assignment::{Myself, Progress, Standing, owns_row, standing};
use coppice_domains::decide::daemon::process::{ProcessAction, Supervisor, Wanted};
use coppice_domains::decide::daemon::readiness::{ChildFacts, NotReady, not_ready};
use jiff::{SignedDuration, Timestamp};

/// How long a simulated `nvidia-imex` takes to become ready.
const STARTUP: SignedDuration = SignedDuration::from_millis(300);

/// What a simulated `nvidia-imex` does, by the node's annotation [`ANNOTATION`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Imex {
    /// It becomes ready.
    #[default]
    Works,
    /// A service of the host has the driver: it ends at once and says so (`in-use`).
    InUse,
    /// It ends at once (`crashes`).
    Crashes,
    /// It never becomes ready (`hangs`).
    Hangs,
}

/// The annotation of a node that says what `nvidia-imex` does there.
pub(crate) const ANNOTATION: &str = "simulation.coppice.dev/nvidia-imex";

impl Imex {
    /// Reads the annotation.
    pub(crate) fn of(value: Option<&str>) -> Self {
        match value {
            Some("in-use") => Self::InUse,
            Some("crashes") => Self::Crashes,
            Some("hangs") => Self::Hangs,
            _ => Self::Works,
        }
    }
}

/// A daemon whose containers run.
#[derive(Debug)]
pub(crate) struct SimulatedDaemon {
    pub(crate) me: Myself,
    pub(crate) domain_uid: String,
    pub(crate) index: Option<u32>,
    progress: Progress,
    supervisor: Supervisor,
    ready_at: Option<Timestamp>,
    driver_in_use: bool,
    not_ready: Option<NotReady>,
}

impl SimulatedDaemon {
    pub(crate) fn new(domain_uid: &str, me: Myself) -> Self {
        let fabric = !me.clique_id.is_empty();
        Self {
            me,
            domain_uid: domain_uid.to_owned(),
            index: None,
            progress: Progress::default(),
            supervisor: Supervisor::default(),
            ready_at: None,
            driver_in_use: false,
            not_ready: fabric.then_some(NotReady::WaitingForIndex),
        }
    }

    /// Why it is not ready.
    pub(crate) fn not_ready(&self) -> Option<NotReady> {
        self.not_ready
    }

    /// Decides and acts. Returns when to look again, if only time makes a difference.
    pub(crate) fn step(
        &mut self,
        rows: Option<&[DaemonRow]>,
        imex: Imex,
        max: u32,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if self.me.clique_id.is_empty() {
            return None;
        }
        self.progress.running = self.supervisor.running();
        let stands = standing(&self.me, self.progress, rows, max);
        self.progress.owned_row |= rows.is_some_and(|rows| owns_row(&self.me, rows));
        self.progress.stood_down |= stands == Standing::StandDown;
        let wanted = match stands {
            Standing::Serve(index) => Wanted::Running(index),
            Standing::Wait | Standing::StopChild | Standing::StandDown => Wanted::Stopped,
        };
        let mut wake = None;
        loop {
            match self.supervisor.next(wanted, now) {
                ProcessAction::Start(index) => self.start(index, imex, now),
                // It ends as soon as it is asked to.
                ProcessAction::Terminate | ProcessAction::Kill => self.ended(now),
                ProcessAction::WaitUntil(time) => {
                    wake = Some(time);
                    break;
                }
                ProcessAction::Rest | ProcessAction::Exit => break,
            }
        }
        let running = self.supervisor.running().is_some();
        let facts = ChildFacts {
            running,
            crashes: self.supervisor.crashes,
            driver_in_use: self.driver_in_use,
            reported_ready: self.ready_at.is_some_and(|time| time <= now),
        };
        let has_index = matches!(stands, Standing::Serve(_)) || running;
        let full = rows.is_some_and(|rows| rows.len() >= usize::try_from(max).unwrap_or(usize::MAX));
        let full = full && !rows.is_some_and(|rows| rows.iter().any(|row| row.node_name == self.me.node));
        self.not_ready = not_ready(facts, has_index, full, self.progress.stood_down);
        let ready_at = self.ready_at.filter(|time| *time > now);
        [wake, ready_at].into_iter().flatten().min()
    }

    fn start(&mut self, index: u32, imex: Imex, now: Timestamp) {
        self.index = Some(index);
        self.driver_in_use = imex == Imex::InUse;
        match imex {
            Imex::Works => self.ready_at = Some(now + STARTUP),
            Imex::Hangs => self.ready_at = None,
            Imex::InUse | Imex::Crashes => self.ended(now),
        }
    }

    fn ended(&mut self, now: Timestamp) {
        self.ready_at = None;
        self.supervisor.ended(now);
    }
}

/// Whether a pod's address can be that of a peer.
pub(crate) fn has_address(address: &str) -> bool {
    limits::peer_address(address).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon() -> SimulatedDaemon {
        let me = Myself {
            node: "a".into(),
            pod_uid: "p".into(),
            address: "10.0.0.1".into(),
            clique_id: "u.1".into(),
        };
        SimulatedDaemon::new("d", me)
    }

    fn rows() -> Vec<DaemonRow> {
        vec![DaemonRow {
            node_name: "a".into(),
            clique_id: "u.1".into(),
            index: Some(4),
            ..DaemonRow::default()
        }]
    }

    #[test]
    fn it_is_ready_some_time_after_it_has_its_index() {
        let mut daemon = daemon();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(daemon.step(None, Imex::Works, 18, now), None);
        assert_eq!(daemon.not_ready(), Some(NotReady::WaitingForIndex));
        let ready = daemon.step(Some(&rows()), Imex::Works, 18, now).unwrap();
        assert_eq!((daemon.index, daemon.not_ready()), (Some(4), Some(NotReady::Starting)));
        daemon.step(Some(&rows()), Imex::Works, 18, ready);
        assert_eq!(daemon.not_ready(), None);
    }

    #[test]
    fn a_host_service_in_the_way_is_named_and_the_child_started_again_when_it_is_gone() {
        let mut daemon = daemon();
        let now = Timestamp::UNIX_EPOCH;
        let again = daemon.step(Some(&rows()), Imex::InUse, 18, now).unwrap();
        assert_eq!(daemon.not_ready(), Some(NotReady::DriverInUse));
        let ready = daemon.step(Some(&rows()), Imex::Works, 18, again).unwrap();
        daemon.step(Some(&rows()), Imex::Works, 18, ready);
        assert_eq!(daemon.not_ready(), None);
    }
}
