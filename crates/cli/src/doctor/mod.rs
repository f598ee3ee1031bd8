//! `coppice doctor`: checks of an installation, each with a verdict and a next step.
//!
//! [`facts`] reads a cluster, the others decide without one. What may not be read is a finding, never the end of the
//! examination. Never writes; access reviews are questions.

mod checks;
mod facts;
mod programs;
mod sets;
mod switch;
mod webhooks;

#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use coppice_runtime::layers;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::client::Cluster;
use crate::output::{self, Format};
use crate::status::duration;
use crate::view::API_VERSION;
use crate::view::text::{Colour, Style};
use crate::view::words;
use facts::Facts;

/// Check an installation, and say what to do about what is wrong with it
///
/// Checks the API server, CRDs, operator, webhooks, scheduler, rights, nodes, topologies and sets of any kubeconfig.
/// Degraded sets and gangs that cannot be placed are reported at once, other sets when they have not been ready for
/// --patience. Exits with 1 when a check fails; warnings do not count.
#[derive(Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    cluster: Cluster,
    /// How long a set may be not ready before it is reported: 90s, 5m, or a number of seconds
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    patience: Duration,
    /// Check, before switching from a Grove operator, whether what exists can be taken over without a pod restart: reads the
    /// objects of all sets, and rehearses the take-over on a copy of them
    #[arg(long)]
    switch_from_grove: bool,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorView {
    api_version: &'static str,
    kind: &'static str,
    findings: Vec<Finding>,
}

/// The verdict of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self {
            check,
            status: Status::Ok,
            message: message.into(),
            next: None,
        }
    }

    fn warn(check: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            check,
            status: Status::Warn,
            message: message.into(),
            next: Some(next.into()),
        }
    }

    fn fail(check: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            status: Status::Fail,
            ..Self::warn(check, message, next)
        }
    }
}

impl Doctor {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (client, address) = self.cluster.client_and_address(&layers::Options::default()).await?;
        let facts = Facts::gather(&client, &address).await;
        let patience = SignedDuration::try_from(self.patience).unwrap_or(SignedDuration::MAX);
        let view = if self.switch_from_grove {
            switch::examine(&client, &facts, Timestamp::now()).await
        } else {
            examine(&facts, Timestamp::now(), patience)
        };
        let style = Style {
            terminal: output::is_terminal(),
            pods: false,
        };
        self.output.print(&view, |view| draw(view, style))?;
        let failed = view.findings.iter().any(|finding| finding.status == Status::Fail);
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// All checks; only the first one when there is no API server to check more with.
fn examine(facts: &Facts, now: Timestamp, patience: SignedDuration) -> DoctorView {
    let mut findings = vec![checks::api(facts)];
    if findings[0].status != Status::Fail {
        findings.extend(checks::definitions(facts));
        findings.push(programs::operator(facts, now));
        findings.extend(webhooks::check(facts, now));
        findings.push(programs::scheduler(facts, now));
        findings.push(checks::rights(facts));
        findings.push(checks::nodes(facts));
        findings.extend(checks::topologies(facts));
        findings.extend(sets::check(facts, now, patience));
    }
    DoctorView {
        api_version: API_VERSION,
        kind: "DoctorView",
        findings,
    }
}

fn draw(view: &DoctorView, style: Style) -> String {
    let width = view
        .findings
        .iter()
        .map(|finding| finding.check.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for finding in &view.findings {
        let (word, colour) = match finding.status {
            Status::Ok => ("ok  ", Colour::Green),
            Status::Warn => ("warn", Colour::Yellow),
            Status::Fail => ("FAIL", Colour::Red),
        };
        let word = style.paint(word, colour);
        text.push_str(&format!("{word}  {:width$}  {}\n", finding.check, finding.message));
        if let Some(next) = &finding.next {
            text.push_str(&format!("      {:width$}  next: {next}\n", ""));
        }
    }
    let count = |status: Status| view.findings.iter().filter(|finding| finding.status == status).count();
    text.push_str(&format!(
        "{} ok, {}, {} failed\n",
        count(Status::Ok),
        words::count(i64::try_from(count(Status::Warn)).unwrap_or(i64::MAX), "warning"),
        count(Status::Fail)
    ));
    text
}
