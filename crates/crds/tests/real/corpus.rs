//! The manifests that both sets of definitions judge: the corpus of the API crate, generated documents, samples.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::documents;

/// One manifest: one document to create, or an old and a new one to update.
pub struct Manifest {
    /// Where it comes from.
    pub name: String,
    /// The documents, in order.
    pub documents: Vec<Value>,
    /// What the definitions must make of it.
    pub verdict: Verdict,
}

/// What the definitions must make of a manifest.
#[derive(Debug)]
pub enum Verdict {
    /// They accept it.
    Accepted,
    /// They refuse it for this reason.
    Refused(Refusal),
    /// It does not say: admission refuses it, and the definitions may do so before.
    Open,
}

/// `# refused by schema | Required | spec.template | piece of the message`.
#[derive(Debug)]
pub struct Refusal {
    /// `Required`, `Invalid` and so on.
    pub kind: String,
    /// The field.
    pub field: String,
    /// What the message must contain.
    pub piece: String,
}

/// The manifests of a directory, sorted by name.
pub fn read(directory: &Path, verdict: impl Fn(&str, &str) -> Verdict) -> Vec<Manifest> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(!files.is_empty(), "no manifests in {}", directory.display());
    let manifests = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).expect("a readable manifest");
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| {
            panic!("{}: {error}", file.display());
        });
        let name = file
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let mut documents: Vec<Value> = documents.into_iter().filter(Value::is_object).collect();
        let is_cluster_scoped = documents[0]["kind"] == "ClusterTopologyBinding";
        if is_cluster_scoped && documents.len() > 1 {
            // Old objects of all updates exist at the same time.
            documents
                .iter_mut()
                .for_each(|document| document["metadata"]["name"] = json!(name));
        }
        Manifest {
            documents,
            verdict: verdict(&name, &text),
            name,
        }
    });
    manifests.collect()
}

/// Good manifests whose old object no API server with these definitions would ever store: they are for the functions of
/// admission alone.
const UNREACHABLE: &[&str] = &[
    "update-finalizer-of-a-faulty-set",
    "update-old-faults-untouched",
    "update-set-being-deleted",
];

/// The corpus: `directory` holds `good` and `bad`, and each bad manifest says on top who refuses it and why.
pub fn with_verdicts(directory: &Path) -> Vec<Manifest> {
    let mut manifests = read(&directory.join("good"), |name, _| {
        if UNREACHABLE.contains(&name) {
            Verdict::Open
        } else {
            Verdict::Accepted
        }
    });
    let bad = read(&directory.join("bad"), |_, text| {
        refusal(text).map_or(Verdict::Open, Verdict::Refused)
    });
    manifests.extend(bad);
    manifests
}

/// What the definitions refuse; refusals by admission come later and are not our business here.
fn refusal(text: &str) -> Option<Refusal> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# refused by "));
    let mut ours = lines.filter(|line| line.starts_with("schema ") || line.starts_with("cel "));
    let mut parts = ours.next()?.split('|').skip(1).map(|part| part.trim().to_owned());
    let mut next = || {
        parts
            .next()
            .expect("a refusal has a kind, a field and a piece of the message")
    };
    Some(Refusal {
        kind: next(),
        field: next(),
        piece: next(),
    })
}

/// For every kind of the reference: a document with all fields; the same with an unknown field in every object, which both
/// sets must prune alike; and with every field left out that has a default, which both must fill in alike.
/// Made from either set, so that neither hides what it lacks.
pub fn generated(source: &str, definitions: &[Value]) -> Vec<Manifest> {
    let kinds = [
        "PodCliqueSet",
        "PodClique",
        "PodCliqueScalingGroup",
        "ClusterTopologyBinding",
        "PodGang",
    ];
    let manifests = kinds.into_iter().flat_map(|kind| {
        let schema = documents::schema_of(kind, definitions);
        let mut full = documents::full(&schema);
        without_pack_domain(&mut full);
        let mut littered = full.clone();
        for pointer in documents::objects(&full, &schema) {
            if !pointer.starts_with("/metadata") {
                littered.pointer_mut(&pointer).expect("the object exists")["fieldOfTomorrow"] = json!({ "deep": [1] });
            }
        }
        let mut bare = full.clone();
        without_defaults(&mut bare, &schema);
        [("full", full), ("littered", littered), ("bare", bare)].map(|(name, document)| Manifest {
            name: format!("{name}-{}-from-{source}", kind.to_lowercase()),
            documents: vec![document],
            verdict: Verdict::Accepted,
        })
    });
    manifests.collect()
}

/// Maps as alpha.12 and alpha.13 of the reference store them, and as we do: either must be valid under both.
pub fn gang_maps() -> Vec<Manifest> {
    let map = |name: &str, epochs: [&str; 3]| {
        let [anchor, tail, scale_out] = epochs;
        let hash = "5dbfq7pzg7";
        let document = json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "PodGangMap", "metadata": { "name": name },
            "spec": { "podCliqueSetReplicaIndex": 0, "entries": [
                { "epoch": anchor, "podCliqueSetGenerationHash": hash, "role": "Anchor", "anchorIndex": 0,
                  "podCliques": { "router": 2 }, "pcsgReplicaIndices": { "decode": [0, 1] } },
                { "epoch": tail, "podCliqueSetGenerationHash": hash, "role": "Tail",
                  "pcsgReplicaIndices": { "decode": [2] }, "dependsOn": [anchor] },
                { "epoch": scale_out, "podCliqueSetGenerationHash": hash, "role": "ScaleOut", "dependsOn": [anchor] },
            ] },
        });
        Manifest {
            name: name.to_owned(),
            documents: vec![document],
            verdict: Verdict::Accepted,
        }
    };
    let nanoseconds = ["1788533963425275528", "1788533963425275529", "1788533963425275530"];
    vec![map("map-of-alpha13", nanoseconds), map("map-of-ours", ["1", "2", "3"])]
}

/// New objects must not use the old name of `pack.required`.
fn without_pack_domain(document: &mut Value) {
    match document {
        Value::Object(map) => {
            map.remove("packDomain");
            map.values_mut().for_each(without_pack_domain);
        }
        Value::Array(list) => list.iter_mut().for_each(without_pack_domain),
        _ => {}
    }
}

fn without_defaults(document: &mut Value, schema: &Value) {
    match document {
        Value::Object(map) => {
            map.retain(|name, _| schema["properties"][name.as_str()].get("default").is_none());
            for (name, value) in map {
                without_defaults(value, &schema["properties"][name.as_str()]);
            }
        }
        Value::Array(list) => {
            for item in list {
                without_defaults(item, &schema["items"]);
            }
        }
        _ => {}
    }
}
