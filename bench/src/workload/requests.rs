//! Requests by verb, resource and code: read from the audit log of a real API server, which sees every client from the
//! outside and knows it by its user agent, or from what an operator says of itself. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The user agent of this program: its own requests and those of the simulated nodes and controllers.
pub(crate) const DRIVER: &str = "workload-driver";
/// The user agent of the floor client.
pub(crate) const FLOOR: &str = "workload-floor";

/// Whose requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The operator: everybody who is neither this program, nor the floor client, nor the API server itself.
    Operator,
    /// The floor client.
    Floor,
}

/// A number of equal requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Count {
    verb: String,
    resource: String,
    code: String,
    count: u64,
}

/// Requests by verb, resource with subresource, and code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests(BTreeMap<(String, String, String), u64>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Entry {
    verb: String,
    user_agent: String,
    object_ref: Option<Reference>,
    response_status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    resource: String,
    subresource: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

impl Requests {
    /// What `who` asked, by the lines of an audit log. Lines that are no entries are passed over: the last one may be
    /// half written.
    pub(crate) fn of_audit(log: &str, who: Who) -> Self {
        let mut requests = Self::default();
        for entry in log
            .lines()
            .filter_map(|line| serde_json::from_str::<Entry>(line).ok())
            .filter(|entry| sender(&entry.user_agent) == Some(who))
        {
            let Some(object) = entry.object_ref else { continue };
            let resource = match object.subresource.as_str() {
                "" => object.resource,
                subresource => format!("{}/{subresource}", object.resource),
            };
            let code = entry.response_status.map_or(0, |status| status.code).to_string();
            *requests.0.entry((entry.verb, resource, code)).or_default() += 1;
        }
        requests
    }

    /// What our own operator says it asked, by its metrics.
    pub(crate) fn of_metrics(text: &str) -> Self {
        let mut requests = Self::default();
        for line in text.lines() {
            let Some((labels, count)) = line
                .strip_prefix("coppice_client_requests_total")
                .and_then(|rest| rest.rsplit_once(' '))
            else {
                continue;
            };
            let label = |key: &str| {
                let (_, rest) = labels.split_once(&format!("{key}=\"")).unwrap_or_default();
                rest.split('"').next().unwrap_or_default().to_owned()
            };
            // Counters are written as floating-point numbers and count whole requests.
            let count = count.parse::<f64>().map_or(0, |count| count as u64);
            requests
                .0
                .insert((label("verb"), label("resource"), label("code")), count);
        }
        requests
    }

    /// What came after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let later = self.0.iter().filter_map(|(key, count)| {
            let more = count - before.0.get(key).copied().unwrap_or(0);
            (more > 0).then(|| (key.clone(), more))
        });
        Self(later.collect())
    }

    /// Writes of all kinds, refused ones included; events apart.
    pub(crate) fn writes(&self) -> u64 {
        let writes = self.0.iter().filter(|((verb, resource, _), _)| {
            !["get", "list", "watch"].contains(&verb.as_str()) && resource != "events"
        });
        writes.map(|(_, count)| count).sum()
    }

    /// Requests that were refused; a watch that ended is none.
    pub(crate) fn refused(&self) -> u64 {
        let refused = self.0.iter().filter(|((_, _, code), _)| !code.starts_with('2'));
        refused.map(|(_, count)| count).sum()
    }

    /// As a list.
    pub(crate) fn counts(&self) -> Vec<Count> {
        let count = |((verb, resource, code), count): (&(String, String, String), &u64)| Count {
            verb: verb.clone(),
            resource: resource.clone(),
            code: code.clone(),
            count: *count,
        };
        self.0.iter().map(count).collect()
    }
}

fn sender(agent: &str) -> Option<Who> {
    match agent {
        DRIVER | "" => None,
        FLOOR => Some(Who::Floor),
        itself if itself.starts_with("kube-apiserver/") => None,
        _ => Some(Who::Operator),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(agent: &str, verb: &str, subresource: &str, code: u16) -> String {
        format!(
            r#"{{"stage":"ResponseComplete","verb":"{verb}","userAgent":"{agent}","objectRef":{{"resource":"pods","subresource":"{subresource}"}},"responseStatus":{{"code":{code}}}}}"#
        )
    }

    #[test]
    fn an_audit_log_tells_the_clients_apart() {
        let log = [
            entry("coppice/0.1.0", "create", "", 201),
            entry("coppice/0.1.0", "create", "", 201),
            entry("coppice/0.1.0", "patch", "status", 409),
            entry("coppice/0.1.0", "list", "", 200),
            entry(FLOOR, "create", "", 201),
            entry(DRIVER, "create", "binding", 201),
            entry("kube-apiserver/v1.36.3 (linux/amd64)", "list", "", 200),
            r#"{"verb":"create","userAg"#.to_owned(),
        ]
        .join("\n");
        let operator = Requests::of_audit(&log, Who::Operator);
        assert_eq!((operator.writes(), operator.refused()), (3, 1));
        assert_eq!(operator.counts().len(), 3);
        assert_eq!(Requests::of_audit(&log, Who::Floor).writes(), 1);
    }

    #[test]
    fn metrics_are_read_and_subtracted() {
        let line = |count: u32| {
            format!("coppice_client_requests_total{{verb=\"create\",resource=\"pods\",code=\"201\"}} {count}\n# EOF")
        };
        let (before, after) = (Requests::of_metrics(&line(3)), Requests::of_metrics(&line(10)));
        assert_eq!(after.since(&before).writes(), 7);
        assert_eq!(after.since(&after), Requests::default());
    }
}
