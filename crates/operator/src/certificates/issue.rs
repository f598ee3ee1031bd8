//! Makes a certificate and the authority that signs it.
//!
//! The key of the authority lives as long as this function: nobody can sign a second certificate with it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;

/// How long a certificate and its authority are valid.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How far back validity begins, for machines whose clocks are behind ours.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// A new certificate, as PEM texts.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// The certificate of the authority that signed it.
    pub authority: String,
}

/// Issues a certificate for these names and addresses.
///
/// # Errors
/// When a name cannot stand in a certificate.
pub fn issue(names: &BTreeSet<String>, now: Timestamp) -> Result<Issued, rcgen::Error> {
    let (from, until) = (moment(now, -BACKDATED), moment(now, LIFETIME));
    let authority_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::OrganizationName, "Grove");
    // Authorities of one name would be mistaken for each other while two are in a bundle.
    let name = format!("Grove-CA {}", now.as_second());
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = (from, until);
    let authority = params.self_signed(&authority_key)?;
    let issuer = Issuer::new(params, authority_key);

    let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, "grove-operator");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (from, until);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Issued {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        authority: authority.pem(),
    })
}

fn moment(now: Timestamp, offset: SignedDuration) -> OffsetDateTime {
    let at = now.saturating_add(offset).unwrap_or(now);
    OffsetDateTime::from_unix_timestamp(at.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
