//! `coppice crds`: the CustomResourceDefinitions, printed or installed.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use coppice_crds::legacy::LEGACY;
use coppice_crds::{InstallOptions, Legacy, Progress, install};

use crate::client::Cluster;
use crate::reference;

/// Print or install the CustomResourceDefinitions
///
/// Without a subcommand they are printed, ready for: coppice crds | kubectl apply --server-side -f -
#[derive(Args)]
pub(crate) struct Crds {
    #[command(subcommand)]
    command: Option<Action>,
    /// The form in which they are printed
    #[arg(short, long, value_enum, default_value_t = Form::Yaml)]
    output: Form,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Yaml,
    Json,
    /// The API reference, a page for people
    Markdown,
}

#[derive(Subcommand)]
enum Action {
    /// Install them in a cluster and wait until it serves them; safe to repeat
    Install {
        #[command(flatten)]
        cluster: Cluster,
        /// Seconds to wait until the cluster serves all kinds
        #[arg(long, default_value_t = 60, value_name = "SECONDS")]
        timeout: u64,
    },
}

impl Crds {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let Some(Action::Install { cluster, timeout }) = self.command else {
            match self.output {
                Form::Yaml => out!("{}", coppice_api::crd::to_yaml()),
                Form::Json => outln!("{}", coppice_api::crd::to_json()),
                Form::Markdown => out!("{}", reference::markdown(&coppice_api::crd::all())),
            }
            return Ok(ExitCode::SUCCESS);
        };
        let client = cluster.client(&Default::default()).await?;
        let options = InstallOptions {
            timeout: Duration::from_secs(timeout),
            ..InstallOptions::default()
        };
        let changes = install(client, &options, |progress| match progress {
            Progress::Applied { name, change } => outln!("{name} {change}"),
            Progress::Legacy {
                outcome: Legacy::Kept(reason),
            } => outln!("{LEGACY} kept: {reason}"),
            Progress::Legacy { .. } => outln!("{LEGACY} deleted: no object of it exists"),
            Progress::Established { .. } => {}
        })
        .await?;
        outln!("the cluster serves all {} kinds", changes.len());
        Ok(ExitCode::SUCCESS)
    }
}
