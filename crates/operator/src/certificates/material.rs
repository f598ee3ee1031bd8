//! Certificates and keys as they are read: checked once, then known to be usable.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Why certificates cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MaterialError {
    /// Something is not there.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A text is not PEM.
    #[error("{what} is not PEM: {reason}")]
    NotPem {
        /// Which.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// A certificate cannot be read.
    #[error("{what} has a certificate that cannot be read: {reason}")]
    NotCertificate {
        /// Which.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The key is not that of the certificate, or of an unknown kind.
    #[error("key and certificate do not fit: {0}")]
    KeyMismatch(String),
    /// Nobody in the bundle signed the certificate.
    #[error("the certificate is not signed by any CA in ca.crt")]
    UnknownAuthority,
}

/// A certificate with its key, ready to be served.
#[derive(Clone)]
pub struct Material {
    /// The chain as PEM.
    pub certificate: String,
    /// The key as PEM.
    pub key: String,
    /// From when it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// The names and addresses that it is valid for.
    pub names: BTreeSet<String>,
    pub(crate) certified: Arc<CertifiedKey>,
}

impl fmt::Debug for Material {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Material")
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Material {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate && self.key == other.key
    }
}

impl Material {
    /// Reads PEM texts, and checks that they belong together.
    ///
    /// # Errors
    /// When they cannot be served.
    pub fn read(certificate: &[u8], key: &[u8]) -> Result<Self, MaterialError> {
        let chain = certificates("tls.crt", certificate)?;
        if key.iter().all(u8::is_ascii_whitespace) {
            return Err(MaterialError::Empty("tls.key"));
        }
        let private = PrivateKeyDer::from_pem_slice(key).map_err(|error| MaterialError::NotPem {
            what: "tls.key",
            reason: error.to_string(),
        })?;
        let leaf = chain.first().ok_or(MaterialError::Empty("tls.crt"))?.clone();
        let parsed = parse("tls.crt", &leaf)?;
        let (not_before, not_after) = validity(&parsed);
        let names = names(&parsed);
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = CertifiedKey::from_der(chain, private, &provider)
            .map_err(|error| MaterialError::KeyMismatch(error.to_string()))?;
        Ok(Self {
            certificate: text(certificate),
            key: text(key),
            not_before,
            not_after,
            names,
            certified: Arc::new(certified),
        })
    }

    /// Whether this authority signed it.
    #[must_use]
    pub fn is_signed_by(&self, authority: &Authority) -> bool {
        let leaf = self.certified.cert.first();
        let leaf = leaf.and_then(|leaf| parse("tls.crt", leaf).ok());
        let issuer = parse("ca.crt", &authority.der).ok();
        match (leaf, issuer) {
            (Some(leaf), Some(issuer)) => {
                leaf.issuer() == issuer.subject() && leaf.verify_signature(Some(issuer.public_key())).is_ok()
            }
            _ => false,
        }
    }
}

/// The certificate of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// As PEM.
    pub pem: String,
    /// Until when it is valid.
    pub not_after: Timestamp,
    der: CertificateDer<'static>,
}

impl Authority {
    /// Reads all authorities of a bundle, each once.
    ///
    /// # Errors
    /// When one of them cannot be read, or there is none.
    pub fn read_all(bundle: &[u8]) -> Result<Vec<Self>, MaterialError> {
        let mut all: Vec<Self> = Vec::new();
        for der in certificates("ca.crt", bundle)? {
            let not_after = validity(&parse("ca.crt", &der)?).1;
            let one = Self {
                pem: pem(&der),
                not_after,
                der,
            };
            if !all.contains(&one) {
                all.push(one);
            }
        }
        Ok(all)
    }

    /// Whether a bundle contains it. One that cannot be read contains nothing.
    #[must_use]
    pub fn is_in(&self, bundle: &[u8]) -> bool {
        Self::read_all(bundle).is_ok_and(|all| all.iter().any(|one| one.der == self.der))
    }
}

/// The bundle of some authorities, as PEM.
#[must_use]
pub fn bundle_of<'a>(authorities: impl IntoIterator<Item = &'a Authority>) -> String {
    authorities.into_iter().map(|one| one.pem.as_str()).collect()
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| MaterialError::NotPem {
        what,
        reason: error.to_string(),
    })?;
    if all.is_empty() {
        return Err(MaterialError::Empty(what));
    }
    Ok(all)
}

fn parse<'a>(what: &'static str, der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, MaterialError> {
    let parsed = X509Certificate::from_der(der).map_err(|error| MaterialError::NotCertificate {
        what,
        reason: error.to_string(),
    })?;
    Ok(parsed.1)
}

fn validity(certificate: &X509Certificate<'_>) -> (Timestamp, Timestamp) {
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    let validity = certificate.validity();
    (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()))
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

fn address(bytes: &[u8]) -> Option<String> {
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(address.to_string())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn pem(der: &CertificateDer<'_>) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = encoded
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}
