//! Plans that are stored on gangs: completing what was begun, and releasing what cannot be completed.
//!
//! Owns the release of pods. It assumes of the model that an unfinished plan names the very pods it was made for, and that
//! only pods that have never been Ready are given as releasable (`model/stored_plan.rs`); it adds that the gang could not
//! be completed for a while. Never binds a part of a floor.

use coppice_placement::plan::Binding;
use coppice_placement::shape::ShapeId;
use coppice_placement::{Outcome, Plan, ReasonCode, plan};

use super::{Engine, Release, Round, wake};
use crate::model::{GangId, Question, StoredPlan, UnfinishedPlan};

impl Engine {
    /// Binds the rest of the plan that is stored on a gang, if it still holds.
    pub(super) fn complete_stored_plan(&mut self, question: &Question, round: &mut Round) -> bool {
        let Some(plan) = self.rest_of_stored_plan(question) else {
            return false;
        };
        self.take(question, plan, round);
        if let Some(commit) = round.commits.get_mut(&question.id) {
            commit.store = None;
        }
        true
    }

    /// The rest of the plan stored on the gang, if it still holds: all its pods exist, each that waits has room on its node,
    /// the floors are met and what must lie together does.
    pub(super) fn rest_of_stored_plan(&mut self, question: &Question) -> Option<Plan> {
        let GangId::Gang(key) = &question.id else { return None };
        let unfinished = self.model.unfinished_plan(key)?;
        let mut gang = question.gang.clone();
        let mut bindings = Vec::new();
        for (at, group) in gang.groups.iter_mut().enumerate() {
            for pod in std::mem::take(&mut group.pending) {
                let planned = question.pods.get(&pod).and_then(|key| unfinished.pending.get(key));
                let Some(node) = planned else { continue };
                group.bound.push(node.clone());
                bindings.push(Binding {
                    group: at,
                    pod,
                    node: node.clone(),
                    extra: false,
                });
            }
        }
        let all = bindings.len() == unfinished.pending.len();
        let dependencies = gang.depends_on.iter().all(|name| question.scheduled.contains(name));
        if !all || !gang.is_scheduled() || !dependencies {
            return None;
        }
        let mark = self.model.state().mark();
        let fits = bindings.iter().all(|binding| {
            let shape = question.gang.groups[binding.group].shape;
            self.try_place(&binding.node, shape)
        });
        self.model.state_mut().rollback(mark);
        let options = self.options(question);
        let Outcome::Placed(mut plan) = plan(self.model.state_mut(), &gang, &options) else {
            return None;
        };
        let split = plan
            .notes
            .iter()
            .any(|note| note.code == ReasonCode::SplitAcrossDomains);
        plan.bindings = bindings;
        (fits && !split).then_some(plan)
    }

    fn try_place(&mut self, node: &str, shape: ShapeId) -> bool {
        let state = self.model.state_mut();
        let Some(id) = state.node_id(node) else { return false };
        let ruled_out = state.shape_of(shape).demands.node.ruled_out(state.node(id)).is_some();
        if ruled_out || state.room(id, shape) == 0 {
            return false;
        }
        state.place(id, shape, 1);
        true
    }

    /// What to store before a gang is bound further: the pods that an unfinished plan has bound already, so that they are
    /// released together with the rest if that cannot be bound either.
    pub(super) fn bound_so_far(&self, gang: &GangId) -> StoredPlan {
        let unfinished = match gang {
            GangId::Gang(key) => self.model.unfinished_plan(key).unwrap_or_default(),
            GangId::Pod(_) => UnfinishedPlan::default(),
        };
        let bound = unfinished.bound.iter();
        StoredPlan::new(bound.map(|(pod, node)| (&*pod.meta.uid, &**node)))
    }

    /// The same together with bindings that are yet to come.
    pub(super) fn plan_to_store(&self, question: &Question, bindings: &[Binding]) -> StoredPlan {
        let mut store = self.bound_so_far(&question.id);
        for binding in bindings {
            let pod = question.pods.get(&binding.pod).and_then(|key| self.model.pod(key));
            if let Some(pod) = pod {
                store.add(&pod.meta.uid, &binding.node);
            }
        }
        store
    }

    /// Releases the pods of a gang that was bound in part and could not be completed for a while. Returns whether it did.
    pub(super) fn release_if_stuck(&mut self, question: &Question, round: &mut Round) -> bool {
        let pods = match &question.id {
            GangId::Gang(key) if question.begun => self.model.releasable_pods(key),
            _ => Vec::new(),
        };
        if pods.is_empty() {
            self.stuck.remove(&question.id);
            return false;
        }
        let since = *self.stuck.entry(question.id.clone()).or_insert(round.now);
        let due = since.saturating_add(self.settings.release).unwrap_or(since);
        if due > round.now {
            wake(&mut round.decision, due);
            return false;
        }
        round.decision.releases.push(Release {
            gang: question.id.clone(),
            pods,
        });
        true
    }
}
