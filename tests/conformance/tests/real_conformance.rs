//! A real kube-apiserver against the transcript in the repository: it must still say what a real server says.
//! `COPPICE_RECORD=1` writes the transcript anew instead.

use std::path::Path;

use coppice_conformance::{compare, corpus, exchange, normalise, transcript::Transcript};
use coppice_harness::control_plane::{ControlPlane, Options};

#[tokio::test]
async fn a_real_api_server_answers_as_the_transcript_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = corpus::load(&root.join("corpus")).unwrap();
    let control_plane = ControlPlane::start(&Options::default()).await.unwrap();
    let client = control_plane.client();
    let version = client.apiserver_version().await.unwrap().git_version;

    let mut recorded = Transcript {
        kubernetes: version.clone(),
        ..Transcript::default()
    };
    for case in &cases {
        let answers = exchange::run(&client, case).await.unwrap();
        recorded.cases.insert(case.case.clone(), normalise::normalise(&answers));
    }
    println!(
        "{} requests in {} cases on kube-apiserver {version}",
        corpus::compared_requests(&cases),
        cases.len()
    );

    let file = root.join("transcript.json");
    if std::env::var_os("COPPICE_RECORD").is_some() {
        recorded.save(&file).unwrap();
        println!("written to {}", file.display());
        return;
    }
    let transcript = Transcript::load(&file).unwrap();
    assert_eq!(
        transcript.kubernetes, version,
        "the transcript is of another version: set KUBEBUILDER_ASSETS to that one, or record anew with COPPICE_RECORD=1"
    );
    let differences: Vec<_> = cases
        .iter()
        .flat_map(|case| {
            let expected = transcript.cases.get(&case.case).map_or(&[][..], Vec::as_slice);
            compare::compare(&case.case, expected, &recorded.cases[&case.case])
        })
        .collect();
    for difference in &differences {
        println!("{difference}");
    }
    assert!(
        differences.is_empty(),
        "the transcript is out of date: COPPICE_RECORD=1 make e2e writes it anew"
    );
}
