//! The revisions of a set, and which pods have them.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use coppice_api::canonical::{same_template, terse_template};
use coppice_api::names::labels;
use coppice_api::types::PodCliqueSet;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Place, text};
use crate::gather;
use crate::output::{Format, advice};
use crate::view::build::{self, cliques_of};
use crate::view::pod_state::PodState;
use crate::view::revisions::{Revision, Revisions};
use crate::view::{API_VERSION, SetView};

/// The revisions of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryView {
    api_version: &'static str,
    kind: &'static str,
    namespace: String,
    name: String,
    /// Oldest first.
    pub(super) revisions: Vec<RevisionLine>,
    /// Pods whose template is none of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unexplained_pods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreadable: Vec<String>,
}

/// One revision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RevisionLine {
    pub(super) number: i64,
    /// Its ControllerRevision.
    object: String,
    pub(super) current: bool,
    pub(super) recorded: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    /// Cliques whose template differs from the revision before; none for the first.
    pub(super) changed_cliques: Vec<String>,
    /// Pods that have its templates; a pod counts for the newest revision that has its template.
    pub(super) pods: Vec<String>,
}

/// The templates of one revision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RevisionView {
    api_version: &'static str,
    kind: &'static str,
    namespace: String,
    name: String,
    revision: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    cliques: Vec<Template>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Template {
    name: String,
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    labels: std::collections::BTreeMap<String, String>,
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    annotations: std::collections::BTreeMap<String, String>,
    pod_spec: Map<String, Value>,
}

/// Reads the revisions, with an error where they may not be read.
pub(super) async fn stored(place: &Place) -> Result<Vec<ControllerRevision>> {
    let of_set = ListParams::default().labels(&format!("{}={}", labels::PART_OF, place.name));
    gather::list(Api::namespaced(place.client.clone(), &place.namespace), &of_set).await
}

pub(super) async fn run(place: &Place, number: Option<i64>) -> Result<ExitCode> {
    let set = gather::set(&place.client, &place.namespace, &place.name).await?;
    let revisions = Revisions::of(&set, &stored(place).await?);
    match number {
        None => {
            let objects = gather::objects(&place.client, &place.namespace, &place.name).await?;
            let view = view(&set, &revisions, &build::set_view(&set, &objects));
            if view.revisions.is_empty() && place.output == Format::Text {
                errln!(
                    "PodCliqueSet {}/{} has no recorded revision",
                    place.namespace,
                    place.name
                );
            }
            place.output.print(&view, text::history)?;
        }
        Some(number) => {
            let revision = revisions.all.iter().find(|revision| revision.number == number);
            let revision = revision.ok_or_else(|| {
                let problem = format!(
                    "PodCliqueSet {}/{} has no revision {number}",
                    place.namespace, place.name
                );
                anyhow!(advice(
                    &problem,
                    &format!("list them with: coppice rollout history {}", place.name)
                ))
            })?;
            // A template is a document: there is no other form for people.
            let form = if place.output == Format::Text {
                Format::Yaml
            } else {
                place.output
            };
            form.print(&templates(&set, revision), |_| String::new())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The view of all revisions.
pub(super) fn view(set: &PodCliqueSet, revisions: &Revisions, pods: &SetView) -> HistoryView {
    let all = || {
        let cliques = pods.replicas.iter().flat_map(cliques_of);
        let pods = cliques.flat_map(|clique| &clique.pods);
        pods.filter(|pod| pod.state != PodState::Terminating)
    };
    let names = |number: Option<i64>| {
        let having = all().filter(|pod| pod.revision == number);
        having.map(|pod| pod.name.clone()).collect::<Vec<String>>()
    };
    let before = std::iter::once(None).chain(revisions.all.iter().map(Some));
    let lines = revisions.all.iter().zip(before).map(|(revision, before)| RevisionLine {
        number: revision.number,
        object: revision.name.clone(),
        current: revisions.is_current(revision),
        recorded: revision.recorded.clone(),
        cause: revision.cause.clone(),
        changed_cliques: before.map(|before| changed(before, revision)).unwrap_or_default(),
        pods: names(Some(revision.number)),
    });
    HistoryView {
        api_version: API_VERSION,
        kind: "RolloutHistoryView",
        namespace: set.namespace().unwrap_or_default(),
        name: set.name_any(),
        revisions: lines.collect(),
        unexplained_pods: names(None),
        unreadable: revisions.unreadable.clone(),
    }
}

fn changed(before: &Revision, after: &Revision) -> Vec<String> {
    let changed = after.content.cliques().filter(|(name, template)| {
        let before = before.content.template(name);
        !before.is_some_and(|before| same_template(&before.view(), &template.view()))
    });
    changed.map(|(name, _)| name.to_owned()).collect()
}

/// The templates of a revision, without what has its default.
pub(super) fn templates(set: &PodCliqueSet, revision: &Revision) -> RevisionView {
    let cliques = revision.content.cliques().map(|(name, template)| {
        let terse = terse_template(&template.view());
        Template {
            name: name.to_owned(),
            labels: terse.labels,
            annotations: terse.annotations,
            pod_spec: terse.spec,
        }
    });
    let mut cliques: Vec<Template> = cliques.collect();
    let place = |name: &str| set.spec.template.cliques.iter().position(|clique| clique.name == name);
    cliques.sort_by_key(|template| place(&template.name));
    RevisionView {
        api_version: API_VERSION,
        kind: "RevisionView",
        namespace: set.namespace().unwrap_or_default(),
        name: set.name_any(),
        revision: revision.number,
        recorded: revision.recorded.clone(),
        cause: revision.cause.clone(),
        cliques,
    }
}
