//! Identities that must never change, because pods in clusters carry them.
//!
//! If one of these fails, the change under test gives existing templates another identity. Either that was not
//! intended, or `VERSION` has to be raised; then add a new table below for the new version and keep the meaning of the test.

mod canonical_support;

use std::collections::BTreeMap;

use canonical_support::templates::inference;
use canonical_support::view;
use coppice_api::canonical::{CliqueOrder, GenerationIdentity, TemplateIdentity, TemplateView, VERSION};
use serde_json::{Value, json};

/// The version that the identities below belong to.
const RECORDED_VERSION: u32 = 1;

fn golden() -> Vec<(&'static str, TemplateIdentity, &'static str)> {
    let of = |spec: &Value| view(spec.as_object().expect("an object")).identity();
    let texts = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let spec = json!({"containers": [{"name": "main", "image": "server:1"}], "priorityClassName": "own"});
    let full = TemplateView {
        labels: &texts("role", "decode"),
        annotations: &texts("note", "a \"quoted\" ümlaut"),
        priority_class: Some("of-the-set"),
        spec: spec.as_object().expect("an object"),
    }
    .identity();
    vec![
        ("nothing", of(&json!({})), "v1-55fqz2z4vjw3qy9m6ptn"),
        (
            "one container",
            of(&json!({"containers": [{"name": "main", "image": "server"}]})),
            "v1-gq2cg5tatjjy6q07fysk",
        ),
        ("labels, annotations, priority", full, "v1-bdw3gn7qasnqdxps1a8v"),
        (
            "small inference server",
            of(&inference(1, 3, 1)),
            "v1-n0ancz247mwz6gasbznf",
        ),
        (
            "large inference server",
            of(&inference(6, 40, 20)),
            "v1-kkzm12594476avyr5cxr",
        ),
        ("every type of value", of(&every_type()), "v1-50p8r7xgsgm2j66fe08z"),
    ]
}

fn every_type() -> Value {
    json!({
        "activeDeadlineSeconds": -1,
        "hostNetwork": true,
        "hostUsers": false,
        "overhead": {"cpu": "0.25", "memory": "1e60", "junk": "junk"},
        "initContainers": [null, {}, {"ports": [{"containerPort": 80}]}],
        "newField": {"list": [1.5, 18446744073709551615_u64, null, {}, []], "flag": true, "empty": ""},
        "volumes": [{"name": "scratch"}, {"name": "image", "image": {"reference": "data"}}],
        "topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {}}],
    })
}

#[test]
fn recorded_identities_hold_for_as_long_as_the_version_does() {
    assert_eq!(
        VERSION, RECORDED_VERSION,
        "the version was raised: record the identities of the new version here"
    );
    for (name, identity, recorded) in golden() {
        assert_eq!(
            identity.label(),
            recorded,
            "the identity of {name:?} changed without a new version"
        );
    }
}

#[test]
fn recorded_generations_hold_for_as_long_as_the_version_does() {
    assert_eq!(
        VERSION, RECORDED_VERSION,
        "the version was raised: record the identities of the new version here"
    );
    let template = view(&serde_json::Map::new()).identity();
    let cliques = [("router", template), ("decode", template)];
    assert_eq!(
        GenerationIdentity::of(&cliques, CliqueOrder::Free).label(),
        "v1-49jpa85a29cgj69as4yh"
    );
    assert_eq!(
        GenerationIdentity::of(&cliques, CliqueOrder::Counts).label(),
        "v1-wanv4wsmh64z6zj5xn7z"
    );
}
