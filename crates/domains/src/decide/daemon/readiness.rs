//! Whether the daemon of a node is ready, and if not, why.
//!
//! The answer goes three ways: to the exec probe (`check`), to the kubelet plugin over a socket on the node (one line of
//! JSON), and through the pod's Ready condition into the row. Only the local daemon counts; waiting for peers is the
//! workload's own business.

use serde::{Deserialize, Serialize};

/// The longest line that is read from the socket or from `nvidia-imex-ctl`.
pub const MAX_LINE: usize = 4_096;

/// Why the daemon of a node is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotReady {
    /// No index was assigned yet.
    WaitingForIndex,
    /// The clique has its maximum of nodes.
    CliqueFull,
    /// `nvidia-imex` has not reported READY yet.
    Starting,
    /// `nvidia-imex` ends again and again.
    Crashing,
    /// Another `nvidia-imex` on the node holds the driver's IMEX session: a host service.
    DriverInUse,
    /// The pod was replaced by a newer one.
    StoodDown,
}

impl NotReady {
    /// What it means, and what the user can do.
    pub fn message(self) -> &'static str {
        match self {
            Self::WaitingForIndex => "the daemon has no index yet; the compute-domain controller assigns it",
            Self::CliqueFull => "the IMEX domain already has its maximum number of nodes (maxNodesPerIMEXDomain)",
            Self::Starting => "nvidia-imex has started and is not READY yet",
            Self::Crashing => "nvidia-imex keeps exiting; see the log of the daemon pod",
            Self::DriverInUse => {
                "another nvidia-imex uses the GPU driver (NV_ERR_IN_USE); disable the host service: \
                 systemctl disable --now nvidia-imex.service"
            }
            Self::StoodDown => "a newer daemon pod serves this node",
        }
    }
}

/// What the daemon says on its socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// UID of the domain: a socket that an earlier domain left behind does not count.
    #[serde(rename = "domainUID")]
    pub domain_uid: String,
    /// UID of the daemon's pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The index it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Why it is not ready; none when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<NotReady>,
}

impl Report {
    /// The line that is written to the socket.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads a line; none when it is not a report.
    pub fn from_line(line: &str) -> Option<Self> {
        (line.len() <= MAX_LINE)
            .then(|| serde_json::from_str(line).ok())
            .flatten()
    }
}

/// What is known of the child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildFacts {
    /// Whether a process exists that is not being stopped.
    pub running: bool,
    /// Unexpected ends in a row.
    pub crashes: u32,
    /// Whether it last complained of a session that another process holds.
    pub driver_in_use: bool,
    /// Whether `nvidia-imex-ctl -q` last said READY.
    pub reported_ready: bool,
}

/// Why the daemon is not ready; none when it is.
pub fn not_ready(child: ChildFacts, has_index: bool, full: bool, stood_down: bool) -> Option<NotReady> {
    if stood_down {
        return Some(NotReady::StoodDown);
    }
    if full && !has_index {
        return Some(NotReady::CliqueFull);
    }
    if !has_index {
        return Some(NotReady::WaitingForIndex);
    }
    if child.running && child.reported_ready {
        return None;
    }
    match child {
        ChildFacts {
            driver_in_use: true, ..
        } => Some(NotReady::DriverInUse),
        ChildFacts { crashes: 2.., .. } => Some(NotReady::Crashing),
        _ => Some(NotReady::Starting),
    }
}

/// The outcome of the exec probe. Nodes without a fabric have nothing to wait for.
pub fn check(clique_id: &str, exited_well: bool, output: &str) -> Result<(), String> {
    if clique_id.is_empty() {
        return Ok(());
    }
    let shown: String = output.chars().take(200).collect();
    if !exited_well {
        return Err(format!(
            "IMEX daemon check failed: error running nvidia-imex-ctl: {shown}"
        ));
    }
    if output == "READY\n" {
        Ok(())
    } else {
        Err(format!("IMEX daemon not ready: {shown}"))
    }
}

/// Whether a line of `nvidia-imex`'s log says that another process holds the driver's session.
pub fn complains_of_use(line: &str) -> bool {
    line.contains("NV_ERR_IN_USE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_demands_exactly_ready() {
        assert_eq!(check("u.1", true, "READY\n"), Ok(()));
        for output in ["READY", "ready\n", "READY\nREADY\n", "", "INITIALIZING\n"] {
            assert!(check("u.1", true, output).is_err(), "{output:?}");
        }
        assert!(check("u.1", false, "READY\n").is_err());
        assert_eq!(check("", false, ""), Ok(()));
        assert!(check("u.1", true, &"x".repeat(100_000)).unwrap_err().len() < 300);
    }

    #[test]
    fn the_reason_is_the_one_a_user_can_act_on() {
        let child = ChildFacts {
            running: true,
            reported_ready: true,
            ..ChildFacts::default()
        };
        assert_eq!(not_ready(child, true, false, false), None);
        assert_eq!(not_ready(child, true, false, true), Some(NotReady::StoodDown));
        assert_eq!(not_ready(child, false, true, false), Some(NotReady::CliqueFull));
        assert_eq!(not_ready(child, false, false, false), Some(NotReady::WaitingForIndex));
        let used = ChildFacts {
            crashes: 5,
            driver_in_use: true,
            ..ChildFacts::default()
        };
        assert_eq!(not_ready(used, true, false, false), Some(NotReady::DriverInUse));
        assert!(complains_of_use("imex: NV_ERR_IN_USE [0x1b]"));
    }

    #[test]
    fn reports_survive_the_socket_and_nonsense_does_not() {
        let report = Report {
            domain_uid: "d".into(),
            pod_uid: "p".into(),
            index: Some(3),
            not_ready: Some(NotReady::Starting),
        };
        assert_eq!(Report::from_line(&report.to_line()), Some(report));
        assert_eq!(Report::from_line("READY\n"), None);
        assert_eq!(Report::from_line(&"[".repeat(1 << 20)), None);
    }
}
