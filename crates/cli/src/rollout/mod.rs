//! `coppice rollout`: how an update goes, what came before it, and how to stop, continue and take it back.
//!
//! The verbs are those of `kubectl rollout`. What a verb would change is decided from objects alone (`change`), what an
//! update has reached too (`progress`); the rest of this module reads, writes conditionally and waits. It never touches
//! pods: the operator does, by the set's strategy.

mod change;
mod history;
mod progress;
mod text;
mod wait;
mod write;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use coppice_runtime::layers;
use kube::Client;

use crate::client::{Cluster, set_name};
use crate::output::Format;
use crate::status::duration;

const EXIT_CODES: &str = "\
Exit codes:
  0  done: every pod has the template of the set, and every replica is available
  1  an error
  3  the update is in progress (without --wait), or pods wait to be deleted (OnDelete)
  4  the update is stuck: no progress within its deadline
  5  not done within --timeout
  6  the update is paused
Pipelines wait for an update with: coppice rollout status NAME --wait --timeout 30m";

/// Show, stop, continue and take back the update of a set
///
/// The verbs of `kubectl rollout` for PodCliqueSets. Every accepted template is kept as a revision (a ControllerRevision), up to
/// spec.revisionHistoryLimit (5) besides the current one.
#[derive(Args)]
pub(crate) struct Rollout {
    #[command(subcommand)]
    verb: Verb,
    /// The kubeconfig file; KUBECONFIG, the usual place or the pod's own account when not given
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; the current one when not given
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
    /// The namespace; that of the kubeconfig's context when not given
    #[arg(short, long, global = true)]
    namespace: Option<String>,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t, global = true)]
    output: Format,
}

#[derive(Subcommand)]
enum Verb {
    /// Say how far an update is, and by the exit code whether it is done
    #[command(after_long_help = EXIT_CODES)]
    Status {
        #[command(flatten)]
        set: Set,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// List the revisions of a set: when they were recorded, why, and which pods have them
    History {
        #[command(flatten)]
        set: Set,
        /// Show the templates of this revision as YAML, or as JSON with -o json
        #[arg(long, value_name = "NUMBER")]
        revision: Option<i64>,
    },
    /// Give a set the templates of an earlier revision
    ///
    /// Only pod templates change: sizes, topology and strategy stay as they are. Pods that have the template already are not
    /// touched, so undoing a half-finished update replaces only what it has replaced.
    #[command(after_long_help = EXIT_CODES)]
    Undo {
        #[command(flatten)]
        set: Set,
        /// The number of the revision, see: coppice rollout history; the one before the current when not given
        #[arg(long, value_name = "NUMBER")]
        to_revision: Option<i64>,
        /// Show what would change and whether admission accepts it, and write nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Stop replacing pods: no further pod gets a new template until `resume`
    ///
    /// Sizes and lost pods are still reconciled. With --wait it returns when the operator has taken note.
    #[command(after_long_help = EXIT_CODES)]
    Pause {
        #[command(flatten)]
        set: Set,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Continue a paused update
    #[command(after_long_help = EXIT_CODES)]
    Resume {
        #[command(flatten)]
        set: Set,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Replace all pods by the set's strategy, with the same templates
    ///
    /// Writes the annotation kubectl.kubernetes.io/restartedAt into the templates of the cliques, as kubectl does for Deployments.
    #[command(after_long_help = EXIT_CODES)]
    Restart {
        #[command(flatten)]
        set: Set,
        /// Only this clique of the template; may be given several times
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        clique: Vec<String>,
        /// Show which pods would be replaced and whether admission accepts it, and write nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        waiting: Waiting,
    },
}

#[derive(Args)]
struct Set {
    /// The PodCliqueSet: NAME or pcs/NAME
    #[arg(value_parser = set_name)]
    name: String,
}

#[derive(Args, Clone, Copy)]
struct Waiting {
    /// Wait until the update is done, stuck or paused
    #[arg(short, long)]
    wait: bool,
    /// How long to wait: 90s, 10m, or a number of seconds; implies --wait [default: no limit]
    #[arg(long, value_parser = duration)]
    timeout: Option<Duration>,
}

impl Waiting {
    fn asked(self) -> bool {
        self.wait || self.timeout.is_some()
    }
}

/// A set in a cluster, and how to print.
struct Place {
    client: Client,
    namespace: String,
    name: String,
    output: Format,
}

impl Rollout {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let cluster = Cluster {
            kubeconfig: self.kubeconfig,
            context: self.context,
        };
        let (client, default_namespace) = cluster.client_and_namespace(&layers::Options::default()).await?;
        let place = |set: &Set| Place {
            client: client.clone(),
            namespace: self.namespace.clone().unwrap_or_else(|| default_namespace.clone()),
            name: set.name.clone(),
            output: self.output,
        };
        match &self.verb {
            Verb::Status { set, waiting } => wait::status(&place(set), *waiting).await,
            Verb::History { set, revision } => history::run(&place(set), *revision).await,
            Verb::Undo {
                set,
                to_revision,
                dry_run,
                waiting,
            } => {
                let wanted = change::Wanted::Undo { to: *to_revision };
                write::run(&place(set), &wanted, *dry_run, *waiting).await
            }
            Verb::Pause { set, waiting } => write::run(&place(set), &change::Wanted::Pause, false, *waiting).await,
            Verb::Resume { set, waiting } => write::run(&place(set), &change::Wanted::Resume, false, *waiting).await,
            Verb::Restart {
                set,
                clique,
                dry_run,
                waiting,
            } => {
                let wanted = change::Wanted::Restart {
                    cliques: clique.iter().cloned().collect(),
                    at: jiff::Timestamp::now(),
                };
                write::run(&place(set), &wanted, *dry_run, *waiting).await
            }
        }
    }
}
