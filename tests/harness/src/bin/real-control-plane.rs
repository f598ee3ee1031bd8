//! `real-control-plane`: a real etcd and kube-apiserver for as long as standard input is open. Prints one line of JSON once
//! they are ready: where the kubeconfig is, which processes they are, what versions, and how long the start took.

use std::io::{Read, Write};
use std::time::Instant;

use clap::Parser;
use coppice_harness::control_plane::{ControlPlane, Options};
use serde_json::json;

/// Start a real etcd and kube-apiserver; they end when standard input is closed.
///
/// The programs come from the directory in KUBEBUILDER_ASSETS (`make control-plane` prints one).
#[derive(Parser)]
#[command(
    name = "real-control-plane",
    after_help = "Example:\n  KUBEBUILDER_ASSETS=$(make -s control-plane) cargo run -p coppice-harness --bin real-control-plane"
)]
struct Arguments {
    /// Let etcd flush every write to disk before it acknowledges it, as it does by default
    #[arg(long)]
    flush: bool,
    /// Run kube-controller-manager, too
    #[arg(long)]
    controller_manager: bool,
    /// Run kube-scheduler, too
    #[arg(long)]
    scheduler: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let options = Options {
        flush_to_disk: arguments.flush,
        controller_manager: arguments.controller_manager,
        scheduler: arguments.scheduler,
        ..Options::default()
    };
    let start = Instant::now();
    let plane = ControlPlane::start(&options).await?;
    let ready = json!({
        "kubeconfig": plane.kubeconfig(),
        "processes": plane.processes(),
        "kubeApiserver": plane.versions().kube_apiserver,
        "etcd": plane.versions().etcd,
        "startMilliseconds": start.elapsed().as_secs_f64() * 1e3,
    });
    writeln!(std::io::stdout(), "{ready}")?;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}
