//! The objects of other schedulers, field by field: every case of `cases/` against a golden file for each back-end, and
//! corrections of stored objects.
//!
//! A golden file lists the gangs of the case: the object that stands for each, what the pods of its cliques carry, and
//! what the object does not say. `COPPICE_BLESS=1` writes them; read the difference before it is committed.

mod corrections;
mod support;

use std::path::{Path, PathBuf};

use coppice_core::backends::{Backend, Limit, Wanted, of_scheduler};
use coppice_core::command::Kind;
use coppice_core::object::{Body, Metadata, NewObject};
use serde_json::{Value, json};
use support::{Case, yaml};

const BACKENDS: [(&str, &str); 3] = [
    ("kai", "kai-scheduler"),
    ("volcano", "volcano"),
    ("native", "default-scheduler"),
];

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backends").join(name)
}

/// What a pod carries for its scheduler, and nothing else of it.
fn stamped(backend: &dyn Backend, gang: &str, clique: &str) -> Value {
    let mut pod = NewObject {
        kind: Kind::Pod,
        metadata: Metadata::default(),
        owner: None,
        body: Body::default(),
    };
    backend.stamp(gang, clique).put_on(&mut pod);
    let mut stamped = json!({});
    for (field, entries) in [
        ("labels", &pod.metadata.labels),
        ("annotations", &pod.metadata.annotations),
    ] {
        if !entries.is_empty() {
            stamped["metadata"][field] = json!(entries);
        }
    }
    if !pod.spec().is_null() {
        stamped["spec"] = pod.spec().clone();
    }
    stamped
}

fn mapped(case: &Case, scheduler: &str) -> Value {
    let backend = of_scheduler(scheduler, true);
    let set = case.set(scheduler);
    let mut gangs = Vec::new();
    case.each_gang(&set, backend, |gang| {
        let mapping = backend.map(&gang);
        let name = gang.object.metadata.name.clone().unwrap_or_default();
        let mut pods = serde_json::Map::new();
        for group in &gang.object.spec.pod_groups {
            let stamped = stamped(backend, &name, &group.name);
            pods.insert(group.name.clone(), stamped);
        }
        let object = match mapping.object {
            Wanted::Object(object) => json!(object),
            Wanted::Nothing => "none".into(),
            Wanted::Unknown => "left as it is".into(),
        };
        let limits: Vec<String> = mapping.limits.iter().map(Limit::message).collect();
        gangs.push(json!({"gang": name, "podGroup": object, "limits": limits, "pods": pods}));
    });
    Value::Array(gangs)
}

#[test]
fn every_case_is_mapped_as_its_golden_file_says() {
    let mut differences = Vec::new();
    let cases = Case::all(&directory("cases"));
    assert!(cases.len() >= 15, "the cases are missing");
    for case in &cases {
        for (backend, scheduler) in BACKENDS {
            let file = directory("golden").join(backend).join(&case.name);
            let found = mapped(case, scheduler);
            if std::env::var_os("COPPICE_BLESS").is_some() {
                std::fs::write(&file, yaml(&found)).expect("a golden file");
            }
            let expected = std::fs::read_to_string(&file).unwrap_or_default();
            let expected: Value = serde_saphyr::from_str(&expected).unwrap_or_default();
            if expected != found {
                differences.push(format!("{backend}/{}:\n{}", case.name, yaml(&found)));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "not as the golden files say, but:\n{}",
        differences.join("\n")
    );
}

#[test]
fn every_golden_file_belongs_to_a_case() {
    let cases: Vec<String> = Case::all(&directory("cases"))
        .into_iter()
        .map(|case| case.name)
        .collect();
    for (backend, _) in BACKENDS {
        for entry in std::fs::read_dir(directory("golden").join(backend)).expect("golden files") {
            let name = entry.expect("a file").file_name().to_string_lossy().into_owned();
            assert!(cases.contains(&name), "golden/{backend}/{name} belongs to no case");
        }
    }
}

#[test]
fn a_scheduler_that_reads_pod_gangs_or_no_gangs_gets_nothing() {
    let case = Case::named(&directory("cases"), "one-clique.yaml");
    for scheduler in ["coppice", "lpx-scheduler", "default-scheduler"] {
        let backend = of_scheduler(scheduler, false);
        assert_eq!(backend.kind(), None, "{scheduler}");
        let set = case.set(scheduler);
        case.each_gang(&set, backend, |gang| {
            assert_eq!(backend.map(&gang).object, Wanted::Nothing, "{scheduler}");
            assert_eq!(stamped(backend, "llm-0", "llm-0-worker"), json!({}), "{scheduler}");
        });
    }
}
