//! What a claim asks of this driver: one device, and the domain it belongs to.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::api::parameters::Decoding;
use crate::api::{ClaimParameters, names};

/// A claim as kubelet hands it over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Its UID.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// `status.allocation`; none when it is not allocated.
    pub allocation: Option<Value>,
}

/// Which of the two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// `channel-0`.
    Channel,
    /// `daemon-0`.
    Daemon,
}

/// The device that a claim got from this driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDevice {
    /// Which one.
    pub kind: DeviceKind,
    /// Its name.
    pub device: String,
    /// Its pool: the node.
    pub pool: String,
    /// The request that it satisfies.
    pub request: String,
    /// Whether it was given for administration, beside whomever it is given to.
    pub admin_access: bool,
    /// Its parameters.
    pub parameters: ClaimParameters,
}

/// Why a claim cannot be prepared, ever. The text reaches the user as an event of the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Not allocated.
    #[error("no allocation set in ResourceClaim {name} in namespace {namespace}")]
    NotAllocated {
        /// Name of the claim.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// None or several devices of this driver.
    #[error("the claim has {0} devices of compute-domain.nvidia.com, expected one")]
    DeviceCount(usize),
    /// A device that no node publishes.
    #[error("requested device is not allocatable: {0}")]
    UnknownDevice(String),
    /// Parameters of the other device.
    #[error("cannot apply {kind} to request: {request}")]
    WrongParameters {
        /// The kind of the parameters.
        kind: &'static str,
        /// The request.
        request: String,
    },
    /// Parameters that cannot be decoded.
    #[error("error getting opaque device configs: {0}")]
    Parameters(#[from] crate::api::ParameterError),
}

impl Claim {
    /// A fingerprint of the allocation: a claim that is allocated again is another one to the checkpoint.
    pub fn fingerprint(&self) -> String {
        let text = self.allocation.as_ref().map(Value::to_string).unwrap_or_default();
        Sha256::digest(text)[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The device that this driver must prepare.
    pub fn device(&self, decoding: Decoding) -> Result<ClaimedDevice, ClaimError> {
        let allocation = self.allocation.as_ref().ok_or_else(|| ClaimError::NotAllocated {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
        })?;
        claimed_device(allocation, decoding)
    }
}

fn claimed_device(allocation: &Value, decoding: Decoding) -> Result<ClaimedDevice, ClaimError> {
    let results = allocation["devices"]["results"].as_array();
    let ours: Vec<&Value> = results
        .into_iter()
        .flatten()
        .filter(|result| result["driver"] == names::DRIVER)
        .collect();
    let [result] = ours.as_slice() else {
        return Err(ClaimError::DeviceCount(ours.len()));
    };
    let text = |field: &str| result[field].as_str().unwrap_or_default().to_owned();
    let (device, request) = (text("device"), text("request"));
    let kind = match device.as_str() {
        names::CHANNEL_DEVICE => DeviceKind::Channel,
        names::DAEMON_DEVICE => DeviceKind::Daemon,
        _ => return Err(ClaimError::UnknownDevice(device.chars().take(80).collect())),
    };
    Ok(ClaimedDevice {
        kind,
        parameters: parameters_for(allocation, kind, &request, decoding)?,
        pool: text("pool"),
        admin_access: result["adminAccess"] == true,
        device,
        request,
    })
}

/// The last configuration that names the request wins; one that names no request applies to devices of its kind.
fn parameters_for(
    allocation: &Value,
    kind: DeviceKind,
    request: &str,
    decoding: Decoding,
) -> Result<ClaimParameters, ClaimError> {
    let configs = allocation["devices"]["config"].as_array();
    let ours = configs
        .into_iter()
        .flatten()
        .filter(|config| config["opaque"]["driver"] == names::DRIVER);
    let mut chosen = None;
    for config in ours {
        let parameters = ClaimParameters::decode(&config["opaque"]["parameters"], decoding)?;
        let fits = matches!(
            (&parameters, kind),
            (ClaimParameters::Channel { .. }, DeviceKind::Channel)
                | (ClaimParameters::Daemon { .. }, DeviceKind::Daemon)
        );
        let requests: Vec<&str> = config["requests"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if requests.contains(&request) && !fits {
            let kind = match parameters {
                ClaimParameters::Channel { .. } => "ComputeDomainChannelConfig",
                ClaimParameters::Daemon { .. } => "ComputeDomainDaemonConfig",
            };
            return Err(ClaimError::WrongParameters {
                kind,
                request: request.chars().take(80).collect(),
            });
        }
        if fits && (requests.is_empty() || requests.contains(&request)) {
            chosen = Some(parameters);
        }
    }
    chosen.ok_or_else(|| crate::api::ParameterError::EmptyDomain.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn channel_claim(uid: &str, domain: &str) -> Claim {
        claim(
            uid,
            "channel-0",
            "channel",
            &json!({"apiVersion": names::API_VERSION,
            "kind": "ComputeDomainChannelConfig", "domainID": domain, "allocationMode": "Single"}),
        )
    }

    pub(crate) fn daemon_claim(uid: &str, domain: &str) -> Claim {
        claim(
            uid,
            "daemon-0",
            "daemon",
            &json!({"apiVersion": names::API_VERSION,
            "kind": "ComputeDomainDaemonConfig", "domainID": domain}),
        )
    }

    fn claim(uid: &str, device: &str, request: &str, parameters: &Value) -> Claim {
        Claim {
            uid: uid.into(),
            name: format!("claim-{uid}"),
            namespace: "team".into(),
            allocation: Some(json!({"devices": {
                "results": [{"driver": names::DRIVER, "device": device, "pool": "node-a", "request": request}],
                "config": [{"requests": [request], "opaque": {"driver": names::DRIVER, "parameters": parameters}}],
            }})),
        }
    }

    #[test]
    fn the_device_and_its_domain_are_found() {
        let device = channel_claim("c", "d").device(Decoding::Strict).unwrap();
        assert_eq!(
            (device.kind, device.parameters.domain_uid()),
            (DeviceKind::Channel, "d")
        );
        assert!(!device.admin_access);
        assert_eq!(
            daemon_claim("c", "d").device(Decoding::Strict).unwrap().kind,
            DeviceKind::Daemon
        );
    }

    #[test]
    fn claims_that_no_retry_can_help_are_refused() {
        let unallocated = Claim {
            allocation: None,
            ..channel_claim("c", "d")
        };
        let error = unallocated.device(Decoding::Strict).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no allocation set in ResourceClaim claim-c in namespace team"
        );
        let mut claim = channel_claim("c", "d");
        claim.allocation.as_mut().unwrap()["devices"]["results"][0]["device"] = json!("daemon-0");
        let error = claim.device(Decoding::Strict).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot apply ComputeDomainChannelConfig to request: channel"
        );
        let mut claim = channel_claim("c", "d");
        claim.allocation.as_mut().unwrap()["devices"]["config"][0]["opaque"]["parameters"]["x"] = json!(1);
        assert!(claim.device(Decoding::Strict).is_err());
        assert!(claim.device(Decoding::Lenient).is_ok());
        claim.allocation.as_mut().unwrap()["devices"]["config"] = json!([]);
        assert_eq!(
            claim.device(Decoding::Strict),
            Err(crate::api::ParameterError::EmptyDomain.into())
        );
    }

    #[test]
    fn another_allocation_has_another_fingerprint() {
        assert_eq!(
            channel_claim("c", "d").fingerprint(),
            channel_claim("c", "d").fingerprint()
        );
        assert_ne!(
            channel_claim("c", "d").fingerprint(),
            channel_claim("c", "e").fingerprint()
        );
    }
}
