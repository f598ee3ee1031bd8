//! Essential tasks: a process lives only as long as each of them.
//!
//! A [`Supervisor`] owns the first unexpected end: a task that returns, fails or panics before its [`Group`] was asked to
//! stop is logged, makes liveness fail and is handed to whoever runs the process, which then stops in order and exits with
//! a failure. So a watch, a queue or a lease that is gone never hides behind a process that looks healthy. A group owns the
//! order of stopping: its tasks are asked together, have a grace period and are aborted after it. Never restarts a task:
//! the kubelet restarts the process, with a fresh view of the cluster.
//!
//! ```
//! use coppice_runtime::{health::Health, supervise::{Cause, Supervisor}};
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let health = Health::default();
//! let supervisor = Supervisor::new(health.clone());
//! let group = supervisor.group("operator");
//! group.spawn("queue", async {});
//! let ended = supervisor.failed().await;
//! assert_eq!((ended.name.as_str(), ended.cause), ("operator: queue", Cause::Returned));
//! assert!(health.liveness().is_err());
//! # }
//! ```

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{self, Display};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use crate::health::Health;

/// How an essential task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It returned.
    Returned,
    /// It returned an error.
    Failed(String),
    /// It panicked.
    Panicked(String),
}

impl Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned => formatter.write_str("it returned"),
            Self::Failed(error) => formatter.write_str(error),
            Self::Panicked(message) => write!(formatter, "it panicked: {message}"),
        }
    }
}

/// An essential task ended before it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("essential task {name:?} ended: {cause}")]
pub struct TaskEnded {
    /// The task.
    pub name: String,
    /// How it ended.
    pub cause: Cause,
}

/// How a test ends a task; see [`Supervisor::interrupt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// As if it had returned.
    Return,
    /// As if it had panicked.
    Panic,
}

struct Shared {
    health: Health,
    failed: watch::Sender<Option<TaskEnded>>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    next: u64,
    tasks: BTreeMap<u64, Task>,
}

struct Task {
    name: String,
    interrupt: Option<oneshot::Sender<Interruption>>,
}

/// Knows the first essential task of a process that ended unexpectedly. Clones share.
#[derive(Clone)]
pub struct Supervisor {
    shared: Arc<Shared>,
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::new(Health::default())
    }
}

impl Supervisor {
    /// A supervisor that makes liveness fail when a task ends unexpectedly.
    #[must_use]
    pub fn new(health: Health) -> Self {
        let shared = Shared {
            health,
            failed: watch::Sender::new(None),
            running: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A new group of tasks that stop together; the names of its tasks begin with `name`.
    #[must_use]
    pub fn group(&self, name: &str) -> Group {
        Group {
            name: name.into(),
            supervisor: self.clone(),
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
            handles: Arc::default(),
        }
    }

    /// Waits for the first task that ends unexpectedly.
    pub async fn failed(&self) -> TaskEnded {
        let mut failed = self.shared.failed.subscribe();
        // The sender lives as long as `self`, so the wait ends only with a value.
        match failed.wait_for(Option::is_some).await {
            Ok(ended) => match &*ended {
                Some(ended) => ended.clone(),
                None => std::future::pending().await,
            },
            Err(_) => std::future::pending().await,
        }
    }

    /// The first task that ended unexpectedly, if any.
    #[must_use]
    pub fn failure(&self) -> Option<TaskEnded> {
        self.shared.failed.borrow().clone()
    }

    /// The names of the tasks that run, in order.
    #[must_use]
    pub fn tasks(&self) -> Vec<String> {
        let running = self.shared.running.lock();
        let mut names: Vec<String> = running.tasks.values().map(|task| task.name.clone()).collect();
        names.sort();
        names
    }

    /// Ends a task as a mistake in it would; returns whether there is one of that name. Only tests call it, to prove what
    /// becomes of a process whose task ends.
    pub fn interrupt(&self, name: &str, how: Interruption) -> bool {
        let mut running = self.shared.running.lock();
        let task = running.tasks.values_mut().find(|task| task.name == name);
        task.and_then(|task| task.interrupt.take())
            .is_some_and(|interrupt| interrupt.send(how).is_ok())
    }

    fn report(&self, ended: TaskEnded) {
        error!(task = ended.name, cause = %ended.cause, "an essential task ended; the process must be restarted");
        self.shared.health.set_dead(&ended.to_string());
        self.shared.failed.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(ended);
            is_first
        });
    }

    fn register(&self, name: &str) -> (Registration, oneshot::Receiver<Interruption>) {
        let (interrupt, interrupted) = oneshot::channel();
        let mut running = self.shared.running.lock();
        running.next += 1;
        let number = running.next;
        let task = Task {
            name: name.to_owned(),
            interrupt: Some(interrupt),
        };
        running.tasks.insert(number, task);
        let registration = Registration {
            supervisor: self.clone(),
            number,
        };
        (registration, interrupted)
    }
}

/// A task in the list of those that run; leaves it when dropped, also by an abort.
struct Registration {
    supervisor: Supervisor,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.supervisor.shared.running.lock().tasks.remove(&self.number);
    }
}

/// Essential tasks that are stopped together. Clones share.
#[derive(Clone)]
pub struct Group {
    name: Arc<str>,
    supervisor: Supervisor,
    stop: CancellationToken,
    tracker: TaskTracker,
    handles: Arc<Mutex<Vec<(String, AbortHandle)>>>,
}

impl Group {
    /// Cancelled when the tasks are to end.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs a task that ends only after the group was asked to stop.
    pub fn spawn(&self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_fallible(name, task.map(Ok::<(), Infallible>));
    }

    /// The same for a task that may fail.
    pub fn spawn_fallible<E: Display>(&self, name: &str, task: impl Future<Output = Result<(), E>> + Send + 'static) {
        let name = format!("{}: {name}", self.name);
        let (registration, interrupted) = self.supervisor.register(&name);
        let (supervisor, stop) = (self.supervisor.clone(), self.stop.clone());
        let task_name = name.clone();
        let handle = self.tracker.spawn(async move {
            let _registration = registration;
            let task = async {
                tokio::select! {
                    biased;
                    how = interruption(interrupted) => match how {
                        Interruption::Return => Ok(()),
                        Interruption::Panic => panic!("interrupted by a test"),
                    },
                    result = task => result.map_err(|error| error.to_string()),
                }
            };
            // Kept until the end is reported: what the task owned may end other tasks, which were not the first.
            let mut task = pin!(AssertUnwindSafe(task).catch_unwind());
            let cause = match task.as_mut().await {
                Ok(Ok(())) => Cause::Returned,
                Ok(Err(error)) => Cause::Failed(error),
                Err(panic) => Cause::Panicked(panic_message(&*panic).to_owned()),
            };
            if stop.is_cancelled() {
                if cause != Cause::Returned {
                    warn!(task = task_name, %cause, "a task did not end cleanly");
                }
                return;
            }
            supervisor.report(TaskEnded { name: task_name, cause });
        });
        self.handles.lock().push((name, handle.abort_handle()));
    }

    /// Asks the tasks to end, waits for them, and aborts those that have not ended after `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_ok() {
            return;
        }
        for (task, handle) in self.handles.lock().iter().filter(|(_, handle)| !handle.is_finished()) {
            warn!(task, ?grace, "a task did not end in time and was aborted");
            handle.abort();
        }
        self.tracker.wait().await;
    }

    /// Ends the tasks at once, as a crash of the process would.
    pub fn abort(&self) {
        self.handles.lock().iter().for_each(|(_, handle)| handle.abort());
        self.stop.cancel();
    }
}

async fn interruption(interrupted: oneshot::Receiver<Interruption>) -> Interruption {
    match interrupted.await {
        Ok(how) => how,
        Err(_) => std::future::pending().await,
    }
}

/// What a panic said.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn the_first_task_that_ends_is_named_with_its_cause_and_liveness_fails() {
        type Start = fn(&Group);
        let cases: [(Start, Cause); 3] = [
            (|group| group.spawn("a", async {}), Cause::Returned),
            (
                |group| group.spawn_fallible("a", async { Err("no socket") }),
                Cause::Failed("no socket".into()),
            ),
            (
                |group| group.spawn("a", async { panic!("index {} out of range", 7) }),
                Cause::Panicked("index 7 out of range".into()),
            ),
        ];
        for (start, cause) in cases {
            let health = Health::default();
            let supervisor = Supervisor::new(health.clone());
            let group = supervisor.group("test");
            group.spawn("b", group.stopping().cancelled_owned());
            assert_eq!(supervisor.failure(), None);
            start(&group);
            let ended = supervisor.failed().await;
            assert_eq!((ended.name.as_str(), &ended.cause), ("test: a", &cause));
            assert_eq!(health.liveness(), Err(ended.to_string()));
            assert_eq!(supervisor.tasks(), ["test: b"]);
            assert!(supervisor.interrupt("test: b", Interruption::Return));
            group.stop(GRACE).await;
            assert_eq!(supervisor.failure(), Some(ended), "the first one stays");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_when_asked_to_is_no_failure_and_one_that_does_not_is_aborted() {
        let supervisor = Supervisor::default();
        let (group, other) = (supervisor.group("one"), supervisor.group("two"));
        other.spawn("other", other.stopping().cancelled_owned());
        group.spawn("quick", group.stopping().cancelled_owned());
        group.spawn("stuck", std::future::pending());
        let began = tokio::time::Instant::now();
        group.stop(GRACE).await;
        assert_eq!(began.elapsed(), GRACE);
        assert_eq!(supervisor.tasks(), ["two: other"], "groups stop by themselves");
        assert_eq!(supervisor.failure(), None);
        other.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_test_can_end_any_task() {
        let supervisor = Supervisor::default();
        let group = supervisor.group("test");
        group.spawn("a", std::future::pending());
        assert!(!supervisor.interrupt("test: b", Interruption::Panic));
        assert!(supervisor.interrupt("test: a", Interruption::Panic));
        let panicked = Cause::Panicked("interrupted by a test".into());
        assert_eq!(supervisor.failed().await.cause, panicked);
    }

    /// The queue owns the recorder, so its end ends the event sink: the queue must still be the one that is named.
    #[tokio::test]
    async fn what_ends_because_another_task_ended_is_not_the_first() {
        let supervisor = Supervisor::default();
        let group = supervisor.group("test");
        let (sender, receiver) = oneshot::channel::<()>();
        group.spawn("sink", receiver.map(|_| ()));
        group.spawn("queue", async move {
            let _sender = sender;
            panic!("a mistake");
        });
        assert_eq!(supervisor.failed().await.name, "test: queue");
        while !supervisor.tasks().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(supervisor.failed().await.name, "test: queue");
    }
}
