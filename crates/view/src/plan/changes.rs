//! What changes in meaning between the stored and the wanted set, and which pods that replaces.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::canonical::{FieldChange, TemplateView, differences};
use coppice_api::names::ReplicaName;
use coppice_api::types::{PodCliqueSet, PodCliqueTemplate};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::Value;

use super::{API_VERSION, Action, PlanView, is_on_delete};
use crate::build::Objects;

/// One field, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldLine {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl From<FieldChange> for FieldLine {
    fn from(change: FieldChange) -> Self {
        Self {
            path: change.path,
            before: change.before,
            after: change.after,
        }
    }
}

/// What happens to a clique.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CliqueChange {
    pub name: String,
    /// Its pods in all replicas and copies.
    pub pods: i64,
    /// Whether its pods are replaced.
    pub rolls: bool,
    pub fields: Vec<FieldLine>,
}

/// The live sizes of groups and cliques, by the names of their objects; the template's where there are none.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    groups: BTreeMap<String, i32>,
    cliques: BTreeMap<String, i32>,
}

impl Sizes {
    /// The sizes of live objects.
    pub fn of(objects: &Objects) -> Self {
        let groups = objects
            .groups
            .iter()
            .map(|group| (group.name_any(), group.spec.replicas));
        let cliques = objects
            .cliques
            .iter()
            .map(|clique| (clique.name_any(), clique.spec.replicas));
        Self {
            groups: groups.collect(),
            cliques: cliques.collect(),
        }
    }

    /// Copies of a group in a replica.
    pub fn copies(&self, set: &str, replica: u32, group: &str, template: Option<i32>) -> u32 {
        let name = ReplicaName::new(set, replica).scaling_group(group).to_string();
        let copies = self.groups.get(&name).copied().or(template).unwrap_or(1);
        u32::try_from(copies).unwrap_or(0)
    }

    /// Pods of a clique in a replica, over all copies of its group.
    pub fn pods(&self, set: &PodCliqueSet, replica: u32, clique: &PodCliqueTemplate) -> i64 {
        let name = set.name_any();
        let own = |object: String| i64::from(self.cliques.get(&object).copied().unwrap_or(clique.spec.replicas));
        let groups = &set.spec.template.pod_clique_scaling_groups;
        match groups.iter().find(|group| group.clique_names.contains(&clique.name)) {
            None => own(ReplicaName::new(&name, replica).clique_name(&clique.name)),
            Some(group) => {
                let copies = self.copies(&name, replica, &group.name, group.replicas);
                let object = ReplicaName::new(&name, replica).scaling_group(&group.name);
                (0..copies)
                    .map(|copy| own(object.clique_name(copy, &clique.name)))
                    .sum()
            }
        }
    }
}

/// Compares two sets that went through defaulting.
pub fn compare(current: Option<&PodCliqueSet>, wanted: &PodCliqueSet, sizes: &Sizes) -> PlanView {
    // What exists decides what is replaced; what does not exist yet is created from the template.
    let existing = current.unwrap_or(wanted);
    let replicas = u32::try_from(existing.spec.replicas).unwrap_or(0);
    let pods_of = |clique: &PodCliqueTemplate| (0..replicas).map(|replica| sizes.pods(existing, replica, clique)).sum();
    let cliques: Vec<CliqueChange> = wanted
        .spec
        .template
        .cliques
        .iter()
        .map(|clique| {
            let stored = current.and_then(|current| find(current, &clique.name));
            let fields = match (current, stored) {
                (Some(current), Some(stored)) => template_changes(current, stored, wanted, clique),
                _ => Vec::new(),
            };
            CliqueChange {
                name: clique.name.clone(),
                pods: pods_of(clique),
                rolls: !fields.is_empty(),
                fields,
            }
        })
        .collect();
    let settings = current
        .map(|current| setting_changes(current, wanted))
        .unwrap_or_default();
    let replaced_pods = cliques
        .iter()
        .filter(|clique| clique.rolls)
        .map(|clique| clique.pods)
        .sum();
    let unchanged = settings.is_empty() && cliques.iter().all(|clique| !clique.rolls);
    PlanView {
        api_version: API_VERSION,
        kind: "PlanView",
        namespace: wanted.namespace().unwrap_or_else(|| "default".to_owned()),
        name: wanted.name_any(),
        action: match current {
            None => Action::Create,
            Some(_) if unchanged => Action::None,
            Some(_) => Action::Update,
        },
        replicas: existing.spec.replicas,
        errors: Vec::new(),
        warnings: Vec::new(),
        on_delete: is_on_delete(wanted),
        pods: cliques.iter().map(|clique| clique.pods).sum(),
        cliques,
        settings,
        replaced_pods,
        rehearsal: None,
    }
}

fn find<'a>(set: &'a PodCliqueSet, name: &str) -> Option<&'a PodCliqueTemplate> {
    set.spec.template.cliques.iter().find(|clique| clique.name == name)
}

/// The template of a clique, as the identity of its pods sees it.
pub fn template_view<'a>(set: &'a PodCliqueSet, clique: &'a PodCliqueTemplate) -> TemplateView<'a> {
    TemplateView {
        labels: &clique.labels,
        annotations: &clique.annotations,
        priority_class: set.spec.template.priority_class_name.as_deref(),
        spec: clique.spec.pod_spec.as_map(),
    }
}

fn template_changes(
    current: &PodCliqueSet,
    stored: &PodCliqueTemplate,
    wanted: &PodCliqueSet,
    clique: &PodCliqueTemplate,
) -> Vec<FieldLine> {
    let changes = differences(&template_view(current, stored), &template_view(wanted, clique));
    changes.into_iter().map(FieldLine::from).collect()
}

/// Everything of the specification but the pod templates.
fn setting_changes(current: &PodCliqueSet, wanted: &PodCliqueSet) -> Vec<FieldLine> {
    let mut lines = Vec::new();
    collect("spec", &settings(current), &settings(wanted), &mut lines);
    lines
}

/// The specification with lists as mappings by name, and without what decides the identity of pods.
fn settings(set: &PodCliqueSet) -> Value {
    let mut spec = serde_json::to_value(&set.spec).unwrap_or_default();
    let template = &mut spec["template"];
    for clique in template["cliques"].as_array_mut().into_iter().flatten() {
        if let Some(clique) = clique.as_object_mut() {
            clique.remove("labels");
            clique.remove("annotations");
        }
        if let Some(spec) = clique["spec"].as_object_mut() {
            spec.remove("podSpec");
        }
    }
    for list in ["cliques", "podCliqueScalingGroups"] {
        let Some(Value::Array(items)) = template.get_mut(list).map(Value::take) else {
            continue;
        };
        let named = items
            .into_iter()
            .map(|item| (item["name"].as_str().unwrap_or_default().to_owned(), item));
        template[list] = Value::Object(named.collect());
    }
    spec
}

fn collect(path: &str, before: &Value, after: &Value, lines: &mut Vec<FieldLine>) {
    if before == after {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (before, after) {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let (one, other) = (before.get(key), after.get(key));
            collect(
                &format!("{path}.{key}"),
                one.unwrap_or(&Value::Null),
                other.unwrap_or(&Value::Null),
                lines,
            );
        }
        return;
    }
    let some = |value: &Value| (!value.is_null()).then(|| value.clone());
    lines.push(FieldLine {
        path: path.to_owned(),
        before: some(before),
        after: some(after),
    });
}
