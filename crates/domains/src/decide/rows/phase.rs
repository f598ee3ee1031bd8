//! What a stored row says of its node.

use crate::api::{DaemonRow, Readiness};

/// The phase of a row, as it can be read from the row alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The node has an index; its daemon has not started.
    Reserved,
    /// The pod of the daemon is gone; the node keeps its index.
    Retained,
    /// The daemon has an address.
    Present,
    /// The daemon can broker memory.
    Ready,
}

impl Phase {
    /// The phase of a row.
    pub fn of(row: &DaemonRow) -> Self {
        match (row.ip_address.is_empty(), row.status, &row.pod_uid) {
            (true, _, None) => Self::Reserved,
            (true, _, Some(_)) => Self::Retained,
            (false, Readiness::NotReady, _) => Self::Present,
            (false, Readiness::Ready, _) => Self::Ready,
        }
    }

    /// Whether peers should know the address of the row.
    pub fn has_address(self) -> bool {
        matches!(self, Self::Present | Self::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_from_address_readiness_and_pod() {
        let row = |address: &str, status, pod: Option<&str>| DaemonRow {
            ip_address: address.into(),
            status,
            pod_uid: pod.map(Into::into),
            ..DaemonRow::default()
        };
        assert_eq!(Phase::of(&row("", Readiness::NotReady, None)), Phase::Reserved);
        assert_eq!(Phase::of(&row("", Readiness::Ready, Some("p"))), Phase::Retained);
        assert_eq!(Phase::of(&row("10.0.0.1", Readiness::NotReady, None)), Phase::Present);
        assert_eq!(Phase::of(&row("10.0.0.1", Readiness::Ready, Some("p"))), Phase::Ready);
        assert!(!Phase::Retained.has_address() && Phase::Present.has_address());
    }
}
