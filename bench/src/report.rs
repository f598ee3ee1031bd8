//! The results: as JSON with every round, and as a table of medians. A ratio is the median of the ratios of the rounds,
//! each of which ran on both servers within seconds, so that what else the machine did weighs on both.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use crate::alone::Memory;
use crate::fan_out::FanOut;
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pair {
    /// On the embedded one.
    pub(crate) embedded: Round,
    /// On the real one.
    pub(crate) real: Option<Round>,
}

/// The medians of one load. A server that did not bear the load in every round has none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    load: String,
    embedded_per_second: Option<f64>,
    real_per_second: Option<f64>,
    throughput_ratio: Option<f64>,
    embedded_cpu_micros: Option<f64>,
    real_cpu_micros: Option<f64>,
    server_cpu_ratio: Option<f64>,
    client_cpu_micros: Option<f64>,
}

/// The medians of all loads.
pub(crate) fn summarise(rounds: &[Pair]) -> Vec<Row> {
    let embedded: Vec<&Round> = rounds.iter().map(|pair| &pair.embedded).collect();
    let real: Vec<&Round> = rounds.iter().filter_map(|pair| pair.real.as_ref()).collect();
    let both = |load: &str, of: &dyn Fn(&Round) -> Option<Measured>| {
        row(load.to_owned(), &measured(&embedded, of), &measured(&real, of))
    };
    let mut rows = vec![
        both("pod creates", &|round| Some(round.creates)),
        both("pod status patches", &|round| Some(round.patches)),
    ];
    for (of, watched) in WATCHED {
        rows.extend(deliveries(of, watched, &embedded, &real));
    }
    rows
}

/// The part of a round in which something was watched.
type Watched = fn(&Round) -> &[FanOut];

/// Deliveries with every number of events ahead, and with the number that was best for each server.
fn deliveries(of: &str, watched: Watched, embedded: &[&Round], real: &[&Round]) -> Vec<Row> {
    let fan_outs = embedded.iter().chain(real).flat_map(|round| watched(round));
    let levels: BTreeSet<usize> = fan_outs.map(|fan_out| fan_out.ahead).collect();
    let with = |ahead: usize, rounds: &[&Round]| measured(rounds, &|round| delivered(watched(round), ahead));
    let mut rows: Vec<Row> = levels
        .iter()
        .map(|ahead| {
            let load = format!("{of} deliveries, {ahead} ahead");
            row(load, &with(*ahead, embedded), &with(*ahead, real))
        })
        .collect();
    let best = |rounds: &[&Round]| {
        let per_second = |all: &[Measured]| median(all.iter().map(Measured::per_second).collect());
        let rated = levels
            .iter()
            .filter_map(|ahead| Some((*ahead, per_second(&with(*ahead, rounds))?)));
        let (ahead, _) = rated.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        Some((ahead, with(ahead, rounds)))
    };
    let (embedded, real) = (best(embedded), best(real));
    let number = |best: &Option<(usize, Vec<Measured>)>| match best {
        Some((ahead, _)) => ahead.to_string(),
        None => "-".to_owned(),
    };
    let load = format!("{of} deliveries at best ({} / {})", number(&embedded), number(&real));
    let figures = |best: Option<(usize, Vec<Measured>)>| best.map(|(_, measured)| measured).unwrap_or_default();
    rows.push(row(load, &figures(embedded), &figures(real)));
    rows
}

/// A load in every round; nothing if the server did not bear it in one of them.
fn measured(rounds: &[&Round], of: &dyn Fn(&Round) -> Option<Measured>) -> Vec<Measured> {
    let all: Option<Vec<Measured>> = rounds.iter().map(|round| of(round)).collect();
    all.unwrap_or_default()
}

fn delivered(fan_outs: &[FanOut], ahead: usize) -> Option<Measured> {
    let fan_out = fan_outs.iter().find(|fan_out| fan_out.ahead == ahead)?;
    Some(fan_out.measured?.measured)
}

fn row(load: String, embedded: &[Measured], real: &[Measured]) -> Row {
    let middle = |all: &[Measured], value: fn(&Measured) -> f64| median(all.iter().map(value).collect());
    let ratio = |value: fn(&Measured, &Measured) -> f64| {
        let pairs = embedded.iter().zip(real);
        median(pairs.map(|(embedded, real)| value(embedded, real)).collect())
    };
    Row {
        load,
        embedded_per_second: middle(embedded, Measured::per_second),
        real_per_second: middle(real, Measured::per_second),
        throughput_ratio: ratio(|embedded, real| embedded.per_second() / real.per_second()),
        embedded_cpu_micros: middle(embedded, Measured::server_micros),
        real_cpu_micros: middle(real, Measured::server_micros),
        server_cpu_ratio: ratio(|embedded, real| real.server_micros() / embedded.server_micros()),
        client_cpu_micros: middle(embedded, Measured::client_micros),
    }
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
        } = &self.sizes;
        let _ = writeln!(
            text,
            "load:    {} rounds of {pods} creates and {pods} patches over {connections} connections, then {events} \
             events of pods and {events} of endpoint slices to {watchers} watchers, at most {} of them ahead of the slowest\n",
            self.rounds.len(),
            ahead.iter().map(usize::to_string).collect::<Vec<_>>().join(", then ")
        );
        let _ = writeln!(
            text,
            "{:30}{:>11} {:>11} {:>8}   {:>11} {:>11} {:>8}   {:>11}",
            "median of rounds", "embedded/s", "real/s", "ratio", "CPU us", "real CPU us", "ratio", "client us"
        );
        for row in &self.summary {
            let _ = writeln!(
                text,
                "{:30}{:>11} {:>11} {:>8}   {:>11} {:>11} {:>8}   {:>11}",
                row.load,
                shown(row.embedded_per_second, 0),
                shown(row.real_per_second, 0),
                shown(row.throughput_ratio, 1),
                shown(row.embedded_cpu_micros, 1),
                shown(row.real_cpu_micros, 1),
                shown(row.server_cpu_ratio, 1),
                shown(row.client_cpu_micros, 1),
            );
        }
        for (of, watched) in WATCHED {
            self.say_of_events(&mut text, of, watched);
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

/// What was watched, by name.
const WATCHED: [(&str, Watched); 2] = [
    ("pod", |round| &round.pod_events),
    ("slice", |round| &round.slice_events),
];

impl Report {
    /// How long the events were, and where the real server ended watches, round by round.
    fn say_of_events(&self, text: &mut String, of: &str, watched: Watched) {
        let length = |rounds: &mut dyn Iterator<Item = &Round>| {
            let lengths: Vec<usize> = rounds
                .flat_map(&watched)
                .filter_map(|fan_out| Some(fan_out.measured?.event_bytes))
                .collect();
            lengths.iter().sum::<usize>().checked_div(lengths.len())
        };
        let embedded = length(&mut self.rounds.iter().map(|pair| &pair.embedded));
        let real = self.rounds.iter().filter_map(|pair| pair.real.as_ref());
        if let Some(embedded) = embedded {
            let real =
                length(&mut real.clone()).map_or_else(String::new, |real| format!(", from the real server {real}"));
            let _ = writeln!(text, "a {of} event has {embedded} bytes{real}");
        }
        let ended = real
            .flat_map(watched)
            .filter_map(|fan_out| Some((fan_out.ahead, fan_out.ended_after?)));
        for (ahead, after) in ended {
            let _ = writeln!(
                text,
                "with {ahead} {of} events ahead the real server ended a watch after {after} of them"
            );
        }
    }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fan_out::Delivered;

    fn measured(seconds: f64) -> Measured {
        Measured {
            count: 1000,
            seconds,
            server_cpu_seconds: seconds,
            client_cpu_seconds: seconds / 2.0,
        }
    }

    fn round(seconds: f64) -> Round {
        Round {
            creates: measured(seconds),
            patches: measured(seconds),
            pod_events: vec![fan_out(10, Some(seconds))],
            slice_events: Vec::new(),
        }
    }

    fn fan_out(ahead: usize, seconds: Option<f64>) -> FanOut {
        FanOut {
            ahead,
            measured: seconds.map(|seconds| Delivered {
                measured: measured(seconds),
                event_bytes: 1000,
            }),
            ended_after: seconds.is_none().then_some(7),
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
        assert_eq!(rows[0].embedded_per_second, Some(500.0));
        assert_eq!(rows[0].client_cpu_micros, Some(1000.0));
    }

    #[test]
    fn the_embedded_server_alone_has_no_ratio() {
        let rows = summarise(&[Pair {
            embedded: round(1.0),
            real: None,
        }]);
        assert_eq!(rows[2].throughput_ratio, None);
        assert_eq!(rows[2].embedded_per_second, Some(1000.0));
    }

    #[test]
    fn each_server_is_compared_at_the_best_that_it_bears_in_every_round() {
        let pair = |real_twenty| {
            let (mut embedded, mut real) = (round(4.0), round(12.0));
            embedded
                .pod_events
                .extend([fan_out(20, Some(2.0)), fan_out(30, Some(3.0))]);
            real.pod_events.push(fan_out(20, real_twenty));
            Pair {
                embedded,
                real: Some(real),
            }
        };
        let loads = |rows: &[Row]| -> Vec<(String, Option<f64>)> {
            let deliveries = rows.iter().filter(|row| row.load.starts_with("pod deliveries"));
            deliveries.map(|row| (row.load.clone(), row.throughput_ratio)).collect()
        };
        let expected = |rows: [(&str, Option<f64>); 4]| rows.map(|(load, ratio)| (load.to_owned(), ratio)).to_vec();
        assert_eq!(
            loads(&summarise(&[pair(Some(8.0)), pair(Some(8.0))])),
            expected([
                ("pod deliveries, 10 ahead", Some(3.0)),
                ("pod deliveries, 20 ahead", Some(4.0)),
                ("pod deliveries, 30 ahead", None),
                ("pod deliveries at best (20 / 20)", Some(4.0)),
            ])
        );
        assert_eq!(
            loads(&summarise(&[pair(Some(8.0)), pair(None)])),
            expected([
                ("pod deliveries, 10 ahead", Some(3.0)),
                ("pod deliveries, 20 ahead", None),
                ("pod deliveries, 30 ahead", None),
                ("pod deliveries at best (20 / 10)", Some(6.0)),
            ])
        );
    }

    #[test]
    fn the_median_of_nothing_is_nothing() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(1.0));
    }
}
