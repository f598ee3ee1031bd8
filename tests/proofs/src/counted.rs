//! The workload whose writes are counted: many replicas of two pods, from nothing to ready, then a trigger that changes
//! nothing. What the operator asked of the API server is read from its own metrics.

use std::collections::BTreeMap;
use std::fmt;

use coppice_runtime::metrics::Metrics;
use serde_json::{Value, json};

/// The set: one clique of two pods in each replica.
pub fn workload(replicas: u32) -> Value {
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "scale", "namespace": "default"},
        "spec": {"replicas": replicas, "template": {
            "headlessServiceConfig": {"publishNotReadyAddresses": true},
            "terminationDelay": "4h",
            "cliques": [{"name": "worker", "spec": {
                "roleName": "worker", "replicas": 2, "minAvailable": 2,
                "podSpec": {"containers": [{"name": "main", "image": "worker:1",
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]},
            }}],
        }},
    })
}

/// Requests by verb, resource and code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    by_kind: BTreeMap<(String, String, String), u64>,
    /// Runs of keys.
    pub reconciles: u64,
}

impl Requests {
    /// What a client and an operator have counted so far.
    pub fn of(metrics: &Metrics) -> Self {
        let mut requests = Self::default();
        for line in metrics.render().lines() {
            let Some((name, count)) = line.rsplit_once(' ') else {
                continue;
            };
            let count = || count.parse::<f64>().map_or(0, |count| count as u64);
            if name.starts_with("coppice_queue_runs_total") {
                requests.reconciles += count();
            } else if let Some(labels) = name.strip_prefix("coppice_client_requests_total") {
                let label = |key: &str| {
                    let (_, rest) = labels.split_once(&format!("{key}=\"")).unwrap_or_default();
                    rest.split('"').next().unwrap_or_default().to_owned()
                };
                requests
                    .by_kind
                    .insert((label("verb"), label("resource"), label("code")), count());
            }
        }
        requests
    }

    /// What came after `before`.
    pub fn since(&self, before: &Self) -> Self {
        let later = self.by_kind.iter().filter_map(|(key, count)| {
            let more = count - before.by_kind.get(key).copied().unwrap_or(0);
            (more > 0).then(|| (key.clone(), more))
        });
        Self {
            by_kind: later.collect(),
            reconciles: self.reconciles - before.reconciles,
        }
    }

    fn sum(&self, wanted: impl Fn(&str, &str, &str) -> bool) -> u64 {
        let all = self.by_kind.iter();
        all.filter(|((verb, resource, code), _)| wanted(verb, resource, code))
            .map(|(_, count)| count)
            .sum()
    }

    /// Writes of a resource, its status included; of all resources when none is given.
    pub fn writes(&self, of: Option<&str>) -> u64 {
        self.sum(|verb, resource, _| {
            let reads = ["get", "list", "watch"].contains(&verb);
            !reads && of.is_none_or(|of| resource.split('/').next() == Some(of))
        })
    }

    /// Requests that met a conflict.
    pub fn conflicts(&self) -> u64 {
        self.sum(|_, _, code| code == "409")
    }

    /// Requests that failed in any way; a watch that ends is none.
    pub fn failures(&self) -> u64 {
        self.sum(|_, _, code| !code.starts_with('2'))
    }

    /// Checks the budget of a workload of so many replicas from nothing to ready. How often the status of a gang is
    /// written depends on how far apart its pods are scheduled.
    ///
    /// # Errors
    /// What was exceeded, in words.
    pub fn within_budget(&self, replicas: u64, statuses_of_a_gang: u64) -> Result<(), String> {
        let budget = [
            ("pods", 2 * replicas),
            ("podcliques", 3 * replicas),
            ("podgangs", (1 + statuses_of_a_gang) * replicas),
            ("podgangmaps", replicas),
            ("services", replicas),
        ];
        for (resource, most) in budget {
            let writes = self.writes(Some(resource));
            if writes > most {
                return Err(format!("{writes} writes of {resource}, {most} are allowed\n{self}"));
            }
        }
        match self.conflicts() {
            0 => Ok(()),
            conflicts => Err(format!("{conflicts} requests were answered 409\n{self}")),
        }
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((verb, resource, code), count) in &self.by_kind {
            writeln!(formatter, "{count:>8}  {verb} {resource} ({code})")?;
        }
        write!(formatter, "{:>8}  reconciles", self.reconciles)
    }
}
