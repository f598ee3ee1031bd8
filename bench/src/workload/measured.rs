//! What is measured of one phase: milestones and curves of the pods, processor time and memory of the processes, and
//! requests. The figures of a process are differences between two readings of `/proc`.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::bystander::Bystanding;
use crate::observe::Times;
use crate::plane::Plane;
use crate::requests::{Count, Requests};
use coppice_bench::process;

/// Points of a curve, the first and the last included.
const POINTS: usize = 51;

/// One phase of one round.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Measured {
    /// What happened in it.
    pub(crate) phase: String,
    /// Seconds from the beginning to each milestone.
    pub(crate) milestones: BTreeMap<String, f64>,
    /// For each event that pods go through: the seconds after which 0 %, 2 %, ... 100 % of them had.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) curves: BTreeMap<String, Vec<f64>>,
    /// Processor seconds of the operator, or of the floor client.
    pub(crate) cpu_seconds: f64,
    /// The most memory it ever had in use until the end of the phase.
    pub(crate) peak_rss_bytes: u64,
    /// Processor seconds of the API server.
    pub(crate) api_server_cpu_seconds: f64,
    /// Processor seconds of etcd.
    pub(crate) etcd_cpu_seconds: Option<f64>,
    /// Requests by verb, resource and code; absent when they could not be told apart.
    pub(crate) requests: Option<Vec<Count>>,
    /// Writes among them, events apart.
    pub(crate) writes: Option<u64>,
    /// Requests that were refused.
    pub(crate) refused: Option<u64>,
    /// What another client of the API server met meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bystander: Option<Bystanding>,
    /// The machine's load average at the end.
    pub(crate) load_average: String,
}

/// The processes at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    own: f64,
    api_server: f64,
    etcd: Option<f64>,
}

impl Usage {
    /// Of the operator or the floor client, and of the control plane.
    pub(crate) fn read(plane: &Plane, own: u32) -> anyhow::Result<Self> {
        let seconds = |id: u32| process::cpu(&[id]).map(|time| time.as_secs_f64());
        Ok(Self {
            own: seconds(own).context("the process under measurement has ended")?,
            api_server: seconds(plane.api_server).context("the API server has ended")?,
            etcd: plane.etcd.map(seconds).transpose().context("etcd has ended")?,
        })
    }
}

/// A phase that is under way.
pub(crate) struct Phase {
    name: String,
    before: Usage,
    /// Milestones so far.
    pub(crate) milestones: BTreeMap<&'static str, f64>,
}

impl Phase {
    /// Begins with these readings.
    pub(crate) fn begin(name: &str, before: Usage) -> Self {
        Self {
            name: name.to_owned(),
            before,
            milestones: BTreeMap::new(),
        }
    }

    /// Ends it.
    pub(crate) fn end(
        self,
        plane: &Plane,
        own: u32,
        times: &Times,
        requests: Option<&Requests>,
    ) -> anyhow::Result<Measured> {
        let after = Usage::read(plane, own)?;
        let named = [
            ("created", &times.created),
            ("scheduled", &times.scheduled),
            ("ready", &times.ready),
            ("gone", &times.gone),
        ];
        let curves = named.into_iter().filter(|(_, times)| !times.is_empty());
        Ok(Measured {
            phase: self.name,
            milestones: self
                .milestones
                .into_iter()
                .map(|(name, time)| (name.to_owned(), rounded(time)))
                .collect(),
            curves: curves.map(|(name, times)| (name.to_owned(), curve(times))).collect(),
            cpu_seconds: rounded(after.own - self.before.own),
            peak_rss_bytes: process::memory(own, "VmHWM")?,
            api_server_cpu_seconds: rounded(after.api_server - self.before.api_server),
            etcd_cpu_seconds: after
                .etcd
                .zip(self.before.etcd)
                .map(|(after, before)| rounded(after - before)),
            requests: requests.map(Requests::counts),
            writes: requests.map(Requests::writes),
            refused: requests.map(Requests::refused),
            bystander: None,
            load_average: load_average(),
        })
    }
}

/// The times after which equal parts of all events had happened.
fn curve(times: &[f64]) -> Vec<f64> {
    let last = times.len() - 1;
    (0..POINTS)
        .map(|point| rounded(times[point * last / (POINTS - 1)]))
        .collect()
}

/// Milliseconds are all that a watch can tell.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        count if count % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_from_the_first_to_the_last() {
        let times: Vec<f64> = (0..1000).map(f64::from).collect();
        let curve = curve(&times);
        assert_eq!((curve[0], curve[25], curve[50]), (0.0, 499.0, 999.0));
        assert_eq!(super::curve(&[7.0]), vec![7.0; POINTS]);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
