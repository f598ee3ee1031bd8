//! The definitions and their installer on a real kube-apiserver.
//!
//! The reference definitions are not part of the repository. They are looked for in the directory named by
//! `COPPICE_REFERENCE_CRDS`, else in `shared/data/grove-crds` beside the repository; when there are none the comparison
//! with them does not run, and says so. What was published later is beside it, and what is only known from descriptions is
//! added by [`reference`].

#[allow(unreachable_pub)]
mod corpus;
#[allow(unreachable_pub)]
#[path = "../../../api/tests/types_round_trip/documents.rs"]
mod documents;
#[allow(unreachable_pub)]
mod reference;
#[allow(unreachable_pub)]
mod server;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use coppice_crds::{Change, InstallError, InstallOptions, Refusal, install, install_definitions};
use coppice_harness::control_plane::{ControlPlane, Options};
use corpus::{Manifest, Verdict};
use serde_json::{Value, json};
use server::{Outcome, Server};

const REFERENCE_VARIABLE: &str = "COPPICE_REFERENCE_CRDS";

#[tokio::test(flavor = "multi_thread")]
async fn installing_again_at_once_and_over_others_is_safe() {
    let control_plane = ControlPlane::start(&Options::default())
        .await
        .expect("a control plane starts");
    let client = control_plane.client();
    let options = InstallOptions::default();

    let runs = (0..4).map(|_| install(client.clone(), &options, drop));
    let runs = futures::future::try_join_all(runs)
        .await
        .expect("installers do not get in each other's way");
    let mut created: BTreeMap<String, usize> = BTreeMap::new();
    for (name, change) in runs.into_iter().flatten() {
        *created.entry(name).or_default() += usize::from(change == Change::Created);
    }
    assert_eq!(created.len(), 6);
    assert!(
        created.values().all(|count| *count == 1),
        "each is created by one of them: {created:?}"
    );

    let again = install(client.clone(), &options, drop)
        .await
        .expect("installing again works");
    assert!(
        again.iter().all(|(_, change)| *change == Change::Unchanged),
        "{again:?}"
    );

    let mut other = coppice_api::crd::all();
    other[0]["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
    let other_owner = InstallOptions {
        field_manager: "somebody-else".to_owned(),
        ..options.clone()
    };
    install_definitions(client.clone(), &other, &other_owner, drop)
        .await
        .expect("somebody else installs another shape");
    let back = install(client.clone(), &options, drop)
        .await
        .expect("and we install ours over it");
    let changes: Vec<Change> = back.into_iter().map(|(_, change)| change).collect();
    assert_eq!(changes[0], Change::Configured);
    assert!(
        changes[1..].iter().all(|change| *change == Change::Unchanged),
        "{changes:?}"
    );

    let mut newer = coppice_api::crd::all();
    let mut version = newer[5]["spec"]["versions"][0].clone();
    version["name"] = json!("v1beta1");
    newer[5]["spec"]["versions"][0]["storage"] = json!(false);
    newer[5]["spec"]["versions"]
        .as_array_mut()
        .expect("versions")
        .push(version);
    install_definitions(client.clone(), &newer, &options, drop)
        .await
        .expect("a newer Coppice stores another version");
    let refused = install(client.clone(), &options, drop)
        .await
        .expect_err("this version would drop it");
    assert!(
        matches!(&refused, InstallError::Refused(Refusal::StoredVersions { stored, .. }) if stored == &["v1beta1"])
    );
}

/// Manifests that only our definitions refuse: sizes beyond the bounds (docs/compatibility-admission.md), and bounds of
/// fields that the reference does not know.
const STRICTER: [&str; 4] = [
    "coherent-surge-negative",
    "clique-replicas-too-many",
    "group-replicas-too-many",
    "set-replicas-too-many",
];

#[tokio::test(flavor = "multi_thread")]
async fn ours_and_the_reference_store_and_refuse_the_same() {
    let reference = reference_directory();
    let mut manifests = manifests();
    if let Some(directory) = &reference {
        manifests.extend(corpus::generated(
            "reference",
            &reference::definitions(directory, definitions_in),
        ));
        let samples = directory.join("../grove-samples");
        manifests.extend(if samples.is_dir() {
            corpus::read(&samples, |_, _| Verdict::Open)
        } else {
            Vec::new()
        });
    }
    let (_, ours) = judge_all(coppice_api::crd::all(), &manifests).await;
    let mut problems: Vec<String> = manifests
        .iter()
        .filter_map(|manifest| verdict(manifest, &ours))
        .collect();
    if let Some(directory) = reference {
        let (server, reference) = judge_all(reference::definitions(&directory, definitions_in), &manifests).await;
        for (name, outcomes) in &ours {
            let stricter = STRICTER.contains(&name.as_str());
            if (reference[name] != without_additions(outcomes)) != stricter {
                problems.push(format!(
                    "{name}:\n  reference {:?}\n  ours      {outcomes:?}",
                    reference[name]
                ));
            }
        }
        problems.extend(take_over(&server).await);
        say(&format!(
            "compared with the reference definitions over {} manifests",
            manifests.len()
        ));
    } else {
        say(&format!(
            "NOT COMPARED: the reference definitions are not in this clone; name them in {REFERENCE_VARIABLE}"
        ));
    }
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// Optional fields that ours add; the reference drops them (`fixtures/allowed-differences.txt` of the API crate says why).
const ADDITIONS: [(&str, &[&str]); 4] = [
    ("/spec", &["revisionHistoryLimit"]),
    ("/spec/updateStrategy", &["coherent", "paused"]),
    ("/status", &["podAttempt"]),
    ("/status/updateProgress", &["previousRevisions", "rolledBack"]),
];

/// What the reference is compared with.
fn without_additions(outcomes: &[Outcome]) -> Vec<Outcome> {
    let mut outcomes = outcomes.to_vec();
    for outcome in &mut outcomes {
        let Outcome::Stored(object) = outcome else { continue };
        let remove = |part: Option<&mut Value>, fields: &[&str]| {
            if let Some(part) = part.and_then(Value::as_object_mut) {
                part.retain(|name, _| !fields.contains(&name.as_str()));
            }
        };
        for (pointer, fields) in ADDITIONS {
            remove(object.pointer_mut(pointer), fields);
        }
        let updating = object.pointer_mut("/status/updateProgress/currentlyUpdating");
        for replica in updating.and_then(Value::as_array_mut).into_iter().flatten() {
            remove(Some(replica), &["components", "phase", "reason"]);
        }
    }
    outcomes
}

/// Installs our definitions over the reference's in a cluster full of objects, which must stay as they are.
async fn take_over(server: &Server) -> Option<String> {
    let before = server.sets().await;
    assert!(before.len() > 50, "the cluster holds sets");
    let changes = server.install(&coppice_api::crd::all()).await;
    if changes.iter().any(|(_, change)| *change != Change::Configured) {
        return Some(format!("taking over the reference's definitions: {changes:?}"));
    }
    let is_same = before == server.sets().await;
    (!is_same).then(|| "taking over the reference's definitions changed objects".to_owned())
}

/// Past the capture of the test runner: what did not run must be seen.
fn say(text: &str) {
    writeln!(std::io::stderr(), "crds: {text}").expect("standard error can be written");
}

fn reference_directory() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(REFERENCE_VARIABLE) {
        let directory = PathBuf::from(named);
        assert!(
            directory.is_dir(),
            "{REFERENCE_VARIABLE} names no directory: {}",
            directory.display()
        );
        return Some(directory);
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/grove-crds");
    beside.is_dir().then_some(beside)
}

fn definitions_in(directory: &Path) -> Vec<Value> {
    let manifests = corpus::read(directory, |_, _| Verdict::Open);
    manifests.into_iter().flat_map(|manifest| manifest.documents).collect()
}

fn manifests() -> Vec<Manifest> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/corpus");
    let mut manifests = corpus::with_verdicts(&corpus);
    manifests.extend(corpus::generated("ours", &coppice_api::crd::all()));
    manifests.extend(corpus::gang_maps());
    manifests
}

/// All outcomes of all manifests on a server of its own.
async fn judge_all(definitions: Vec<Value>, manifests: &[Manifest]) -> (Server, BTreeMap<String, Vec<Outcome>>) {
    let (server, mut old) = Server::start(definitions, manifests).await;
    let mut outcomes = BTreeMap::new();
    for manifest in manifests {
        let mut judged: Vec<Outcome> = old.remove(&manifest.name).into_iter().collect();
        if !matches!(judged.first(), Some(Outcome::Refused { .. })) {
            judged.extend(server.judge(manifest).await);
        }
        server.forget(manifest).await;
        outcomes.insert(manifest.name.clone(), judged);
    }
    (server, outcomes)
}

/// Whether a manifest was judged as it says of itself.
fn verdict(manifest: &Manifest, outcomes: &BTreeMap<String, Vec<Outcome>>) -> Option<String> {
    let last = outcomes[&manifest.name].last();
    let problem = match (&manifest.verdict, last) {
        (Verdict::Open, _) | (Verdict::Accepted, Some(Outcome::Stored(_))) => None,
        (
            Verdict::Refused(refusal),
            Some(Outcome::Refused {
                code: 422,
                causes,
                message,
            }),
        ) => {
            let is_named = causes.iter().any(|(reason, field)| {
                *field == refusal.field && reason.starts_with("FieldValue") && reason.ends_with(&refusal.kind)
            });
            let is_said = message.0.contains(&refusal.piece);
            (!is_named || !is_said).then(|| format!("expected {refusal:?}, got {causes:?}: {}", message.0))
        }
        (verdict, other) => Some(format!("expected {verdict:?}, got {other:?}")),
    };
    problem.map(|problem| format!("{}: {problem}", manifest.name))
}
