//! `coppice status`: one line and an exit code, for scripts and pipelines.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use coppice_runtime::layers;
use futures::StreamExt as _;

use crate::client::{Cluster, set_name};
use crate::gather::{self, Live};
use crate::output::Format;
use crate::view::{SetState, SetView, build};

/// Say whether a set is ready, in one line and by the exit code
///
/// Exit codes: 0 ready; 1 an error; 3 not ready yet; 4 degraded; 5 not ready within --timeout.
#[derive(Args)]
pub(crate) struct Status {
    /// The PodCliqueSet: NAME or pcs/NAME
    #[arg(value_parser = set_name)]
    name: String,
    #[command(flatten)]
    cluster: Cluster,
    /// The namespace; that of the kubeconfig's context when not given
    #[arg(short, long)]
    namespace: Option<String>,
    /// Wait until the set is ready and its last change is rolled out
    #[arg(short, long)]
    wait: bool,
    /// How long to wait: 90s, 10m, or a number of seconds; implies --wait [default: 10m]
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// How long to wait when it is not said.
const USUAL_TIMEOUT: Duration = Duration::from_secs(600);

/// A duration as Kubernetes writes it, or a number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let parsed: coppice_api::duration::Duration = text.parse().map_err(|error| format!("{error}"))?;
    parsed.to_standard().ok_or_else(|| "is negative".to_owned())
}

impl Status {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (client, default_namespace) = self.cluster.client_and_namespace(&layers::Options::default()).await?;
        let namespace = self.namespace.clone().unwrap_or(default_namespace);
        let set = gather::set(&client, &namespace, &self.name).await?;
        let objects = gather::objects(&client, &namespace, &self.name).await?;
        let view = build::set_view(&set, &objects);
        let waits = self.wait || self.timeout.is_some();
        if !waits || view.state == SetState::Ready {
            return self.tell(&view, code(view.state));
        }
        let (live, mut changes) = Live::follow(&client, &namespace, &self.name).await?;
        let mut last = view;
        let mut said = String::new();
        let waiting = async {
            while let Some(change) = changes.next().await {
                change?;
                let Some((set, objects)) = live.now() else { continue };
                last = build::set_view(&set, &objects);
                if last.state == SetState::Ready {
                    // The watches of its pods may be behind that of the set: look again, at everything.
                    let set = gather::set(&client, &namespace, &self.name).await?;
                    let objects = gather::objects(&client, &namespace, &self.name).await?;
                    last = build::set_view(&set, &objects);
                }
                if last.state == SetState::Ready {
                    return Ok(());
                }
                let now = line(&last);
                if self.output == Format::Text && now != said {
                    errln!("waiting: {now}");
                    said = now;
                }
            }
            Err(anyhow!("the watch ended"))
        };
        match tokio::time::timeout(self.timeout.unwrap_or(USUAL_TIMEOUT), waiting).await {
            Ok(result) => result?,
            Err(_) => return self.tell(&last, 5),
        }
        self.tell(&last, 0)
    }

    fn tell(&self, view: &SetView, code: u8) -> Result<ExitCode> {
        self.output.print(view, |view| line(view) + "\n")?;
        Ok(ExitCode::from(code))
    }
}

fn code(state: SetState) -> u8 {
    match state {
        SetState::Ready => 0,
        SetState::Progressing | SetState::Updating | SetState::Deleting => 3,
        SetState::Degraded => 4,
    }
}

fn line(view: &SetView) -> String {
    let mut line = format!(
        "{}/{}: {:?}, {}/{} replicas available, {}/{} pods ready",
        view.namespace,
        view.name,
        view.state,
        view.available_replicas,
        view.desired_replicas,
        view.pods.ready,
        view.pods.desired
    );
    if let Some(remarks) = view.remarks() {
        line.push_str("; ");
        line.push_str(&remarks);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_means_seconds() {
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(duration("-5").is_err());
        assert!(duration("soon").is_err());
    }
}
