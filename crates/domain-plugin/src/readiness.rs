//! Whether the daemon of a domain on this node is ready.
//!
//! Two sources are followed while a claim waits: the socket in the directory that the plugin shares with the daemon, which
//! answers within milliseconds, and the row of this node, which daemons of NVIDIA's driver have instead. Where there is a
//! socket it decides alone: a row may be a second old. Following ends with the [`Readiness`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coppice_domains::api::{Clique, DaemonRow, Readiness as RowStatus, names};
use coppice_domains::decide::daemon::readiness::{MAX_LINE, Report};
use coppice_runtime::cache::{Cache, Kind, ObjectKey, Typed, reflect};
use kube::Client;
use kube::core::ApiResource;
use notify::{RecursiveMode, Watcher as _};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Before a connection that was closed is made again.
const PAUSE: Duration = Duration::from_millis(100);

/// What the socket says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Socket {
    /// No daemon has made one.
    Absent,
    /// Nobody answers.
    Silent,
    /// The daemon's last report.
    Says(Report),
}

/// Follows the daemon of one domain.
pub(crate) struct Readiness {
    domain_uid: String,
    namespace: String,
    node: String,
    socket: watch::Receiver<Socket>,
    cliques: Kind<Typed<Clique>>,
    clique: ObjectKey,
    rows_changed: Arc<Notify>,
    _stop: DropGuard,
}

/// What is to be followed.
pub(crate) struct Subject<'a> {
    pub(crate) domain_uid: &'a str,
    pub(crate) clique_id: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) node: &'a str,
    /// The domain's directory on this node.
    pub(crate) directory: &'a Path,
}

impl Readiness {
    pub(crate) fn follow(client: Client, subject: &Subject<'_>) -> Self {
        let stop = CancellationToken::new();
        let (reports, socket) = watch::channel(Socket::Absent);
        let directory = subject.directory.to_owned();
        let followed = stop
            .child_token()
            .run_until_cancelled_owned(follow_socket(directory, reports));
        tokio::spawn(followed);
        let cache = Cache::default();
        let cliques: Kind<Typed<Clique>> = cache.kind(ApiResource::erase::<Clique>(&()), Typed::default());
        let rows_changed = Arc::new(Notify::new());
        let bell = rows_changed.clone();
        cliques.on_change(move |_| bell.notify_one());
        let name = names::clique(subject.domain_uid, subject.clique_id);
        if !subject.clique_id.is_empty() {
            let only_this = reflect::Options {
                namespace: Some(subject.namespace.to_owned()),
                field_selector: Some(format!("metadata.name={name}")),
                ..reflect::Options::default()
            };
            tokio::spawn(reflect::reflect(client, cliques.clone(), only_this, stop.child_token()));
        }
        Self {
            domain_uid: subject.domain_uid.to_owned(),
            namespace: subject.namespace.to_owned(),
            node: subject.node.to_owned(),
            socket,
            cliques,
            clique: ObjectKey::new(subject.namespace, name),
            rows_changed,
            _stop: stop.drop_guard(),
        }
    }

    /// Why the daemon is not ready; none when it is.
    pub(crate) fn not_ready(&mut self) -> Option<String> {
        let socket = self.socket.borrow_and_update().clone();
        let clique = self.cliques.latest(&self.clique);
        let rows = clique
            .as_ref()
            .map(|clique| clique.daemons.as_slice())
            .unwrap_or_default();
        let row = rows.iter().find(|row| row.node_name == self.node);
        not_ready(&socket, row, &self.domain_uid, &self.namespace)
    }

    /// Returns when [`Self::not_ready`] may have another answer.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            changed = self.socket.changed() => if changed.is_err() { std::future::pending().await },
            () = self.rows_changed.notified() => {}
        }
    }
}

fn not_ready(socket: &Socket, row: Option<&DaemonRow>, domain_uid: &str, namespace: &str) -> Option<String> {
    let look = format!(
        "kubectl get pods -n {namespace} -l {}={domain_uid}",
        names::DOMAIN_LABEL
    );
    match (socket, row) {
        (Socket::Says(report), _) if report.domain_uid == domain_uid => {
            report.not_ready.map(|reason| reason.message().to_owned())
        }
        (Socket::Silent | Socket::Says(_), _) => Some(format!("its daemon on this node does not answer: {look}")),
        (Socket::Absent, Some(row)) if row.status == RowStatus::Ready => None,
        (Socket::Absent, Some(row)) if row.ip_address.is_empty() => {
            Some(format!("its daemon pod does not run on this node yet: {look}"))
        }
        (Socket::Absent, Some(_)) => Some(format!("its daemon pod on this node is not ready: {look}")),
        (Socket::Absent, None) => Some(format!(
            "this node has no index and no daemon yet; is a compute-domain controller running? {look}"
        )),
    }
}

/// Follows the socket in a directory; it comes and goes with the daemon's pod.
async fn follow_socket(directory: PathBuf, reports: watch::Sender<Socket>) {
    let name = names::READINESS_SOCKET.rsplit('/').next().unwrap_or_default();
    let path = directory.join(name);
    let bell = Arc::new(Notify::new());
    let ring = bell.clone();
    let watcher = notify::recommended_watcher(move |_: notify::Result<notify::Event>| ring.notify_one());
    let watched = watcher.and_then(|mut watcher| {
        std::fs::create_dir_all(&directory).map_err(notify::Error::io)?;
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    let _watcher = match watched {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, directory = %directory.display(), "cannot watch for the socket of a daemon");
            return;
        }
    };
    loop {
        match UnixStream::connect(&path).await {
            Ok(stream) => {
                read_reports(stream, &reports).await;
                reports.send_replace(Socket::Silent);
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => reports.send_replace(Socket::Absent),
            Err(_refused) => reports.send_replace(Socket::Silent),
        };
        bell.notified().await;
    }
}

async fn read_reports(stream: UnixStream, reports: &watch::Sender<Socket>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let most = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
    loop {
        line.clear();
        match (&mut stream).take(most).read_line(&mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let Some(report) = Report::from_line(&line) else { return };
        reports.send_replace(Socket::Says(report));
    }
}

#[cfg(test)]
mod tests {
    use coppice_domains::decide::daemon::readiness::NotReady;

    use super::*;

    fn says(domain: &str, not_ready: Option<NotReady>) -> Socket {
        Socket::Says(Report {
            domain_uid: domain.into(),
            pod_uid: "p".into(),
            index: Some(0),
            not_ready,
        })
    }

    #[test]
    fn the_socket_decides_and_without_one_the_row() {
        let ready = DaemonRow {
            status: RowStatus::Ready,
            ip_address: "10.0.0.1".into(),
            ..DaemonRow::default()
        };
        let reason = |socket: &Socket, row: Option<&DaemonRow>| not_ready(socket, row, "d", "nv");
        assert_eq!(reason(&says("d", None), None), None);
        let starting = reason(&says("d", Some(NotReady::Starting)), Some(&ready)).unwrap();
        assert!(starting.contains("not READY"), "{starting}");
        assert!(reason(&says("e", None), Some(&ready)).is_some(), "of an earlier domain");
        assert!(reason(&Socket::Silent, Some(&ready)).is_some());
        assert_eq!(reason(&Socket::Absent, Some(&ready)), None);
        let nothing = reason(&Socket::Absent, None).unwrap();
        assert!(
            nothing.contains("kubectl get pods -n nv -l resource.nvidia.com/computeDomain=d"),
            "{nothing}"
        );
    }
}
