//! The daemon over real processes: a stand-in `nvidia-imex` that records its starts and signals.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod rig;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use coppice_domains::api::dns::DomainNames;
use coppice_domains::decide::daemon::readiness::NotReady;
use coppice_runtime::clock::{Clock, SystemClock};
use jiff::Timestamp;
use rig::{CLIQUE, Cluster, DOMAIN, Daemon, row, until};
use rustix::process::{Pid, Signal, kill_process};

#[tokio::test]
async fn it_serves_its_index_follows_its_peers_and_writes_nothing() {
    let cluster = Cluster::start().await;
    let mut rows = vec![row("a", 1, "127.1.0.1", Some("pod-a"))];
    cluster.store(&rows).await;
    let daemon = Daemon::start(&cluster, "a", "127.1.0.1", "pod-a");
    daemon.ready().await;
    let names = DomainNames::new(DOMAIN);
    assert!(daemon.read("hosts").starts_with("127.0.0.1\tlocalhost\n"));
    assert!(
        daemon
            .read("hosts")
            .contains(&format!("127.1.0.1\t{}\n", names.name(1)))
    );
    assert_eq!(daemon.read("nodes.cfg").lines().count(), 18);
    assert_eq!(daemon.read("imexd.cfg"), "BIND=127.1.0.1\n");
    // Five changes in a row: one signal at once, and one for all that came within five seconds of it.
    for peer in 2..7 {
        rows.push(row(
            &format!("peer-{peer}"),
            peer,
            &format!("127.1.0.{peer}"),
            Some("x"),
        ));
        cluster.store(&rows).await;
        let name = names.name(u32::try_from(peer).unwrap());
        until("the peer is in the hosts file", async || {
            daemon.read("hosts").contains(&format!("127.1.0.{peer}\t{name}"))
        })
        .await;
        until("the first signal", async || daemon.log().contains(&"usr1".to_owned())).await;
    }
    until("the trailing signal", async || daemon.log().len() == 3).await;
    assert_eq!(daemon.writes.load(Ordering::Relaxed), 0);
    let log = daemon.directory.path().join("log");
    let _directory = daemon.end().await;
    let log = fs::read_to_string(log).unwrap();
    let words: Vec<&str> = log.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(words, ["start", "usr1", "usr1", "term"]);
}

#[tokio::test]
async fn a_child_that_ends_is_started_again() {
    let cluster = Cluster::start().await;
    cluster.store(&[row("a", 0, "127.1.0.1", Some("pod-a"))]).await;
    let daemon = Daemon::start(&cluster, "a", "127.1.0.1", "pod-a");
    daemon.ready().await;
    fs::remove_file(daemon.directory.path().join("up")).unwrap();
    kill_process(Pid::from_raw(daemon.process().unwrap()).unwrap(), Signal::KILL).unwrap();
    until("another start", async || daemon.log() == ["start", "start"]).await;
    daemon.ready().await;
    daemon.end().await;
}

#[tokio::test]
async fn a_host_service_in_the_way_is_named() {
    let cluster = Cluster::start().await;
    cluster.store(&[row("a", 0, "127.1.0.1", Some("pod-a"))]).await;
    let clock = Arc::new(SystemClock);
    let daemon = Daemon::start_with(&cluster, "a", "127.1.0.1", "pod-a", CLIQUE, clock, &["in-use"]);
    daemon.not_ready("NV_ERR_IN_USE").await;
    fs::remove_file(daemon.directory.path().join("in-use")).unwrap();
    daemon.ready().await;
    daemon.end().await;
}

#[tokio::test]
async fn it_stands_down_when_a_newer_pod_owns_its_row() {
    let cluster = Cluster::start().await;
    cluster.store(&[row("a", 0, "127.1.0.1", Some("pod-a"))]).await;
    let daemon = Daemon::start(&cluster, "a", "127.1.0.1", "pod-a");
    daemon.ready().await;
    cluster.store(&[row("a", 0, "127.1.0.9", Some("pod-b"))]).await;
    daemon.not_ready(NotReady::StoodDown.message()).await;
    until("its child has ended", async || daemon.log() == ["start", "term"]).await;
    assert_eq!(daemon.writes.load(Ordering::Relaxed), 0);
    daemon.end().await;
}

#[tokio::test]
async fn another_index_is_served_only_after_the_child_of_the_old_one_has_ended() {
    let cluster = Cluster::start().await;
    cluster.store(&[row("a", 0, "127.1.0.1", Some("pod-a"))]).await;
    let daemon = Daemon::start(&cluster, "a", "127.1.0.1", "pod-a");
    daemon.ready().await;
    // The index of a stored row is fixed, so the row goes first; another node takes the index.
    cluster.store(&[row("b", 0, "127.1.0.2", Some("pod-b"))]).await;
    until("the child is stopped", async || daemon.log() == ["start", "term"]).await;
    let rows = [
        row("b", 0, "127.1.0.2", Some("pod-b")),
        row("a", 1, "127.1.0.1", Some("pod-a")),
    ];
    cluster.store(&rows).await;
    until("a child under the new index", async || {
        daemon.log() == ["start", "term", "start"]
    })
    .await;
    daemon.ready().await;
    let names = DomainNames::new(DOMAIN);
    assert!(
        daemon
            .read("hosts")
            .contains(&format!("127.1.0.1\t{}\n", names.name(1)))
    );
    daemon.end().await;
}

#[tokio::test]
async fn without_a_controller_daemons_insert_themselves_with_unique_indices() {
    let cluster = Cluster::start().await;
    let daemons = ["a", "b", "c"].map(|node| {
        let address = format!("127.1.0.{}", node.as_bytes()[0]);
        Daemon::start(&cluster, node, &address, &format!("pod-{node}"))
    });
    for daemon in &daemons {
        daemon.ready().await;
    }
    let rows = cluster.rows().await;
    let indices: Vec<_> = rows.iter().map(|row| row.index).collect();
    assert_eq!(indices, [Some(0), Some(1), Some(2)]);
    for daemon in daemons {
        daemon.end().await;
    }
}

#[tokio::test]
async fn a_node_without_a_fabric_is_ready_and_runs_nothing() {
    let cluster = Cluster::start().await;
    let daemon = Daemon::start_with(&cluster, "a", "127.1.0.1", "pod-a", "", Arc::new(SystemClock), &[]);
    daemon.ready().await;
    assert_eq!(daemon.log(), Vec::<String>::new());
    daemon.end().await;
}

/// Runs fifty times as fast as the machine's clock.
struct FastClock {
    origin: Timestamp,
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let elapsed = SystemClock.now().duration_since(self.origin);
        self.origin + elapsed.checked_mul(50).unwrap()
    }
}

#[tokio::test]
async fn a_child_that_ignores_its_end_is_killed_before_the_daemon_ends() {
    let cluster = Cluster::start().await;
    cluster.store(&[row("a", 0, "127.1.0.1", Some("pod-a"))]).await;
    let origin = SystemClock.now();
    let clock = Arc::new(FastClock { origin });
    let daemon = Daemon::start_with(&cluster, "a", "127.1.0.1", "pod-a", CLIQUE, clock, &["stubborn"]);
    daemon.ready().await;
    // Asked again and again while it is not ready, which wakes the loop more often than the fast clock's alarms do.
    fs::remove_file(daemon.directory.path().join("up")).unwrap();
    daemon.not_ready("not READY").await;
    let process = Pid::from_raw(daemon.process().unwrap()).unwrap();
    let log = daemon.directory.path().join("log");
    let _directory = daemon.end().await;
    let log = fs::read_to_string(log).unwrap();
    assert!(log.ends_with("term\n"), "it was asked first: {log}");
    assert!(
        rustix::process::test_kill_process(process).is_err(),
        "it has ended before the daemon"
    );
}
