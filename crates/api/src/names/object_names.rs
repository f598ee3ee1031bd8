//! Names of objects, built from the names in a template and indices.
//!
//! Two value types carry the context: [`ReplicaName`] (one copy of a set) and [`ScalingGroupName`] (one scaling group in
//! one copy). What they build is the object's name in full, never cut.

use std::fmt;

use super::Epoch;

/// One copy of a PodCliqueSet: `<set>-<index>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaName<'a> {
    /// The PodCliqueSet.
    pub set: &'a str,
    /// The copy.
    pub index: u32,
}

impl fmt::Display for ReplicaName<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.set, self.index)
    }
}

impl<'a> ReplicaName<'a> {
    /// The copy `index` of `set`.
    pub const fn new(set: &'a str, index: u32) -> Self {
        Self { set, index }
    }

    /// The PodGangMap of the copy.
    pub fn gang_map_name(self) -> String {
        self.to_string()
    }

    /// The anchor gang of an epoch: the standalone cliques and the first `minAvailable` copies of each scaling group.
    pub fn anchor_gang_name(self, epoch: Epoch) -> String {
        format!("{self}-{epoch}")
    }

    /// The headless service of the copy; also the subdomain of its pods.
    pub fn headless_service_name(self) -> String {
        self.to_string()
    }

    /// The address of the headless service, such as `web-0.serving.svc.cluster.local`.
    pub fn service_fqdn(self, namespace: &str, cluster_domain: &str) -> String {
        format!("{self}.{namespace}.svc.{cluster_domain}")
    }

    /// The PodClique of a clique that belongs to no scaling group.
    pub fn clique_name(self, clique: &str) -> String {
        format!("{self}-{clique}")
    }

    /// A scaling group of the copy.
    pub const fn scaling_group(self, group: &'a str) -> ScalingGroupName<'a> {
        ScalingGroupName { replica: self, group }
    }

    /// The ComputeDomain of an NVLink group; its ResourceClaimTemplate has the same name.
    pub fn compute_domain_name(self, group: &str) -> String {
        format!("{self}-{group}")
    }
}

/// One scaling group in one copy of a set: `<set>-<index>-<group>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScalingGroupName<'a> {
    /// The copy of the set.
    pub replica: ReplicaName<'a>,
    /// The group, by name in the template.
    pub group: &'a str,
}

impl fmt::Display for ScalingGroupName<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.replica, self.group)
    }
}

impl ScalingGroupName<'_> {
    /// The PodClique of a member in copy `index` of the group.
    pub fn clique_name(self, index: u32, clique: &str) -> String {
        format!("{self}-{index}-{clique}")
    }

    /// The name under which copy `index` appears among the topology constraints of its gang.
    pub fn replica_name(self, index: u32) -> String {
        format!("{self}-{index}")
    }

    /// The gang of copy `index` when it is not in an anchor gang.
    pub fn copy_gang_name(self, epoch: Epoch, index: u32) -> String {
        format!("{}-{epoch}-{}-{index}", self.replica, self.group)
    }
}

/// The autoscaler of a clique or scaling group has the name of what it scales.
pub fn autoscaler_name(target: &str) -> String {
    target.to_owned()
}

/// The service account of the init containers of a set.
pub fn service_account_name(set: &str) -> String {
    set.to_owned()
}

/// The role of that account.
pub fn role_name(set: &str) -> String {
    format!("grove.io:pcs:{set}")
}

/// The binding of that role.
pub fn role_binding_name(set: &str) -> String {
    role_name(set)
}

/// The secret with the token of that account.
pub fn token_secret_name(set: &str) -> String {
    format!("{set}-ic-sat")
}

/// The name that the secret had in older versions.
pub fn legacy_token_secret_name(set: &str) -> String {
    format!("{set}-initc-sa-token-secret")
}

/// The claim that all replicas of `owner` share. `owner` is the name of the set, scaling group or clique object.
pub fn shared_claim_name(owner: &str, template: &str) -> String {
    format!("{owner}-all-{template}")
}

/// The claim of one replica of `owner`: a copy of a set or group, or a pod of a clique.
pub fn replica_claim_name(owner: &str, index: u32, template: &str) -> String {
    format!("{owner}-{index}-{template}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_contract() {
        let replica = ReplicaName::new("web", 2);
        assert_eq!(replica.gang_map_name(), "web-2");
        assert_eq!(replica.anchor_gang_name(Epoch::FIRST), "web-2-100001");
        assert_eq!(replica.headless_service_name(), "web-2");
        assert_eq!(
            replica.service_fqdn("ns", "cluster.local"),
            "web-2.ns.svc.cluster.local"
        );
        assert_eq!(replica.clique_name("router"), "web-2-router");
        assert_eq!(replica.compute_domain_name("nv"), "web-2-nv");
        let group = replica.scaling_group("prefill");
        assert_eq!(group.to_string(), "web-2-prefill");
        assert_eq!(group.clique_name(3, "leader"), "web-2-prefill-3-leader");
        assert_eq!(role_name("web"), "grove.io:pcs:web");
        assert_eq!(role_binding_name("web"), "grove.io:pcs:web");
        assert_eq!(service_account_name("web"), "web");
        assert_eq!(token_secret_name("web"), "web-ic-sat");
        assert_eq!(legacy_token_secret_name("web"), "web-initc-sa-token-secret");
        assert_eq!(autoscaler_name("web-2-prefill"), "web-2-prefill");
        assert_eq!(shared_claim_name("web", "gpu"), "web-all-gpu");
        assert_eq!(replica_claim_name("web-2-prefill", 4, "gpu"), "web-2-prefill-4-gpu");
    }

    #[test]
    fn the_gang_of_a_copy_has_the_index_of_the_copy() {
        let group = ReplicaName::new("web", 0).scaling_group("decode");
        assert_eq!(group.copy_gang_name(Epoch::FIRST.next(), 3), "web-0-100002-decode-3");
    }
}
