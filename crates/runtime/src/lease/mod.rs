//! Leader election on a `coordination.k8s.io/v1` Lease, with fencing.
//!
//! Owns the lease's life: acquire, renew, lose, release. A leader may write until `renew_deadline` after it sent its
//! last successful renewal; another candidate takes over no earlier than `lease_duration` after it saw that renewal.
//! As the former is shorter, no two may write at once, whatever their wall clocks show. What can still happen is that a
//! write that left in time arrives late; conditional writes take care of that.
//!
//! Assumes that monotonic clocks of machines run at about the same rate, and that identities are unique per process
//! (pod name and a random suffix). Never writes to the lease without its resource version.
//!
//! ```no_run
//! # async fn example(client: kube::Client) {
//! use coppice_runtime::{clock::SystemClock, lease::{Elector, Options}};
//! let options = Options::new("coppice-system", "coppice-operator", "pod-1_5f0c");
//! let elector = Elector::new(client, options, std::sync::Arc::new(SystemClock)).unwrap();
//! let leadership = elector.leadership();
//! let stop = tokio_util::sync::CancellationToken::new();
//! let election = tokio::spawn(elector.run(stop.clone()));
//! leadership.wait_leading().await;
//! // ... work, and stop all writers before:
//! stop.cancel();
//! election.await.unwrap(); // The lease is released.
//! # }
//! ```

mod leadership;
mod record;

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::leadership::{Fenced, Leadership};
use self::{
    leadership::Fence,
    record::{Observed, Verdict},
};
use crate::{
    clock::SharedClock,
    events::{EventKind, ObjectReference, Recorder},
    metrics::Metrics,
};

/// How to elect.
#[derive(Clone)]
pub struct Options {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// Who we are: unique per process.
    pub identity: String,
    /// How long others wait after the last renewal they saw.
    pub lease_duration: Duration,
    /// How long we lead after the last renewal that succeeded; shorter than the lease's duration.
    pub renew_deadline: Duration,
    /// How long between tries.
    pub retry_period: Duration,
    /// The seed of the jitter between tries.
    pub seed: u64,
    /// Where to count.
    pub metrics: Metrics,
    /// Where to tell of transitions.
    pub recorder: Option<Recorder>,
}

impl Options {
    /// The usual times: 15, 10 and 2 seconds.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            seed: 0,
            metrics: Metrics::default(),
            recorder: None,
        }
    }
}

/// Options that cannot work.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Two leaders could write at once.
    #[error("renew_deadline {0:?} must be shorter than lease_duration {1:?}")]
    DeadlineTooLong(Duration, Duration),
    /// A single failed renewal would end the leadership.
    #[error("retry_period {0:?} must be shorter than half of renew_deadline {1:?}")]
    PeriodTooLong(Duration, Duration),
    /// The lease stores whole seconds.
    #[error("lease_duration {0:?} must be whole seconds, and some identity must be given")]
    Unstorable(Duration),
}

/// One candidate.
pub struct Elector {
    api: Api<Lease>,
    options: Options,
    clock: SharedClock,
    leadership: Leadership,
    observed: Observed,
    /// The lease as we wrote it last, for renewing without reading first.
    own: Option<Lease>,
    random: ChaCha8Rng,
    leading: Gauge,
    transitions: Counter,
}

/// What a try has brought.
enum Tried {
    Held,
    HeldByOther(Instant),
}

impl Elector {
    /// A candidate that does not run yet.
    ///
    /// # Errors
    /// When the times given could not keep two leaders apart.
    pub fn new(client: Client, options: Options, clock: SharedClock) -> Result<Self, OptionsError> {
        if options.renew_deadline >= options.lease_duration {
            return Err(OptionsError::DeadlineTooLong(
                options.renew_deadline,
                options.lease_duration,
            ));
        }
        if options.retry_period * 2 >= options.renew_deadline {
            return Err(OptionsError::PeriodTooLong(
                options.retry_period,
                options.renew_deadline,
            ));
        }
        if options.lease_duration.subsec_nanos() != 0 || options.identity.is_empty() {
            return Err(OptionsError::Unstorable(options.lease_duration));
        }
        let label = [("lease", options.name.as_str())];
        Ok(Self {
            api: Api::namespaced(client, &options.namespace),
            leadership: Leadership::elected(clock.clone()),
            clock,
            observed: Observed::default(),
            own: None,
            random: ChaCha8Rng::seed_from_u64(options.seed),
            leading: options
                .metrics
                .gauge("leader", "Whether this process leads")
                .with(&label),
            transitions: options
                .metrics
                .counter("leader_transitions", "Leaderships won and lost")
                .with(&label),
            options,
        })
    }

    /// The handle for writers.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Stands for election until `stop` is cancelled, then releases the lease. Cancel `stop` only after the writers
    /// have ended: the lease is given away at once.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            // A request that is under way is heard out although we stop: a lease that it acquires must be released.
            let wake = self.round().await;
            stop.run_until_cancelled(tokio::time::sleep_until(wake)).await;
        }
        self.release().await;
    }

    /// One try; returns when the next one is due.
    async fn round(&mut self) -> Instant {
        // A request that hangs must not keep us from noticing that the fence has lapsed.
        let patience = self.options.retry_period;
        let tried = match tokio::time::timeout(patience, self.attempt()).await {
            Ok(tried) => tried,
            Err(_elapsed) => Err("no answer in time".to_owned()),
        };
        let jitter = self.random.random_range(0.0..0.2);
        let mut wake = Instant::now() + self.options.retry_period.mul_f64(1.0 + jitter);
        match tried {
            Ok(Tried::Held) => wake = Instant::now() + self.options.retry_period,
            Ok(Tried::HeldByOther(until)) => {
                self.lose("another holds it");
                wake = wake.min(until);
            }
            Err(reason) => {
                warn!(
                    lease = self.options.name,
                    reason, "could not acquire or renew the lease"
                );
                self.own = None;
            }
        }
        if self
            .leadership
            .fence()
            .is_some_and(|_| self.leadership.check().is_err())
        {
            self.lose("it was not renewed in time");
        }
        // Also awake when the fence lapses, to tell that the leadership is lost.
        let lapse = self.leadership.fence().map_or(wake, |fence| fence.until);
        wake.min(lapse)
    }

    async fn attempt(&mut self) -> Result<Tried, String> {
        if let Some(own) = self.own.clone() {
            // Without reading first; a conflict is sorted out by the next try.
            return self.write(own, false).await;
        }
        let found = self
            .api
            .get_opt(&self.options.name)
            .await
            .map_err(|error| error.to_string())?;
        let Some(lease) = found else {
            let metadata = ObjectMeta {
                name: Some(self.options.name.clone()),
                namespace: Some(self.options.namespace.clone()),
                ..ObjectMeta::default()
            };
            return self.write(Lease { metadata, spec: None }, true).await;
        };
        let record = lease.spec.clone().unwrap_or_default();
        match self.observed.judge(&record, &self.options.identity, Instant::now()) {
            Verdict::HeldUntil(until) => Ok(Tried::HeldByOther(until)),
            Verdict::Renew | Verdict::TakeOver => self.write(lease, false).await,
        }
    }

    /// Writes the lease as ours. The fence counts from before the request is sent.
    async fn write(&mut self, mut lease: Lease, create: bool) -> Result<Tried, String> {
        let (sent, wall) = (Instant::now(), self.clock.now());
        let old = lease.spec.take().unwrap_or_default();
        let ours = old.holder_identity.as_deref() == Some(self.options.identity.as_str());
        let seconds = i32::try_from(self.options.lease_duration.as_secs()).unwrap_or(i32::MAX);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(MicroTime(wall)),
            acquire_time: if ours { old.acquire_time } else { Some(MicroTime(wall)) },
            lease_transitions: Some(old.lease_transitions.unwrap_or(0) + i32::from(!ours && !create)),
            ..old
        });
        let params = PostParams::default();
        let written = if create {
            self.api.create(&params, &lease).await
        } else {
            self.api.replace(&self.options.name, &params, &lease).await
        };
        let written = written.map_err(|error| error.to_string())?;
        self.own = Some(written);
        let deadline = SignedDuration::try_from(self.options.renew_deadline).unwrap_or(SignedDuration::MAX);
        let wall_until = wall.checked_add(deadline).unwrap_or(jiff::Timestamp::MAX);
        if self.leadership.set(Some(Fence {
            until: sent + self.options.renew_deadline,
            wall_until,
        })) {
            info!(lease = self.options.name, identity = self.options.identity, "leading");
            self.told("became leader", 1);
        }
        Ok(Tried::Held)
    }

    fn lose(&mut self, reason: &str) {
        self.own = None;
        if self.leadership.set(None) {
            warn!(
                lease = self.options.name,
                identity = self.options.identity,
                reason,
                "leading no longer"
            );
            self.told("stopped leading", 0);
        }
    }

    fn told(&self, what: &str, leading: i64) {
        self.leading.set(leading);
        self.transitions.inc();
        if let Some(recorder) = &self.options.recorder {
            let lease = ObjectReference {
                api_version: "coordination.k8s.io/v1".into(),
                kind: "Lease".into(),
                namespace: Some(self.options.namespace.clone()),
                name: self.options.name.clone(),
                uid: self
                    .own
                    .as_ref()
                    .and_then(|lease| lease.metadata.uid.clone())
                    .unwrap_or_default(),
            };
            let message = format!("{} {what}", self.options.identity);
            recorder.record(&lease, EventKind::Normal, "LeaderElection", &message);
        }
    }

    async fn release(mut self) {
        let own = self.own.take();
        // Closed before the request leaves, because another may lead as soon as it has arrived.
        let led = self.leadership.fence().is_some();
        self.lose("shutting down");
        let (true, Some(mut lease)) = (led, own) else { return };
        let old = lease.spec.take().unwrap_or_default();
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(self.clock.now())),
            ..old
        });
        let params = PostParams::default();
        let release = self.api.replace(&self.options.name, &params, &lease);
        match tokio::time::timeout(self.options.retry_period, release).await {
            Ok(Ok(_)) => info!(lease = self.options.name, "released"),
            Ok(Err(error)) => warn!(lease = self.options.name, %error, "could not release the lease"),
            Err(_elapsed) => warn!(lease = self.options.name, "no answer to the release of the lease"),
        }
    }
}

#[cfg(test)]
mod tests;
