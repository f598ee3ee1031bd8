//! Decoding and encoding lose nothing and add nothing but documented defaults.
//!
//! The documents are made from the generated schemas, so a field that is added to the API is covered at once. Optional
//! lists and maps are never empty in them: for the API an empty one means the same as an absent one, and the types
//! leave it out.

#[allow(unreachable_pub)]
mod documents;
#[allow(unreachable_pub)]
mod random;

use std::path::{Path, PathBuf};

use coppice_api::types::{ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, PodGangMap};
use documents::{full, objects};
use proptest::prelude::*;
use random::random;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the types always write although the schema has no default for it: clients read it without asking whether it is
/// there, and its absence means the same.
fn is_always_written(pointer: &str, value: &Value) -> bool {
    match pointer {
        "/status/replicas" | "/status/updateProgress/updatedScheduledReplicas" => *value == 0,
        "/status/phase" => value == "Pending",
        _ => false,
    }
}

fn schema_of(kind: &str) -> Value {
    documents::schema_of(kind, &coppice_api::crd::all())
}

fn round_trip<Kind: Serialize + DeserializeOwned>(document: &Value) -> Value {
    let decoded: Kind = serde_json::from_value(document.clone()).expect("a valid document is decoded");
    serde_json::to_value(decoded).expect("every object can be encoded")
}

fn round_trip_of(kind: &str, document: &Value) -> Value {
    match kind {
        "PodCliqueSet" => round_trip::<PodCliqueSet>(document),
        "PodClique" => round_trip::<PodClique>(document),
        "PodCliqueScalingGroup" => round_trip::<PodCliqueScalingGroup>(document),
        "ClusterTopologyBinding" => round_trip::<ClusterTopologyBinding>(document),
        "PodGang" => round_trip::<PodGang>(document),
        "PodGangMap" => round_trip::<PodGangMap>(document),
        other => panic!("no type for {other}"),
    }
}

const KINDS: &[&str] = &[
    "PodCliqueSet",
    "PodClique",
    "PodCliqueScalingGroup",
    "ClusterTopologyBinding",
    "PodGang",
    "PodGangMap",
];

/// What differs between a document and its round trip, apart from defaults that were filled in.
fn damage(before: &Value, after: &Value, schema: &Value, pointer: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let inner = |name: &str| schema["properties"].get(name).or(schema.get("additionalProperties"));
            for (name, value) in before {
                let pointer = format!("{pointer}/{name}");
                match after.get(name) {
                    Some(other) => damage(value, other, inner(name).unwrap_or(&Value::Null), &pointer, found),
                    None => found.push(format!("{pointer} was lost")),
                }
            }
            for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                let pointer = format!("{pointer}/{name}");
                let default = inner(name).and_then(|schema| schema.get("default"));
                // The API server refuses an object without a required field before anybody decodes it.
                let required = schema["required"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|required| required == name);
                let documented = default == Some(value)
                    || is_always_written(&pointer, value)
                    || (required && (value == "" || value == 0));
                if !documented {
                    found.push(format!("{pointer} appeared as {value}"));
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                damage(before, after, &schema["items"], &format!("{pointer}/{index}"), found);
            }
        }
        _ if before == after => {}
        _ => found.push(format!("{pointer} became {after}, was {before}")),
    }
}

fn assert_unchanged(kind: &str, document: &Value, schema: &Value) {
    let mut found = Vec::new();
    damage(document, &round_trip_of(kind, document), schema, "", &mut found);
    assert!(found.is_empty(), "{kind}: {found:#?}");
}

#[test]
fn a_document_with_every_field_survives() {
    for kind in KINDS {
        let schema = schema_of(kind);
        let document = full(&schema);
        assert_unchanged(kind, &document, &schema);
        assert_eq!(
            round_trip_of(kind, &document),
            document,
            "{kind}: nothing is left to fill in"
        );
    }
}

/// Manifests as people write them: the good corpus, and the reference's samples where they are at hand (in the folder
/// named by `COPPICE_REFERENCE_SAMPLES`, else beside the repository).
#[test]
fn manifests_survive() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = yaml_files(&crate_directory.join("corpus/good"));
    let named = std::env::var_os("COPPICE_REFERENCE_SAMPLES").map(PathBuf::from);
    let samples = named.unwrap_or_else(|| crate_directory.join("../../../shared/data/grove-samples"));
    if samples.is_dir() || std::env::var_os("COPPICE_REFERENCE_SAMPLES").is_some() {
        files.extend(yaml_files(&samples));
    }
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable manifest");
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("a manifest is YAML");
        for mut document in documents.into_iter().filter(Value::is_object) {
            let kind = document["kind"].as_str().expect("a manifest has a kind").to_owned();
            without_empty(&mut document);
            // Deletion times are written back in another spelling of the same time.
            document["metadata"]
                .as_object_mut()
                .expect("metadata")
                .remove("deletionTimestamp");
            assert_unchanged(&kind, &document, &schema_of(&kind));
            count += 1;
        }
    }
    assert!(count >= 50, "only {count} manifests");
}

fn yaml_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let files = entries.map(|entry| entry.expect("a readable entry").path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .collect()
}

/// Without empty lists and maps: for the API an absent one means the same.
fn without_empty(document: &mut Value) {
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty) || *value == json!({});
    match document {
        Value::Object(map) => {
            map.retain(|_, value| !is_empty(value));
            map.values_mut().for_each(without_empty);
        }
        Value::Array(list) => list.iter_mut().for_each(without_empty),
        _ => {}
    }
}

#[test]
fn every_field_of_the_schema_is_a_field_of_the_type() {
    for kind in KINDS {
        let document = full(&schema_of(kind));
        let unknown = unknown_fields(kind, &document);
        assert!(
            unknown.is_empty(),
            "{kind} keeps these only as unknown fields: {unknown:?}"
        );
    }
}

/// Fields of a document that the type does not know: its `unknown` maps that are not empty, in the debug text.
fn unknown_fields(kind: &str, document: &Value) -> Vec<String> {
    let text = match kind {
        "PodCliqueSet" => format!("{:?}", decode::<PodCliqueSet>(document)),
        "PodClique" => format!("{:?}", decode::<PodClique>(document)),
        "PodCliqueScalingGroup" => format!("{:?}", decode::<PodCliqueScalingGroup>(document)),
        "ClusterTopologyBinding" => format!("{:?}", decode::<ClusterTopologyBinding>(document)),
        "PodGang" => format!("{:?}", decode::<PodGang>(document)),
        _ => format!("{:?}", decode::<PodGangMap>(document)),
    };
    let maps = text.split("unknown: ").skip(1);
    maps.filter(|rest| !rest.starts_with("{}"))
        .map(|rest| rest.chars().take(60).collect())
        .collect()
}

fn decode<Kind: DeserializeOwned>(document: &Value) -> Kind {
    serde_json::from_value(document.clone()).expect("a valid document is decoded")
}

#[test]
fn an_unknown_field_survives_at_every_level() {
    for kind in KINDS {
        let schema = schema_of(kind);
        let document = full(&schema);
        let levels = objects(&document, &schema);
        assert!(levels.len() > 3, "{kind} has several levels");
        for pointer in levels.iter().filter(|pointer| is_ours(pointer)) {
            let mut changed = document.clone();
            changed.pointer_mut(pointer).expect("the level exists")["fieldOfTomorrow"] = json!({ "deep": [1, null] });
            assert_eq!(round_trip_of(kind, &changed), changed, "{kind}{pointer}");
        }
    }
}

/// Levels whose types are ours. The object itself, its metadata and standard conditions belong to Kubernetes' own types,
/// which drop what they do not know.
fn is_ours(pointer: &str) -> bool {
    !pointer.is_empty() && !pointer.starts_with("/metadata") && !pointer.contains("/conditions")
}

fn any_document() -> impl Strategy<Value = (&'static str, Value, Value)> {
    prop::sample::select(KINDS).prop_flat_map(|kind| {
        let schema = schema_of(kind);
        (Just(kind), random(&schema), Just(schema))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_documents_survive((kind, document, schema) in any_document()) {
        assert_unchanged(kind, &document, &schema);
    }

    #[test]
    fn random_documents_keep_an_unknown_field_anywhere(
        (kind, document, schema) in any_document(),
        level in any::<prop::sample::Index>(),
        name in "[a-z]{3,8}Z",
        value in random(&json!({ "type": "string" })),
    ) {
        let levels: Vec<_> = objects(&document, &schema).into_iter().filter(|pointer| is_ours(pointer)).collect();
        prop_assume!(!levels.is_empty());
        let pointer = level.get(&levels);
        let mut changed = document;
        changed.pointer_mut(pointer).expect("the level exists")[&name] = value.clone();
        let after = round_trip_of(kind, &changed);
        prop_assert_eq!(after.pointer(pointer).and_then(|object| object.get(&name)), Some(&value), "{}{}", kind, pointer);
        assert_unchanged(kind, &changed, &schema);
    }
}
