//! A tenant who may write anything in its own namespace, and nothing else, neither stops nor harms the others.
//!
//! The real operator and the real scheduler run as processes beside an embedded API server with simulated nodes. One
//! tenant's model serves throughout; another tenant writes absurd sizes, names, labels, statuses, resource names, affinities and
//! gangs, and holds connections open. Afterwards the same processes still place new work, nothing of the first tenant was
//! restarted, and neither process ever had more than [`programs::LARGEST_MEMORY`] resident.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod programs;
mod tenant;

use attacks::Attacker;
use programs::Programs;
use tenant::Tenant;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_a_tenant_writes_harms_the_others() {
    let programs = Programs::start().await;
    let model = Tenant::new(&programs.client, "models").await;
    model.create_set("first").await;
    let serving = model.ready_pods("first").await;

    let attacker = Attacker::new(&programs.client, "hostile").await;
    attacker.sizes_beyond_the_bounds_are_refused().await;
    let held = attacker.hold_connections(programs.webhooks).await;
    attacker.write_everything().await;
    programs.still_answer(programs.webhooks).await;

    // What comes after the attack is placed while all of it is still there.
    model.create_set("second").await;
    model.ready_pods("second").await;
    attacker.lift_the_bounds().await;
    attacker.write_absurd_sizes().await;
    model.create_set("third").await;
    model.ready_pods("third").await;

    assert_eq!(
        model.ready_pods("first").await,
        serving,
        "the same pods serve throughout"
    );
    programs.are_unharmed().await;
    drop(held);
    attacker.leave().await;
    programs.are_unharmed().await;
    programs.stop().await;
}
