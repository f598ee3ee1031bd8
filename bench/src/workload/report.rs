//! The results: as JSON with every round, and as tables of medians. A ratio is the median of the rounds' ratios, because
//! the two halves of a round run one after the other and share whatever else the machine does.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::bystander::Bystanding;
use crate::measured::{Measured, median, rounded};
use crate::plane::Kind;
use crate::shapes::Shape;

/// Everything that was measured.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    /// Where it ran.
    pub(crate) machine: String,
    /// When, in seconds since 1970.
    pub(crate) unix_time: u64,
    /// The operator.
    pub(crate) operator: String,
    /// Requests in flight of the floor client; our operator's own limit of writes in flight.
    pub(crate) concurrency: usize,
    /// Simulated nodes.
    pub(crate) nodes: u32,
    /// Whether etcd flushes every write to disk.
    pub(crate) etcd_flushes_to_disk: bool,
    /// The workloads, in the order in which they ran.
    pub(crate) workloads: Vec<Workload>,
}

/// One workload on one control plane.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Workload {
    /// Its name.
    pub(crate) name: String,
    /// The control plane.
    pub(crate) plane: Kind,
    /// The control plane's versions.
    pub(crate) versions: String,
    /// What a replica is.
    pub(crate) shape: Shape,
    /// Replicas of the set.
    pub(crate) replicas: u32,
    /// Pods in all.
    pub(crate) pods: u32,
    /// All objects that the operator made.
    pub(crate) objects: Option<usize>,
    /// The median of the rounds' ratios of the time until all pods were created: operator to floor.
    pub(crate) created_ratio: Option<f64>,
    /// The same of the time until all pods were ready.
    pub(crate) ready_ratio: Option<f64>,
    /// Applied and deleted, beside the floor.
    pub(crate) rounds: Vec<Round>,
    /// Other phases, one after another, under one operator.
    pub(crate) phases: Vec<Measured>,
}

/// One round.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Round {
    /// From nothing to available.
    pub(crate) apply: Measured,
    /// From there to nothing.
    pub(crate) delete: Measured,
    /// The same objects by the floor client.
    pub(crate) floor: Option<Measured>,
}

impl Round {
    /// Operator to floor.
    pub(crate) fn ratio(&self, milestone: &str) -> Option<f64> {
        let floor = self.floor.as_ref()?.milestones.get(milestone)?;
        Some(self.apply.milestones.get(milestone)? / floor)
    }
}

impl Workload {
    /// The median of the rounds' ratios.
    pub(crate) fn ratio(rounds: &[Round], milestone: &str) -> Option<f64> {
        median(rounds.iter().filter_map(|round| round.ratio(milestone)).collect()).map(rounded)
    }

    fn of(&self, part: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().filter_map(part).collect())
    }

    fn heading(&self) -> String {
        let plane = match self.plane {
            Kind::Real => "real",
            Kind::Embedded => "embedded",
        };
        let objects = self.objects.map(|all| format!(" ({all} objects)")).unwrap_or_default();
        format!(
            "{} on {plane} ({}): {} pods{objects}",
            self.name, self.versions, self.pods
        )
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let mut rows = Vec::new();
        let mut row = |name: &str, operator: Option<f64>, floor: Option<f64>, unit: &str, digits: usize| {
            let cell = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |n| format!("{n:.digits$}{unit}"));
            if operator.is_some() || floor.is_some() {
                rows.push([name.to_owned(), cell(operator), cell(floor)]);
            }
        };
        let floor = |round: &Round, part: &dyn Fn(&Measured) -> Option<f64>| round.floor.as_ref().and_then(part);
        for milestone in ["pods created", "pods scheduled", "pods ready", "available"] {
            let time = |measured: &Measured| measured.milestones.get(milestone).copied();
            row(
                milestone,
                self.of(|round| time(&round.apply)),
                self.of(|round| floor(round, &time)),
                " s",
                2,
            );
        }
        let cpu = |measured: &Measured| Some(measured.cpu_seconds);
        row(
            "CPU until then",
            self.of(|round| cpu(&round.apply)),
            self.of(|round| floor(round, &cpu)),
            " s",
            2,
        );
        let memory = |measured: &Measured| Some(measured.peak_rss_bytes as f64 / f64::from(1 << 20));
        row(
            "peak RSS",
            self.of(|round| memory(&round.apply)),
            self.of(|round| floor(round, &memory)),
            " MiB",
            1,
        );
        let writes = |measured: &Measured| measured.writes.map(|writes| writes as f64);
        row(
            "writes",
            self.of(|round| writes(&round.apply)),
            self.of(|round| floor(round, &writes)),
            "",
            0,
        );
        let refused = |measured: &Measured| measured.refused.map(|refused| refused as f64);
        row(
            "refused",
            self.of(|round| refused(&round.apply)),
            self.of(|round| floor(round, &refused)),
            "",
            0,
        );
        let waits = |part: fn(&Bystanding) -> f64| move |measured: &Measured| measured.bystander.as_ref().map(part);
        for (name, part) in [
            ("another client's create, without load", waits(|times| times.idle)),
            ("another client's create", waits(|times| times.loaded)),
            ("nine of ten of these within", waits(|times| times.loaded_p90)),
        ] {
            row(
                name,
                self.of(|round| part(&round.apply)),
                self.of(|round| floor(round, &part)),
                " ms",
                1,
            );
        }
        let server = |measured: &Measured| Some(measured.api_server_cpu_seconds);
        row(
            "API server CPU",
            self.of(|round| server(&round.apply)),
            self.of(|round| floor(round, &server)),
            " s",
            2,
        );
        let etcd = |measured: &Measured| measured.etcd_cpu_seconds;
        row(
            "etcd CPU",
            self.of(|round| etcd(&round.apply)),
            self.of(|round| floor(round, &etcd)),
            " s",
            2,
        );
        let left = |round: &Round| round.delete.milestones.get("nothing left").copied();
        row("deleted, nothing left", self.of(left), None, " s", 2);
        row(
            "CPU of the deletion",
            self.of(|round| cpu(&round.delete)),
            None,
            " s",
            2,
        );
        rows
    }
}

impl Report {
    /// All tables, as Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for workload in &self.workloads {
            section(&mut text, workload);
        }
        text
    }
}

fn section(text: &mut String, workload: &Workload) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{}", workload.heading());
    if !workload.rounds.is_empty() {
        let _ = writeln!(
            text,
            "\n| median of {} | operator | floor |\n|---|---|---|",
            workload.rounds.len()
        );
        for [name, operator, floor] in workload.rows() {
            let _ = writeln!(text, "| {name} | {operator} | {floor} |");
        }
    }
    for (name, milestone, ratio) in [
        ("created", "pods created", workload.created_ratio),
        ("ready", "pods ready", workload.ready_ratio),
    ] {
        if let Some(ratio) = ratio {
            let each = workload.rounds.iter().filter_map(|round| round.ratio(milestone));
            let each: Vec<String> = each.map(|ratio| format!("{ratio:.2}")).collect();
            let _ = writeln!(text, "\nall pods {name}: {ratio:.2} x the floor ({})", each.join(", "));
        }
    }
    if !workload.phases.is_empty() {
        let _ = writeln!(
            text,
            "\n| phase | done after | CPU | peak RSS | writes | refused | API server CPU |"
        );
        let _ = writeln!(text, "|---|---|---|---|---|---|---|");
    }
    for phase in &workload.phases {
        let last = phase.milestones.values().copied().fold(0.0, f64::max);
        let count = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let _ = writeln!(
            text,
            "| {} | {last:.2} s | {:.2} s | {:.1} MiB | {} | {} | {:.2} s |",
            phase.phase,
            phase.cpu_seconds,
            phase.peak_rss_bytes as f64 / f64::from(1 << 20),
            count(phase.writes),
            count(phase.refused),
            phase.api_server_cpu_seconds,
        );
    }
}
