//! Generated cases, answered by the embedded and by a real API server.
//!
//! `COPPICE_GENERATED=FIRST..END` chooses the seeds, such as `0..5000`. Where answers differ, the case is made smaller for as long as
//! they do, and printed as it would stand in the corpus.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and tells what differs"
)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use coppice_apiserver::ApiServer;
use coppice_conformance::corpus::{AllowedDifference, Case};
use coppice_conformance::{compare, corpus, exchange, generate, normalise};
use coppice_harness::control_plane::{ControlPlane, Options};
use kube::Client;

/// The seeds of an ordinary run.
const SEEDS: Range<u64> = 0..600;
/// How often a case is tried smaller.
const MOST_TRIES: usize = 150;

#[tokio::test]
async fn both_servers_answer_generated_cases_alike() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let control_plane = ControlPlane::start(&Options::default()).await.unwrap();
    let server = ApiServer::builder().build();
    let mut servers = Servers {
        real: control_plane.client(),
        embedded: Client::new(server.service(), "default"),
        allowed: corpus::load_allowed(&root.join("generated-differences.yaml")).unwrap(),
        used: BTreeSet::new(),
        tries: 0,
    };
    servers.differences(&generate::definition()).await;

    let seeds = seeds();
    let (mut requests, mut failed, mut known) = (0, Vec::new(), BTreeSet::new());
    for seed in seeds.clone() {
        let case = generate::case(seed);
        requests += corpus::compared_requests(std::slice::from_ref(&case));
        let found = servers.differences(&case).await;
        if found.is_empty() {
            continue;
        }
        failed.push(seed);
        // One case is enough for each thing that differs.
        let new: BTreeSet<Sort> = found.iter().map(sort).filter(|sort| !known.contains(sort)).collect();
        if !new.is_empty() {
            servers.show_small(seed, case, &new).await;
            known.extend(new);
        }
    }
    println!(
        "{requests} requests in {} generated cases, {} of which were answered differently",
        seeds.end - seeds.start,
        failed.len()
    );
    assert!(failed.is_empty(), "seeds whose answers differ: {failed:?}");
    let unused: Vec<_> = (0..servers.allowed.len())
        .filter(|index| !servers.used.contains(index))
        .map(|index| &servers.allowed[index])
        .collect();
    assert!(
        seeds != SEEDS || unused.is_empty(),
        "allowed differences that no longer occur; remove them: {unused:#?}"
    );
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("COPPICE_GENERATED") else {
        return SEEDS;
    };
    let range = text
        .split_once("..")
        .and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    range.unwrap_or_else(|| panic!("COPPICE_GENERATED={text}: it takes two numbers, such as 0..5000"))
}

/// Both servers, and what they may say differently.
struct Servers {
    real: Client,
    embedded: Client,
    allowed: Vec<AllowedDifference>,
    used: BTreeSet<usize>,
    tries: usize,
}

impl Servers {
    /// What differs and may not.
    async fn differences(&mut self, case: &Case) -> Vec<compare::Difference> {
        let answers = tokio::join!(exchange::run(&self.real, case), exchange::run(&self.embedded, case));
        let mut real = normalise::normalise(&answers.0.unwrap());
        let mut embedded = normalise::normalise(&answers.1.unwrap());
        compare::level_refusals(&mut real, &mut embedded);
        let found = compare::compare("generated", &real, &embedded);
        let (refused, used) = compare::judge(found, &self.allowed);
        self.used.extend(used);
        refused
    }

    /// Makes the case smaller for as long as one of these is among what differs, and prints it.
    async fn show_small(&mut self, seed: u64, mut case: Case, sorts: &BTreeSet<Sort>) {
        let mut left = MOST_TRIES;
        'smaller: loop {
            for mut candidate in generate::smaller(&case) {
                if left == 0 {
                    break 'smaller;
                }
                left -= 1;
                self.tries += 1;
                candidate.case = format!("generated-{seed}-{}", self.tries);
                if self
                    .differences(&candidate)
                    .await
                    .iter()
                    .any(|found| sorts.contains(&sort(found)))
                {
                    case = candidate;
                    continue 'smaller;
                }
            }
            break;
        }
        println!("\nseed {seed}:");
        for step in &case.steps {
            println!("    - {}", serde_json::to_string(step).unwrap());
        }
        case.case = format!("generated-{seed}-again");
        for difference in self.differences(&case).await {
            println!("{difference}");
        }
    }
}

/// What tells one difference from another: the place, without numbers, and what both servers have there.
type Sort = (String, String, String);

fn sort(difference: &compare::Difference) -> Sort {
    let place = difference.path.split('.').filter(|part| part.parse::<usize>().is_err());
    let place: Vec<&str> = place.collect();
    // The name of the case and versions of objects have numbers in them.
    let [expected, actual] = [&difference.expected, &difference.actual]
        .map(|text| text.chars().filter(|letter| !letter.is_ascii_digit()).collect());
    (place.join("."), expected, actual)
}
