//! A page that follows the cluster: sent again when what it shows has changed.
//!
//! Changes that come close together are one, and a page whose text is the same is not sent. The stream ends with the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _, stream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::model::address::Page;
use crate::state::State;

/// Changes that come within this time are sent together.
const PAUSE: Duration = Duration::from_millis(400);
/// The same for pages that take planning.
const LONG_PAUSE: Duration = Duration::from_secs(3);
/// A page is made at most this share of the time.
const SHARE: u32 = 4;

struct Following {
    state: Arc<State>,
    page: Page,
    changes: watch::Receiver<u64>,
    sent: Option<String>,
    first: bool,
    took: Duration,
}

/// The stream of a page.
pub(crate) fn follow(
    state: Arc<State>,
    page: Page,
    stop: CancellationToken,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let following = Following {
        changes: state.world.changes(),
        state,
        page,
        sent: None,
        first: true,
        took: Duration::ZERO,
    };
    let events = stream::unfold(following, next);
    let events = events.take_until(stop.cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(20)))
}

async fn next(mut following: Following) -> Option<(Result<Event, Infallible>, Following)> {
    loop {
        if !std::mem::replace(&mut following.first, false) {
            following.changes.changed().await.ok()?;
            let pause = match following.page {
                Page::Gang { .. } => LONG_PAUSE,
                _ => PAUSE,
            };
            tokio::time::sleep(pause.max(following.took * SHARE)).await;
        }
        following.changes.mark_unchanged();
        let began = Instant::now();
        let body = following.state.render(following.page.clone()).await.body;
        following.took = began.elapsed();
        if following.sent.as_ref() == Some(&body) {
            continue;
        }
        let text = serde_json::Value::String(body.clone()).to_string();
        following.sent = Some(body);
        return Some((Ok(Event::default().event("page").data(text)), following));
    }
}
