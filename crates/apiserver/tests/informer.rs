//! kube-rs's watchers keep in step with the server through everything that `in_step` does to them. `real_informer` does
//! the same with the informers of client-go.

mod in_step;

use in_step::watcher::Watchers;
use in_step::{Habits, keeps_in_step, survives_short_watches};

#[tokio::test]
async fn listing_watchers_keep_in_step() {
    let habits = Habits {
        streaming: false,
        watch_seconds: None,
    };
    keeps_in_step(habits, Watchers::start).await;
}

#[tokio::test]
async fn streaming_watchers_keep_in_step() {
    let habits = Habits {
        streaming: true,
        watch_seconds: None,
    };
    keeps_in_step(habits, Watchers::start).await;
}

#[tokio::test]
async fn watchers_survive_short_watches() {
    let habits = Habits {
        streaming: true,
        watch_seconds: Some(2),
    };
    survives_short_watches(habits, Watchers::start).await;
}
