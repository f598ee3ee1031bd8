//! Ending in order, and saying how one is: a tree of cancellations and a health state.
//!
//! Owns two things a process has one of: the order in which its parts stop (watches and workers first, then the lease,
//! then the servers), and what its probes answer. Never ends a part by force; whoever runs a part listens.
//!
//! ```
//! use coppice_runtime::shutdown::{Health, Shutdown};
//! let (shutdown, health) = (Shutdown::default(), Health::default());
//! let cache = health.condition("cache");
//! assert!(health.readiness().is_err());
//! cache.set_ready();
//! assert!(health.readiness().is_ok());
//! shutdown.begin();
//! assert!(shutdown.work().is_cancelled() && !shutdown.lease().is_cancelled());
//! ```

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The stages in which a process ends. Clones share.
#[derive(Clone, Default)]
pub struct Shutdown {
    work: CancellationToken,
    lease: CancellationToken,
    servers: CancellationToken,
    workers: TaskTracker,
    electors: TaskTracker,
}

impl Shutdown {
    /// Cancelled first: for watches and queues. Derive children for parts of it.
    #[must_use]
    pub fn work(&self) -> CancellationToken {
        self.work.clone()
    }

    /// Cancelled when all work has ended: for the elector, which then gives the lease away.
    #[must_use]
    pub fn lease(&self) -> CancellationToken {
        self.lease.clone()
    }

    /// Cancelled last: for the servers that answer probes and metrics.
    #[must_use]
    pub fn servers(&self) -> CancellationToken {
        self.servers.clone()
    }

    /// Runs a part whose end the lease waits for.
    pub fn spawn_work(&self, part: impl Future<Output = ()> + Send + 'static) {
        self.workers.spawn(part);
    }

    /// Runs the elector, whose end the servers wait for.
    pub fn spawn_elector(&self, part: impl Future<Output = ()> + Send + 'static) {
        self.electors.spawn(part);
    }

    /// Begins the end; returns at once.
    pub fn begin(&self) {
        self.work.cancel();
    }

    /// Waits for the beginning of the end, then goes through its stages.
    pub async fn finish(&self) {
        self.work.cancelled().await;
        self.workers.close();
        self.workers.wait().await;
        self.lease.cancel();
        self.electors.close();
        self.electors.wait().await;
        self.servers.cancel();
    }
}

#[derive(Default)]
struct State {
    dead: Option<String>,
    conditions: BTreeMap<String, Result<(), String>>,
}

/// What the probes answer. Clones share.
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

/// One thing that must be well for the process to be ready.
#[derive(Clone)]
pub struct Condition {
    name: String,
    state: Arc<Mutex<State>>,
}

impl Health {
    /// Adds a condition for readiness; it is not met at first.
    #[must_use]
    pub fn condition(&self, name: &str) -> Condition {
        let condition = Condition {
            name: name.to_owned(),
            state: self.state.clone(),
        };
        condition.set_unready("not yet");
        condition
    }

    /// Says that only a restart helps.
    pub fn set_dead(&self, reason: &str) {
        self.state.lock().dead.get_or_insert_with(|| reason.to_owned());
    }

    /// Whether the process is to be left alone.
    ///
    /// # Errors
    /// Why it is to be restarted.
    pub fn liveness(&self) -> Result<(), String> {
        self.state.lock().dead.clone().map_or(Ok(()), Err)
    }

    /// Whether the process can do its work.
    ///
    /// # Errors
    /// Which conditions are not met, and why, in the order of their names.
    pub fn readiness(&self) -> Result<(), Vec<String>> {
        let state = self.state.lock();
        let unmet = |(name, result): (&String, &Result<(), String>)| {
            result.as_ref().err().map(|reason| format!("{name}: {reason}"))
        };
        let unmet: Vec<String> = state
            .conditions
            .iter()
            .filter_map(unmet)
            .chain(state.dead.clone())
            .collect();
        if unmet.is_empty() { Ok(()) } else { Err(unmet) }
    }
}

impl Condition {
    /// The condition is met.
    pub fn set_ready(&self) {
        self.state.lock().conditions.insert(self.name.clone(), Ok(()));
    }

    /// The condition is not met.
    pub fn set_unready(&self, reason: &str) {
        self.state
            .lock()
            .conditions
            .insert(self.name.clone(), Err(reason.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_stages_follow_each_other() {
        let shutdown = Shutdown::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let part = |name: &'static str, token: CancellationToken| {
            let log = log.clone();
            async move {
                token.cancelled().await;
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                log.lock().push(name);
            }
        };
        shutdown.spawn_work(part("worker", shutdown.work().child_token()));
        shutdown.spawn_elector(part("elector", shutdown.lease()));
        shutdown.begin();
        shutdown.finish().await;
        assert_eq!(*log.lock(), ["worker", "elector"]);
        assert!(shutdown.servers().is_cancelled());
    }

    #[test]
    fn readiness_names_what_is_missing() {
        let health = Health::default();
        let (cache, lease) = (health.condition("cache"), health.condition("lease"));
        lease.set_ready();
        assert_eq!(health.readiness(), Err(vec!["cache: not yet".to_owned()]));
        cache.set_ready();
        assert_eq!((health.readiness(), health.liveness()), (Ok(()), Ok(())));
        health.set_dead("stuck");
        assert_eq!(health.liveness(), Err("stuck".to_owned()));
        assert!(health.readiness().is_err());
    }
}
