//! The cost of a template's identity, beside the floor of hashing its JSON text.
//!
//! Prints medians; asserts nothing. The floor is what any identity must pay at the least: SHA-256 over the
//! serialised template, including the serialisation, and the hash alone.
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use coppice_api::canonical::{TemplateView, canonical_value, same_template};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

#[path = "../tests/canonical_support/templates.rs"]
mod templates;

/// The median time of one call, over batches long enough for the clock.
fn median(mut call: impl FnMut()) -> f64 {
    let mut batch = 1_u32;
    loop {
        let started = Instant::now();
        (0..batch).for_each(|_| call());
        if started.elapsed() > Duration::from_millis(2) {
            break;
        }
        batch *= 2;
    }
    let mut times: Vec<f64> = (0..101)
        .map(|_| {
            let started = Instant::now();
            (0..batch).for_each(|_| call());
            started.elapsed().as_secs_f64() * 1e6 / f64::from(batch)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn report(name: &str, spec: &Map<String, Value>) {
    let (labels, annotations) = (
        BTreeMap::from([("app".to_owned(), "inference".to_owned())]),
        BTreeMap::new(),
    );
    let template = TemplateView {
        labels: &labels,
        annotations: &annotations,
        priority_class: Some("high"),
        spec,
    };
    let text = serde_json::to_vec(spec).expect("JSON is serialisable");

    let identity = median(|| {
        black_box(black_box(&template).identity());
    });
    let label = median(|| {
        black_box(black_box(&template).identity().label());
    });
    let same = median(|| {
        black_box(same_template(black_box(&template), black_box(&template)));
    });
    let value = median(|| {
        black_box(canonical_value(black_box(&template)));
    });
    let floor = median(|| {
        let text = serde_json::to_vec(black_box(spec)).expect("JSON is serialisable");
        black_box(Sha256::digest(&text));
    });
    let hash = median(|| {
        black_box(Sha256::digest(black_box(&text)));
    });
    println!(
        "{name:<58} {:>7} {identity:>9.2} {label:>9.2} {same:>9.2} {value:>9.2} | {floor:>9.2} {hash:>9.2} | {:>6.2}",
        text.len(),
        identity / floor,
    );
}

fn main() {
    println!("median microseconds per call");
    println!(
        "{:<58} {:>7} {:>9} {:>9} {:>9} {:>9} | {:>9} {:>9} | {:>6}",
        "template", "bytes", "identity", "and label", "same", "value", "json+sha", "sha only", "ratio"
    );
    for (name, containers, variables, mounts) in [
        ("small (1 container, 3 variables, 1 mount)", 1, 3, 1),
        ("large (6 containers, 40 variables and 20 mounts in all)", 6, 7, 4),
        ("larger (6 containers, 40 variables and 20 mounts in each)", 6, 40, 20),
    ] {
        let spec = templates::inference(containers, variables, mounts);
        report(name, spec.as_object().expect("a pod spec is an object"));
    }
}
