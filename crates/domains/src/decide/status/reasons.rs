//! Every reason that conditions and events of ComputeDomains carry, with what it means.

macro_rules! reasons {
    ($($(#[doc = $meaning:literal])+ $name:ident;)+) => {
        /// Why a condition of a ComputeDomain is as it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $meaning])+ $name,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The reason as it stands in a condition or event.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// What it means, for the reference page.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($meaning),+).trim_ascii(),)+
                }
            }
        }
    };
}

reasons! {
    /// Every node that has joined is ready, and numNodes of them have.
    AllNodesReady;
    /// No node has joined yet: no pod with a claim on the domain has been scheduled.
    NoNodes;
    /// Fewer than numNodes nodes have joined.
    WaitingForNodes;
    /// A node has joined and its daemon pod does not run yet.
    WaitingForDaemons;
    /// A daemon pod runs and its nvidia-imex is not ready.
    DaemonsNotReady;
    /// A daemon pod is gone and its node keeps its index.
    DaemonsLost;
    /// A node cannot join: the IMEX domain of its clique has maxNodesPerIMEXDomain nodes.
    CliqueFull;
    /// A node is labelled for the domain and its kubelet plugin publishes no clique.
    FabricUnknown;
    /// IMEX daemons are run by the host: the domain has nothing to wait for.
    HostManaged;
    /// The DaemonSet and both ResourceClaimTemplates exist.
    Created;
    /// The DaemonSet or a ResourceClaimTemplate does not exist yet.
    Creating;
    /// A ResourceClaimTemplate of the wanted name exists and belongs to something else. Delete it, or create the domain with another name.
    TemplateNameTaken;
    /// The API server refused to create the DaemonSet or a ResourceClaimTemplate.
    CreateRefused;
    /// The API server refused the rows of a clique: two rows would have one index, or the controller lacks rights.
    RowsRefused;
    /// The domain is being deleted.
    Deleting;
    /// The domain is being deleted and pods that hold its claims still run.
    DeletedUnderWorkload;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_valid_code_with_a_meaning() {
        for reason in Reason::ALL {
            let code = reason.as_str();
            assert!(code.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{code}");
            assert!(reason.meaning().ends_with('.'), "{code}");
        }
    }
}
