//! What the controller remembers of each domain between runs: group commits under way, paces, what was found out.
//!
//! Owns no truth: everything here can be lost at any time and is computed again from the API. Bounded by the domains,
//! cliques and daemon pods that exist.

use std::collections::{BTreeMap, BTreeSet};

use coppice_domains::api::{Clique, DomainStatus};
use coppice_domains::decide::rows::{Action, Check, CliqueWriter, Refusal, Timing};
use coppice_domains::decide::status::{Reason, StatusPace};
use jiff::Timestamp;
use parking_lot::Mutex;

/// One clique of a domain.
pub(crate) struct CliqueState {
    pub(crate) writer: CliqueWriter,
    /// A request that the writer has begun and no worker has taken yet.
    pub(crate) pending: Option<Action>,
    /// Live reads to make.
    pub(crate) checks: Vec<Check>,
    /// Nodes that got no index.
    pub(crate) refused: Vec<Refusal>,
    /// Nothing is planned before this time: the server asked for it, or refused for good.
    pub(crate) not_before: Option<Timestamp>,
    /// The cached version that the writer knows; the inner one is none when the object does not exist.
    seen: Option<Option<String>>,
}

impl CliqueState {
    pub(crate) fn new(clique_id: &str, max: u32) -> Self {
        Self {
            writer: CliqueWriter::new(clique_id, max, Timing::default()),
            pending: None,
            checks: Vec::new(),
            refused: Vec::new(),
            not_before: None,
            seen: None,
        }
    }

    /// Shows the writer what is cached, once for each version: after a conflict it must read, not believe an old version.
    pub(crate) fn see(&mut self, cached: Option<&Clique>) {
        let version = cached.map(|clique| clique.metadata.resource_version.clone().unwrap_or_default());
        if self.seen.as_ref() == Some(&version) {
            return;
        }
        self.seen = Some(version);
        match cached {
            Some(clique) => self.writer.observed(clique),
            None => self.writer.observed_absent(),
        }
    }
}

/// One domain.
#[derive(Default)]
pub(crate) struct DomainState {
    pub(crate) cliques: BTreeMap<String, CliqueState>,
    /// UIDs of daemon pods that were seen deleted and that rows may still name.
    pub(crate) deleted_pods: BTreeSet<String>,
    pub(crate) pace: StatusPace,
    /// The status that was written last, and what the server made of it: definitions of others drop what we add.
    pub(crate) written: Option<(DomainStatus, DomainStatus)>,
    /// Why the server refused to create an object of the domain.
    pub(crate) refused_object: Option<(Reason, String)>,
    /// Pods that used the domain when its deletion began.
    pub(crate) workload_pods: Option<usize>,
}

/// All domains, by UID.
#[derive(Default)]
pub(crate) struct States {
    domains: Mutex<BTreeMap<String, DomainState>>,
}

impl States {
    /// Works on the state of a domain, which is made when there is none.
    pub(crate) fn with<R>(&self, uid: &str, act: impl FnOnce(&mut DomainState) -> R) -> R {
        act(self.domains.lock().entry(uid.to_owned()).or_default())
    }

    /// Works on the state of a domain when there is one.
    pub(crate) fn with_existing<R>(&self, uid: &str, act: impl FnOnce(&mut DomainState) -> R) -> Option<R> {
        self.domains.lock().get_mut(uid).map(act)
    }

    /// Forgets a domain.
    pub(crate) fn forget(&self, uid: &str) {
        self.domains.lock().remove(uid);
    }
}
