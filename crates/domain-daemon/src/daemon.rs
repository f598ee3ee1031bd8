//! The daemon's loop: rows in, files and signals out.
//!
//! Owns the child and everything that is decided about it; no other task touches them. It wakes when rows change, when
//! something happens to the child, or at a time that a decider named. On the way out the child ends first, so that nothing
//! answers under an index after the daemon is gone.

use std::future::pending;
use std::time::Duration;

use coppice_domains::api::dns::DomainNames;
use coppice_domains::api::{Clique, names};
use coppice_domains::decide::daemon::assignment::{
    Full, Progress, Standing, insert_delay, owns_row, self_insert, standing,
};
use coppice_domains::decide::daemon::files::{
    UnknownPlaceholder, hosts_file, imex_config, node_file, peers, with_myself,
};
use coppice_domains::decide::daemon::process::{ProcessAction, Supervisor as ChildSupervisor, Wanted};
use coppice_domains::decide::daemon::readiness::{ChildFacts, Report, not_ready};
use coppice_domains::decide::daemon::signal::{SignalAction, SignalDiscipline};
use coppice_runtime::cache::{Cache, Kind, ObjectKey, Typed, reflect};
use coppice_runtime::clock::{SharedClock, instant_of};
use coppice_runtime::supervise::Group;
use jiff::Timestamp;
use kube::Client;
use kube::core::ApiResource;
use rustix::process::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::child::{self, ChildEvent, Running};
use crate::files::replace;
use crate::insert;
use crate::settings::Settings;
use crate::socket;

/// How often `nvidia-imex-ctl` is asked: it announces nothing by itself.
const QUERY_WHILE_STARTING: Duration = Duration::from_millis(500);
const QUERY_WHILE_READY: Duration = Duration::from_secs(10);

/// Why the daemon cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The configuration template cannot be used.
    #[error(transparent)]
    Template(#[from] UnknownPlaceholder),
}

fn file_error(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> DaemonError + '_ {
    |source| DaemonError::File {
        path: path.display().to_string(),
        source,
    }
}

/// Runs the daemon until `stop` is cancelled and its child has ended. Its watch and its socket are tasks of `group`.
///
/// # Errors
/// When its files cannot be written or its template cannot be used.
pub async fn run(
    client: Client,
    settings: Settings,
    clock: SharedClock,
    group: &Group,
    stop: CancellationToken,
) -> Result<(), DaemonError> {
    let path = settings.paths.socket();
    let listener = socket::bind(&path).map_err(file_error(&path))?;
    let first = Report {
        domain_uid: settings.domain_uid.clone(),
        pod_uid: settings.myself.pod_uid.clone(),
        index: None,
        not_ready: not_ready(ChildFacts::default(), false, false, false).filter(|_| !settings.has_no_fabric()),
    };
    let (reports, reader) = watch::channel(first);
    group.spawn_fallible("readiness socket", socket::serve(listener, reader, group.stopping()));
    if settings.has_no_fabric() {
        info!("this node has no NVLink fabric: there is nothing to run");
        stop.cancelled().await;
        return Ok(());
    }
    prepare_files(&settings)?;
    let cache = Cache::default();
    let cliques: Kind<Typed<Clique>> = cache.kind(ApiResource::erase::<Clique>(&()), Typed::default());
    let bell = std::sync::Arc::new(Notify::new());
    let ring = bell.clone();
    cliques.on_change(move |_| ring.notify_one());
    let name = names::clique(&settings.domain_uid, &settings.myself.clique_id);
    let only_ours = reflect::Options {
        namespace: Some(settings.namespace.clone()),
        field_selector: Some(format!("metadata.name={name}")),
        ..reflect::Options::default()
    };
    let watching = reflect::reflect(client.clone(), cliques.clone(), only_ours, group.stopping());
    group.spawn("watch of the clique", watching);
    let (events, happened) = unbounded_channel();
    let work = Loop {
        key: ObjectKey::new(settings.namespace.as_str(), name),
        names: DomainNames::new(&settings.domain_uid),
        client,
        settings,
        clock: clock.clone(),
        cliques,
        reports,
        events,
        child: None,
        number: 0,
        supervisor: ChildSupervisor::default(),
        signals: SignalDiscipline::default(),
        progress: Progress::default(),
        facts: ChildFacts::default(),
        full: false,
        unassigned_since: Some(clock.now()),
        inserting: None,
        attempts: 0,
        not_before: None,
    };
    work.run(&bell, happened, stop).await
}

/// Writes what does not depend on rows: the configuration and the static node file.
fn prepare_files(settings: &Settings) -> Result<(), DaemonError> {
    let path = settings.paths.config_template();
    let template = std::fs::read_to_string(&path).map_err(file_error(&path))?;
    let path = settings.paths.config();
    replace(&path, &imex_config(&template, settings.address)?).map_err(file_error(&path))?;
    let path = settings.paths.nodes();
    let names = node_file(&DomainNames::new(&settings.domain_uid), settings.max_nodes);
    replace(&path, &names).map_err(file_error(&path))?;
    Ok(())
}

struct Loop {
    client: Client,
    settings: Settings,
    clock: SharedClock,
    cliques: Kind<Typed<Clique>>,
    key: ObjectKey,
    names: DomainNames,
    reports: watch::Sender<Report>,
    events: UnboundedSender<(u64, ChildEvent)>,
    child: Option<Running>,
    /// Number of the last start.
    number: u64,
    supervisor: ChildSupervisor,
    signals: SignalDiscipline,
    progress: Progress,
    facts: ChildFacts,
    full: bool,
    /// Since when the own row does not say what it should.
    unassigned_since: Option<Timestamp>,
    inserting: Option<JoinHandle<Result<(), kube::Error>>>,
    attempts: u32,
    not_before: Option<Timestamp>,
}

impl Loop {
    async fn run(
        mut self,
        bell: &Notify,
        mut happened: UnboundedReceiver<(u64, ChildEvent)>,
        stop: CancellationToken,
    ) -> Result<(), DaemonError> {
        loop {
            let stopping = stop.is_cancelled();
            let Some(wake) = self.step(stopping)? else {
                info!("the daemon ends");
                return Ok(());
            };
            // A list without our clique changes nothing that is held, and rings no bell.
            let (cliques, unsynced) = (self.cliques.clone(), !self.cliques.status().synced);
            let alarm = async {
                match wake.at {
                    Some(at) => tokio::time::sleep_until(instant_of(&*self.clock, at)).await,
                    None => pending().await,
                }
            };
            let inserted = async {
                match &mut self.inserting {
                    Some(task) => task.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled(), if !stopping => info!("the daemon is asked to end"),
                Some((number, event)) = happened.recv() => self.child_event(number, &event),
                ended = inserted => self.inserted(ended),
                () = bell.notified() => {}
                () = cliques.wait_synced(), if unsynced => {}
                () = alarm => {}
            }
        }
    }

    /// Decides and acts once. None when the daemon is to end.
    fn step(&mut self, stopping: bool) -> Result<Option<Wake>, DaemonError> {
        let now = self.clock.now();
        let mut wake = Wake::default();
        let synced = self.cliques.status().synced;
        let clique = self.cliques.latest(&self.key);
        let rows = clique.as_ref().map(|clique| clique.daemons.as_slice());
        let me = &self.settings.myself;
        let max = self.settings.max_nodes;
        self.progress.running = self.supervisor.running();
        let stands = standing(me, self.progress, rows, max);
        self.progress.owned_row |= rows.is_some_and(|rows| owns_row(me, rows));
        let wanted = match stands {
            _ if stopping => Wanted::Exit,
            Standing::Serve(index) => {
                let peers = peers(rows.unwrap_or_default(), &me.clique_id, max);
                let peers = with_myself(peers, index, self.settings.address);
                self.write_hosts(|current, names| hosts_file(current, names, &peers, max))?;
                Wanted::Running(index)
            }
            Standing::Wait => Wanted::Stopped,
            Standing::StopChild => {
                warn!("the row of this node has another index than nvidia-imex runs under: it is stopped first");
                Wanted::Stopped
            }
            Standing::StandDown => {
                if !self.progress.stood_down {
                    warn!("a newer pod serves this node: this daemon stands down");
                }
                self.progress.stood_down = true;
                Wanted::Stopped
            }
        };
        loop {
            match self.supervisor.next(wanted, now) {
                ProcessAction::Start(index) => self.start(index, now),
                ProcessAction::Terminate => self.signal(Signal::TERM),
                ProcessAction::Kill => {
                    warn!("nvidia-imex did not end in time and is killed");
                    self.signal(Signal::KILL);
                }
                ProcessAction::WaitUntil(at) => {
                    wake.no_later_than(at);
                    break;
                }
                ProcessAction::Rest => break,
                ProcessAction::Exit => return Ok(None),
            }
        }
        if self.supervisor.running().is_some() {
            match self.signals.next(now) {
                SignalAction::Send => {
                    info!("nvidia-imex resolves its peers again");
                    self.signal(Signal::USR1);
                }
                SignalAction::WaitUntil(at) => wake.no_later_than(at),
                SignalAction::Nothing => {}
            }
        }
        if synced && !stopping {
            self.insert_when_due(clique.as_deref(), now, &mut wake);
        }
        self.report(matches!(stands, Standing::Serve(_)));
        Ok(Some(wake))
    }

    /// Rewrites the hosts file when its content changes; a running child is then to be signalled.
    fn write_hosts(&mut self, content: impl FnOnce(&str, &DomainNames) -> String) -> Result<(), DaemonError> {
        let path = &self.settings.paths.hosts;
        let current = match std::fs::read_to_string(path) {
            Ok(current) => current,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(file_error(path)(error)),
        };
        if replace(path, &content(&current, &self.names)).map_err(file_error(path))? && self.supervisor.has_child() {
            self.signals.changed();
        }
        Ok(())
    }

    fn start(&mut self, index: u32, now: Timestamp) {
        self.number += 1;
        self.facts.reported_ready = false;
        info!(index, "starting nvidia-imex");
        match child::start(&self.settings.paths, self.number, &self.events) {
            Ok(child) => {
                self.child = Some(child);
                self.signals.started();
                self.query(Duration::ZERO);
            }
            Err(error) => {
                warn!(%error, program = %self.settings.paths.imex.display(), "cannot start nvidia-imex");
                self.supervisor.ended(now);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        self.child.iter().for_each(|child| child.signal(signal));
    }

    fn query(&self, wait: Duration) {
        let clique = &self.settings.myself.clique_id;
        child::query(&self.settings.paths, clique, wait, self.number, &self.events);
    }

    fn child_event(&mut self, number: u64, event: &ChildEvent) {
        if number != self.number {
            return;
        }
        match event {
            ChildEvent::Ended => {
                self.child = None;
                self.facts.reported_ready = false;
                self.supervisor.ended(self.clock.now());
            }
            ChildEvent::DriverInUse => self.facts.driver_in_use = true,
            ChildEvent::Queried { ready } => {
                self.facts.reported_ready = *ready && self.child.is_some();
                if *ready {
                    self.facts.driver_in_use = false;
                }
                if self.child.is_some() {
                    self.query(if *ready {
                        QUERY_WHILE_READY
                    } else {
                        QUERY_WHILE_STARTING
                    });
                }
            }
        }
    }

    /// Inserts the own row when no controller has done so for some time.
    fn insert_when_due(&mut self, clique: Option<&Clique>, now: Timestamp, wake: &mut Wake) {
        let rows = clique.map(|clique| clique.daemons.as_slice());
        let me = &self.settings.myself;
        let current = rows.unwrap_or_default().iter().any(|row| {
            row.node_name == me.node && row.ip_address == me.address && row.pod_uid.as_ref() == Some(&me.pod_uid)
        });
        if current {
            (self.unassigned_since, self.full) = (None, false);
            self.attempts = 0;
            return;
        }
        let since = *self.unassigned_since.get_or_insert(now);
        if self.inserting.is_some() || self.progress.stood_down {
            return;
        }
        if let Some(at) = self.not_before.filter(|at| *at > now) {
            return wake.no_later_than(at);
        }
        let waited = now.duration_since(since);
        match self_insert(me, self.progress, rows, waited, self.settings.max_nodes) {
            None => {
                // The patience that comes next; a change of the rows wakes the loop anyway.
                let next = coppice_domains::decide::daemon::assignment::next_patience(waited);
                if let Some(next) = next {
                    wake.no_later_than(since + next);
                }
            }
            Some(Err(Full { .. })) => self.full = true,
            Some(Ok(rows)) => {
                info!("no controller has assigned an index: the daemon inserts its own row");
                let storing = insert::store(self.client.clone(), self.settings.clone(), clique.cloned(), rows);
                self.inserting = Some(tokio::spawn(storing));
            }
        }
    }

    fn inserted(&mut self, ended: Result<Result<(), kube::Error>, tokio::task::JoinError>) {
        self.inserting = None;
        let problem = match ended {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let delay = insert_delay(self.attempts, rand::random());
        info!(problem, "the own row was not stored, and is computed again");
        self.attempts = self.attempts.saturating_add(1);
        self.not_before = Some(self.clock.now() + delay);
    }

    fn report(&mut self, has_index: bool) {
        self.facts.running = self.supervisor.running().is_some();
        self.facts.crashes = self.supervisor.crashes;
        let report = Report {
            domain_uid: self.settings.domain_uid.clone(),
            pod_uid: self.settings.myself.pod_uid.clone(),
            index: self.supervisor.running(),
            not_ready: not_ready(self.facts, has_index, self.full, self.progress.stood_down),
        };
        self.reports.send_if_modified(|known| {
            let changed = *known != report;
            if changed {
                *known = report;
            }
            changed
        });
    }
}

/// When the loop wakes without being woken.
#[derive(Default)]
struct Wake {
    at: Option<Timestamp>,
}

impl Wake {
    fn no_later_than(&mut self, at: Timestamp) {
        self.at = Some(self.at.map_or(at, |known| known.min(at)));
    }
}
