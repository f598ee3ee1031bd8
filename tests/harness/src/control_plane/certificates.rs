//! The certificates and keys of one control plane: its own authority, the serving certificate of the API server, the
//! client certificate of an administrator, and the key that signs service account tokens. They are made anew for every
//! control plane and live in its data directory; nothing here is ever meant to outlive a test.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::ControlPlaneError;

/// The files written for a control plane, and the texts a kubeconfig embeds.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority_file: PathBuf,
    pub(super) serving_certificate_file: PathBuf,
    pub(super) serving_key_file: PathBuf,
    pub(super) service_account_public_key_file: PathBuf,
    pub(super) service_account_private_key_file: PathBuf,
    pub(super) authority_pem: String,
    pub(super) admin_certificate_pem: String,
    pub(super) admin_key_pem: String,
}

impl Certificates {
    /// Makes everything and writes it below `directory`.
    pub(super) fn generate(directory: &Path) -> Result<Self, ControlPlaneError> {
        let made = Made::new().map_err(ControlPlaneError::Certificates)?;
        let write = |name: &str, text: &str| -> Result<PathBuf, ControlPlaneError> {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(|source| ControlPlaneError::Files {
                path: path.clone(),
                source,
            })?;
            Ok(path)
        };
        Ok(Self {
            authority_file: write("ca.crt", &made.authority_pem)?,
            serving_certificate_file: write("apiserver.crt", &made.serving.0.pem())?,
            serving_key_file: write("apiserver.key", &made.serving.1.serialize_pem())?,
            service_account_public_key_file: write("service-account.pub", &made.service_account.public_key_pem())?,
            service_account_private_key_file: write("service-account.key", &made.service_account.serialize_pem())?,
            admin_certificate_pem: made.admin.0.pem(),
            admin_key_pem: made.admin.1.serialize_pem(),
            authority_pem: made.authority_pem,
        })
    }
}

struct Made {
    authority_pem: String,
    serving: (Certificate, KeyPair),
    admin: (Certificate, KeyPair),
    service_account: KeyPair,
}

impl Made {
    fn new() -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority
            .distinguished_name
            .push(DnType::CommonName, "test control plane");
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let mut serving = CertificateParams::new(vec![
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])?;
        serving.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

        let mut admin = CertificateParams::default();
        admin
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        admin.distinguished_name.push(DnType::CommonName, "admin");
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

        let sign = |mut params: CertificateParams| -> Result<(Certificate, KeyPair), rcgen::Error> {
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            let key = KeyPair::generate()?;
            Ok((params.signed_by(&key, &issuer)?, key))
        };
        Ok(Self {
            serving: sign(serving)?,
            admin: sign(admin)?,
            service_account: KeyPair::generate()?,
            authority_pem,
        })
    }
}
