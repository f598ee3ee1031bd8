//! The results: as JSON with every round, and as a table of medians. A ratio is the median of the ratios of the rounds,
//! each of which ran on both servers within seconds, so that what else the machine did weighs on both.

use std::fmt::Write as _;

use serde::Serialize;

use crate::alone::Memory;
use crate::load::{Measured, Round, Sizes};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Where it ran.
    pub(crate) machine: String,
    /// When, in seconds since 1970.
    pub(crate) unix_time: u64,
    /// What the embedded server was compared with; absent when it was measured alone.
    pub(crate) real: Option<RealServer>,
    /// How much was sent per round.
    pub(crate) sizes: Sizes,
    /// The medians.
    pub(crate) summary: Vec<Row>,
    /// The rounds behind the medians.
    pub(crate) rounds: Vec<Pair>,
    /// The memory of the embedded server with a large cluster.
    pub(crate) memory: Option<Memory>,
    /// Milliseconds from start to ready of the embedded server.
    pub(crate) start_milliseconds: Vec<f64>,
}

/// The other server.
#[derive(Debug, Serialize)]
pub(crate) struct RealServer {
    /// The version of kube-apiserver.
    pub(crate) kube_apiserver: String,
    /// The version of etcd.
    pub(crate) etcd: String,
    /// Whether etcd flushes every write to disk, which is its default.
    pub(crate) etcd_flushes_to_disk: bool,
    /// Milliseconds until both programs were ready.
    pub(crate) start_milliseconds: f64,
}

/// One round on both servers.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Pair {
    /// On the embedded one.
    pub(crate) embedded: Round,
    /// On the real one.
    pub(crate) real: Option<Round>,
}

/// The medians of one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    load: &'static str,
    embedded_per_second: f64,
    real_per_second: Option<f64>,
    throughput_ratio: Option<f64>,
    embedded_cpu_micros: f64,
    real_cpu_micros: Option<f64>,
    server_cpu_ratio: Option<f64>,
    client_cpu_micros: f64,
}

type Load = (&'static str, fn(&Round) -> Measured);

const LOADS: [Load; 4] = [
    ("pod creates", |round| round.creates),
    ("pod status patches", |round| round.patches),
    ("deliveries to watchers", |round| round.fan_out),
    ("deliveries, each at best", |round| {
        round.further_fan_out.unwrap_or(round.fan_out)
    }),
];

/// The medians of all loads.
pub(crate) fn summarise(rounds: &[Pair]) -> Vec<Row> {
    let row = |(load, of): &Load| {
        let over = |value: &dyn Fn(&Pair) -> Option<f64>| median(rounds.iter().filter_map(value).collect());
        let embedded = |value: fn(&Measured) -> f64| over(&|pair| Some(value(&of(&pair.embedded))));
        let real = |value: fn(&Measured) -> f64| over(&|pair| pair.real.as_ref().map(|round| value(&of(round))));
        let ratio = |value: fn(&Measured, &Measured) -> f64| {
            over(&|pair| {
                let real = pair.real.as_ref()?;
                Some(value(&of(&pair.embedded), &of(real)))
            })
        };
        Row {
            load,
            embedded_per_second: embedded(Measured::per_second).unwrap_or_default(),
            real_per_second: real(Measured::per_second),
            throughput_ratio: ratio(|embedded, real| embedded.per_second() / real.per_second()),
            embedded_cpu_micros: embedded(Measured::server_micros).unwrap_or_default(),
            real_cpu_micros: real(Measured::server_micros),
            server_cpu_ratio: ratio(|embedded, real| real.server_micros() / embedded.server_micros()),
            client_cpu_micros: embedded(Measured::client_micros).unwrap_or_default(),
        }
    };
    LOADS.iter().map(row).collect()
}

/// The middle value; of an even number of values the lower of the two.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

impl Report {
    /// The results for people.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "machine: {}", self.machine);
        if let Some(real) = &self.real {
            let flush = if real.etcd_flushes_to_disk { "with" } else { "without" };
            let _ = writeln!(
                text,
                "real:    kube-apiserver {} and etcd {} {flush} flushing to disk",
                real.kube_apiserver, real.etcd
            );
        }
        let Sizes {
            pods,
            connections,
            watchers,
            events,
            ahead,
            further_ahead,
        } = self.sizes;
        let _ = writeln!(
            text,
            "load:    {} rounds of {pods} creates and {pods} patches over {connections} connections, then {events} \
             events to {watchers} watchers, at most {ahead} ahead of the slowest (embedded at best: {further_ahead})\n",
            self.rounds.len()
        );
        let _ = writeln!(
            text,
            "{:26}{:>11} {:>11} {:>8}   {:>11} {:>11} {:>8}   {:>11}",
            "median of rounds", "embedded/s", "real/s", "ratio", "CPU us", "real CPU us", "ratio", "client us"
        );
        for row in &self.summary {
            let _ = writeln!(
                text,
                "{:26}{:>11.0} {:>11} {:>8}   {:>11.1} {:>11} {:>8}   {:>11.1}",
                row.load,
                row.embedded_per_second,
                shown(row.real_per_second, 0),
                shown(row.throughput_ratio, 1),
                row.embedded_cpu_micros,
                shown(row.real_cpu_micros, 1),
                shown(row.server_cpu_ratio, 1),
                row.client_cpu_micros,
            );
        }
        if let Some(memory) = &self.memory {
            let mebibytes = |bytes: u64| bytes >> 20;
            let _ = writeln!(
                text,
                "\nmemory of the embedded server with {} pods and {} nodes ({} MiB of JSON): {} MiB, at most {} MiB",
                memory.pods,
                memory.nodes,
                mebibytes(memory.json_bytes),
                mebibytes(memory.resident_bytes),
                mebibytes(memory.peak_bytes)
            );
        }
        if let Some(middle) = median(self.start_milliseconds.clone()) {
            let slowest = self.start_milliseconds.iter().copied().fold(0.0, f64::max);
            let _ = writeln!(
                text,
                "start to ready: {middle:.1} ms (median of {}, slowest {slowest:.1} ms)",
                self.start_milliseconds.len()
            );
        }
        if let Some(real) = &self.real {
            let _ = writeln!(
                text,
                "start to ready of the real one: {:.0} ms (once)",
                real.start_milliseconds
            );
        }
        text
    }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(seconds: f64) -> Round {
        let measured = Measured {
            count: 1000,
            seconds,
            server_cpu_seconds: seconds,
            client_cpu_seconds: seconds / 2.0,
        };
        Round {
            creates: measured,
            patches: measured,
            fan_out: measured,
            further_fan_out: None,
        }
    }

    #[test]
    fn ratios_are_medians_of_pairs() {
        // The second round was disturbed on both sides, which its ratio does not show.
        let pairs = [(1.0, 10.0), (5.0, 50.0), (2.0, 14.0)].map(|(embedded, real)| Pair {
            embedded: round(embedded),
            real: Some(round(real)),
        });
        let rows = summarise(&pairs);
        assert_eq!(rows[0].throughput_ratio, Some(10.0));
        assert_eq!(rows[0].server_cpu_ratio, Some(10.0));
        assert_eq!(rows[0].embedded_per_second, 500.0);
        assert_eq!(rows[0].client_cpu_micros, 1000.0);
    }

    #[test]
    fn the_embedded_server_alone_has_no_ratio() {
        let rows = summarise(&[Pair {
            embedded: round(1.0),
            real: None,
        }]);
        assert_eq!(rows[2].throughput_ratio, None);
        assert_eq!(rows[2].embedded_per_second, 1000.0);
    }

    #[test]
    fn a_server_that_bears_more_is_compared_at_its_best() {
        let mut pair = Pair {
            embedded: round(4.0),
            real: Some(round(12.0)),
        };
        pair.embedded.further_fan_out = Some(round(3.0).fan_out);
        let rows = summarise(&[pair]);
        assert_eq!(
            (rows[2].throughput_ratio, rows[3].throughput_ratio),
            (Some(3.0), Some(4.0))
        );
    }

    #[test]
    fn the_median_of_nothing_is_nothing() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(1.0));
    }
}
