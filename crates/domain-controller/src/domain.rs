//! The objects and the status of one domain.
//!
//! Owns the order: first what must exist or go, then what is reported. The status is written only when it differs from the
//! stored one, at most every two seconds for each domain, and events follow changes of its reasons.

use std::sync::Arc;
use std::time::Duration;

use coppice_domains::api::{ComputeDomain, DomainStatus};
use coppice_domains::decide::domain::{Command, plan_deletion, plan_live};
use coppice_domains::decide::gates::RowProtocol;
use coppice_domains::decide::status::{READY, Reason, StatusFacts, TEMPLATES, roll_up};
use coppice_runtime::cache::Meta;
use coppice_runtime::clock::later;
use coppice_runtime::events::EventKind;
use coppice_runtime::queue::{Outcome, Priority};
use coppice_runtime::write::{Patch, Precondition, WriteError};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::controller::{Controller, Key};
use crate::world::World;

/// Stages of a plan that are carried out in one run; what is left has marked the key again.
const STAGES: usize = 4;
/// After so long an object that the server refused is tried again.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// Pods that are counted at most when a domain is deleted.
const COUNTED_PODS: u32 = 500;

impl Controller {
    /// Reconciles the objects of a domain, then its status.
    pub(crate) async fn reconcile(&self, uid: &str) -> Outcome<WriteError> {
        let mut objects = None;
        for _ in 0..STAGES {
            let Some(domain) = self.current(uid) else {
                self.states.forget(uid);
                self.queue.mark(Key::Leftovers, Priority::Low);
                return Outcome::Done;
            };
            if domain.is_deleting() {
                self.count_workload(&domain).await;
            }
            let commands;
            (commands, objects) = self.plan_objects(&domain);
            if commands.is_empty() {
                break;
            }
            for command in &commands {
                match self.actions.run(Some(&domain), command).await {
                    Ok(()) => {}
                    Err(error @ (WriteError::Invalid { .. } | WriteError::Forbidden { .. })) if is_create(command) => {
                        return self.refused(&domain, &error).await;
                    }
                    Err(error) => {
                        let wait = error.retry_after().unwrap_or_default();
                        return Outcome::RetryAfter(error, wait);
                    }
                }
            }
            self.states.with(uid, |state| state.refused_object = None);
        }
        match self.current(uid) {
            Some(domain) => self.report_status(&domain, objects).await,
            None => Outcome::Done,
        }
    }

    fn current(&self, uid: &str) -> Option<Arc<ComputeDomain>> {
        self.world.domain(&self.world.cache.moment(), uid)
    }

    fn plan_objects(&self, domain: &ComputeDomain) -> (Vec<Command>, Option<(Reason, String)>) {
        let moment = self.world.cache.moment();
        if domain.is_deleting() {
            return (plan_deletion(&self.world.deletion_facts(&moment, domain)), None);
        }
        let plan = plan_live(domain, &self.world.live_facts(&moment, domain), &self.settings);
        (plan.commands, plan.objects)
    }

    /// The server does not take an object of the domain: reported, and tried again later.
    async fn refused(&self, domain: &ComputeDomain, error: &WriteError) -> Outcome<WriteError> {
        let problem = (Reason::CreateRefused, error.to_string());
        self.states
            .with(domain.uid(), |state| state.refused_object = Some(problem.clone()));
        match self.report_status(domain, Some(problem)).await {
            Outcome::Done => Outcome::RequeueAt(later(self.clock.now(), REFUSED_FOR)),
            other => other,
        }
    }

    /// Counts, once, the pods that use a domain which is being deleted: they lose it.
    async fn count_workload(&self, domain: &ComputeDomain) {
        let counted = self.states.with(domain.uid(), |state| state.workload_pods);
        if counted.is_some() {
            return;
        }
        let namespace = domain.metadata.namespace.as_deref().unwrap_or_default();
        let template = &domain.spec.channel.resource_claim_template.name;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        // A report only: a list that fails is not worth a retry.
        let listed = pods.list(&ListParams::default().limit(COUNTED_PODS)).await;
        let uses = |pod: &&Pod| {
            let spec = pod.spec.as_ref();
            let running = spec.is_some_and(|spec| spec.node_name.is_some())
                && !pod
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.as_deref())
                    .is_some_and(|phase| phase == "Succeeded" || phase == "Failed");
            let claims = spec
                .and_then(|spec| spec.resource_claims.as_deref())
                .unwrap_or_default();
            running
                && claims
                    .iter()
                    .any(|claim| claim.resource_claim_template_name.as_ref() == Some(template))
        };
        let count = listed.map_or(0, |pods| pods.items.iter().filter(uses).count());
        self.states
            .with(domain.uid(), |state| state.workload_pods = Some(count));
    }

    /// What the status of a domain is computed from.
    fn status_facts(&self, domain: &ComputeDomain, objects: Option<(Reason, String)>) -> StatusFacts {
        let uid = domain.uid();
        let moment = self.world.cache.moment();
        let set = self.world.daemon_set(&moment, uid);
        let managed = set
            .as_ref()
            .map_or(self.world.managed.first(), |(managed, _)| Some(managed));
        let cliques = managed
            .map(|managed| World::cliques(managed, &moment, uid))
            .unwrap_or_default();
        let facts = self.world.domain_facts(&moment, domain, &cliques, Default::default());
        let gates = set.as_ref().and_then(|(_, set)| set.gates.clone());
        let labelled = || {
            let nodes = facts.nodes.iter();
            nodes
                .filter(|(_, node)| node.domain_uid.as_deref() == Some(uid))
                .map(|(name, _)| name)
        };
        let no_fabric = |node: &str| facts.clique_of_node(node) == Some("");
        let (refused, refused_object, workload_pods) = self
            .states
            .with_existing(uid, |state| {
                let refused = state.cliques.values().flat_map(|clique| clique.refused.clone());
                let pods = state.workload_pods.unwrap_or_default();
                (refused.collect(), state.refused_object.clone(), pods)
            })
            .unwrap_or_default();
        StatusFacts {
            pods_without_fabric: facts.pods.iter().filter(|pod| no_fabric(&pod.node)).cloned().collect(),
            nodes_without_clique: labelled()
                .filter(|name| facts.clique_of_node(name).is_none())
                .cloned()
                .collect(),
            refused,
            objects: objects.or(refused_object),
            host_managed: self.settings.host_managed,
            workload_pods,
            protocol: RowProtocol::of(gates.as_deref(), self.settings.gates),
            rows: facts.rows,
        }
    }

    async fn report_status(&self, domain: &ComputeDomain, objects: Option<(Reason, String)>) -> Outcome<WriteError> {
        let now = self.clock.now();
        let before = self.last_status(domain);
        let mut domain = domain.clone();
        domain.status = Some(before.clone());
        let uid = domain.uid();
        let wanted = roll_up(&domain, &self.status_facts(&domain, objects), now);
        if wanted == before {
            return Outcome::Done;
        }
        if let Some(due) = self.states.with(uid, |state| state.pace.wait(now)) {
            return Outcome::RequeueAt(due);
        }
        let Some(meta) = Meta::of(&domain) else {
            return Outcome::Done;
        };
        // Empty lists are written, too: a merge would leave the stored ones.
        let patch = Patch::Merge(json!({"status": {
            "status": wanted.status,
            "nodes": wanted.nodes,
            "cliques": wanted.cliques,
            "conditions": wanted.conditions,
        }}));
        let condition = Precondition::version(&meta);
        let domains = &self.world.domains;
        match self
            .actions
            .writer
            .patch_status(domains, &meta.key, &condition, patch)
            .await
        {
            Ok(answer) => {
                self.report_changes(&domain, &before, &wanted);
                let answered = answer.status.clone().unwrap_or_default();
                self.states.with(uid, |state| state.written = Some((wanted, answered)));
                Outcome::Done
            }
            Err(WriteError::NotFound(_)) => Outcome::Done,
            Err(error) => {
                if matches!(error, WriteError::Conflict(_)) {
                    // Folded in, for the next run.
                    let _ = self.actions.writer.read(domains, &meta.key).await;
                }
                let wait = error.retry_after().unwrap_or_default();
                Outcome::RetryAfter(error, wait)
            }
        }
    }

    /// The status as it was written last, while the server still has what it made of that; else the stored one.
    fn last_status(&self, domain: &ComputeDomain) -> DomainStatus {
        let stored = domain.status.clone().unwrap_or_default();
        let written = self.states.with(domain.uid(), |state| state.written.clone());
        match written {
            Some((wanted, answered)) if answered == stored => wanted,
            _ => stored,
        }
    }

    /// An event for each condition whose reason has changed.
    fn report_changes(&self, domain: &ComputeDomain, before: &DomainStatus, after: &DomainStatus) {
        for kind in [TEMPLATES, READY] {
            let find = |status: &DomainStatus| {
                let mut conditions = status.conditions.iter();
                conditions.find(|condition| condition.type_ == kind).cloned()
            };
            let (old, new) = (find(before), find(after));
            let Some(new) = new.filter(|new| old.is_none_or(|old| old.reason != new.reason)) else {
                continue;
            };
            let reason = Reason::ALL.iter().find(|reason| reason.as_str() == new.reason);
            if let Some((reason, kind)) = reason.and_then(|reason| Some((*reason, worth_an_event(*reason)?))) {
                self.actions.report(domain, kind, reason, &new.message);
            }
        }
    }

    /// Reports that the server does not take the rows of a clique.
    pub(crate) fn report_refused_rows(&self, uid: &str, clique_id: &str, error: &WriteError) {
        if let Some(domain) = self.current(uid) {
            let message = format!("the API server refused the rows of clique {clique_id}: {error}");
            self.actions
                .report(&domain, EventKind::Warning, Reason::RowsRefused, &message);
        }
    }
}

fn is_create(command: &Command) -> bool {
    matches!(command, Command::Create(_))
}

/// Reasons that are worth an event when they appear; the others are steps on the way.
fn worth_an_event(reason: Reason) -> Option<EventKind> {
    match reason {
        Reason::AllNodesReady | Reason::Created => Some(EventKind::Normal),
        Reason::DaemonsLost
        | Reason::CliqueFull
        | Reason::FabricUnknown
        | Reason::TemplateNameTaken
        | Reason::CreateRefused
        | Reason::RowsRefused
        | Reason::DeletedUnderWorkload => Some(EventKind::Warning),
        Reason::NoNodes
        | Reason::WaitingForNodes
        | Reason::WaitingForDaemons
        | Reason::DaemonsNotReady
        | Reason::HostManaged
        | Reason::Creating
        | Reason::Deleting => None,
    }
}
