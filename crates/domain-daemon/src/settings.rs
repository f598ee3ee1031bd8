//! What the daemon is told: by its DaemonSet, by CDI, and where its files are.
//!
//! Owns the environment variables, which are those of NVIDIA's driver. Values that end up in a file or a name are checked
//! before they are used.

use std::net::IpAddr;
use std::path::PathBuf;

use coppice_domains::api::{limits, names};
use coppice_domains::decide::daemon::assignment::Myself;
use coppice_domains::decide::gates::{Gates, RowProtocol};

/// Where the daemon finds files and programs.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The directory that the kubelet plugin shares with the daemon.
    pub directory: PathBuf,
    /// The hosts file that `nvidia-imex` resolves its peers by.
    pub hosts: PathBuf,
    /// The IMEX daemon.
    pub imex: PathBuf,
    /// Its query tool.
    pub imex_ctl: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            directory: names::IMEX_DIRECTORY.into(),
            hosts: "/etc/hosts".into(),
            imex: "nvidia-imex".into(),
            imex_ctl: "nvidia-imex-ctl".into(),
        }
    }
}

impl Paths {
    fn in_directory(&self, constant: &str) -> PathBuf {
        let name = constant.rsplit('/').next().unwrap_or(constant);
        self.directory.join(name)
    }

    /// The rendered configuration of `nvidia-imex`.
    pub fn config(&self) -> PathBuf {
        self.in_directory(names::IMEX_CONFIG)
    }

    /// The template of it.
    pub fn config_template(&self) -> PathBuf {
        self.in_directory(names::IMEX_CONFIG_TEMPLATE)
    }

    /// The node file of `nvidia-imex`.
    pub fn nodes(&self) -> PathBuf {
        self.in_directory(names::IMEX_NODES)
    }

    /// The socket on which readiness is reported.
    pub fn socket(&self) -> PathBuf {
        self.in_directory(names::READINESS_SOCKET)
    }
}

/// Why the daemon cannot run with its environment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A variable is missing.
    #[error("the environment variable {name} is not set: {hint}")]
    Missing {
        /// Which one.
        name: &'static str,
        /// Who sets it.
        hint: &'static str,
    },
    /// A variable has a value that cannot be.
    #[error("the environment variable {name} has an invalid value {value:?}")]
    Invalid {
        /// Which one.
        name: &'static str,
        /// Its value, shortened.
        value: String,
    },
    /// The domain uses the old protocol.
    #[error(
        "the feature gate ComputeDomainCliques is off: this daemon reports in ComputeDomainClique objects only; turn the \
         gate on, or keep the daemons of NVIDIA's driver"
    )]
    CliquesOff,
}

/// What the daemon is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// UID of the domain.
    pub domain_uid: String,
    /// Who the daemon is; the clique is empty on a node without a fabric.
    pub myself: Myself,
    /// Its address.
    pub address: IpAddr,
    /// Name of its pod.
    pub pod_name: String,
    /// Namespace of its pod and of the clique.
    pub namespace: String,
    /// Nodes of one IMEX domain.
    pub max_nodes: u32,
    /// Files and programs.
    pub paths: Paths,
}

const BY_CDI: &str = "it comes by CDI with the claim of the pod; is CDI enabled in the container runtime?";
const BY_POD: &str = "the DaemonSet of the ComputeDomain sets it";

impl Settings {
    /// Reads the environment through `variable`.
    ///
    /// # Errors
    /// When a variable is missing or cannot be used.
    pub fn read(variable: impl Fn(&str) -> Option<String>, paths: Paths) -> Result<Self, SettingsError> {
        let given =
            |name: &'static str, hint: &'static str| variable(name).ok_or(SettingsError::Missing { name, hint });
        let checked = |name: &'static str, hint: &'static str, valid: fn(&str) -> bool| {
            let value = given(name, hint)?;
            if valid(&value) {
                return Ok(value);
            }
            let value = value.chars().take(80).collect();
            Err(SettingsError::Invalid { name, value })
        };
        let gates = variable("FEATURE_GATES");
        if RowProtocol::of(gates.as_deref(), Gates::default()) != RowProtocol::Cliques {
            return Err(SettingsError::CliquesOff);
        }
        let address = checked("POD_IP", BY_POD, |text| limits::peer_address(text).is_some())?;
        let parsed = limits::peer_address(&address).ok_or(SettingsError::Missing {
            name: "POD_IP",
            hint: BY_POD,
        })?;
        let max_nodes = match variable("MAX_NODES_PER_IMEX_DOMAIN") {
            None => limits::DEFAULT_MAX_NODES,
            Some(text) => text
                .trim()
                .parse()
                .map(limits::max_nodes)
                .map_err(|_| SettingsError::Invalid {
                    name: "MAX_NODES_PER_IMEX_DOMAIN",
                    value: text.chars().take(80).collect(),
                })?,
        };
        Ok(Self {
            domain_uid: checked("COMPUTE_DOMAIN_UUID", BY_CDI, limits::is_uid)?,
            myself: Myself {
                node: checked("NODE_NAME", BY_POD, limits::is_node_name)?,
                pod_uid: checked("POD_UID", BY_POD, limits::is_uid)?,
                address,
                clique_id: checked("CLIQUE_ID", BY_CDI, |text| {
                    text.is_empty() || limits::is_clique_id(text)
                })?,
            },
            address: parsed,
            pod_name: checked("POD_NAME", BY_POD, limits::is_node_name)?,
            namespace: checked("POD_NAMESPACE", BY_POD, limits::is_node_name)?,
            max_nodes,
            paths,
        })
    }

    /// Whether the node has no fabric: there is nothing to run.
    pub fn has_no_fabric(&self) -> bool {
        self.myself.clique_id.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn environment() -> BTreeMap<&'static str, &'static str> {
        BTreeMap::from([
            ("COMPUTE_DOMAIN_UUID", "0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11"),
            ("CLIQUE_ID", "7a8e0c5e.1"),
            ("NODE_NAME", "node-1"),
            ("POD_IP", "10.0.0.1"),
            ("POD_UID", "p-1"),
            ("POD_NAME", "daemon-x"),
            ("POD_NAMESPACE", "driver"),
        ])
    }

    fn read(environment: &BTreeMap<&'static str, &'static str>) -> Result<Settings, SettingsError> {
        Settings::read(
            |name| environment.get(name).map(|&value| value.to_owned()),
            Paths::default(),
        )
    }

    #[test]
    fn a_missing_domain_says_that_cdi_was_not_applied() {
        let mut without = environment();
        without.remove("COMPUTE_DOMAIN_UUID");
        let error = read(&without).unwrap_err().to_string();
        assert!(
            error.contains("COMPUTE_DOMAIN_UUID") && error.contains("CDI"),
            "{error}"
        );
        assert_eq!(read(&environment()).unwrap().max_nodes, limits::DEFAULT_MAX_NODES);
    }

    #[test]
    fn values_that_could_leave_their_field_are_refused() {
        for (name, bad) in [
            ("POD_IP", "10.0.0.1\nevil"),
            ("COMPUTE_DOMAIN_UUID", "../x"),
            ("CLIQUE_ID", "a/b"),
            ("NODE_NAME", ""),
            ("MAX_NODES_PER_IMEX_DOMAIN", "many"),
            ("FEATURE_GATES", "ComputeDomainCliques=false"),
        ] {
            let mut environment = environment();
            environment.insert(name, bad);
            assert!(read(&environment).is_err(), "{name}={bad}");
        }
        let mut without_fabric = environment();
        without_fabric.insert("CLIQUE_ID", "");
        assert!(read(&without_fabric).unwrap().has_no_fabric());
    }
}
