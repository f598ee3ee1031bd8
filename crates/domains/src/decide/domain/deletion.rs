//! A domain that is being deleted: what goes, in which order.
//!
//! First the workload template, so that no new claim appears; then the DaemonSet, its template and the node labels; then the
//! finalizers of what is being deleted; last the domain's own. Each stage waits until the objects of the one before are
//! gone from the API, not until pods have ended: a node that is lost must not keep a domain for ever.

use super::command::{Command, Existing, ObjectKind};

/// What still exists of a domain, in any managed namespace.
#[derive(Clone, Debug, Default)]
pub struct DeletionFacts {
    /// UID of the domain.
    pub domain_uid: String,
    /// Whether the domain has the finalizer.
    pub has_finalizer: bool,
    /// The workload template that is labelled for the domain.
    pub workload_template: Option<Existing>,
    /// DaemonSets that are labelled for the domain.
    pub daemon_sets: Vec<Existing>,
    /// Daemon templates that are labelled for the domain.
    pub daemon_templates: Vec<Existing>,
    /// Nodes that are labelled for the domain.
    pub labelled_nodes: Vec<String>,
}

/// Plans a domain that is being deleted. Empty when there is nothing left to do.
pub fn plan_deletion(facts: &DeletionFacts) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut step = |kind: ObjectKind, object: &Existing| {
        if !object.deleting {
            commands.push(Command::Delete(kind, object.clone()));
        } else if object.has_finalizer {
            commands.push(Command::RemoveFinalizer(kind, object.clone()));
        }
        // Else another finalizer holds it; its removal will be watched.
    };
    if let Some(template) = &facts.workload_template {
        step(ObjectKind::ClaimTemplate, template);
        return commands;
    }
    for object in &facts.daemon_sets {
        step(ObjectKind::DaemonSet, object);
    }
    for object in &facts.daemon_templates {
        step(ObjectKind::ClaimTemplate, object);
    }
    commands.extend(facts.labelled_nodes.iter().map(|node| Command::RemoveNodeLabel {
        node: node.clone(),
        domain_uid: facts.domain_uid.clone(),
    }));
    let all_gone = facts.daemon_sets.is_empty() && facts.daemon_templates.is_empty() && facts.labelled_nodes.is_empty();
    if all_gone && facts.has_finalizer {
        commands.push(Command::RemoveDomainFinalizer);
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn existing(uid: &str) -> Existing {
        Existing {
            uid: uid.into(),
            has_finalizer: true,
            ..Existing::default()
        }
    }

    /// Carries out commands on the facts, as an API server would.
    fn carry_out(facts: &mut DeletionFacts, command: &Command) {
        let touch = |list: &mut Vec<Existing>, uid: &str, remove: bool| {
            list.iter_mut()
                .filter(|object| object.uid == uid)
                .for_each(|object| object.deleting = true);
            list.retain(|object| object.uid != uid || !remove);
        };
        match command {
            Command::Delete(_, object) | Command::RemoveFinalizer(_, object) => {
                let remove = matches!(command, Command::RemoveFinalizer(..));
                assert!(
                    !remove || object.deleting,
                    "a finalizer goes only from what is being deleted"
                );
                let mut template: Vec<Existing> = facts.workload_template.take().into_iter().collect();
                touch(&mut template, &object.uid, remove);
                facts.workload_template = template.pop();
                touch(&mut facts.daemon_sets, &object.uid, remove);
                touch(&mut facts.daemon_templates, &object.uid, remove);
            }
            Command::RemoveNodeLabel { node, .. } => facts.labelled_nodes.retain(|name| name != node),
            Command::RemoveDomainFinalizer => facts.has_finalizer = false,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_goes_before_the_domain_and_each_step_may_be_repeated() {
        let mut facts = DeletionFacts {
            domain_uid: "d".into(),
            has_finalizer: true,
            workload_template: Some(existing("w")),
            daemon_sets: vec![existing("s"), existing("s-of-another-namespace")],
            daemon_templates: vec![existing("t")],
            labelled_nodes: vec!["a".into(), "b".into()],
        };
        let mut rounds = 0;
        loop {
            let commands = plan_deletion(&facts);
            let Some(first) = commands.first() else { break };
            if commands.contains(&Command::RemoveDomainFinalizer) {
                assert_eq!(commands.len(), 1);
                assert!(facts.workload_template.is_none() && facts.daemon_sets.is_empty());
            }
            // A crash after the first command: the rest is planned again.
            carry_out(&mut facts, first);
            rounds += 1;
        }
        assert!(!facts.has_finalizer);
        assert_eq!(rounds, 2 + 4 + 2 + 2 + 1);
    }

    #[test]
    fn an_object_that_another_finalizer_holds_is_waited_for() {
        let held = Existing {
            deleting: true,
            has_finalizer: false,
            ..existing("s")
        };
        let facts = DeletionFacts {
            daemon_sets: vec![held],
            has_finalizer: true,
            ..DeletionFacts::default()
        };
        assert!(plan_deletion(&facts).is_empty());
    }
}
