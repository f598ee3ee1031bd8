//! Puts back what another client edited in a PodClique: it follows the set, and nothing else. Sizes belong to whoever
//! scales. No pod is created from a clique in the plan that puts it back.

use serde_json::json;

use super::{Draft, Replica};
use crate::command::{Command, Kind};
use crate::reasons::Reason;
use crate::snapshot::target_of;
use crate::update::{Rolling, template};

pub(crate) fn plan(replica: &Replica<'_>, rolling: &mut Rolling, draft: &mut Draft) {
    for (index, state) in replica.cliques.iter().enumerate() {
        let Some(stored) = state.stored.filter(|_| state.edited && state.alive()) else {
            continue;
        };
        if !rolling.rewritten.insert(index) {
            continue;
        }
        let of_set = &replica.context.facts.cliques[replica.layout.cliques[index].position];
        let target = target_of(Kind::PodClique, &stored.metadata);
        draft.children.extend(template::patch(replica, index));
        if stored.spec.role_name != of_set.template.spec.role_name
            || stored.spec.min_available != i32::try_from(of_set.min_available).ok()
        {
            let spec = json!({"roleName": of_set.template.spec.role_name, "minAvailable": of_set.min_available});
            draft.merge_child(target.clone(), json!({"spec": spec}));
        }
        draft.statuses.push(Command::Event {
            target,
            warning: true,
            reason: Reason::ManagedFieldsRestored,
            message: format!(
                "another client changed fields that follow PodCliqueSet {}; they were restored. Edit the PodCliqueSet instead",
                replica.context.facts.name()
            ),
        });
    }
}
