//! Names, labels and other constants that stand on the wire. They are those of NVIDIA's driver and must not change.

/// API group of both kinds and of the claim parameters.
pub const GROUP: &str = "resource.nvidia.com";
/// API version of both kinds and of the claim parameters.
pub const VERSION: &str = "v1beta1";
/// Group and version as `apiVersion` spells them.
pub const API_VERSION: &str = "resource.nvidia.com/v1beta1";

/// Name of the DRA driver.
pub const DRIVER: &str = "compute-domain.nvidia.com";
/// DeviceClass of the daemons.
pub const DAEMON_CLASS: &str = "compute-domain-daemon.nvidia.com";
/// DeviceClass of channel 0.
pub const CHANNEL_CLASS: &str = "compute-domain-default-channel.nvidia.com";
/// The device a workload claims.
pub const CHANNEL_DEVICE: &str = "channel-0";
/// The device a daemon claims.
pub const DAEMON_DEVICE: &str = "daemon-0";

/// Finalizer on the ComputeDomain, its DaemonSet and both ResourceClaimTemplates.
pub const FINALIZER: &str = "resource.nvidia.com/computeDomain";
/// Label with the UID of the ComputeDomain: on nodes, DaemonSets, daemon pods, templates and cliques.
pub const DOMAIN_LABEL: &str = "resource.nvidia.com/computeDomain";
/// Label with the clique ID: on cliques, and on pods of the driver's own daemons (empty there: no fabric).
pub const CLIQUE_LABEL: &str = "resource.nvidia.com/computeDomain.cliqueID";
/// Label on ResourceClaimTemplates that tells the two of a domain apart.
pub const TARGET_LABEL: &str = "resource.nvidia.com/computeDomainTarget";
/// Value of [`TARGET_LABEL`] on the template of the daemons.
pub const TARGET_DAEMON: &str = "Daemon";
/// Value of [`TARGET_LABEL`] on the template of the workload.
pub const TARGET_WORKLOAD: &str = "Workload";
/// Optional node label with the node's clique.
pub const GPU_CLIQUE_LABEL: &str = "nvidia.com/gpu.clique";
/// Additive device attribute with the node's clique.
pub const CLIQUE_ATTRIBUTE: &str = "cliqueID";

/// Pod label of daemons that leave their row to the controller. Pods of a DaemonSet that another driver rendered do not
/// have it: they write their rows themselves.
pub const MANAGED_ROWS_LABEL: &str = "compute-domains.coppice.dev/rows";
/// Value of [`MANAGED_ROWS_LABEL`].
pub const MANAGED_ROWS: &str = "controller";

/// Annotation of the daemons' claims, as `NAMESPACE/NAME`: where to read the domain. Only a hint; the UID decides.
pub const DOMAIN_ANNOTATION: &str = "compute-domains.coppice.dev/domain";

/// Service account of the daemons.
pub const DAEMON_SERVICE_ACCOUNT: &str = "compute-domain-daemon-service-account";
/// Name of the claim in the daemon's pod, and of its container.
pub const DAEMON_CONTAINER: &str = "compute-domain-daemon";
/// Request in the daemon's claim.
pub const DAEMON_REQUEST: &str = "daemon";
/// Request in the workload's claim.
pub const CHANNEL_REQUEST: &str = "channel";

/// Where the daemon finds its files.
pub const IMEX_DIRECTORY: &str = "/imexd";
/// The rendered configuration of `nvidia-imex`.
pub const IMEX_CONFIG: &str = "/imexd/imexd.cfg";
/// The configuration template that the kubelet plugin puts there.
pub const IMEX_CONFIG_TEMPLATE: &str = "/imexd/imexd.cfg.tmpl";
/// The node file of `nvidia-imex`.
pub const IMEX_NODES: &str = "/imexd/nodes.cfg";
/// The socket on which the daemon reports its readiness to the kubelet plugin of its node.
pub const READINESS_SOCKET: &str = "/imexd/ready.sock";

/// Name of the DaemonSet and of the daemons' ResourceClaimTemplate.
pub fn daemon_set(domain_uid: &str) -> String {
    format!("computedomain-daemon-{domain_uid}")
}

/// Name of a ComputeDomainClique.
pub fn clique(domain_uid: &str, clique_id: &str) -> String {
    format!("{domain_uid}.{clique_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_are_those_of_the_driver() {
        assert_eq!(daemon_set("ab-12"), "computedomain-daemon-ab-12");
        assert_eq!(clique("ab-12", "cd-34.5"), "ab-12.cd-34.5");
    }
}
