//! Which pod owns a row.
//!
//! Two daemon pods of a domain can be on one node for a moment, for example during a rollout. The newer one owns the row
//! as soon as it has an address; the older one stands down when it reads a foreign UID there.

use super::facts::PodFacts;
use crate::api::DaemonRow;

/// The pod of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The row should say what this pod is.
    Pod(&'a PodFacts),
    /// A pod is there, but none has an address yet.
    Starting,
    /// No cached pod.
    Nobody,
}

/// The newest pod with an address. Creation times have whole seconds, so equal ones are told apart by UID.
pub fn owner(pods: &[PodFacts]) -> Owner<'_> {
    let living = || pods.iter().filter(|pod| !pod.ended);
    let newest = living()
        .filter(|pod| !pod.address.is_empty())
        .max_by(|left, right| (left.created, &left.uid).cmp(&(right.created, &right.uid)));
    match newest {
        Some(pod) => Owner::Pod(pod),
        None if living().next().is_some() => Owner::Starting,
        None => Owner::Nobody,
    }
}

/// Whether a row speaks of a pod: by UID, or by address where a daemon of another driver wrote it.
pub(super) fn names_pod(row: &DaemonRow, uid: &str, address: &str) -> bool {
    match &row.pod_uid {
        Some(owner) => owner == uid,
        None => !row.ip_address.is_empty() && row.ip_address == address,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn pod(uid: &str, created: i64, address: &str) -> PodFacts {
        PodFacts {
            uid: uid.into(),
            node: "a".into(),
            created: Timestamp::from_second(created).unwrap(),
            address: address.into(),
            ready: false,
            ended: false,
            writes_own_row: false,
            reported_clique: None,
        }
    }

    #[test]
    fn the_newest_pod_with_an_address_owns_the_row() {
        let pods = [
            pod("old", 1, "10.0.0.1"),
            pod("new", 2, "10.0.0.2"),
            pod("newest", 3, ""),
        ];
        assert_eq!(owner(&pods), Owner::Pod(&pods[1]));
        assert_eq!(owner(&pods[2..]), Owner::Starting);
        assert_eq!(owner(&[]), Owner::Nobody);
        let ended = [PodFacts {
            ended: true,
            ..pod("x", 9, "10.0.0.9")
        }];
        assert_eq!(owner(&ended), Owner::Nobody);
    }
}
