//! Reading scenario files. Every mistake becomes one line that starts with `file:line:column`, names what is wrong, and
//! lists what would be right.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{Error, Options};

use super::convert::Converter;
use super::file::ScenarioFile;
use super::model::{Action, Objects, Scenario};
use super::names::one_of;

/// A mistake in a scenario file, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; 0 when the file could not be read at all.
    pub line: u64,
    /// The column, counted from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
}

impl FileError {
    pub(super) fn new(file: &Path, line: u64, column: u64, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            column,
            message: message.into(),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
        } = self;
        match line {
            0 => write!(formatter, "{}: {message}", file.display()),
            _ => write!(formatter, "{}:{line}:{column}: {message}", file.display()),
        }
    }
}

/// Reads a scenario from a file.
pub fn load(file: &Path) -> Result<Scenario, FileError> {
    let text = std::fs::read_to_string(file).map_err(|problem| FileError::new(file, 0, 0, problem.to_string()))?;
    parse(&text, file)
}

/// Reads every `*.yaml` file of a directory, in the order of names.
pub fn load_directory(directory: &Path) -> Result<Vec<Scenario>, FileError> {
    let problem = |problem: std::io::Error| FileError::new(directory, 0, 0, problem.to_string());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|file| load(file)).collect()
}

/// Reads a scenario from text; `file` is for messages and for the files that it refers to.
pub fn parse(text: &str, file: &Path) -> Result<Scenario, FileError> {
    let parsed: ScenarioFile = read(text).map_err(|error| file_error(file, &error))?;
    Converter { file }.scenario(parsed)
}

/// The objects of a manifest file with any number of documents.
pub(super) fn parse_manifests(text: &str, file: &Path) -> Result<Vec<Value>, FileError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| file_error(file, &error))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

fn options() -> Options {
    // As Kubernetes reads YAML: `off` and `yes` are words.
    serde_saphyr::options! { strict_booleans: true, with_snippet: false }
}

fn file_error(file: &Path, error: &Error) -> FileError {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
    let message = match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            // Steps are the mapping in which one of the words says what is done.
            let what = if expected.contains(&"killApiServer") {
                "step"
            } else {
                "field"
            };
            format!("unknown {what} {}", one_of(field, expected))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => format!("unknown value {}", one_of(variant, expected)),
        Error::InvalidScalar { ty, .. } if ty.starts_with(['u', 'i']) => "a whole number is expected here".to_owned(),
        Error::SerdeMissingField { field, .. } => format!("`{field}` is missing"),
        other => {
            let text = other.to_string();
            let place = format!(" at line {line}, column {column}");
            let text = text.strip_suffix(&place).map_or(text.clone(), str::to_owned);
            let prefix = format!("line {line} column {column}: ");
            text.strip_prefix(&prefix).map_or(text.clone(), str::to_owned)
        }
    };
    FileError::new(file, line, column, message)
}

impl Action {
    /// Words for reports.
    pub fn describe(&self) -> String {
        let objects = |objects: &Objects| match objects.count {
            Some(count) => format!("{count} {}", objects.target),
            None => objects.target.to_string(),
        };
        let manifests = |manifests: &[Value]| {
            let name = |manifest: &Value| {
                let part = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
                let name = part("/metadata/name").or_else(|| part("/metadata/generateName"));
                format!("{} {}", part("/kind").unwrap_or_default(), name.unwrap_or_default())
            };
            manifests.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Apply(objects) => format!("apply {}", manifests(objects)),
            Self::Create(objects) => format!("create {}", manifests(objects)),
            Self::Patch { objects: which, .. } => format!("patch {}", objects(which)),
            Self::Edit { objects: which, .. } => format!("edit {}", objects(which)),
            Self::Scale {
                objects: which,
                replicas,
            } => format!("scale {} to {replicas}", objects(which)),
            Self::Delete { objects: which, .. } => format!("delete {}", objects(which)),
            Self::Cordon(which) => format!("cordon {}", objects(which)),
            Self::Uncordon(which) => format!("uncordon {}", objects(which)),
            Self::Drain(which) => format!("drain {}", objects(which)),
            Self::KillNode(which) => format!("kill {}", objects(which)),
            Self::RestoreNode(which) => format!("restore {}", objects(which)),
            Self::KillPod(which) => format!("kill {}", objects(which)),
            Self::PodBehaviour { objects: which, .. } => format!("change the behaviour of {}", objects(which)),
            Self::Remember { name, target } => format!("remember {target} as {name}"),
            Self::RestartScheduler => "restart the scheduler".to_owned(),
            Self::KillScheduler { after_bindings } => format!("the scheduler dies after {after_bindings} bindings"),
            Self::RestartOperator => "restart the operator".to_owned(),
            Self::KillApiServer => "kill the API server".to_owned(),
            Self::RestartApiServer => "restart the API server".to_owned(),
            Self::Wait { .. } => "wait".to_owned(),
        }
    }

    /// Whether the step sends requests whose refusal can be expected.
    pub(super) fn is_api_call(&self) -> bool {
        matches!(self, Self::Apply(_) | Self::Create(_)) || self.objects().is_some()
    }
}
