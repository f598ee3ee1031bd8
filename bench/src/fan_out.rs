//! Events to many watchers, with more and more events ahead of the slowest watch, until a server ends a watch for it.
//!
//! How much may be ahead decides how many events a server can send at once, and servers differ in what they bear:
//! kube-apiserver ends a watch that is further behind than its buffer for it, which holds ten events at least. So each server is
//! measured with every number, and those that cost it a watch are no measurement but a limit.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::client::Prepared;
use crate::events::{Ended, Events};
use crate::load::{Clock, Measured, Sizes, connect, finish, send_all};
use crate::server::Server;

/// What is watched, and how it is changed: each of its objects the one way and back again.
pub(crate) struct Watched {
    /// The path of the collection.
    pub(crate) collection: String,
    /// A change of every object.
    pub(crate) there: Vec<Prepared>,
    /// The changes that undo them.
    pub(crate) back: Vec<Prepared>,
}

/// What came of one number of events ahead of the slowest watch.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct FanOut {
    /// How many events were allowed to be ahead.
    pub(crate) ahead: usize,
    /// Absent when the server ended a watch.
    pub(crate) measured: Option<Delivered>,
    /// After how many events it did.
    pub(crate) ended_after: Option<usize>,
}

/// Events that every watch was told.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Delivered {
    /// How long it took.
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// The mean length of an event.
    pub(crate) event_bytes: usize,
}

/// Measures with every number of events ahead, from the least, up to the first at which the server ends a watch. It must bear
/// the least.
pub(crate) async fn rising(server: &Server, sizes: &Sizes, watched: &Watched) -> anyhow::Result<Vec<FanOut>> {
    let mut measured = Vec::with_capacity(sizes.ahead.len());
    // Each time the other way round, so that every patch is a change.
    for (ahead, changes) in sizes
        .ahead
        .iter()
        .zip([&watched.there, &watched.back].into_iter().cycle())
    {
        let outcome = outcome(
            *ahead,
            fan_out(server, sizes, *ahead, &watched.collection, changes).await,
        )?;
        measured.push(outcome);
        if outcome.ended_after.is_some() {
            ensure!(
                measured.len() > 1,
                "a watch was ended although only {ahead} events were ahead of it: try a smaller number with --ahead"
            );
            break;
        }
    }
    Ok(measured)
}

fn outcome(ahead: usize, result: anyhow::Result<Delivered>) -> anyhow::Result<FanOut> {
    let (measured, ended_after) = match result {
        Ok(measured) => (Some(measured), None),
        Err(error) => match error.downcast_ref::<Ended>() {
            Some(Ended { after }) => (None, Some(*after)),
            None => return Err(error),
        },
    };
    Ok(FanOut {
        ahead,
        measured,
        ended_after,
    })
}

/// Opens the watches on a collection, then makes the changes, and waits until every watch has told every change.
async fn fan_out(
    server: &Server,
    sizes: &Sizes,
    ahead: usize,
    collection: &str,
    changes: &[Prepared],
) -> anyhow::Result<Delivered> {
    let endpoint = &server.endpoint;
    let list = endpoint.once(&Prepared::get(format!("{collection}?limit=1"))).await?;
    let list: Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .context("the list has no resourceVersion")?;
    let watch = format!("{collection}?watch=true&resourceVersion={revision}&timeoutSeconds=3000");
    let mut watches: Vec<Events> = Vec::with_capacity(sizes.watchers);
    for _ in 0..sizes.watchers {
        watches.push(endpoint.watch(&watch).await?);
    }
    let connections = connect(endpoint, sizes.connections).await?;

    let events = changes.len();
    let window = Arc::new(Window::new(events, sizes.watchers, ahead));
    let clock = Clock::start(server)?;
    let mut readers = JoinSet::new();
    for mut watch in watches {
        let window = window.clone();
        readers.spawn(async move { watch.read(events, |told| window.told(told)).await });
    }
    // Together: a watch that ends too early would let the changes wait for ever.
    let sending = send_all(connections, changes.to_vec(), Some(&window));
    let ((), bytes) = tokio::try_join!(sending, finish(readers))?;
    let deliveries = sizes.watchers * events;
    Ok(Delivered {
        measured: clock.stop(server, deliveries)?,
        event_bytes: bytes.iter().sum::<usize>() / deliveries,
    })
}

/// Lets a change go when every watch has told the one that is so many before it.
pub(crate) struct Window {
    /// How many watches have told the first event, the second, and so on.
    told: Vec<AtomicUsize>,
    watchers: usize,
    permits: Semaphore,
}

impl Window {
    fn new(events: usize, watchers: usize, ahead: usize) -> Self {
        Self {
            told: (0..events).map(|_| AtomicUsize::new(0)).collect(),
            watchers,
            permits: Semaphore::new(ahead),
        }
    }

    /// Waits until one more change may go.
    pub(crate) async fn wait(&self) -> anyhow::Result<()> {
        self.permits.acquire().await?.forget();
        Ok(())
    }

    fn told(&self, events: Range<usize>) {
        for count in &self.told[events] {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == self.watchers {
                self.permits.add_permits(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_wait_for_the_slowest_watch() {
        let window = Window::new(5, 2, 2);
        window.told(0..3);
        assert_eq!(window.permits.available_permits(), 2);
        window.told(0..1);
        assert_eq!(window.permits.available_permits(), 3);
        window.told(1..5);
        assert_eq!(window.permits.available_permits(), 5);
    }

    #[test]
    fn a_watch_that_was_ended_is_a_limit_and_anything_else_a_failure() {
        let ended = anyhow::Error::from(Ended { after: 7 }).context("while reading");
        assert_eq!(outcome(20, Err(ended)).unwrap().ended_after, Some(7));
        assert!(outcome(20, Err(anyhow::anyhow!("refused"))).is_err());
    }
}
