//! The check of the webhooks: configurations, whom they trust, and the certificate that is served.

use coppice_operator::certificates::bundles::bundles;
use coppice_operator::certificates::material::Authority;
use coppice_operator::certificates::plan::Stored;
use coppice_operator::webhooks::{Endpoint, in_process};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Finding;
use super::facts::Facts;

const CHECK: &str = "webhooks";
/// Certificates are renewed long before this.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
const LOGS: &str = "look at the operator's log: it keeps the certificate (docs/operations.md)";

/// All that is wrong with the webhooks, or that nothing is.
pub(super) fn check(facts: &Facts, now: Timestamp) -> Vec<Finding> {
    let mut there: Vec<(Endpoint, &Value)> = Vec::new();
    let mut missing = Vec::new();
    for (endpoint, found) in &facts.webhooks {
        match found {
            Ok(Some(configuration)) => there.push((*endpoint, configuration)),
            // The guard of managed objects is for those who want it.
            Ok(None) if *endpoint == Endpoint::Authorize => {}
            Ok(None) => missing.push(endpoint.configuration()),
            Err(error) => {
                let next = "ask for the right to read webhook configurations";
                return vec![Finding::warn(CHECK, format!("cannot be read: {error}"), next)];
            }
        }
    }
    if there.is_empty() {
        let message = "none: sets are neither defaulted nor judged when they are applied";
        let next = "kubectl apply --server-side -f deploy/install.yaml; until then: coppice lint -f FILE";
        return vec![Finding::warn(CHECK, message, next)];
    }
    let mut findings = Vec::new();
    if !missing.is_empty() {
        let next = "kubectl apply --server-side -f deploy/install.yaml";
        findings.push(Finding::fail(CHECK, format!("missing: {}", missing.join(", ")), next));
    }
    let in_process = |configuration: &Value| {
        let url = configuration["webhooks"][0]["clientConfig"]["url"].as_str();
        url.is_some_and(|url| url.starts_with(in_process::ADDRESS))
    };
    if there.iter().all(|(_, configuration)| in_process(configuration)) {
        if findings.is_empty() {
            findings.push(Finding::ok(
                CHECK,
                format!("{} are answered in the API server's process", there.len()),
            ));
        }
        return findings;
    }
    let stored = match &facts.certificate {
        Ok(Some(secret)) => match Stored::read(secret) {
            Ok(stored) => Some(stored),
            Err(error) => {
                findings.push(Finding::fail(
                    CHECK,
                    format!("the certificate cannot be used: {error}"),
                    LOGS,
                ));
                None
            }
        },
        _ => None,
    };
    for (endpoint, configuration) in &there {
        findings.extend(trust(endpoint.configuration(), configuration, stored.as_ref(), now));
    }
    if let Some(stored) = &stored {
        findings.extend(lifetime("the certificate", stored.current.not_after, now));
    }
    if findings.is_empty() {
        let how = match (&stored, &facts.certificate) {
            (Some(stored), _) => format!(
                "trust the certificate, which is valid until {}",
                day(stored.current.not_after)
            ),
            (None, Err(_)) => "have a CA bundle; the certificate may not be read with your rights".to_owned(),
            (None, Ok(_)) => "have a CA bundle; the certificate is not in the operator's own Secret".to_owned(),
        };
        findings.push(Finding::ok(CHECK, format!("all {} {how}", there.len())));
    }
    findings
}

/// Whether the API server can trust who answers.
fn trust(name: &str, configuration: &Value, stored: Option<&Stored>, now: Timestamp) -> Option<Finding> {
    for bundle in bundles(configuration) {
        if bundle.is_empty() {
            let message = format!("{name} has no CA bundle: the API server cannot ask, and refuses sets");
            return Some(Finding::fail(CHECK, message, LOGS));
        }
        let authorities = match Authority::read_all(&bundle) {
            Ok(authorities) => authorities,
            Err(error) => return Some(Finding::fail(CHECK, format!("{name}: {error}"), LOGS)),
        };
        if authorities.iter().all(|authority| authority.not_after <= now) {
            let message = format!("{name}: every authority in its CA bundle has expired");
            return Some(Finding::fail(CHECK, message, LOGS));
        }
        if let Some(stored) = stored {
            let signed = authorities
                .iter()
                .any(|authority| stored.current.is_signed_by(authority));
            if !signed {
                let message = format!("{name}: the certificate is not signed by any CA in the bundle");
                return Some(Finding::fail(CHECK, message, LOGS));
            }
        }
    }
    None
}

fn lifetime(what: &str, until: Timestamp, now: Timestamp) -> Option<Finding> {
    if until <= now {
        return Some(Finding::fail(CHECK, format!("{what} expired on {}", day(until)), LOGS));
    }
    (until.duration_since(now) < SOON).then(|| Finding::warn(CHECK, format!("{what} expires on {}", day(until)), LOGS))
}

fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}
