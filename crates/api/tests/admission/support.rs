//! The corpus of manifests: how a file is read, and the cluster that it is judged in. See `corpus/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coppice_api::admission::{
    Context, Outcome, QueueState, Schedulers, default_pod_clique_set, validate_cluster_topology_binding,
    validate_pod_clique_set,
};
use coppice_api::types::{ClusterTopologyBinding, ClusterTopologyBindingSpec, PodCliqueSet, TopologyLevel};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One expected error: the first line or lines of a bad manifest.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) refuser: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) piece: String,
}

/// One file of the corpus.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) expected: Vec<Expected>,
    pub(crate) warnings: Vec<String>,
    pub(crate) context: Context,
    pub(crate) documents: Vec<Value>,
}

pub(crate) fn corpus(folder: &str) -> Vec<Case> {
    cases_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder))
}

pub(crate) fn cases_in(folder: &Path) -> Vec<Case> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable folder").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Case {
    let name = file.file_stem().expect("a file").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut expected = Vec::new();
    let mut warnings = Vec::new();
    let mut context = context();
    for line in text.lines().map_while(|line| line.strip_prefix("# ")) {
        if let Some(rest) = line.strip_prefix("refused by ") {
            let parts: Vec<&str> = rest.splitn(4, " | ").map(str::trim).collect();
            let [refuser, kind, path, piece] = parts[..] else {
                panic!("{name}: expected refuser | kind | path | piece of the message, found {rest:?}");
            };
            assert!(
                ["schema", "cel", "webhook"].contains(&refuser),
                "{name}: unknown refuser {refuser:?}"
            );
            let [refuser, kind, path, piece] = [refuser, kind, path, piece].map(str::to_owned);
            expected.push(Expected {
                refuser,
                kind,
                path,
                piece,
            });
        } else if let Some(rest) = line.strip_prefix("warns: ") {
            warnings.push(rest.to_owned());
        } else if let Some(rest) = line.strip_prefix("context: ") {
            match rest {
                "topology=off" => context.topology_aware_scheduling = false,
                "mnnvl=off" => context.auto_mnnvl = false,
                other => panic!("{name}: unknown context {other:?}"),
            }
        }
    }
    let documents = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    Case {
        name,
        expected,
        warnings,
        context,
        documents,
    }
}

/// The cluster of the corpus.
pub(crate) fn context() -> Context {
    let level = |domain: &str, key: &str| TopologyLevel {
        domain: domain.to_owned(),
        key: key.to_owned(),
        ..TopologyLevel::default()
    };
    let topology = ClusterTopologyBindingSpec {
        levels: vec![
            level("zone", "topology.kubernetes.io/zone"),
            level("block", "example.com/block"),
            level("rack", "example.com/rack"),
            level("host", "kubernetes.io/hostname"),
        ],
        ..ClusterTopologyBindingSpec::default()
    };
    let queue = |name: &str, state| (name.to_owned(), state);
    Context {
        schedulers: Schedulers::named(["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"]),
        topology_aware_scheduling: true,
        auto_mnnvl: true,
        topologies: BTreeMap::from([("gb200".to_owned(), topology.clone()), ("h100".to_owned(), topology)]),
        volcano_queues: Some(BTreeMap::from([
            queue("default", QueueState::Open),
            queue("team", QueueState::Open),
            queue("other", QueueState::Open),
            queue("closed", QueueState::Other("Closed".to_owned())),
        ])),
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The object does not decode, which the API server's schema finds first.
    Undecodable(String),
    /// Defaults were filled in and the object was judged.
    Outcome(Outcome),
}

impl Judged {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Undecodable(error) => panic!("does not decode: {error}"),
        }
    }
}

/// Decodes, defaults and validates: a creation, or an update when there are two documents.
pub(crate) fn judge(documents: &[Value], context: &Context) -> Judged {
    let (old, new) = match documents {
        [new] => (None, new),
        [old, new] => (Some(old), new),
        other => panic!("one or two documents, found {}", other.len()),
    };
    let judged = if new.get("kind").and_then(Value::as_str) == Some("ClusterTopologyBinding") {
        judge_binding(old, new, context)
    } else {
        judge_set(old, new, context)
    };
    judged.map_or_else(|error| Judged::Undecodable(error.to_string()), Judged::Outcome)
}

fn decode<T: DeserializeOwned>(document: Option<&Value>) -> Result<Option<T>, serde_json::Error> {
    document
        .map(|document| serde_json::from_value(document.clone()))
        .transpose()
}

fn judge_binding(old: Option<&Value>, new: &Value, context: &Context) -> Result<Outcome, serde_json::Error> {
    let old: Option<ClusterTopologyBinding> = decode(old)?;
    let new = serde_json::from_value(new.clone())?;
    Ok(validate_cluster_topology_binding(&new, old.as_ref(), context))
}

fn judge_set(old: Option<&Value>, new: &Value, context: &Context) -> Result<Outcome, serde_json::Error> {
    let old: Option<PodCliqueSet> = decode(old)?.map(|mut old: PodCliqueSet| {
        default_pod_clique_set(&mut old, None);
        old
    });
    let mut new: PodCliqueSet = serde_json::from_value(new.clone())?;
    default_pod_clique_set(&mut new, old.as_ref());
    let once = new.clone();
    default_pod_clique_set(&mut new, old.as_ref());
    assert_eq!(once, new, "a second pass of defaulting changes nothing");
    Ok(validate_pod_clique_set(&new, old.as_ref(), context))
}

/// The document as it stands after decoding, defaulting and encoding.
pub(crate) fn defaulted(document: &Value) -> Value {
    let mut set: PodCliqueSet = serde_json::from_value(document.clone()).expect("decodes");
    default_pod_clique_set(&mut set, None);
    serde_json::to_value(&set).expect("encodes")
}
