//! The scheduler of a set: one for all cliques, enabled, and what it asks for (queues, no topology).

use std::collections::BTreeMap;

use crate::names::annotations::{VOLCANO_DEFAULT_QUEUE, VOLCANO_QUEUE};
use crate::names::labels::KAI_QUEUE;
use crate::names::limits::dns_1123_subdomain;
use crate::spread::Spread;
use crate::types::{PodCliqueSet, PodCliqueTemplate};

use super::context::{Context, QueueState, SchedulerBackend, SchedulerProfile};
use super::subject::Subject;
use super::topology::constraints;
use super::{FieldError, FieldPath, Outcome, native_gangs};

pub(super) fn check(subject: &Subject<'_>, context: &Context, found: &mut Outcome) {
    let schedulers = &context.schedulers;
    let mut first: Option<&str> = None;
    for (path, clique) in subject.cliques() {
        let at = path.field("spec").field("podSpec").field("schedulerName");
        let name = schedulers.resolve(clique.spec.pod_spec.scheduler_name());
        match first {
            None => {
                first = Some(name);
                if !schedulers.profiles.contains_key(name) {
                    let enabled = schedulers.profiles.keys().map(String::as_str);
                    found.errors.push(FieldError::not_supported(at, name, enabled));
                }
            }
            Some(first) if first != name => {
                let detail =
                    format!("the schedulerName for all pods have to be the same, and the first clique has {first:?}");
                found.errors.push(FieldError::invalid(at, name, detail));
            }
            Some(_) => {}
        }
    }
    let Some(name) = first else { return };
    let backend = schedulers.profiles.get(name).map(|profile| profile.backend);
    if !matches!(
        backend,
        None | Some(SchedulerBackend::Gangs | SchedulerBackend::Kubernetes)
    ) {
        found.warnings.extend(no_spreading(subject, name));
    }
    match backend {
        None | Some(SchedulerBackend::Gangs) => {}
        Some(SchedulerBackend::Kubernetes) => found.warnings.extend(losses(subject, name)),
        Some(SchedulerBackend::KubernetesGangs) => native_gangs::check(subject, name, found),
        Some(SchedulerBackend::Kai) => kai_queue(subject, found),
        Some(SchedulerBackend::Lpx) => no_topology(subject, name, found),
        Some(SchedulerBackend::Volcano) => {
            no_topology(subject, name, found);
            volcano_queue(subject, context, found);
        }
    }
}

/// What a set asks for and the scheduler with this name does not give, in words: gangs and required packing, when it is
/// one that places pods one by one. Nothing when nothing is lost.
pub fn not_guaranteed(set: &PodCliqueSet, scheduler: &str) -> Vec<String> {
    match SchedulerProfile::named(scheduler).backend {
        SchedulerBackend::Kubernetes => losses(&Subject::new(set), scheduler),
        _ => Vec::new(),
    }
}

fn losses(subject: &Subject<'_>, name: &str) -> Vec<String> {
    let mut lost = Vec::new();
    if constraints(subject).any(|(_, constraint)| constraint.required().is_some()) {
        lost.push(format!(
            "{name} does not know topology constraints: pack.required is not enforced"
        ));
    }
    lost.extend(no_spreading(subject, name));
    let minimum = |clique: &PodCliqueTemplate| {
        let copies = subject
            .group_of(&clique.name)
            .map_or(1, |group| group.min_available.unwrap_or(1));
        i64::from(clique.spec.min_available.unwrap_or(1)) * i64::from(copies)
    };
    let together: i64 = subject.cliques().map(|(_, clique)| minimum(clique)).sum();
    if together > 1 {
        lost.push(format!(
            "{name} places pods one by one: when resources are short, only a part of a gang may start"
        ));
    }
    lost
}

fn no_spreading(subject: &Subject<'_>, name: &str) -> Option<String> {
    let spread = Spread::of(subject.set.metadata.annotations.as_ref())?;
    Some(format!(
        "{name} does not spread replicas: the annotation {} has no effect",
        spread.key()
    ))
}

fn no_topology(subject: &Subject<'_>, name: &str, found: &mut Outcome) {
    for (path, _) in constraints(subject) {
        let detail =
            format!("scheduler {name:?} does not support topology constraints; remove it or use another scheduler");
        found.errors.push(FieldError::forbidden(path, detail));
    }
}

/// A queue named somewhere in the set.
struct Queue<'a> {
    path: FieldPath,
    name: &'a str,
}

/// Reports every queue that differs from the first, and gives the first.
fn one_queue<'a>(queues: Vec<Queue<'a>>, found: &mut Outcome) -> Option<Queue<'a>> {
    let mut queues = queues.into_iter();
    let first = queues.next()?;
    for other in queues.filter(|other| other.name != first.name) {
        let detail = format!("a set uses one queue, and {} names {:?}", first.path, first.name);
        found.errors.push(FieldError::invalid(other.path, other.name, detail));
    }
    Some(first)
}

fn kai_queue(subject: &Subject<'_>, found: &mut Outcome) {
    type Map = BTreeMap<String, String>;
    fn queue<'a>(path: &FieldPath, labels: Option<&'a Map>, annotations: Option<&'a Map>) -> Option<Queue<'a>> {
        let value = |map: Option<&'a Map>| map.and_then(|map| map.get(KAI_QUEUE)).filter(|name| !name.is_empty());
        let label = value(labels).map(|name| ("labels", name));
        let (field, name) = label.or_else(|| value(annotations).map(|name| ("annotations", name)))?;
        let path = path.field(field).key(KAI_QUEUE);
        Some(Queue { path, name })
    }
    let metadata = &subject.set.metadata;
    let path = FieldPath::root("metadata");
    let own = queue(&path, metadata.labels.as_ref(), metadata.annotations.as_ref());
    let of_cliques = subject
        .cliques()
        .filter_map(|(path, clique)| queue(&path, Some(&clique.labels), Some(&clique.annotations)));
    if one_queue(own.into_iter().chain(of_cliques).collect(), found).is_none() {
        let detail = "KAI needs a queue: set this label on the set, or on its cliques";
        found
            .errors
            .push(FieldError::required(path.field("labels").key(KAI_QUEUE), detail));
    }
}

fn volcano_queue(subject: &Subject<'_>, context: &Context, found: &mut Outcome) {
    let at = |path: &FieldPath| path.field("annotations").key(VOLCANO_QUEUE);
    let own = subject
        .set
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(VOLCANO_QUEUE));
    let own = own.map(|name| (at(&FieldPath::root("metadata")), name));
    let of_cliques = subject
        .cliques()
        .filter_map(|(path, clique)| Some((at(&path), clique.annotations.get(VOLCANO_QUEUE)?)));
    let queues: Vec<_> = own
        .into_iter()
        .chain(of_cliques)
        .map(|(path, name)| Queue { path, name })
        .collect();
    for Queue { path, name } in &queues {
        if let Err(detail) = dns_1123_subdomain(name) {
            found.errors.push(FieldError::invalid(path.clone(), *name, detail));
        }
    }
    let queue = one_queue(queues, found).unwrap_or_else(|| Queue {
        path: at(&FieldPath::root("metadata")),
        name: VOLCANO_DEFAULT_QUEUE,
    });
    let Some(known) = &context.volcano_queues else { return };
    match known.get(queue.name) {
        Some(QueueState::Open) => {}
        Some(QueueState::Other(state)) => {
            let detail = format!("the Volcano queue is {state}; open it or use another");
            found.errors.push(FieldError::invalid(queue.path, queue.name, detail));
        }
        None => {
            let detail = "create the Volcano queue, or use one that exists";
            found.errors.push(FieldError::not_found(queue.path, queue.name, detail));
        }
    }
}
