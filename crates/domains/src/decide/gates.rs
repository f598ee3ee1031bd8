//! Feature gates, and what happens to living domains when one is turned.
//!
//! The controller renders its gates into the DaemonSet, and a DaemonSet keeps the gates of its birth while it has pods. So
//! each domain speaks one protocol for as long as its daemons live, and every reader asks the DaemonSet, not its own gates,
//! which one that is. A domain without daemons follows the controller.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The gates that concern ComputeDomains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `IMEXDaemonsWithDNSNames`: names instead of addresses in the node file.
    pub dns_names: bool,
    /// `ComputeDomainCliques`: rows in ComputeDomainClique objects.
    pub cliques: bool,
    /// `CrashOnNVLinkFabricErrors`: a plugin does not start with a fabric that is not complete.
    pub strict_fabric: bool,
    /// `HostManagedIMEXDaemon`: the mode `hostManaged` may be chosen.
    pub host_managed: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            dns_names: true,
            cliques: true,
            strict_fabric: true,
            host_managed: false,
        }
    }
}

/// Gates that cannot be used together, or a mode that needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Cliques need names.
    #[error("feature gate ComputeDomainCliques requires IMEXDaemonsWithDNSNames to also be enabled")]
    CliquesNeedNames,
    /// The mode needs its gate.
    #[error("imex.mode=hostManaged requires the feature gate HostManagedIMEXDaemon")]
    HostManagedNeedsGate,
    /// Never supported.
    #[error("imex.isolation=channel is not supported")]
    ChannelIsolation,
}

impl Gates {
    /// Checks gates against each other and against the chosen mode.
    pub fn validate(self, host_managed_mode: bool, channel_isolation: bool) -> Result<(), GateError> {
        if self.cliques && !self.dns_names {
            return Err(GateError::CliquesNeedNames);
        }
        if host_managed_mode && !self.host_managed {
            return Err(GateError::HostManagedNeedsGate);
        }
        if channel_isolation {
            return Err(GateError::ChannelIsolation);
        }
        Ok(())
    }

    /// The text of the daemon's environment variable `FEATURE_GATES`.
    pub fn to_environment(self) -> String {
        let gates = BTreeMap::from([
            ("ComputeDomainCliques", self.cliques),
            ("CrashOnNVLinkFabricErrors", self.strict_fabric),
            ("HostManagedIMEXDaemon", self.host_managed),
            ("IMEXDaemonsWithDNSNames", self.dns_names),
        ]);
        gates.iter().fold(String::new(), |mut text, (gate, on)| {
            let _ = write!(text, "{gate}={on},");
            text
        })
    }

    /// Reads such a text; gates of other concerns and other versions are ignored.
    pub fn from_environment(text: &str) -> Self {
        let mut gates = Self::default();
        for (gate, value) in text.split(',').filter_map(|part| part.trim().split_once('=')) {
            let on = value.trim().eq_ignore_ascii_case("true");
            match gate.trim() {
                "IMEXDaemonsWithDNSNames" => gates.dns_names = on,
                "ComputeDomainCliques" => gates.cliques = on,
                "CrashOnNVLinkFabricErrors" => gates.strict_fabric = on,
                "HostManagedIMEXDaemon" => gates.host_managed = on,
                _ => {}
            }
        }
        gates
    }
}

/// Where the daemons of a domain report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowProtocol {
    /// In rows of ComputeDomainClique objects.
    #[default]
    Cliques,
    /// In `status.nodes` of the ComputeDomain, by themselves.
    DomainStatus,
}

impl RowProtocol {
    /// The protocol of a domain: that of its DaemonSet's `FEATURE_GATES` when it exists, else of the controller's gates.
    pub fn of(daemon_set_gates: Option<&str>, controller: Gates) -> Self {
        let gates = daemon_set_gates.map_or(controller, Gates::from_environment);
        if gates.cliques {
            Self::Cliques
        } else {
            Self::DomainStatus
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_survive_the_environment() {
        for gates in [
            Gates::default(),
            Gates {
                cliques: false,
                dns_names: false,
                ..Gates::default()
            },
        ] {
            assert_eq!(Gates::from_environment(&gates.to_environment()), gates);
        }
        assert!(!Gates::from_environment("Other=true, ComputeDomainCliques=FALSE ,,x").cliques);
    }

    #[test]
    fn combinations_that_the_driver_refuses_are_refused() {
        let without_names = Gates {
            dns_names: false,
            ..Gates::default()
        };
        assert_eq!(without_names.validate(false, false), Err(GateError::CliquesNeedNames));
        assert_eq!(
            Gates::default().validate(true, false),
            Err(GateError::HostManagedNeedsGate)
        );
        assert_eq!(Gates::default().validate(false, true), Err(GateError::ChannelIsolation));
        assert_eq!(
            Gates {
                host_managed: true,
                ..Gates::default()
            }
            .validate(true, false),
            Ok(())
        );
    }

    /// #1486: turning a gate does not change the protocol of daemons that live.
    #[test]
    fn a_domain_keeps_the_protocol_of_its_daemons() {
        let off = Gates {
            cliques: false,
            ..Gates::default()
        };
        assert_eq!(
            RowProtocol::of(Some(&off.to_environment()), Gates::default()),
            RowProtocol::DomainStatus
        );
        assert_eq!(
            RowProtocol::of(Some(&Gates::default().to_environment()), off),
            RowProtocol::Cliques
        );
        assert_eq!(RowProtocol::of(None, off), RowProtocol::DomainStatus);
    }
}
