//! The certificates of a server that nobody else knows: a fresh authority, a server leaf, an administrator's leaf.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

/// Why certificates could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Making them failed.
    #[error("certificates could not be made: {0}")]
    Generate(#[from] rcgen::Error),
    /// They are not usable for TLS.
    #[error("certificates cannot be used for TLS: {0}")]
    Use(#[from] rustls::Error),
    /// The authority cannot be asked about clients.
    #[error("clients' certificates cannot be verified: {0}")]
    Verify(#[from] rustls::server::VerifierBuilderError),
    /// Their text is not PEM.
    #[error("certificates are not PEM: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
}

/// The names a server answers to beside those given.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// An authority and what it signed, as PEM text.
#[derive(Clone, Debug)]
pub struct Certificates {
    authority: String,
    server: String,
    server_key: String,
    client: String,
    client_key: String,
}

impl Certificates {
    /// A fresh set for a server on a loopback address or at one of `addresses`.
    pub fn generate(addresses: &[IpAddr]) -> Result<Self, TlsError> {
        let authority_key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "coppice-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);

        let loopback = ["127.0.0.1".to_owned(), "::1".to_owned()];
        let given = addresses
            .iter()
            .filter(|address| !address.is_unspecified())
            .map(ToString::to_string);
        let mut names: Vec<String> = NAMES
            .into_iter()
            .map(str::to_owned)
            .chain(loopback)
            .chain(given)
            .collect();
        names.sort();
        names.dedup();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "coppice-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &issuer)?;

        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client_key = KeyPair::generate()?;
        let client = params.signed_by(&client_key, &issuer)?;
        Ok(Self {
            authority: authority.pem(),
            server: server.pem(),
            server_key: server_key.serialize_pem(),
            client: client.pem(),
            client_key: client_key.serialize_pem(),
        })
    }

    /// The authority's certificate.
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    /// The administrator's certificate and key.
    pub fn client_pem(&self) -> (&str, &str) {
        (&self.client, &self.client_key)
    }

    /// Whether a chain that a client showed is one that this authority signed for clients.
    pub(super) fn is_client(&self, chain: &[CertificateDer<'_>]) -> Result<bool, TlsError> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Ok(false);
        };
        let verdict = self
            .verifier()?
            .verify_client_cert(leaf, intermediates, UnixTime::now());
        Ok(verdict.is_ok())
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
    }

    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = vec![CertificateDer::from_pem_slice(self.server.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(self.server_key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(AskOnly(self.verifier()?)))
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Asks clients for a certificate and makes sure that they hold its key, but leaves the verdict on it to the requests: a
/// client with a bad one gets an answer (401), not a broken connection, as from a real server.
#[derive(Debug)]
struct AskOnly(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AskOnly {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
