//! The rows of a domain's cliques: planning, one conditional write of each clique in flight, and live reads.
//!
//! Owns the way from facts to clique writers and back. Planning never waits: requests are left to keys of their own, and
//! what changes meanwhile is in the next plan. A request whose outcome is not known is followed by a read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coppice_domains::api::{Clique, names};
use coppice_domains::decide::gates::RowProtocol;
use coppice_domains::decide::render::{Ownership, clique_object};
use coppice_domains::decide::rows::{Action, Check, CheckResult, NodeMembership, Outcome as Written, group};
use coppice_runtime::cache::{Meta, ObjectKey};
use coppice_runtime::clock::later;
use coppice_runtime::queue::{Outcome, Priority};
use coppice_runtime::write::{Patch, Precondition, WriteError};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tracing::{debug, warn};

use crate::controller::{Controller, Key};
use crate::state::CliqueState;
use crate::views::daemon_pod;
use crate::world::{Managed, World};

/// How long a clique rests after the server refused its rows: only a change of its rules or of our rights helps.
const REFUSED_FOR: Duration = Duration::from_secs(30);

impl Controller {
    /// Plans the rows of all cliques of a domain, and hands out what is to be requested.
    pub(crate) fn plan_rows(&self, uid: &str) -> Outcome<WriteError> {
        let moment = self.world.cache.moment();
        let Some(domain) = self.world.domain(&moment, uid).filter(|domain| !domain.is_deleting()) else {
            return Outcome::Done;
        };
        // Its DaemonSet owns the cliques; until it exists no node can have a daemon.
        let Some((managed, set)) = self.world.daemon_set(&moment, uid) else {
            return Outcome::Done;
        };
        if RowProtocol::of(set.gates.as_deref(), self.settings.gates) != RowProtocol::Cliques {
            return Outcome::Done;
        }
        let cliques = World::cliques(managed, &moment, uid);
        let now = self.clock.now();
        let wake = self.states.with(uid, |state| {
            let facts = self
                .world
                .domain_facts(&moment, &domain, &cliques, state.deleted_pods.clone());
            let grouped = group(&facts);
            let mut wake = None;
            for (clique_id, facts) in &grouped {
                let clique = state
                    .cliques
                    .entry(clique_id.clone())
                    .or_insert_with(|| CliqueState::new(clique_id, self.settings.max_nodes));
                clique.see(cliques.get(clique_id).map(|clique| &**clique));
                if let Some(at) = clique.not_before.filter(|at| *at > now) {
                    wake = earlier(wake, at);
                    continue;
                }
                let (action, plan) = clique.writer.next(facts, now);
                clique.refused = plan.refused;
                if !plan.checks.is_empty() {
                    clique.checks = plan.checks;
                    self.queue
                        .mark(Key::Check(uid.to_owned(), clique_id.clone()), Priority::Low);
                }
                match action {
                    Action::Rest => {}
                    Action::WaitUntil(at) => wake = earlier(wake, at),
                    request @ (Action::Create(_) | Action::Replace { .. } | Action::Read) => {
                        clique.pending = Some(request);
                        self.queue
                            .mark(Key::Write(uid.to_owned(), clique_id.clone()), Priority::High);
                    }
                }
            }
            state
                .cliques
                .retain(|id, clique| grouped.contains_key(id) || clique.writer.is_in_flight());
            let busy = state.cliques.values().any(|clique| clique.writer.is_in_flight());
            let named = |pod: &String| {
                facts
                    .rows
                    .values()
                    .flatten()
                    .any(|row| row.pod_uid.as_ref() == Some(pod))
            };
            state.deleted_pods.retain(|pod| busy || named(pod));
            wake
        });
        wake.map_or(Outcome::Done, Outcome::RequeueAt)
    }

    /// Carries out the request that a clique's writer has begun.
    pub(crate) async fn write_rows(&self, uid: &str, clique_id: &str) -> Outcome<WriteError> {
        let taken = self.states.with_existing(uid, |state| {
            let clique = state.cliques.get_mut(clique_id)?;
            clique.writer.is_in_flight().then(|| clique.pending.take())
        });
        // The domain was forgotten meanwhile.
        let Some(Some(action)) = taken else {
            return Outcome::Done;
        };
        let result = match action {
            Some(action) => self.request(uid, clique_id, action).await,
            // A run that took it has panicked.
            None => Err(WriteError::OutcomeUnknown("the request was given up".to_owned())),
        };
        let now = self.clock.now();
        let mut not_before = None;
        let outcome = match result {
            Ok(clique) => Written::Stored(Box::new((*clique).clone())),
            Err(WriteError::Conflict(_) | WriteError::AlreadyExists(_)) => Written::Conflict,
            Err(WriteError::NotFound(_)) => Written::NotFound,
            Err(WriteError::OutcomeUnknown(error)) => {
                debug!(
                    domain = uid,
                    clique = clique_id,
                    error,
                    "it is not known whether rows were stored"
                );
                Written::Lost
            }
            Err(error @ (WriteError::Throttled { .. } | WriteError::Unavailable(_) | WriteError::Fenced(_))) => {
                not_before = error.retry_after().map(|wait| later(now, wait));
                debug!(domain = uid, clique = clique_id, %error, "rows were not stored");
                Written::Refused
            }
            Err(error) => {
                not_before = Some(later(now, REFUSED_FOR));
                warn!(domain = uid, clique = clique_id, %error, "the API server refused the rows of a clique");
                self.report_refused_rows(uid, clique_id, &error);
                Written::Refused
            }
        };
        self.states.with_existing(uid, |state| {
            if let Some(clique) = state.cliques.get_mut(clique_id) {
                clique.not_before = not_before;
                clique.writer.finished(outcome);
            }
        });
        self.queue.mark(Key::Rows(uid.to_owned()), Priority::High);
        Outcome::Done
    }

    async fn request(&self, uid: &str, clique_id: &str, action: Action) -> Result<Arc<Clique>, WriteError> {
        let (managed, ownership, stored) = self.clique_at(uid, clique_id)?;
        let key = ObjectKey::new(managed.namespace.as_str(), names::clique(uid, clique_id));
        match action {
            Action::Create(rows) => {
                let object = clique_object(&ownership, None, rows);
                let namespace = Some(managed.namespace.as_str());
                self.actions.writer.create(&managed.cliques, namespace, &object).await
            }
            Action::Replace { resource_version, rows } => {
                let current = |clique: &Arc<Clique>| {
                    clique.metadata.resource_version.as_deref() == Some(resource_version.as_str())
                };
                // Owners and labels are taken from the version that the rows were computed from.
                let Some((stored, meta)) = stored.filter(current).and_then(|clique| {
                    let meta = Meta::of(&*clique)?;
                    Some((clique, meta))
                }) else {
                    return Err(WriteError::Conflict("another version is cached".to_owned()));
                };
                let object = clique_object(&ownership, Some(&stored), rows);
                let patch = Patch::Merge(json!({
                    "metadata": {
                        "labels": object.metadata.labels,
                        "ownerReferences": object.metadata.owner_references,
                    },
                    "daemons": object.daemons,
                }));
                let condition = Precondition::version(&meta);
                self.actions
                    .writer
                    .patch(&managed.cliques, &key, &condition, patch)
                    .await
            }
            Action::Read => self.actions.writer.read(&managed.cliques, &key).await,
            Action::WaitUntil(_) | Action::Rest => Err(WriteError::NotFound("nothing was begun".to_owned())),
        }
    }

    /// Where a clique is, who owns it, and how it is cached.
    fn clique_at(&self, uid: &str, clique_id: &str) -> Result<(Managed, Ownership, Option<Arc<Clique>>), WriteError> {
        let moment = self.world.cache.moment();
        let Some((managed, set)) = self.world.daemon_set(&moment, uid) else {
            return Err(WriteError::Unavailable("the DaemonSet is gone".to_owned()));
        };
        let ownership = Ownership {
            domain_uid: uid.to_owned(),
            clique_id: clique_id.to_owned(),
            namespace: managed.namespace.clone(),
            daemon_set: set.existing.name.clone(),
            daemon_set_uid: set.existing.uid.clone(),
        };
        let key = ObjectKey::new(managed.namespace.as_str(), names::clique(uid, clique_id));
        let stored = managed.cliques.get(&moment, &key);
        Ok((managed.clone(), ownership, stored))
    }

    /// Makes the live reads that a plan asked for.
    pub(crate) async fn check_rows(&self, uid: &str, clique_id: &str) -> Outcome<WriteError> {
        let checks = self.states.with_existing(uid, |state| {
            let clique = state.cliques.get_mut(clique_id);
            clique
                .map(|clique| std::mem::take(&mut clique.checks))
                .unwrap_or_default()
        });
        let checks = checks.unwrap_or_default();
        if checks.is_empty() {
            return Outcome::Done;
        }
        match try_join_all(checks.iter().map(|check| self.check(uid, clique_id, check))).await {
            Ok(results) => {
                let now = self.clock.now();
                self.states.with_existing(uid, |state| {
                    if let Some(clique) = state.cliques.get_mut(clique_id) {
                        results
                            .into_iter()
                            .for_each(|result| clique.writer.checked(result, now));
                    }
                });
                self.queue.mark(Key::Rows(uid.to_owned()), Priority::High);
                Outcome::Done
            }
            Err(error) => {
                self.states.with_existing(uid, |state| {
                    if let Some(clique) = state.cliques.get_mut(clique_id) {
                        clique.checks = checks;
                    }
                });
                let wait = error.retry_after().unwrap_or_default();
                Outcome::RetryAfter(error, wait)
            }
        }
    }

    /// Reads a node and the domain's daemon pods on it from the server itself.
    async fn check(&self, uid: &str, clique_id: &str, check: &Check) -> Result<CheckResult, WriteError> {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        let node = nodes.get_metadata_opt(&check.node).await?;
        let selector = ListParams::default()
            .labels(&format!("{}={uid}", names::DOMAIN_LABEL))
            .fields(&format!("spec.nodeName={}", check.node));
        let mut pods = Vec::new();
        for managed in &self.world.managed {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &managed.namespace);
            pods.extend(api.list(&selector).await?.items);
        }
        let pods: Vec<_> = pods
            .iter()
            .filter_map(|pod| {
                let value: Value = serde_json::to_value(pod).ok()?;
                Some(daemon_pod(pod.metadata.uid.as_deref()?, &value).facts)
            })
            .filter(|pod| !pod.ended)
            .collect();
        let moment = self.world.cache.moment();
        let labelled = node.as_ref().is_some_and(|node| {
            let labels = node.metadata.labels.as_ref();
            labels
                .and_then(|labels| labels.get(names::DOMAIN_LABEL))
                .map(String::as_str)
                == Some(uid)
        });
        let reported = || pods.iter().filter_map(|pod| pod.reported_clique.clone()).next_back();
        let clique = self.world.clique_of(&moment, &check.node).or_else(reported);
        let membership = match node {
            None => NodeMembership::Unknown,
            // A node whose fabric is not known is not known to have left.
            Some(_) if labelled && clique.as_deref().is_none_or(|clique| clique == clique_id) => NodeMembership::Member,
            Some(_) => NodeMembership::Left,
        };
        let others = self.other_cliques(&moment, uid, clique_id);
        let elsewhere = |pod_uid: &str, address: &str| {
            let mut rows = others.values().flat_map(|clique| &clique.daemons);
            rows.any(|row| {
                row.node_name == check.node
                    && match &row.pod_uid {
                        Some(owner) => owner == pod_uid,
                        None => !address.is_empty() && row.ip_address == address,
                    }
            })
        };
        Ok(CheckResult {
            check: check.clone(),
            membership,
            pods: pods
                .iter()
                .filter(|pod| !elsewhere(&pod.uid, &pod.address))
                .map(|pod| (pod.uid.clone(), pod.address.clone()))
                .collect(),
        })
    }

    fn other_cliques(
        &self,
        moment: &coppice_runtime::cache::Moment<'_>,
        uid: &str,
        clique_id: &str,
    ) -> BTreeMap<String, Arc<Clique>> {
        let Some((managed, _)) = self.world.daemon_set(moment, uid) else {
            return BTreeMap::new();
        };
        let mut cliques = World::cliques(managed, moment, uid);
        cliques.remove(clique_id);
        cliques
    }
}

fn earlier(wake: Option<Timestamp>, at: Timestamp) -> Option<Timestamp> {
    Some(wake.map_or(at, |wake| wake.min(at)))
}
