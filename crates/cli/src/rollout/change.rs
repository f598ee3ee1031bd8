//! What a verb changes in a set: the set as it should be, and what that does to pods.
//!
//! Decides from the set, its revisions and its pods; the caller writes the result on the condition that nobody wrote the set
//! meanwhile. Never changes anything but pod templates, the pause and the cause of the change.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};
use coppice_api::canonical::{OwnedTemplate, differences, same_template, terse_template};
use coppice_api::names::annotations;
use coppice_api::types::{PodCliqueSet, UpdateStrategyType};
use coppice_core::context::SetContext;
use coppice_core::settings::Settings;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::output::advice;
use crate::view::build::cliques_of;
use crate::view::plan::changes::{FieldLine, template_view};
use crate::view::revisions::{Revision, Revisions};
use crate::view::words::count;
use crate::view::{API_VERSION, SetView};

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Undo { to: Option<i64> },
    Pause,
    Resume,
    Restart { cliques: BTreeSet<String>, at: Timestamp },
}

/// What becomes of the set.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// The set to write; none when it is so already.
    pub(super) desired: Option<Box<PodCliqueSet>>,
    pub(super) view: ChangeView,
}

/// What a verb did, or would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeView {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// What was done, such as `rolled back to revision 3`.
    pub(super) action: String,
    /// Whether the set had to be written.
    pub(super) changed: bool,
    pub(super) dry_run: bool,
    /// The revision that the set has afterwards, where one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<i64>,
    pub(super) cliques: Vec<CliqueChange>,
    /// What else is worth knowing, such as that nothing moves before `resume`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<String>,
}

/// What happens to the pods of one clique of the template.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CliqueChange {
    pub(super) name: String,
    /// Its pods in all replicas and copies.
    pub(super) pods: usize,
    /// Those that do not have the template yet.
    pub(super) replaced: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fields: Vec<FieldLine>,
}

/// Decides; `view` is that of the set as it is.
pub(super) fn decide(set: &PodCliqueSet, revisions: &Revisions, view: &SetView, wanted: &Wanted) -> Result<Decision> {
    match wanted {
        Wanted::Undo { to } => undo(set, revisions, view, *to),
        Wanted::Pause => pause(set, true),
        Wanted::Resume => pause(set, false),
        Wanted::Restart { cliques, at } => restart(set, view, cliques, *at),
    }
}

fn decision(set: &PodCliqueSet, desired: Option<PodCliqueSet>, action: String) -> Decision {
    Decision {
        view: ChangeView {
            api_version: API_VERSION,
            kind: "RolloutChangeView",
            namespace: set.namespace().unwrap_or_default(),
            name: set.name_any(),
            action,
            changed: desired.is_some(),
            dry_run: false,
            revision: None,
            cliques: Vec::new(),
            remarks: Vec::new(),
        },
        desired: desired.map(Box::new),
    }
}

fn title(set: &PodCliqueSet) -> String {
    format!(
        "PodCliqueSet {}/{}",
        set.namespace().unwrap_or_default(),
        set.name_any()
    )
}

fn strategy(set: &PodCliqueSet) -> UpdateStrategyType {
    let strategy = set.spec.update_strategy.as_ref();
    strategy.map(|strategy| strategy.strategy.clone()).unwrap_or_default()
}

pub(super) fn is_paused(set: &PodCliqueSet) -> bool {
    let paused = set
        .spec
        .update_strategy
        .as_ref()
        .is_some_and(|strategy| strategy.paused == Some(true));
    paused && strategy(set) != UpdateStrategyType::OnDelete
}

fn pause(set: &PodCliqueSet, paused: bool) -> Result<Decision> {
    let word = if paused { "paused" } else { "resumed" };
    if strategy(set) == UpdateStrategyType::OnDelete {
        let problem = format!(
            "{} cannot be {word}: with OnDelete pods are replaced only when they are deleted",
            title(set)
        );
        bail!(advice(
            &problem,
            "delete a pod to give it the new template, or leave it to keep the old one"
        ));
    }
    if is_paused(set) == paused {
        return Ok(decision(
            set,
            None,
            if paused { "already paused" } else { "not paused" }.to_owned(),
        ));
    }
    let mut desired = set.clone();
    desired.spec.update_strategy.get_or_insert_default().paused = paused.then_some(true);
    Ok(decision(set, Some(desired), word.to_owned()))
}

fn restart(set: &PodCliqueSet, view: &SetView, only: &BTreeSet<String>, at: Timestamp) -> Result<Decision> {
    let names: Vec<&str> = set
        .spec
        .template
        .cliques
        .iter()
        .map(|clique| clique.name.as_str())
        .collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        let problem = format!("{} has no clique {unknown:?} in its template", title(set));
        bail!(advice(&problem, &format!("name one of these: {}", names.join(", "))));
    }
    if is_paused(set) {
        let problem = format!("updates of {} are paused: no pod would be restarted", title(set));
        bail!(advice(&problem, &format!("coppice rollout resume {}", set.name_any())));
    }
    let mut desired = set.clone();
    let mut cliques = Vec::new();
    for clique in &mut desired.spec.template.cliques {
        if only.is_empty() || only.contains(&clique.name) {
            let at = format!("{at:.0}");
            clique.annotations.insert(annotations::RESTARTED_AT.to_owned(), at);
            let pods = pods_of(view, &clique.name).count();
            cliques.push(CliqueChange {
                name: clique.name.clone(),
                pods,
                replaced: pods,
                fields: Vec::new(),
            });
        }
    }
    let mut decision = decision(set, Some(desired), "restarted".to_owned());
    decision.view.cliques = cliques;
    decision.view.remarks.extend(by_hand(set));
    Ok(decision)
}

fn undo(set: &PodCliqueSet, revisions: &Revisions, view: &SetView, to: Option<i64>) -> Result<Decision> {
    let target = target(set, revisions, to)?;
    let mut desired = set.clone();
    give(&mut desired, target)?;
    let settings = Settings::default();
    let generation = |set: &PodCliqueSet| SetContext::new(set, &settings, None).generation;
    if generation(&desired) != target.content.generation() {
        let problem = format!(
            "revision {} of {} cannot be restored exactly: what it depends on outside of the pod templates has changed",
            target.number,
            title(set)
        );
        bail!(advice(
            &problem,
            &format!(
                "take what you need from: coppice rollout history {} --revision {}",
                set.name_any(),
                target.number
            )
        ));
    }
    let action = format!("rolled back to revision {}", target.number);
    let is_there = generation(set) == target.content.generation();
    let mut decision = if is_there {
        self::decision(set, None, format!("already at revision {}", target.number))
    } else {
        let all = desired.annotations_mut();
        match &target.cause {
            Some(cause) => all.insert(annotations::CHANGE_CAUSE.to_owned(), cause.clone()),
            None => all.remove(annotations::CHANGE_CAUSE),
        };
        self::decision(set, Some(desired.clone()), action)
    };
    decision.view.revision = Some(target.number);
    if !is_there {
        decision.view.cliques = clique_changes(set, &desired, target, view);
        decision.view.remarks.extend(by_hand(set));
        if is_paused(set) {
            let name = set.name_any();
            let remark = format!("updates are paused: no pod is replaced before: coppice rollout resume {name}");
            decision.view.remarks.push(remark);
        }
    }
    Ok(decision)
}

/// The revision to go back to.
fn target<'a>(set: &PodCliqueSet, revisions: &'a Revisions, to: Option<i64>) -> Result<&'a Revision> {
    let name = set.name_any();
    let known: Vec<String> = revisions
        .all
        .iter()
        .map(|revision| revision.number.to_string())
        .collect();
    if let Some(number) = to {
        let found = revisions.all.iter().find(|revision| revision.number == number);
        return found.ok_or_else(|| {
            let problem = format!("{} has no revision {number}", title(set));
            let next = match known.as_slice() {
                [] => format!(
                    "no revision has been recorded; is the operator running? coppice doctor, coppice get {name}"
                ),
                known => format!(
                    "name one of these: {}; see: coppice rollout history {name}",
                    known.join(", ")
                ),
            };
            anyhow!(advice(&problem, &next))
        });
    }
    let before = revisions
        .all
        .iter()
        .rev()
        .find(|revision| !revisions.is_current(revision));
    before.ok_or_else(|| {
        let problem = match known.as_slice() {
            [] => format!("{} has no recorded revision: there is nothing to undo", title(set)),
            _ => format!("{} has only its current revision: there is nothing to undo", title(set)),
        };
        let next = match set.spec.revision_history_limit {
            Some(0) => "spec.revisionHistoryLimit is 0, so earlier templates are not kept; apply the earlier manifest"
                .to_owned(),
            _ => format!("coppice rollout history {name} lists what can be undone; or apply the earlier manifest"),
        };
        anyhow!(advice(&problem, &next))
    })
}

/// Gives a set the templates of a revision. Templates that mean the same keep the words of their author.
fn give(set: &mut PodCliqueSet, revision: &Revision) -> Result<()> {
    let names = |names: Vec<&str>| names.join(", ");
    let ours: BTreeSet<&str> = set
        .spec
        .template
        .cliques
        .iter()
        .map(|clique| clique.name.as_str())
        .collect();
    let stored: BTreeSet<&str> = revision.content.cliques().map(|(name, _)| name).collect();
    if ours != stored {
        let problem = format!(
            "revision {} of {} has other cliques ({}) than the set ({}), which cannot be changed",
            revision.number,
            title(set),
            names(stored.into_iter().collect()),
            names(ours.into_iter().collect()),
        );
        bail!(advice(&problem, "choose a later revision, or create a new set"));
    }
    class(set, revision);
    let shared = set.spec.template.priority_class_name.clone();
    let before = set.clone();
    for clique in &mut set.spec.template.cliques {
        let Some(template) = revision.content.template(&clique.name) else {
            continue;
        };
        let current = before
            .spec
            .template
            .cliques
            .iter()
            .find(|other| other.name == clique.name);
        if current.is_some_and(|current| same_template(&template_view(&before, current), &template.view())) {
            continue;
        }
        let OwnedTemplate {
            labels,
            annotations,
            mut spec,
        } = terse_template(&template.view());
        if shared.is_some() {
            // What the set says for all is not repeated; what the author wrote here stays.
            spec.remove("priorityClassName");
            if let Some(own) = clique.spec.pod_spec.0.get("priorityClassName") {
                spec.insert("priorityClassName".to_owned(), own.clone());
            }
        }
        clique.labels = labels;
        clique.annotations = annotations;
        clique.spec.pod_spec.0 = spec;
    }
    Ok(())
}

/// Restores the priority class of the set. A revision knows only that of its pods: where they all have the same, the set
/// had it, unless the cliques name classes themselves.
fn class(set: &mut PodCliqueSet, revision: &Revision) {
    let of = |template: &OwnedTemplate| Some(template.spec.get("priorityClassName")?.as_str()?.to_owned());
    let classes: BTreeSet<Option<String>> = revision.content.cliques().map(|(_, template)| of(template)).collect();
    let mut cliques = set.spec.template.cliques.iter();
    let named = cliques.any(|clique| clique.spec.pod_spec.priority_class_name().is_some());
    let shared = &mut set.spec.template.priority_class_name;
    let mut classes = classes.into_iter();
    match (classes.next().flatten(), classes.next()) {
        (Some(only), None) if shared.is_some() || !named => *shared = Some(only),
        _ => *shared = None,
    }
}

fn clique_changes(set: &PodCliqueSet, desired: &PodCliqueSet, target: &Revision, view: &SetView) -> Vec<CliqueChange> {
    let pairs = set.spec.template.cliques.iter().zip(&desired.spec.template.cliques);
    let changes = pairs.map(|(before, after)| {
        let fields = differences(&template_view(set, before), &template_view(desired, after));
        let pods: Vec<Option<&str>> = pods_of(view, &before.name).collect();
        let have = pods
            .iter()
            .flatten()
            .filter(|hash| target.has(&before.name, hash))
            .count();
        CliqueChange {
            name: before.name.clone(),
            replaced: pods.len() - have,
            pods: pods.len(),
            fields: fields.into_iter().map(FieldLine::from).collect(),
        }
    });
    changes.collect()
}

/// The template hashes of the pods of a clique, in all replicas and copies.
fn pods_of<'a>(view: &'a SetView, clique: &'a str) -> impl Iterator<Item = Option<&'a str>> {
    let cliques = view.replicas.iter().flat_map(cliques_of);
    let pods = cliques
        .filter(move |view| view.name == clique)
        .flat_map(|view| &view.pods);
    pods.map(|pod| pod.template_hash.as_deref())
}

/// That a strategy leaves the replacing to others.
fn by_hand(set: &PodCliqueSet) -> Option<String> {
    (strategy(set) == UpdateStrategyType::OnDelete)
        .then(|| "with OnDelete a pod gets the template when it is deleted".to_owned())
}

impl ChangeView {
    /// Pods that are replaced, and pods that there are.
    pub(super) fn replaced(&self) -> String {
        let replaced: usize = self.cliques.iter().map(|clique| clique.replaced).sum();
        let all: usize = self.cliques.iter().map(|clique| clique.pods).sum();
        format!("{replaced} of {}", count(i64::try_from(all).unwrap_or(i64::MAX), "pod"))
    }
}
