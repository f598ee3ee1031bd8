//! Two operators at once: both believe that they lead, and each learns late of what the other does; or one loses its
//! lease in the middle of its work. Never two pods at one index, and the end is that of one operator alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coppice_operator::{Operator, Options};
use coppice_proofs::stage::{Stage, in_virtual_time};
use coppice_proofs::story::{Told, Updates, tell};
use coppice_runtime::layers::{Call, Fault};
use coppice_runtime::lease::{self, Elector, Leadership};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

async fn alone(updates: Updates) -> Told {
    let stage = Stage::start().await;
    let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
    let told = tell(&stage, updates).await;
    operator.stop().await;
    told
}

/// Events of these resources come late.
fn late(resources: &'static [&'static str], seconds: u64) -> impl Fn(&Call) -> Fault {
    move |call| match call.verb.as_str() {
        "watch" if resources.contains(&call.resource.as_str()) => Fault::DelayBody(Duration::from_secs(seconds)),
        _ => Fault::Pass,
    }
}

#[test]
fn two_that_both_lead_and_see_late_never_make_a_pod_twice() {
    two_that_both_lead(Updates::RollingRecreate);
}

#[test]
fn two_that_both_lead_during_a_coherent_update_never_make_a_pod_twice() {
    two_that_both_lead(Updates::Coherent);
}

fn two_that_both_lead(updates: Updates) {
    const PODS: &[&str] = &["pods"];
    const OWNERS: &[&str] = &["podcliques", "podcliquescalinggroups", "podgangs"];
    const ALL: &[&str] = &[
        "pods",
        "podcliques",
        "podcliquescalinggroups",
        "podgangs",
        "podgangmaps",
        "podcliquesets",
        "services",
    ];
    let expected = in_virtual_time(alone(updates));
    for (one, other) in [
        ((PODS, 3), (OWNERS, 2)),
        ((ALL, 5), (PODS, 1)),
        ((ALL, 0), (ALL, 7)),
        ((ALL, 2), (ALL, 3)),
    ] {
        let found = in_virtual_time(async {
            let stage = Stage::start().await;
            let first = stage.operator("one", late(one.0, one.1)).await;
            let second = stage.operator("other", late(other.0, other.1)).await;
            let told = tell(&stage, updates).await;
            first.stop().await;
            second.stop().await;
            told
        });
        let doubles: BTreeSet<_> = found.pods.doubles.iter().collect();
        assert!(doubles.is_empty(), "{one:?} and {other:?}: two pods at {doubles:?}");
        assert_eq!(expected.other_state(&found), None, "{one:?} and {other:?}");
    }
}

/// Starts a candidate for the lease with its operator. Its calls about the lease fail while it is cut off.
fn candidate(
    stage: &Arc<Stage>,
    name: &'static str,
    cut_off: &Arc<Mutex<bool>>,
    stop: &CancellationToken,
) -> Leadership {
    let cut_off = cut_off.clone();
    let client = stage.client(name, move |call: &Call| {
        match *cut_off.lock() && call.resource == "leases" {
            true => Fault::FailBefore,
            false => Fault::Pass,
        }
    });
    let options = lease::Options::new("default", "operator", name);
    let elector = Elector::new(client.clone(), options, stage.clock()).expect("the usual times");
    let leadership = elector.leadership();
    tokio::spawn(elector.run(stop.clone()));
    let options = Options {
        leadership: leadership.clone(),
        ..stage.options()
    };
    let stop = stop.clone();
    tokio::spawn(async move {
        let operator = Operator::start(client, options).await;
        stop.cancelled().await;
        operator.abort();
    });
    leadership
}

#[test]
fn whoever_loses_the_lease_writes_nothing_after_it() {
    let expected = in_virtual_time(alone(Updates::default()));
    in_virtual_time(async {
        let (stage, stop) = (Arc::new(Stage::start().await), CancellationToken::new());
        let cut_off = Arc::new(Mutex::new(false));
        let first = candidate(&stage, "first", &cut_off, &stop);
        first.wait_leading().await;
        let second = candidate(&stage, "second", &Arc::default(), &stop);
        // Cut off so that the lease lapses while the first chapter is under way.
        *cut_off.lock() = true;
        let story = tokio::spawn({
            let stage = stage.clone();
            async move { tell(&stage, Updates::default()).await }
        });
        first.wait_lost().await;
        let lost = Instant::now();
        assert!(first.check().is_err());
        second.wait_leading().await;
        let taken_over = Instant::now();
        assert!(taken_over >= lost);
        let found = story.await.expect("the story ends");
        let of_first = stage.audit.of("first", 0);
        assert!(!of_first.is_empty(), "the first one did lead");
        assert!(!stage.audit.of("second", 0).is_empty());
        let late: Vec<_> = of_first
            .iter()
            .filter(|entry| entry.at > lost)
            .map(coppice_proofs::audit::Entry::what)
            .collect();
        assert!(late.is_empty(), "written after the lease was lost: {late:?}");
        assert!(found.pods.doubles.is_empty());
        assert_eq!(expected.other_state(&found), None);
        stop.cancel();
    });
}
