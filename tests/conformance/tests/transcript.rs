//! The embedded API server against what a real one answered, from the transcript in the repository.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and tells what differs"
)]

use std::path::Path;

use coppice_apiserver::ApiServer;
use coppice_conformance::{compare, corpus, exchange, normalise, transcript::Transcript};

#[tokio::test]
async fn the_embedded_server_answers_as_the_transcript_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = corpus::load(&root.join("corpus")).unwrap();
    let allowed = corpus::load_allowed(&root.join("allowed-differences.yaml")).unwrap();
    let transcript = Transcript::load(&root.join("transcript.json")).unwrap();
    let server = ApiServer::builder().build();
    let client = kube::Client::new(server.service(), "default");

    let mut differences = Vec::new();
    for case in &cases {
        let expected = transcript.cases.get(&case.case).unwrap_or_else(|| {
            panic!(
                "the transcript has no case {}: record it with COPPICE_RECORD=1 make e2e",
                case.case
            )
        });
        let actual = exchange::run(&client, case).await.unwrap();
        differences.extend(compare::compare(&case.case, expected, &normalise::normalise(&actual)));
    }
    let total = differences.len();
    let (refused, used) = compare::judge(differences, &allowed);
    println!(
        "{} requests in {} cases; {total} differences, {} of them allowed",
        corpus::compared_requests(&cases),
        cases.len(),
        total - refused.len()
    );
    for difference in &refused {
        println!("{difference}");
    }
    let unused: Vec<_> = allowed
        .iter()
        .enumerate()
        .filter(|(index, _)| !used.contains(index))
        .collect();
    assert!(
        unused.is_empty(),
        "allowed differences that no longer occur; remove them: {unused:#?}"
    );
    assert!(
        refused.is_empty(),
        "{} differences from a real API server, listed above",
        refused.len()
    );
}
