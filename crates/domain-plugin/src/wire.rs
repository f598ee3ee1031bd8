//! The messages of the kubelet's plugin registration and DRA services.
//!
//! Written by hand from the published protocol: a dozen fields that cannot change, for which no build needs a protobuf
//! compiler. `dra.v1` and `dra.v1beta1` have the same messages.

use std::collections::HashMap;

/// The service that the kubelet's plugin watcher calls.
pub const REGISTRATION: &str = "pluginregistration.Registration";
/// The DRA service.
pub const DRA_V1: &str = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin";
/// The DRA service of older kubelets.
pub const DRA_V1BETA1: &str = "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin";
/// The services as the registration names them, best first.
pub const SUPPORTED_VERSIONS: [&str; 2] = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];
/// The kind of plugin.
pub const PLUGIN_TYPE: &str = "DRAPlugin";

/// The kubelet asks who is there.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InfoRequest {}

/// Who is there.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInfo {
    /// [`PLUGIN_TYPE`].
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Name of the driver.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The socket of the DRA service.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// [`SUPPORTED_VERSIONS`].
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

/// The kubelet reports the outcome of the registration.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatus {
    /// Whether it succeeded.
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    /// Why not.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// The answer to a [`RegistrationStatus`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatusResponse {}

/// A claim, by name and UID.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Claim {
    /// Its namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// Its UID.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// The claims of a pod are to be prepared.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourcesRequest {
    /// The claims.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// What was prepared, by the UID of the claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourcesResponse {
    /// The claims.
    #[prost(map = "string, message", tag = "1")]
    pub claims: HashMap<String, NodePrepareResourceResponse>,
}

/// What was prepared for a claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePrepareResourceResponse {
    /// Its devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
    /// Why it was not; empty when it was.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// A prepared device.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// The requests that it satisfies.
    #[prost(string, repeated, tag = "1")]
    pub request_names: Vec<String>,
    /// Its pool.
    #[prost(string, tag = "2")]
    pub pool_name: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub device_name: String,
    /// Its CDI devices.
    #[prost(string, repeated, tag = "4")]
    pub cdi_device_ids: Vec<String>,
}

/// The claims of a pod are to be unprepared.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourcesRequest {
    /// The claims.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// What was unprepared, by the UID of the claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourcesResponse {
    /// The claims.
    #[prost(map = "string, message", tag = "1")]
    pub claims: HashMap<String, NodeUnprepareResourceResponse>,
}

/// Whether a claim was unprepared.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnprepareResourceResponse {
    /// Why it was not; empty when it was.
    #[prost(string, tag = "1")]
    pub error: String,
}
