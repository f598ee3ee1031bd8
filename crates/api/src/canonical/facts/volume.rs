//! Facts about volumes that every cluster has, projections and volume claims.

use super::network_volume::{
    AWS_ELASTIC_BLOCK_STORE_VOLUME, AZURE_DISK_VOLUME, AZURE_FILE_VOLUME, CEPHFS_VOLUME, CINDER_VOLUME, FC_VOLUME,
    FLEX_VOLUME, FLOCKER_VOLUME, GCE_PERSISTENT_DISK_VOLUME, GIT_REPO_VOLUME, GLUSTERFS_VOLUME, ISCSI_VOLUME,
    NFS_VOLUME, PHOTON_PERSISTENT_DISK_VOLUME, PORTWORX_VOLUME, QUOBYTE_VOLUME, RBD_VOLUME, SCALE_IO_VOLUME,
    STORAGEOS_VOLUME, VSPHERE_VIRTUAL_DISK_VOLUME,
};
use super::pod::{LABEL_SELECTOR, LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use super::{Fill, Object, flag, list, object, optional, quantities, quantity, scalars, text, texts_by_key};

pub(in crate::canonical) static VOLUME: Object = Object::counted(&[
    object("awsElasticBlockStore", &AWS_ELASTIC_BLOCK_STORE_VOLUME),
    object("azureDisk", &AZURE_DISK_VOLUME),
    object("azureFile", &AZURE_FILE_VOLUME),
    object("cephfs", &CEPHFS_VOLUME),
    object("cinder", &CINDER_VOLUME),
    object("configMap", &CONFIG_MAP_VOLUME),
    object("csi", &CSI_VOLUME),
    object("downwardAPI", &DOWNWARD_API_VOLUME),
    object("emptyDir", &EMPTY_DIR_VOLUME).or(Fill::EmptyDirWithoutSource),
    object("ephemeral", &EPHEMERAL_VOLUME),
    object("fc", &FC_VOLUME),
    object("flexVolume", &FLEX_VOLUME),
    object("flocker", &FLOCKER_VOLUME),
    object("gcePersistentDisk", &GCE_PERSISTENT_DISK_VOLUME),
    object("gitRepo", &GIT_REPO_VOLUME),
    object("glusterfs", &GLUSTERFS_VOLUME),
    object("hostPath", &HOST_PATH_VOLUME),
    object("image", &IMAGE_VOLUME),
    object("iscsi", &ISCSI_VOLUME),
    text("name"),
    object("nfs", &NFS_VOLUME),
    object("persistentVolumeClaim", &PERSISTENT_VOLUME_CLAIM_VOLUME),
    object("photonPersistentDisk", &PHOTON_PERSISTENT_DISK_VOLUME),
    object("portworxVolume", &PORTWORX_VOLUME),
    object("projected", &PROJECTED_VOLUME),
    object("quobyte", &QUOBYTE_VOLUME),
    object("rbd", &RBD_VOLUME),
    object("scaleIO", &SCALE_IO_VOLUME),
    object("secret", &SECRET_VOLUME),
    object("storageos", &STORAGEOS_VOLUME),
    object("vsphereVolume", &VSPHERE_VIRTUAL_DISK_VOLUME),
]);

pub(in crate::canonical) static HOST_PATH_VOLUME: Object =
    Object::counted(&[text("path"), optional("type").or(Fill::Text(""))]);

pub(in crate::canonical) static EMPTY_DIR_VOLUME: Object = Object::counted(&[text("medium"), quantity("sizeLimit")]);

pub(in crate::canonical) static SECRET_VOLUME: Object = Object::counted(&[
    optional("defaultMode").or(Fill::Integer(0o644)),
    list("items", &KEY_TO_PATH),
    optional("optional"),
    text("secretName"),
]);

pub(in crate::canonical) static KEY_TO_PATH: Object = Object::counted(&[text("key"), optional("mode"), text("path")]);

pub(in crate::canonical) static PERSISTENT_VOLUME_CLAIM_VOLUME: Object =
    Object::counted(&[text("claimName"), flag("readOnly")]);

pub(in crate::canonical) static DOWNWARD_API_VOLUME: Object = Object::counted(&[
    optional("defaultMode").or(Fill::Integer(0o644)),
    list("items", &DOWNWARD_API_FILE),
]);

pub(in crate::canonical) static DOWNWARD_API_FILE: Object = Object::counted(&[
    object("fieldRef", &OBJECT_FIELD_SELECTOR),
    optional("mode"),
    text("path"),
    object("resourceFieldRef", &RESOURCE_FIELD_SELECTOR),
]);

pub(in crate::canonical) static CONFIG_MAP_VOLUME: Object = Object::counted(&[
    optional("defaultMode").or(Fill::Integer(0o644)),
    list("items", &KEY_TO_PATH),
    text("name"),
    optional("optional"),
]);

pub(in crate::canonical) static PROJECTED_VOLUME: Object = Object::counted(&[
    optional("defaultMode").or(Fill::Integer(0o644)),
    list("sources", &VOLUME_PROJECTION),
]);

pub(in crate::canonical) static VOLUME_PROJECTION: Object = Object::counted(&[
    object("clusterTrustBundle", &CLUSTER_TRUST_BUNDLE_PROJECTION),
    object("configMap", &CONFIG_MAP_PROJECTION),
    object("downwardAPI", &DOWNWARD_API_PROJECTION),
    object("podCertificate", &POD_CERTIFICATE_PROJECTION),
    object("secret", &SECRET_PROJECTION),
    object("serviceAccountToken", &SERVICE_ACCOUNT_TOKEN_PROJECTION),
]);

pub(in crate::canonical) static SECRET_PROJECTION: Object =
    Object::counted(&[list("items", &KEY_TO_PATH), text("name"), optional("optional")]);

pub(in crate::canonical) static DOWNWARD_API_PROJECTION: Object = Object::counted(&[list("items", &DOWNWARD_API_FILE)]);

pub(in crate::canonical) static CONFIG_MAP_PROJECTION: Object =
    Object::counted(&[list("items", &KEY_TO_PATH), text("name"), optional("optional")]);

pub(in crate::canonical) static SERVICE_ACCOUNT_TOKEN_PROJECTION: Object = Object::counted(&[
    text("audience"),
    optional("expirationSeconds").or(Fill::Integer(3600)),
    text("path"),
]);

pub(in crate::canonical) static CLUSTER_TRUST_BUNDLE_PROJECTION: Object = Object::counted(&[
    object("labelSelector", &LABEL_SELECTOR),
    optional("name"),
    optional("optional"),
    text("path"),
    optional("signerName"),
]);

pub(in crate::canonical) static POD_CERTIFICATE_PROJECTION: Object = Object::counted(&[
    text("certificateChainPath"),
    text("credentialBundlePath"),
    text("keyPath"),
    text("keyType"),
    optional("maxExpirationSeconds"),
    text("signerName"),
    texts_by_key("userAnnotations"),
]);

pub(in crate::canonical) static CSI_VOLUME: Object = Object::counted(&[
    text("driver"),
    optional("fsType"),
    object("nodePublishSecretRef", &LOCAL_OBJECT_REFERENCE),
    optional("readOnly"),
    texts_by_key("volumeAttributes"),
]);

pub(in crate::canonical) static EPHEMERAL_VOLUME: Object =
    Object::counted(&[object("volumeClaimTemplate", &PERSISTENT_VOLUME_CLAIM_TEMPLATE)]);

pub(in crate::canonical) static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Object = Object::counted(&[
    object("metadata", &OBJECT_META),
    object("spec", &PERSISTENT_VOLUME_CLAIM_SPEC),
]);

pub(in crate::canonical) static PERSISTENT_VOLUME_CLAIM_SPEC: Object = Object::transparent(&[
    scalars("accessModes"),
    object("dataSource", &TYPED_LOCAL_OBJECT_REFERENCE),
    object("dataSourceRef", &TYPED_OBJECT_REFERENCE),
    object("resources", &VOLUME_RESOURCE_REQUIREMENTS),
    object("selector", &LABEL_SELECTOR),
    optional("storageClassName"),
    optional("volumeAttributesClassName"),
    optional("volumeMode").or(Fill::Text("Filesystem")),
    text("volumeName"),
]);

pub(in crate::canonical) static VOLUME_RESOURCE_REQUIREMENTS: Object =
    Object::transparent(&[quantities("limits"), quantities("requests")]);

pub(in crate::canonical) static TYPED_LOCAL_OBJECT_REFERENCE: Object =
    Object::counted(&[optional("apiGroup"), text("kind"), text("name")]);

pub(in crate::canonical) static TYPED_OBJECT_REFERENCE: Object =
    Object::counted(&[optional("apiGroup"), text("kind"), text("name"), optional("namespace")]);

pub(in crate::canonical) static IMAGE_VOLUME: Object = Object::counted(&[
    text("pullPolicy").or(Fill::PullPolicyOf("reference")),
    text("reference"),
]);

pub(in crate::canonical) static OBJECT_META: Object =
    Object::transparent(&[texts_by_key("annotations"), texts_by_key("labels")]);
