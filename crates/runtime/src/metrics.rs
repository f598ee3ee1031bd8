//! Metrics without globals: a registry that hands out families by name and renders itself as text.
//!
//! Owns the registry. Asking twice for a name gives the same family, so that several queues or clients share one with
//! different labels. Never decides anything; families iterate in no particular order.
//!
//! ```
//! use coppice_runtime::metrics::Metrics;
//! let metrics = Metrics::new("coppice");
//! metrics.counter("writes", "Writes by verb").with(&[("verb", "create")]).inc();
//! assert!(metrics.render().contains("coppice_writes_total{verb=\"create\"} 1"));
//! ```

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::{Family as PrometheusFamily, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::Registry,
};

type LabelSet = Vec<(String, String)>;

/// Makes histograms with the buckets of their family.
#[derive(Debug, Clone)]
pub struct Buckets(Arc<[f64]>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Seconds, from half a millisecond to five minutes.
pub const SECONDS: &[f64] = &[
    0.0005, 0.002, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// A family of metrics of one name.
#[derive(Debug)]
pub struct Family<M, C = fn() -> M> {
    inner: PrometheusFamily<LabelSet, M, C>,
}

impl<M, C: Clone> Clone for Family<M, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<M: Clone, C: MetricConstructor<M>> Family<M, C> {
    /// The metric with these labels, made when it is not there yet.
    pub fn with(&self, labels: &[(&str, &str)]) -> M {
        let labels: LabelSet = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        self.inner.get_or_create(&labels).clone()
    }
}

/// A family of histograms.
pub type HistogramFamily = Family<Histogram, Buckets>;

#[derive(Default)]
struct Registered {
    registry: Registry,
    counters: BTreeMap<String, Family<Counter>>,
    gauges: BTreeMap<String, Family<Gauge>>,
    histograms: BTreeMap<String, HistogramFamily>,
}

/// The metrics of one process, test or simulated actor. Clones share.
#[derive(Clone)]
pub struct Metrics {
    registered: Arc<Mutex<Registered>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new("coppice")
    }
}

impl Metrics {
    /// An empty registry; all names begin with `prefix` and an underscore.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        let registered = Registered {
            registry: Registry::with_prefix(prefix),
            ..Registered::default()
        };
        Self {
            registered: Arc::new(Mutex::new(registered)),
        }
    }

    /// The counter of this name; the suffix `_total` is added when it is rendered.
    pub fn counter(&self, name: &str, help: &str) -> Family<Counter> {
        let Registered { registry, counters, .. } = &mut *self.registered.lock();
        let make = || {
            let family = Family {
                inner: PrometheusFamily::new_with_constructor(Counter::default as fn() -> Counter),
            };
            registry.register(name, help, family.inner.clone());
            family
        };
        counters.entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// The gauge of this name.
    pub fn gauge(&self, name: &str, help: &str) -> Family<Gauge> {
        let Registered { registry, gauges, .. } = &mut *self.registered.lock();
        let make = || {
            let family = Family {
                inner: PrometheusFamily::new_with_constructor(Gauge::default as fn() -> Gauge),
            };
            registry.register(name, help, family.inner.clone());
            family
        };
        gauges.entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// The histogram of this name, with the buckets of whoever asked first.
    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> HistogramFamily {
        let Registered {
            registry, histograms, ..
        } = &mut *self.registered.lock();
        let make = || {
            let family = Family {
                inner: PrometheusFamily::new_with_constructor(Buckets(buckets.into())),
            };
            registry.register(name, help, family.inner.clone());
            family
        };
        histograms.entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// All metrics in the text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registered.lock().registry).expect("writing to a string does not fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_one_family() {
        let metrics = Metrics::new("test");
        metrics.counter("runs", "Runs").with(&[("queue", "a")]).inc();
        metrics.counter("runs", "Runs").with(&[("queue", "b")]).inc_by(2);
        metrics.gauge("depth", "Depth").with(&[]).set(7);
        metrics
            .histogram("wait_seconds", "Wait", SECONDS)
            .with(&[])
            .observe(0.3);
        let text = metrics.render();
        assert_eq!(text.matches("# HELP test_runs Runs").count(), 1);
        assert!(text.contains("test_runs_total{queue=\"a\"} 1") && text.contains("test_runs_total{queue=\"b\"} 2"));
        assert!(
            text.contains("test_depth 7") || text.contains("test_depth{} 7"),
            "{text}"
        );
        assert!(text.contains("test_wait_seconds_bucket{le=\"0.5\"} 1"), "{text}");
    }

    #[test]
    fn registries_are_apart() {
        let (one, two) = (Metrics::new("test"), Metrics::new("test"));
        one.counter("runs", "Runs").with(&[]).inc();
        assert!(!two.render().contains("runs"));
    }
}
