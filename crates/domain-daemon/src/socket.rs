//! Readiness over a Unix socket: one line of JSON at once, and another one whenever it changes.
//!
//! The socket is in the directory that the kubelet plugin shares with the daemon: the plugin waits on it instead of asking
//! the API, and the exec probe asks it, too. A connection is served until its reader goes; nothing is read from it.

use std::io;
use std::path::Path;
use std::time::Duration;

use coppice_domains::decide::daemon::readiness::{MAX_LINE, Report};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Connections served at a time: the plugin and a few probes.
const CONNECTIONS: usize = 64;
/// How long a probe waits for the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Binds the socket; one that an earlier daemon left behind is replaced.
///
/// # Errors
/// When the directory cannot be written.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    UnixListener::bind(path)
}

/// Serves reports until `stop` is cancelled.
///
/// # Errors
/// When the socket cannot accept any more.
pub async fn serve(
    listener: UnixListener,
    reports: watch::Receiver<Report>,
    stop: CancellationToken,
) -> io::Result<()> {
    let places = std::sync::Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return Ok(());
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            accepted = listener.accept() => accepted,
        };
        let (stream, _) = accepted?;
        let (reports, stop) = (reports.clone(), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Some(Err(error)) = stop.run_until_cancelled(tell(stream, reports)).await {
                debug!(%error, "a reader of the readiness socket has gone");
            }
        });
    }
}

async fn tell(stream: UnixStream, mut reports: watch::Receiver<Report>) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    loop {
        let line = reports.borrow_and_update().to_line();
        writer.write_all(line.as_bytes()).await?;
        let mut nothing = [0; 16];
        tokio::select! {
            changed = reports.changed() => if changed.is_err() { return Ok(()) },
            // The reader has closed its side.
            read = reader.read(&mut nothing) => if read? == 0 { return Ok(()) },
        }
    }
}

/// Asks the daemon behind a socket for its report.
///
/// # Errors
/// When there is no daemon, or none that answers.
pub async fn ask(path: &Path) -> io::Result<Report> {
    let answer = async {
        let stream = UnixStream::connect(path).await?;
        let most = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        let mut line = String::new();
        BufReader::new(stream.take(most)).read_line(&mut line).await?;
        Report::from_line(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a report"))
    };
    tokio::time::timeout(ANSWER_TIMEOUT, answer)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// The outcome of the exec probe: why the daemon of a domain is not ready.
///
/// # Errors
/// The reason, in words for the pod's events.
pub async fn check(path: &Path, domain_uid: &str) -> Result<(), String> {
    let report = ask(path).await.map_err(|error| {
        format!(
            "IMEX daemon check failed: the daemon does not answer on {}: {error}",
            path.display()
        )
    })?;
    if report.domain_uid != domain_uid {
        return Err("IMEX daemon check failed: the socket belongs to another ComputeDomain".to_owned());
    }
    match report.not_ready {
        None => Ok(()),
        Some(reason) => Err(format!("IMEX daemon not ready: {}", reason.message())),
    }
}
