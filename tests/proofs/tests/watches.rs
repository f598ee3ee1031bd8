//! Watches that expire, break, end and lag, in a seeded mixture of kinds: the operator ends where
//! it ends without, with the same pods made and deleted.

use std::time::Duration;

use coppice_proofs::stage::{Stage, in_virtual_time};
use coppice_proofs::story::{Told, Updates, tell};
use coppice_runtime::layers::{Call, Ending, Fault};

/// A number that a seed, a resource and the number of a call decide.
fn chance(seed: u64, call: &Call) -> u64 {
    let mut number = seed ^ call.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in call.resource.bytes() {
        number = (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    number ^ (number >> 29)
}

fn fault(seed: u64, call: &Call) -> Fault {
    if call.verb != "watch" {
        return Fault::Pass;
    }
    let number = chance(seed, call);
    let after_lines = usize::try_from(number >> 8 & 3).unwrap_or(0) + 1;
    let ending = match number % 5 {
        0 => return Fault::DelayBody(Duration::from_secs(1 + (number >> 16) % 9)),
        1 => Ending::Close,
        2 => Ending::Reset,
        3 => Ending::Expired,
        _ => return Fault::Pass,
    };
    Fault::CutBody { after_lines, ending }
}

async fn told(seed: Option<u64>) -> Told {
    let stage = Stage::start().await;
    let hook = move |call: &Call| seed.map_or(Fault::Pass, |seed| fault(seed, call));
    let operator = stage.operator("operator", hook).await;
    let told = tell(&stage, Updates::default()).await;
    operator.stop().await;
    told
}

#[test]
fn with_bad_watches_it_ends_the_same_and_touches_no_further_pod() {
    let expected = in_virtual_time(told(None));
    for seed in 0..8 {
        let found = in_virtual_time(told(Some(seed)));
        assert_eq!(expected.other_state(&found), None, "seed {seed}");
        assert_eq!(expected.pods, found.pods, "seed {seed}");
    }
}
