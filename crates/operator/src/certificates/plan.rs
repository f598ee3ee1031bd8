//! What to do about the certificate: decided from the Secret, the bundles and the time. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::issue::Issued;
use super::material::{Authority, Material, MaterialError, bundle_of};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next-tls.crt";
const NEXT_KEY: &str = "next-tls.key";

/// How long API servers have to notice that a bundle has changed.
pub const OVERLAP: SignedDuration = SignedDuration::from_mins(2);
/// How far in the future a certificate may begin to be valid because its maker's clock is ahead of ours.
pub const LARGEST_SKEW: SignedDuration = SignedDuration::from_hours(24);

/// What is in the Secret: the current certificate, who is to be trusted, and the next certificate while there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// What is served.
    pub current: Material,
    /// What is served next.
    pub next: Option<Material>,
    /// Whom clients trust.
    pub authorities: Vec<Authority>,
}

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Secret.
    pub secret: Option<&'a Secret>,
    /// What this process has read last, and serves.
    pub held: Option<&'a Stored>,
    /// The CA bundle of every webhook that there is.
    pub bundles: &'a [Vec<u8>],
    /// Since when every bundle has the next certificate's authority, as far as this process has seen.
    pub published_since: Option<Timestamp>,
    /// What clients call us.
    pub names: &'a BTreeSet<String>,
}

/// What to do with the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Keep,
    /// Write a new certificate, at once: the present one serves nobody.
    Issue,
    /// Write back what this process still holds.
    Restore,
    /// Write the next certificate beside the current one.
    Stage,
    /// Make the next certificate the current one.
    Promote,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do with the Secret.
    pub action: Action,
    /// Why, for people.
    pub why: String,
    /// What the Secret holds, if that is usable: to be served and trusted.
    pub stored: Option<Stored>,
    /// Since when every bundle has the next certificate's authority.
    pub published_since: Option<Timestamp>,
    /// When to decide anew if nothing changes before.
    pub wake: Option<Timestamp>,
}

/// A Secret that is not ours to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the Secret holds something else ({0}): delete it, name another one in server.webhooks.secretName, or set \
     server.webhooks.certProvisionMode to manual"
)]
pub struct Foreign(pub String);

/// Decides.
///
/// # Errors
/// When the Secret belongs to somebody else.
pub fn plan_certificates(observed: &Observed<'_>, now: Timestamp) -> Result<Plan, Foreign> {
    let Some(secret) = observed.secret.filter(|secret| !is_empty(secret)) else {
        return Ok(replace(observed, now, "there is no certificate in the Secret"));
    };
    if let Some(reason) = foreign(secret) {
        return Err(Foreign(reason));
    }
    let stored = match Stored::read(secret) {
        Ok(stored) => stored,
        Err(problem) => return Ok(replace(observed, now, &problem.to_string())),
    };
    if let Some(problem) = unusable(&stored, &stored.current, now) {
        let next = stored.next.as_ref();
        if next.is_some_and(|next| unusable(&stored, next, now).is_none()) {
            return Ok(Plan {
                stored: Some(stored),
                ..act(Action::Promote, problem)
            });
        }
        return Ok(replace(observed, now, &problem));
    }
    Ok(Plan {
        stored: Some(stored.clone()),
        ..plan_usable(observed, &stored, now)
    })
}

/// The Secret has nothing usable: what this process still holds is better than something new, which nobody trusts yet.
fn replace(observed: &Observed<'_>, now: Timestamp, why: &str) -> Plan {
    let held = observed
        .held
        .filter(|held| unusable(held, &held.current, now).is_none());
    let action = if held.is_some() { Action::Restore } else { Action::Issue };
    act(action, why.to_owned())
}

fn plan_usable(observed: &Observed<'_>, stored: &Stored, now: Timestamp) -> Plan {
    let missing: Vec<&str> = observed
        .names
        .difference(&stored.current.names)
        .map(String::as_str)
        .collect();
    let next = stored
        .next
        .as_ref()
        .filter(|next| unusable(stored, next, now).is_none() && observed.names.is_subset(&next.names));
    if let Some(next) = next {
        return plan_promotion(observed, stored, next, now);
    }
    if !missing.is_empty() {
        let why = format!("the certificate is not valid for {}", missing.join(", "));
        let trusted = stored
            .authorities_of(&stored.current)
            .any(|authority| observed.bundles.iter().any(|bundle| authority.is_in(bundle)));
        return act(if trusted { Action::Stage } else { Action::Issue }, why);
    }
    let renew_at = renewal(stored);
    if renew_at <= now {
        let why = format!("the certificate expires at {}", expiry(stored, &stored.current));
        return act(Action::Stage, why);
    }
    Plan {
        wake: Some(renew_at),
        ..act(Action::Keep, "the certificate is good".to_owned())
    }
}

fn plan_promotion(observed: &Observed<'_>, stored: &Stored, next: &Material, now: Timestamp) -> Plan {
    let expires = expiry(stored, &stored.current);
    let published = observed
        .bundles
        .iter()
        .all(|bundle| stored.authorities_of(next).any(|authority| authority.is_in(bundle)));
    let since = published.then(|| observed.published_since.unwrap_or(now).min(now));
    let promote_at = since.map(|since| later(since, OVERLAP).min(expires));
    match promote_at {
        Some(at) if at <= now => act(Action::Promote, "API servers trust the next certificate".to_owned()),
        _ => Plan {
            published_since: since,
            wake: Some(promote_at.unwrap_or(expires)),
            ..act(
                Action::Keep,
                "the next certificate waits until API servers trust it".to_owned(),
            )
        },
    }
}

fn act(action: Action, why: String) -> Plan {
    Plan {
        action,
        why,
        stored: None,
        published_since: None,
        wake: None,
    }
}

/// Why a certificate cannot be served now.
fn unusable(stored: &Stored, material: &Material, now: Timestamp) -> Option<String> {
    if stored.authorities_of(material).next().is_none() {
        return Some(MaterialError::UnknownAuthority.to_string());
    }
    let expires = expiry(stored, material);
    if expires <= now {
        return Some(format!("the certificate expired at {expires}"));
    }
    if material.not_before > later(now, LARGEST_SKEW) {
        return Some(format!("the certificate is not valid before {}", material.not_before));
    }
    None
}

/// When a certificate, or whoever signed it, expires.
fn expiry(stored: &Stored, material: &Material) -> Timestamp {
    let authority = stored.authorities_of(material).map(|one| one.not_after).max();
    authority.map_or(material.not_after, |authority| authority.min(material.not_after))
}

/// After two thirds of its life a certificate is renewed.
fn renewal(stored: &Stored) -> Timestamp {
    let (from, until) = (stored.current.not_before, expiry(stored, &stored.current));
    let life = until.duration_since(from);
    later(from, life / 3 * 2)
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn data<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value.map_or(&[], |value| value.0.as_slice())
}

fn is_empty(secret: &Secret) -> bool {
    secret.data.iter().flatten().all(|(_, value)| value.0.is_empty())
}

/// Why a Secret with something in it is not ours.
fn foreign(secret: &Secret) -> Option<String> {
    let annotations = secret.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key("cert-manager.io/certificate-name")) {
        return Some("a certificate of cert-manager".to_owned());
    }
    if let Some(kind) = secret.type_.as_deref().filter(|kind| *kind != SECRET_TYPE) {
        return Some(format!("its type is {kind}"));
    }
    let ours = secret.metadata.labels.as_ref().and_then(|all| all.get(PART_OF));
    match ours.map(String::as_str) {
        Some(PART_OF_VALUE) => None,
        _ => Some(format!("it has no label {PART_OF}: {PART_OF_VALUE}")),
    }
}

/// The type of the Secret.
pub const SECRET_TYPE: &str = "kubernetes.io/tls";
const PART_OF: &str = "app.kubernetes.io/part-of";
const PART_OF_VALUE: &str = "grove";

/// The labels of the Secret. Not those of managed objects: the guard of those is a webhook too, and would stand between us
/// and the certificate that it waits for.
#[must_use]
pub fn labels() -> BTreeMap<String, String> {
    let pairs = [
        (PART_OF, PART_OF_VALUE),
        ("app.kubernetes.io/component", "webhook"),
        ("app.kubernetes.io/name", "grove-webhook-server-cert"),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

impl Stored {
    /// Reads the Secret.
    ///
    /// # Errors
    /// When its current certificate cannot be used. A next certificate that cannot be used is as good as none.
    pub fn read(secret: &Secret) -> Result<Self, MaterialError> {
        let current = Material::read(data(secret, CERTIFICATE), data(secret, KEY))?;
        let authorities = Authority::read_all(data(secret, AUTHORITIES))?;
        let next = Material::read(data(secret, NEXT_CERTIFICATE), data(secret, NEXT_KEY)).ok();
        Ok(Self {
            current,
            next,
            authorities,
        })
    }

    /// What was issued, alone.
    ///
    /// # Errors
    /// When it cannot be read back.
    pub fn of(issued: &Issued) -> Result<Self, MaterialError> {
        Ok(Self {
            current: Material::read(issued.certificate.as_bytes(), issued.key.as_bytes())?,
            next: None,
            authorities: Authority::read_all(issued.authority.as_bytes())?,
        })
    }

    /// The same with the next certificate staged. Authorities that have expired are dropped.
    ///
    /// # Errors
    /// When what was issued cannot be read back.
    pub fn staged(&self, issued: &Issued, now: Timestamp) -> Result<Self, MaterialError> {
        let fresh = Self::of(issued)?;
        let kept = self.authorities.iter().filter(|one| one.not_after > now).cloned();
        Ok(Self {
            current: self.current.clone(),
            next: Some(fresh.current),
            authorities: kept.chain(fresh.authorities).collect(),
        })
    }

    /// The same with the next certificate as the current one.
    #[must_use]
    pub fn promoted(&self) -> Self {
        Self {
            current: self.next.clone().unwrap_or_else(|| self.current.clone()),
            next: None,
            authorities: self.authorities.clone(),
        }
    }

    /// The bundle for clients.
    #[must_use]
    pub fn bundle(&self) -> String {
        bundle_of(&self.authorities)
    }

    /// What to write into the Secret.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::from([
            (CERTIFICATE, self.current.certificate.clone()),
            (KEY, self.current.key.clone()),
            (AUTHORITIES, self.bundle()),
        ]);
        if let Some(next) = &self.next {
            data.insert(NEXT_CERTIFICATE, next.certificate.clone());
            data.insert(NEXT_KEY, next.key.clone());
        }
        data.into_iter()
            .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
            .collect()
    }

    fn authorities_of<'a>(&'a self, material: &'a Material) -> impl Iterator<Item = &'a Authority> {
        self.authorities
            .iter()
            .filter(move |authority| material.is_signed_by(authority))
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
