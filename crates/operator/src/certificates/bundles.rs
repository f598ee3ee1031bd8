//! Webhook configurations as seen from the certificate: which names they call us by, and whom they trust. Pure.

use std::collections::BTreeSet;

use base64::Engine as _;
use serde_json::{Value, json};

fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten()
}

/// The CA bundle of each webhook; empty where there is none.
pub fn bundles(configuration: &Value) -> impl Iterator<Item = Vec<u8>> {
    webhooks(configuration).map(|webhook| {
        let text = webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap_or_default()
    })
}

/// The names by which the webhooks are called.
#[must_use]
pub fn names(configuration: &Value) -> BTreeSet<String> {
    let name = |webhook: &Value| {
        let client = &webhook["clientConfig"];
        if let Some(url) = client["url"].as_str() {
            return host(url);
        }
        let (name, namespace) = (
            client["service"]["name"].as_str()?,
            client["service"]["namespace"].as_str()?,
        );
        Some(format!("{name}.{namespace}.svc"))
    };
    webhooks(configuration).filter_map(name).collect()
}

fn host(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    (!host.is_empty()).then(|| host.to_owned())
}

/// The configuration with this bundle in every webhook; none when it is there already.
#[must_use]
pub fn with_bundle(configuration: &Value, bundle: &str) -> Option<Value> {
    let encoded = base64::engine::general_purpose::STANDARD.encode(bundle);
    let is_there = |webhook: &Value| webhook["clientConfig"]["caBundle"] == encoded.as_str();
    if webhooks(configuration).all(is_there) {
        return None;
    }
    let mut changed = configuration.clone();
    for webhook in changed["webhooks"].as_array_mut().into_iter().flatten() {
        webhook["clientConfig"]["caBundle"] = json!(encoded);
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> Value {
        json!({"metadata": {"name": "c"}, "webhooks": [
            {"name": "a", "clientConfig": {"service": {"name": "s", "namespace": "n"}}},
            {"name": "b", "clientConfig": {"url": "https://127.0.0.1:9443/x"}},
            {"name": "c", "clientConfig": {"url": "https://[::1]:9443/x", "caBundle": "b2xk"}},
            {"name": "d", "clientConfig": {"url": "https://host.example"}},
        ]})
    }

    #[test]
    fn names_are_those_that_api_servers_verify() {
        let expected = ["127.0.0.1", "::1", "host.example", "s.n.svc"].map(str::to_owned);
        assert_eq!(names(&configuration()), BTreeSet::from(expected));
    }

    #[test]
    fn a_bundle_is_written_once() {
        let before = configuration();
        assert_eq!(bundles(&before).nth(2).unwrap(), b"old");
        let after = with_bundle(&before, "new").unwrap();
        assert!(bundles(&after).all(|bundle| bundle == b"new"));
        assert_eq!(with_bundle(&after, "new"), None);
        assert_eq!(
            after["webhooks"][0]["clientConfig"]["service"],
            before["webhooks"][0]["clientConfig"]["service"]
        );
    }
}
