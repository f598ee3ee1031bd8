//! The corpus: cases read from YAML files.
//!
//! A case runs in its own namespace, created before its first step; `$NS` stands for it in paths, headers and bodies.
//! `as: name` keeps an answer, and `$name.path.to.field` puts a field of it into a later request.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests that belong together, in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A name, unique in the corpus; also the namespace, so a DNS label.
    pub case: String,
    /// The requests.
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Method and path, such as `GET /api/v1/namespaces/$NS/pods`.
    #[serde(rename = "do")]
    pub request: String,
    /// A body, sent as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// A body sent as it is written, in place of `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// A body of these bytes, in base64, in place of `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// A body of this many bytes of valid JSON, in place of `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oversize: Option<usize>,
    /// Headers besides the defaults (`accept: application/json`, and the content type of the body).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The name under which the answer is kept for later steps.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
    /// For a watch: how many events to read before closing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<usize>,
    /// For a watch: it is closed after an event of an object with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// For a watch: it is closed after an event of an object that has this condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_condition: Option<String>,
    /// The answer is not compared: the step only prepares something.
    #[serde(default, skip_serializing_if = "is_false")]
    pub silent: bool,
    /// The request is not sent when an earlier answer lacks what it takes from there; else that is an error of the corpus.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A difference that is known and meant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedDifference {
    /// The case, or `*` for all.
    pub case: String,
    /// The path of the difference; `*` stands for one segment, `**` at the end for all below.
    pub path: String,
    /// Only where what the real server has there contains this.
    #[serde(default)]
    pub real: Option<String>,
    /// Why it is meant.
    pub reason: String,
}

/// Reads all cases of a directory, in order of file name.
pub fn load(directory: &Path) -> Result<Vec<Case>> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .with_context(|| format!("reading the corpus in {}", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let read: Vec<Case> = serde_saphyr::from_str(&text).with_context(|| format!("in {}", file.display()))?;
        for case in read {
            ensure!(
                !case.steps.is_empty(),
                "case {} in {} has no steps",
                case.case,
                file.display()
            );
            ensure!(
                cases.iter().all(|other| other.case != case.case),
                "case {} stands twice in the corpus; names must be unique",
                case.case
            );
            cases.push(case);
        }
    }
    Ok(cases)
}

/// Reads the allowed differences.
pub fn load_allowed(file: &Path) -> Result<Vec<AllowedDifference>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("in {}", file.display()))
}

/// The number of requests in the corpus that are compared.
pub fn compared_requests(cases: &[Case]) -> usize {
    cases
        .iter()
        .flat_map(|case| &case.steps)
        .filter(|step| !step.silent)
        .count()
}
