//! One gang: where its pods are, or why they wait, and what is proven to help.
//!
//! Asks the scheduler's own model and engine, as `coppice explain` does. A remedy is named by a digest of its words, so that a
//! link keeps its meaning when the list changes. Slow compared with other pages (it builds the model and plans a dozen times);
//! callers run it beside others and not more often than needed.

use std::collections::BTreeMap;

use coppice_api::names::labels;
use coppice_api::types::{PodClique, PodCliqueSet, PodGang};
use coppice_view::build::{gang_content, replica_index};
use coppice_view::explain::{ExplainError, GangReport, Kind, Snapshot, Target, explain, explain_assuming};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Whether a gang exists, and what is to be said of it.
#[derive(Debug, Clone)]
pub struct GangPage {
    /// The gang as it is.
    pub now: GangReport,
    /// The remedy that was assumed, and the gang with it; none when no remedy was assumed.
    pub assumed: Option<Assumed>,
}

/// A remedy that was tried on a copy of the cluster.
#[derive(Debug, Clone)]
pub enum Assumed {
    /// What it would lead to.
    Tried {
        /// The identity of the remedy.
        remedy: String,
        /// The gang with it.
        report: Box<GangReport>,
    },
    /// It is not among the remedies any more.
    Gone,
}

/// The identity of a remedy: a digest of its words.
#[must_use]
pub fn identity(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// What gangs are, by namespace and name: `replica 0, decode copy 7`.
pub type Contents = BTreeMap<(String, String), String>;

/// What these gangs are.
pub fn contents<'a>(
    gangs: impl IntoIterator<Item = &'a PodGang>,
    sets: impl IntoIterator<Item = &'a PodCliqueSet>,
    cliques: impl IntoIterator<Item = &'a PodClique>,
) -> Contents {
    let key = |namespace: Option<String>, name: &str| (namespace.unwrap_or_default(), name.to_owned());
    let gangs: Vec<&PodGang> = gangs.into_iter().collect();
    let mut members: BTreeMap<(String, String), Vec<&PodClique>> = gangs
        .iter()
        .map(|gang| (key(gang.namespace(), &gang.name_any()), Vec::new()))
        .collect();
    for clique in cliques {
        let gang = clique.labels().get(labels::POD_GANG);
        if let Some(members) = gang.and_then(|gang| members.get_mut(&key(clique.namespace(), gang))) {
            members.push(clique);
        }
    }
    let sets: BTreeMap<(String, String), &PodCliqueSet> = sets
        .into_iter()
        .map(|set| (key(set.namespace(), &set.name_any()), set))
        .collect();
    let described = gangs.into_iter().filter_map(|gang| {
        let owner = sets.get(&key(gang.namespace(), gang.labels().get(labels::PART_OF)?))?;
        let (replica, at) = (replica_index(gang)?, key(gang.namespace(), &gang.name_any()));
        let part = gang_content(owner, replica, gang, members.get(&at).into_iter().flatten().copied());
        Some((at, format!("replica {replica}, {part}")))
    });
    described.collect()
}

/// An object as the API lists it.
#[must_use]
pub fn listed(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}

/// The page of a gang.
///
/// # Errors
/// When there is no such gang, or an object cannot be read.
pub fn gang(snapshot: &Snapshot, namespace: &str, name: &str, assume: Option<&str>) -> Result<GangPage, ExplainError> {
    let target = Target::named(Kind::PodGang, namespace, name);
    let report = explain(snapshot, &target, &[])?;
    let now = report.gangs.into_iter().next();
    let now = now.ok_or_else(|| ExplainError::Question(format!("no PodGang {namespace}/{name}")))?;
    let Some(assume) = assume else {
        return Ok(GangPage { now, assumed: None });
    };
    let remedies = now.explanation.iter().flat_map(|explanation| &explanation.remedies);
    let found = remedies.into_iter().find(|remedy| identity(&remedy.text) == assume);
    let assumed = match found {
        None => Assumed::Gone,
        Some(remedy) => {
            let report = explain_assuming(snapshot, &target, std::slice::from_ref(&remedy.change))?;
            let report = report.gangs.into_iter().next().unwrap_or_else(|| now.clone());
            Assumed::Tried {
                remedy: remedy.text.clone(),
                report: Box::new(report),
            }
        }
    };
    Ok(GangPage {
        now,
        assumed: Some(assumed),
    })
}
