//! The clique of a node, from what its GPUs report of their NVLink fabric.

/// What one GPU reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuFabric {
    /// The driver or the GPU has no fabric.
    NotSupported,
    /// Registration has not been completed.
    Incomplete {
        /// The state, as the driver calls it.
        state: String,
    },
    /// Registration failed.
    Failed {
        /// The status, as the driver calls it.
        status: String,
    },
    /// Registered.
    Registered {
        /// The cluster's UUID; all zero where NVLink does not cross servers.
        cluster_uuid: String,
        /// The clique within the cluster.
        clique: u32,
    },
}

/// Why a node's clique is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// A GPU is not attached.
    #[error("NVLink fabric not attached (GPU {gpu}): state={state}, refusing to start")]
    NotAttached {
        /// Which GPU.
        gpu: usize,
        /// Its state.
        state: String,
    },
    /// A GPU could not be registered.
    #[error("NVLink fabric registration error (GPU {gpu}): status={status}, refusing to start")]
    Registration {
        /// Which GPU.
        gpu: usize,
        /// Its status.
        status: String,
    },
    /// GPUs are in several cliques.
    #[error("the GPUs of this node are in {0} NVLink cliques, expected one")]
    SeveralCliques(usize),
    /// The driver reports something that is not a UUID.
    #[error("the GPU driver reports an invalid cluster UUID")]
    InvalidCluster,
}

/// The clique of a node: empty without a fabric.
///
/// Strictly, a fabric that is not complete is an error; else such a GPU counts as having none.
pub fn clique_id(gpus: &[GpuFabric], strict: bool) -> Result<String, FabricError> {
    let mut cliques: Vec<String> = Vec::new();
    for (gpu, fabric) in gpus.iter().enumerate() {
        match fabric {
            GpuFabric::NotSupported => {}
            GpuFabric::Incomplete { state } if strict => {
                return Err(FabricError::NotAttached {
                    gpu,
                    state: state.clone(),
                });
            }
            GpuFabric::Failed { status } if strict => {
                return Err(FabricError::Registration {
                    gpu,
                    status: status.clone(),
                });
            }
            GpuFabric::Incomplete { .. } | GpuFabric::Failed { .. } => {}
            GpuFabric::Registered { cluster_uuid, clique } => {
                if cluster_uuid.bytes().all(|byte| byte == b'0' || byte == b'-') {
                    continue;
                }
                let id = format!("{}.{clique}", cluster_uuid.to_ascii_lowercase());
                if !crate::api::limits::is_clique_id(&id) {
                    return Err(FabricError::InvalidCluster);
                }
                if !cliques.contains(&id) {
                    cliques.push(id);
                }
            }
        }
    }
    match cliques.len() {
        0 => Ok(String::new()),
        1 => Ok(cliques.swap_remove(0)),
        several => Err(FabricError::SeveralCliques(several)),
    }
}

/// Whether a GPU driver is new enough for names in the node file: 570.158.01 or later.
pub fn supports_names(driver_version: &str) -> bool {
    let parts: Option<Vec<u32>> = driver_version.trim().split('.').map(|part| part.parse().ok()).collect();
    parts.is_some_and(|parts| parts.as_slice() >= [570, 158, 1].as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d";

    fn registered(cluster: &str, clique: u32) -> GpuFabric {
        GpuFabric::Registered {
            cluster_uuid: cluster.into(),
            clique,
        }
    }

    #[test]
    fn all_gpus_of_a_node_are_in_one_clique_or_none() {
        let pair = [registered(CLUSTER, 1), registered(CLUSTER, 1)];
        assert_eq!(clique_id(&pair, true), Ok(format!("{CLUSTER}.1")));
        assert_eq!(clique_id(&[GpuFabric::NotSupported], true), Ok(String::new()));
        assert_eq!(clique_id(&[], true), Ok(String::new()));
        assert_eq!(
            clique_id(&[registered("00000000-0000-0000-0000-000000000000", 0)], true),
            Ok(String::new())
        );
        let mixed = [registered(CLUSTER, 1), registered(CLUSTER, 2)];
        assert_eq!(clique_id(&mixed, false), Err(FabricError::SeveralCliques(2)));
        assert_eq!(
            clique_id(&[registered("../../x", 1)], false),
            Err(FabricError::InvalidCluster)
        );
    }

    #[test]
    fn an_incomplete_fabric_stops_the_plugin_only_when_strict() {
        let incomplete = [GpuFabric::Incomplete { state: "2".into() }];
        assert!(clique_id(&incomplete, true).is_err());
        assert_eq!(clique_id(&incomplete, false), Ok(String::new()));
    }

    #[test]
    fn driver_versions_are_compared_by_number() {
        for good in ["570.158.01", "570.158.1", "580.0", "1000.1.1"] {
            assert!(supports_names(good), "{good}");
        }
        for bad in ["570.158.00", "570.86.15", "570.158", "", "x", "570.158.x"] {
            assert!(!supports_names(bad), "{bad}");
        }
    }
}
