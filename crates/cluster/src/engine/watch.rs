//! Watches as endless streams of changes.
//!
//! Owns the mapping from the client library's watch events to [`Change`]s of compact views, and the pauses between
//! attempts when the API server is away. Objects are projected at once, so that a full list is never held in its
//! decoded form. [`Listing`] finds what vanished while no watch was open. It never gives up and never caches objects.

use futures::stream::{BoxStream, StreamExt};
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// One thing a watch has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<V> {
    /// A full list begins: what it does not contain is gone.
    ListStarted,
    /// The object exists and looks like this.
    Applied(V),
    /// The object is gone; this is how it looked last.
    Deleted(V),
    /// The full list is complete.
    ListDone,
}

/// Watches a kind for ever, projecting each object as it arrives.
pub(crate) fn changes<K, V, F>(api: Api<K>, config: watcher::Config, project: F) -> BoxStream<'static, Change<V>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    V: Send + 'static,
    F: Fn(K) -> V + Send + 'static,
{
    let source = watcher::watcher(api, config).boxed();
    futures::stream::unfold(
        (source, project, 0_u32),
        |(mut source, project, mut failures)| async move {
            loop {
                let change = match source.next().await? {
                    Ok(watcher::Event::Init) => Change::ListStarted,
                    Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                        Change::Applied(project(object))
                    }
                    Ok(watcher::Event::Delete(object)) => Change::Deleted(project(object)),
                    Ok(watcher::Event::InitDone) => Change::ListDone,
                    Err(error) => {
                        let pause = FIRST_PAUSE
                            .saturating_mul(2_u32.saturating_pow(failures))
                            .min(LONGEST_PAUSE);
                        failures = failures.saturating_add(1);
                        tracing::debug!(%error, ?pause, "a watch was interrupted, will go on");
                        tokio::time::sleep(pause).await;
                        continue;
                    }
                };
                // Only what the server really delivered ends the growth of pauses; `Init` comes before any request.
                if !matches!(change, Change::ListStarted) {
                    failures = 0;
                }
                return Some((change, (source, project, failures)));
            }
        },
    )
    .boxed()
}

/// Mark and sweep over full lists: which known keys did the last list not contain?
#[derive(Clone, Debug)]
pub(crate) struct Listing<K> {
    seen: Option<BTreeSet<K>>,
    complete: bool,
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self {
            seen: None,
            complete: false,
        }
    }
}

impl<K: Ord + Clone> Listing<K> {
    /// A full list begins.
    pub(crate) fn start(&mut self) {
        self.seen = Some(BTreeSet::new());
    }

    /// The key was reported.
    pub(crate) fn saw(&mut self, key: &K) {
        if let Some(seen) = &mut self.seen {
            seen.insert(key.clone());
        }
    }

    /// The list is complete; the known keys that it did not contain are returned.
    pub(crate) fn finish<'a>(&mut self, known: impl Iterator<Item = &'a K>) -> Vec<K>
    where
        K: 'a,
    {
        self.complete = true;
        match self.seen.take() {
            Some(seen) => known.filter(|key| !seen.contains(key)).cloned().collect(),
            None => Vec::new(),
        }
    }

    /// Whether at least one full list has been seen.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_tells_what_vanished() {
        let mut listing = Listing::default();
        assert!(!listing.is_complete());
        listing.start();
        listing.saw(&1);
        assert_eq!(listing.finish([1, 2].iter()), vec![2]);
        assert!(listing.is_complete());
        listing.saw(&7);
        listing.start();
        assert_eq!(
            listing.finish([1].iter()),
            vec![1],
            "what was seen before the list does not count"
        );
    }
}
