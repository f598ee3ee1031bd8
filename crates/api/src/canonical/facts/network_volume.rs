//! Facts about the volume sources of particular storage systems.

use super::pod::LOCAL_OBJECT_REFERENCE;
use super::{Fill, Object, flag, number, object, optional, scalars, text, texts_by_key};

pub(in crate::canonical) static GCE_PERSISTENT_DISK_VOLUME: Object =
    Object::counted(&[text("fsType"), number("partition"), text("pdName"), flag("readOnly")]);

pub(in crate::canonical) static AWS_ELASTIC_BLOCK_STORE_VOLUME: Object =
    Object::counted(&[text("fsType"), number("partition"), flag("readOnly"), text("volumeID")]);

pub(in crate::canonical) static GIT_REPO_VOLUME: Object =
    Object::counted(&[text("directory"), text("repository"), text("revision")]);

pub(in crate::canonical) static NFS_VOLUME: Object = Object::counted(&[text("path"), flag("readOnly"), text("server")]);

pub(in crate::canonical) static ISCSI_VOLUME: Object = Object::counted(&[
    flag("chapAuthDiscovery"),
    flag("chapAuthSession"),
    text("fsType"),
    optional("initiatorName"),
    text("iqn"),
    text("iscsiInterface").or(Fill::Text("default")),
    number("lun"),
    scalars("portals"),
    flag("readOnly"),
    object("secretRef", &LOCAL_OBJECT_REFERENCE),
    text("targetPortal"),
]);

pub(in crate::canonical) static GLUSTERFS_VOLUME: Object =
    Object::counted(&[text("endpoints"), text("path"), flag("readOnly")]);

pub(in crate::canonical) static RBD_VOLUME: Object = Object::counted(&[
    text("fsType"),
    text("image"),
    text("keyring").or(Fill::Text("/etc/ceph/keyring")),
    scalars("monitors"),
    text("pool").or(Fill::Text("rbd")),
    flag("readOnly"),
    object("secretRef", &LOCAL_OBJECT_REFERENCE),
    text("user").or(Fill::Text("admin")),
]);

pub(in crate::canonical) static FLEX_VOLUME: Object = Object::counted(&[
    text("driver"),
    text("fsType"),
    texts_by_key("options"),
    flag("readOnly"),
    object("secretRef", &LOCAL_OBJECT_REFERENCE),
]);

pub(in crate::canonical) static CINDER_VOLUME: Object = Object::counted(&[
    text("fsType"),
    flag("readOnly"),
    object("secretRef", &LOCAL_OBJECT_REFERENCE),
    text("volumeID"),
]);

pub(in crate::canonical) static CEPHFS_VOLUME: Object = Object::counted(&[
    scalars("monitors"),
    text("path"),
    flag("readOnly"),
    text("secretFile"),
    object("secretRef", &LOCAL_OBJECT_REFERENCE),
    text("user"),
]);

pub(in crate::canonical) static FLOCKER_VOLUME: Object = Object::counted(&[text("datasetName"), text("datasetUUID")]);

pub(in crate::canonical) static FC_VOLUME: Object = Object::counted(&[
    text("fsType"),
    optional("lun"),
    flag("readOnly"),
    scalars("targetWWNs"),
    scalars("wwids"),
]);

pub(in crate::canonical) static AZURE_FILE_VOLUME: Object =
    Object::counted(&[flag("readOnly"), text("secretName"), text("shareName")]);

pub(in crate::canonical) static VSPHERE_VIRTUAL_DISK_VOLUME: Object = Object::counted(&[
    text("fsType"),
    text("storagePolicyID"),
    text("storagePolicyName"),
    text("volumePath"),
]);

pub(in crate::canonical) static QUOBYTE_VOLUME: Object = Object::counted(&[
    text("group"),
    flag("readOnly"),
    text("registry"),
    text("tenant"),
    text("user"),
    text("volume"),
]);

pub(in crate::canonical) static AZURE_DISK_VOLUME: Object = Object::counted(&[
    optional("cachingMode").or(Fill::Text("ReadWrite")),
    text("diskName"),
    text("diskURI"),
    optional("fsType").or(Fill::Text("ext4")),
    optional("kind").or(Fill::Text("Shared")),
    optional("readOnly").or(Fill::Flag(false)),
]);

pub(in crate::canonical) static PHOTON_PERSISTENT_DISK_VOLUME: Object =
    Object::counted(&[text("fsType"), text("pdID")]);

pub(in crate::canonical) static PORTWORX_VOLUME: Object =
    Object::counted(&[text("fsType"), flag("readOnly"), text("volumeID")]);

pub(in crate::canonical) static SCALE_IO_VOLUME: Object = Object::counted(&[
    text("fsType").or(Fill::Text("xfs")),
    text("gateway"),
    text("protectionDomain"),
    flag("readOnly"),
    object("secretRef", &LOCAL_OBJECT_REFERENCE),
    flag("sslEnabled"),
    text("storageMode").or(Fill::Text("ThinProvisioned")),
    text("storagePool"),
    text("system"),
    text("volumeName"),
]);

pub(in crate::canonical) static STORAGEOS_VOLUME: Object = Object::counted(&[
    text("fsType"),
    flag("readOnly"),
    object("secretRef", &LOCAL_OBJECT_REFERENCE),
    text("volumeName"),
    text("volumeNamespace"),
]);
