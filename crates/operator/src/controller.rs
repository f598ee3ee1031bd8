//! The worker: takes a key, plans, acts, and plans again until nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, OnceLock};

use coppice_api::canonical::{GenerationIdentity, TemplateIdentity};
use coppice_api::types::{ClusterTopologyBinding, PodCliqueSet, UpdateStrategyType};
use coppice_core::backends::BackendContext;
use coppice_core::command::{Command, Kind as CommandKind, Target};
use coppice_core::context::SetContext;
use coppice_core::facts::SetFacts;
use coppice_core::failure::{Failure, Subject};
use coppice_core::objects::template_objects;
use coppice_core::packing::topology_name;
use coppice_core::reasons::Reason;
use coppice_core::replica::{ReplicaSummary, plan_abandoned, plan_replica};
use coppice_core::report;
use coppice_core::revisions::{Revisions, StoredRevision};
use coppice_core::set::{SetSnapshot, adopted_hash, plan_set};
use coppice_core::settings::{Settings, TopologyLevels};
use coppice_core::snapshot::{ReplicaSnapshot, target_of};
use coppice_core::topology::{KaiTopologies, plan_binding};
use coppice_runtime::cache::ObjectKey;
use coppice_runtime::clock::SharedClock;
use coppice_runtime::queue::{Outcome, Priority, Queue};
use coppice_runtime::supervise::panic_message;
use coppice_runtime::write::WriteError;
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use tracing::{debug, warn};

use crate::actions::{Actions, Report};
use crate::holding::{self, Released};
use crate::keys::{Key, SetKey};
use crate::pacing::{Load, Pacing};
use crate::trouble::Trouble;
use crate::world::{Served, World};

/// Plans in a row for one key before it goes to the back of the queue. More than a healthy plan ever needs: each one
/// acts on what the one before it brought about.
const PLANS_IN_A_ROW: usize = 16;

/// Identities of a set's templates, kept as long as its generation stays.
struct Identities {
    uid: Option<String>,
    generation: Option<i64>,
    templates: Vec<TemplateIdentity>,
    whole: GenerationIdentity,
}

/// A version of a ControllerRevision.
type RevisionKey = (Option<String>, Option<String>);

/// What workers share.
pub(crate) struct Controller {
    pub(crate) world: World,
    pub(crate) actions: Actions,
    pub(crate) settings: Settings,
    pub(crate) clock: SharedClock,
    pub(crate) queue: Queue<Key>,
    pacing: Pacing,
    trouble: Trouble,
    summaries: Mutex<BTreeMap<SetKey, BTreeMap<u32, ReplicaSummary>>>,
    identities: Mutex<BTreeMap<SetKey, Arc<Identities>>>,
    revisions: Mutex<BTreeMap<SetKey, BTreeMap<RevisionKey, Arc<StoredRevision>>>>,
    served: OnceLock<Served>,
}

impl Controller {
    pub(crate) fn new(
        world: World,
        actions: Actions,
        settings: Settings,
        clock: SharedClock,
        queue: Queue<Key>,
    ) -> Self {
        Self {
            world,
            actions,
            settings,
            clock,
            queue,
            pacing: Pacing::default(),
            trouble: Trouble::default(),
            summaries: Mutex::default(),
            identities: Mutex::default(),
            revisions: Mutex::default(),
            served: OnceLock::new(),
        }
    }

    /// Which kinds of others are there to be written; said before the work begins.
    pub(crate) fn serves(&self, served: Served) {
        // Said once.
        let _ = self.served.set(served);
    }

    fn served(&self) -> Served {
        self.served.get().copied().unwrap_or_default()
    }

    /// Marks what a change concerns.
    pub(crate) fn listen(self: &Arc<Self>) {
        let queue = self.queue.clone();
        let replica: Arc<dyn Fn(SetKey, u32) + Send + Sync> =
            Arc::new(move |set, index| queue.mark(Key::Replica(set, index), Priority::High));
        let queue = self.queue.clone();
        let set: Arc<dyn Fn(SetKey) + Send + Sync> = Arc::new(move |set| queue.mark(Key::Set(set), Priority::Low));
        self.world.on_change(&replica, &set);
        let controller = self.clone();
        self.world
            .sets
            .on_change(move |change| controller.set_changed(change.old.as_deref(), change.new.as_deref()));
        let controller = self.clone();
        self.world
            .topologies
            .on_change(move |change| controller.topology_changed(change.old.as_deref(), change.new.as_deref()));
        let controller = self.clone();
        self.world.kai_topologies.on_change(move |_| {
            // A binding may name an object of any name, and there are few of both.
            let bindings = controller.world.topologies.all(&controller.world.cache.moment());
            bindings.iter().for_each(|binding| controller.mark_topology(binding));
        });
        let controller = self.clone();
        self.world.revisions.on_change(move |change| {
            // With coherent updates pods are made from what revisions hold.
            for revision in change.old.iter().chain(&change.new) {
                let controlled = |set: &PodCliqueSet| is_owner(set, &revision.metadata) && is_coherent(set);
                controller.mark_where(controlled);
            }
        });
        let controller = self.clone();
        self.world.claim_templates.on_change(move |change| {
            for template in change.old.iter().chain(&change.new) {
                let text = |field: &str| template["metadata"][field].as_str().unwrap_or_default().to_owned();
                let name = (text("namespace"), text("name"));
                controller.mark_where(|set| template_objects(&SetFacts::of(set)).contains(&name));
            }
        });
    }

    /// A topology changed: its own status is looked at again, and every set when it says something else.
    fn topology_changed(&self, old: Option<&ClusterTopologyBinding>, new: Option<&ClusterTopologyBinding>) {
        if let Some(binding) = new.or(old) {
            self.mark_topology(binding);
        }
        if old.map(|old| &old.spec) != new.map(|new| &new.spec) {
            self.mark_where(|_| true);
        }
    }

    fn mark_topology(&self, binding: &ClusterTopologyBinding) {
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        self.queue.mark(Key::Topology(name.into()), Priority::Low);
    }

    /// A set changed: the set itself is looked at again, and its replicas when the change concerns them.
    fn set_changed(&self, old: Option<&PodCliqueSet>, new: Option<&PodCliqueSet>) {
        let Some(set) = new.or(old) else { return };
        let key = key_of(set);
        if new.is_none() {
            self.summaries.lock().remove(&key);
            self.identities.lock().remove(&key);
            self.revisions.lock().remove(&key);
            self.trouble.forget(&key);
            return;
        }
        self.queue.mark(Key::Set(key.clone()), Priority::Low);
        if old.map(concerning_replicas) == new.map(concerning_replicas) {
            return;
        }
        let facts = SetFacts::of(set);
        // A number that is too large asks for nothing; what exists is marked by its own events, and known here.
        let wanted = if facts.too_many_replicas() { 0 } else { facts.replicas() };
        let known: Vec<u32> = {
            let summaries = self.summaries.lock();
            let of_set = summaries.get(&key).into_iter();
            of_set
                .flat_map(|all| all.range(wanted..))
                .map(|(index, _)| *index)
                .collect()
        };
        for index in (0..wanted).chain(known) {
            self.queue.mark(Key::Replica(key.clone(), index), priority_of(set));
        }
    }

    /// Marks everything of the sets that something outside of them concerns.
    fn mark_where(&self, concerned: impl Fn(&PodCliqueSet) -> bool) {
        let sets = self.world.sets.all(&self.world.cache.moment());
        let concerned = sets.iter().filter(|set| concerned(set));
        concerned.for_each(|set| self.set_changed(None, Some(set)));
    }

    /// Works on one key. A panic concerns that key alone: it is reported on its object, and the queue counts it and tries
    /// the key again after a back-off.
    pub(crate) async fn work(self: Arc<Self>, key: Key) -> Outcome<WriteError> {
        match AssertUnwindSafe(self.reconcile(&key)).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(panic) => {
                self.report_panic(&key, panic_message(&*panic));
                resume_unwind(panic)
            }
        }
    }

    fn report_panic(&self, key: &Key, cause: &str) {
        let moment = self.world.cache.moment();
        let (target, part) = match key {
            Key::Set(set) | Key::Replica(set, _) => {
                let found = self.world.set(&moment, set);
                let part = match key {
                    Key::Replica(_, index) => format!("replica {index}"),
                    _ => "the set as a whole".to_owned(),
                };
                (
                    found.map(|set| target_of(CommandKind::PodCliqueSet, &set.metadata)),
                    part,
                )
            }
            Key::Topology(name) => {
                let found = self.world.topologies.get(&moment, &ObjectKey::new("", &**name));
                let target = found.map(|binding| target_of(CommandKind::ClusterTopologyBinding, &binding.metadata));
                (target, "the topology".to_owned())
            }
        };
        let Some(target) = target else { return };
        self.actions.tell(&Command::Event {
            target,
            warning: true,
            reason: Reason::ReconcilePanicked,
            message: format!("the operator panicked while it reconciled {part}, and tries again later: {cause}"),
        });
    }

    async fn reconcile(&self, key: &Key) -> Outcome<WriteError> {
        for _ in 0..PLANS_IN_A_ROW {
            let planned = match key {
                Key::Set(set) => self.plan_whole(set),
                Key::Replica(set, index) => self.plan_one(set, *index),
                Key::Topology(name) => self.plan_topology(name),
            };
            let now = self.clock.now();
            let load = self.load();
            let Released { stages, wake } =
                holding::release(&self.trouble, &self.pacing, key, planned.stages, now, load);
            let wake = wake.into_iter().chain(planned.deadline).min();
            let events_only = stages
                .iter()
                .flatten()
                .all(|command| matches!(command, Command::Event { .. }));
            debug!(?key, commands = stages.iter().map(Vec::len).sum::<usize>(), "acting");
            let report = self.actions.carry_out(stages).await;
            if let Some(seen) = &planned.seen {
                self.tell(key, seen, &report);
            }
            if let Some(error) = report.stopped {
                return retry(error);
            }
            if events_only {
                // Events change nothing that the next plan would see; they go out with the plan that settles.
                return wake.map_or(Outcome::Done, Outcome::RequeueAt);
            }
        }
        self.queue.mark(key.clone(), Priority::Low);
        Outcome::Done
    }

    fn load(&self) -> Load {
        if self.queue.is_pressed() {
            Load::Pressed
        } else if self.queue.is_backlogged() {
            Load::Busy
        } else {
            Load::Idle
        }
    }

    /// Keeps in mind what was refused, and tells people what happened.
    fn tell(&self, key: &Key, seen: &Seen, report: &Report) {
        let now = self.clock.now();
        for command in &report.done {
            self.trouble.done(key, command);
        }
        for (command, error) in &report.refused {
            let Some(subject) = Subject::of(command) else { continue };
            let failure = Failure {
                subject,
                owner: seen.owner(command),
                cause: error.to_string(),
                since: now,
            };
            warn!(?key, code = failure.subject.code(), name = failure.subject.name, %error, "refused");
            self.actions.tell(&failure.event());
            self.trouble.refused(key, command, failure, now);
        }
        for event in seen.successes(&report.done) {
            self.actions.tell(&event);
        }
    }

    fn plan_one(&self, key: &SetKey, index: u32) -> Planned {
        let now = self.clock.now();
        let (plan, seen, wanted, deleting) = {
            let moment = self.world.cache.moment();
            let Some(set) = self.world.set(&moment, key) else {
                return Planned {
                    stages: plan_abandoned(&self.world.replica(&moment, key, index)).stages,
                    ..Planned::default()
                };
            };
            let revisions = self.world.revisions(&moment, key);
            let mut snapshot = self.world.replica(&moment, key, index);
            snapshot.failures = self.trouble.known(&Key::Replica(key.clone(), index));
            let topology = self.topology(&moment, &set);
            let mut context = self.context(key, &set, topology.as_ref());
            context.adopted_hash = adopted_hash(&context, &revisions);
            if context.coherent() {
                context.revisions = self.templates(key, &revisions);
            }
            context.backend = self.backend(&moment, &context);
            context.claim_templates = self.world.claim_templates(&moment, template_objects(&context.facts));
            let plan = plan_replica(&context, &snapshot, now);
            let wanted = index < context.facts.replicas() && !context.facts.too_many_replicas();
            let deleting = context.deleting();
            drop(context);
            let seen = Seen::Set {
                set,
                replica: Some(snapshot),
            };
            (plan, seen, wanted, deleting)
        };
        let changed = {
            let mut summaries = self.summaries.lock();
            let of_set = summaries.entry(key.clone()).or_default();
            // A label may name any index; only replicas that are wanted or exist are kept in mind. A set that is being
            // deleted waits until each one was looked at that has objects.
            if wanted || plan.summary.exists || deleting {
                let before = of_set.insert(index, plan.summary.clone());
                (before.as_ref() != Some(&plan.summary)).then(|| announced(before.as_ref(), &plan.summary))
            } else {
                of_set.remove(&index).map(|_| Priority::Low)
            }
        };
        if let Some(priority) = changed {
            self.queue.mark(Key::Set(key.clone()), priority);
        }
        Planned {
            stages: plan.stages,
            deadline: plan.deadline,
            seen: Some(seen),
        }
    }

    fn plan_topology(&self, name: &str) -> Planned {
        let moment = self.world.cache.moment();
        let Some(binding) = self.world.topologies.get(&moment, &ObjectKey::new("", name)) else {
            return Planned::default();
        };
        let known = self.settings.kai.then(|| KaiTopologies {
            served: self.served().kai_topologies,
            objects: self.world.kai_topologies(&moment),
        });
        let failures = self.trouble.known(&Key::Topology(name.into()));
        Planned {
            stages: plan_binding(&binding, known.as_ref(), &failures, self.clock.now()),
            deadline: None,
            seen: Some(Seen::Binding(target_of(
                CommandKind::ClusterTopologyBinding,
                &binding.metadata,
            ))),
        }
    }

    fn plan_whole(&self, key: &SetKey) -> Planned {
        let now = self.clock.now();
        let moment = self.world.cache.moment();
        let Some(set) = self.world.set(&moment, key) else {
            return Planned::default();
        };
        let replicas = self.summaries.lock().get(key).cloned().unwrap_or_default();
        let revisions = self.world.revisions(&moment, key);
        let (role, role_binding) = self.world.permissions(&moment, key);
        let topology = self.topology(&moment, &set);
        let mut context = self.context(key, &set, topology.as_ref());
        context.adopted_hash = adopted_hash(&context, &revisions);
        if context.coherent() {
            context.revisions = self.templates(key, &revisions);
        }
        context.claim_templates = self.world.claim_templates(&moment, template_objects(&context.facts));
        let gone = replicas.values().all(|replica| !replica.exists);
        let existing = if context.deleting() && gone {
            self.world.existing_replicas(&moment, key)
        } else {
            BTreeSet::new()
        };
        let snapshot = SetSnapshot {
            replicas,
            existing,
            role,
            role_binding,
            revisions,
            claims: self.world.claims_of_set(&moment, key),
            failures: self.trouble.known(&Key::Set(key.clone())),
        };
        let plan = plan_set(&context, &snapshot, now);
        drop(context);
        // Each replica marks the set when it was looked at.
        for index in plan.unseen {
            self.queue.mark(Key::Replica(key.clone(), index), priority_of(&set));
        }
        Planned {
            stages: plan.stages,
            deadline: None,
            seen: Some(Seen::Set { set, replica: None }),
        }
    }

    /// The templates in the revisions of a set, each version of a revision read once.
    fn templates(&self, key: &SetKey, revisions: &[Arc<ControllerRevision>]) -> Arc<Revisions> {
        let mut kept = self.revisions.lock();
        let before = kept.remove(key).unwrap_or_default();
        let read = |revision: &Arc<ControllerRevision>| {
            let metadata = &revision.metadata;
            let version = (metadata.uid.clone(), metadata.resource_version.clone());
            let known = before.get(&version).cloned();
            let read = known.or_else(|| StoredRevision::read(revision).map(Arc::new))?;
            Some((version, read))
        };
        let now: BTreeMap<RevisionKey, Arc<StoredRevision>> = revisions.iter().filter_map(read).collect();
        let all = now.values().cloned().collect();
        kept.insert(key.clone(), now);
        Arc::new(all)
    }

    /// What the objects of the set's scheduler need to know.
    fn backend(&self, moment: &coppice_runtime::cache::Moment<'_>, context: &SetContext<'_>) -> BackendContext {
        let served = self.served();
        let not_served = match context.backend().kind() {
            Some(CommandKind::KaiPodGroup) => !served.kai_pod_groups,
            Some(CommandKind::VolcanoPodGroup) => !served.volcano_pod_groups,
            Some(CommandKind::NativePodGroup) => !served.native_pod_groups,
            _ => false,
        };
        let name = topology_name(context.facts.set);
        let topology = name.and_then(|name| self.world.backend_topology(moment, name, context.scheduler()));
        BackendContext { not_served, topology }
    }

    fn topology(&self, moment: &coppice_runtime::cache::Moment<'_>, set: &PodCliqueSet) -> Option<TopologyLevels> {
        self.world.topology(moment, topology_name(set)?)
    }

    fn context<'a>(
        &'a self,
        key: &SetKey,
        set: &'a PodCliqueSet,
        topology: Option<&'a TopologyLevels>,
    ) -> SetContext<'a> {
        let kept = self.identities.lock().get(key).cloned();
        let (uid, generation) = (set.metadata.uid.clone(), set.metadata.generation);
        if let Some(kept) = kept.filter(|kept| kept.uid == uid && kept.generation == generation) {
            return SetContext::with_identities(set, &self.settings, topology, kept.templates.clone(), kept.whole);
        }
        let context = SetContext::new(set, &self.settings, topology);
        let kept = Identities {
            uid,
            generation,
            templates: context.identities.clone(),
            whole: context.generation,
        };
        self.identities.lock().insert(key.clone(), Arc::new(kept));
        context
    }
}

#[derive(Default)]
struct Planned {
    stages: Vec<Vec<Command>>,
    deadline: Option<Timestamp>,
    seen: Option<Seen>,
}

/// What a plan was made from, kept to tell of its outcome.
enum Seen {
    /// A set, or one of its replicas.
    Set {
        set: Arc<PodCliqueSet>,
        replica: Option<ReplicaSnapshot>,
    },
    /// A ClusterTopologyBinding.
    Binding(Target),
}

impl Seen {
    /// The object on which an event about a command is recorded.
    fn owner(&self, command: &Command) -> Target {
        match self {
            Self::Set { set, replica } => report::owner(command, set, replica.as_ref()),
            Self::Binding(binding) => binding.clone(),
        }
    }

    /// The events that tell of commands that succeeded. A binding's status tells of its objects.
    fn successes(&self, done: &[Command]) -> Vec<Command> {
        match self {
            Self::Set { set, replica } => report::successes(done.iter(), set, replica.as_ref()),
            Self::Binding(_) => Vec::new(),
        }
    }
}

/// How soon the replicas of a set are planned when it changed. Of one that is being deleted, replicas that have begun to go
/// come before the next, so that the first ones free their nodes early.
fn priority_of(set: &PodCliqueSet) -> Priority {
    if set.metadata.deletion_timestamp.is_some() {
        Priority::Low
    } else {
        Priority::High
    }
}

/// How soon a set hears of a replica: what users wait for goes first.
fn announced(before: Option<&ReplicaSummary>, now: &ReplicaSummary) -> Priority {
    let shown = |summary: &ReplicaSummary| (summary.available, summary.updated, summary.breached);
    if before.is_some_and(|before| shown(before) != shown(now)) {
        Priority::High
    } else {
        Priority::Low
    }
}

fn retry(error: WriteError) -> Outcome<WriteError> {
    match error.retry_after() {
        Some(wait) => Outcome::RetryAfter(error, wait),
        None => Outcome::Retry(error),
    }
}

fn key_of(set: &PodCliqueSet) -> SetKey {
    SetKey::new(
        set.metadata.namespace.as_deref().unwrap_or_default(),
        set.metadata.name.as_deref().unwrap_or_default(),
    )
}

fn is_owner(set: &PodCliqueSet, metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
}

fn is_coherent(set: &PodCliqueSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.strategy == UpdateStrategyType::Coherent)
}

/// The part of a set that its replicas are planned from.
fn concerning_replicas(set: &PodCliqueSet) -> impl PartialEq {
    let status = set.status.as_ref();
    let progress = status.and_then(|status| status.update_progress.as_ref());
    (
        set.metadata.uid.clone(),
        set.metadata.generation,
        set.metadata.deletion_timestamp.is_some(),
        set.metadata.finalizers.clone(),
        set.metadata.labels.clone(),
        set.metadata.annotations.clone(),
        status.and_then(|status| status.current_generation_hash.clone()),
        progress.map(|progress| {
            (
                progress.update_ended_at.is_some(),
                progress
                    .currently_updating
                    .iter()
                    .map(|update| update.replica_index)
                    .collect::<Vec<_>>(),
                (
                    progress.in_scope_standalone_pod_cliques.clone(),
                    progress.in_scope_pod_clique_scaling_groups.clone(),
                ),
                progress.rolled_back == Some(true),
            )
        }),
    )
}
