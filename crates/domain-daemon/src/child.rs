//! The child process: started, signalled through a handle that no other process can inherit, and waited for.
//!
//! Owns one process at a time. What happens to it is sent to the daemon's loop with the number of the start it belongs to,
//! so that news of an earlier child is not taken for news of the present one.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use coppice_domains::decide::daemon::readiness::{MAX_LINE, check, complains_of_use};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;
use tracing::{info, warn};

use crate::settings::Paths;

/// How long the query tool may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Something that happened to the child of a start.
#[derive(Debug)]
pub(crate) enum ChildEvent {
    /// It has ended.
    Ended,
    /// It said that another process holds the driver's session.
    DriverInUse,
    /// The query tool was asked.
    Queried {
        /// Whether it said READY.
        ready: bool,
    },
}

/// A running child.
pub(crate) struct Running {
    /// A handle of the process: it names no other one after this has ended.
    handle: OwnedFd,
}

impl Running {
    /// Sends a signal. One that has ended already does not need it.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = pidfd_send_signal(&self.handle, signal) {
            info!(?signal, %error, "nvidia-imex has ended before it was signalled");
        }
    }
}

/// Starts `nvidia-imex`; its end and its complaints are sent with `number`.
pub(crate) fn start(paths: &Paths, number: u64, events: &UnboundedSender<(u64, ChildEvent)>) -> io::Result<Running> {
    let mut child = Command::new(&paths.imex)
        .arg("-c")
        .arg(paths.config())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let pid = child
        .id()
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
        .ok_or_else(|| io::Error::other("the process has no id"))?;
    // Before it can have been waited for: the id is still its own.
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    if let Some(output) = child.stdout.take() {
        tokio::spawn(follow(output, number, events.clone()));
    }
    if let Some(output) = child.stderr.take() {
        tokio::spawn(follow(output, number, events.clone()));
    }
    tokio::spawn(wait(child, number, events.clone()));
    Ok(Running { handle })
}

async fn wait(mut child: Child, number: u64, events: UnboundedSender<(u64, ChildEvent)>) {
    match child.wait().await {
        Ok(status) => info!(%status, "nvidia-imex has ended"),
        Err(error) => warn!(%error, "cannot wait for nvidia-imex"),
    }
    // The loop is gone only when the daemon ends.
    let _ = events.send((number, ChildEvent::Ended));
}

/// Passes the output on to our log, line by line; a line is cut at a length that no log needs.
async fn follow(output: impl AsyncRead + Unpin, number: u64, events: UnboundedSender<(u64, ChildEvent)>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        match (&mut output).take(most).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        info!(target: "nvidia-imex", "{}", text.trim_end());
        if complains_of_use(&text) {
            let _ = events.send((number, ChildEvent::DriverInUse));
        }
    }
}

/// Asks the query tool after `wait`.
pub(crate) fn query(
    paths: &Paths,
    clique_id: &str,
    wait: Duration,
    number: u64,
    events: &UnboundedSender<(u64, ChildEvent)>,
) {
    let mut command = Command::new(&paths.imex_ctl);
    command
        .arg("-c")
        .arg(paths.config())
        .arg("-q")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let (events, clique_id) = (events.clone(), clique_id.to_owned());
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        let ready = match tokio::time::timeout(QUERY_TIMEOUT, command.output()).await {
            Ok(Ok(output)) => {
                let text = String::from_utf8_lossy(&output.stdout);
                check(&clique_id, output.status.success(), &text).is_ok()
            }
            Ok(Err(error)) => {
                warn!(%error, "cannot run nvidia-imex-ctl");
                false
            }
            Err(_elapsed) => false,
        };
        let _ = events.send((number, ChildEvent::Queried { ready }));
    });
}
