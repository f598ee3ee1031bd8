//! Limits of a client: calls in flight, and calls per second with a burst.
//!
//! Watches count against the rate but not as in flight, because they never end. Waits in tokio's time, in order of
//! arrival.

use std::sync::Arc;

use http::Request;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneService};

use super::{Call, Transport};
use crate::bucket::TokenBucket;

/// How much a client may ask.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Calls in flight at most, watches not counted.
    pub in_flight: usize,
    /// Calls per second and the burst above it; `None` for no limit.
    pub rate: Option<(f64, u32)>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 64,
            rate: None,
        }
    }
}

/// The layer that enforces [`Limits`].
#[derive(Clone)]
pub struct LimitLayer {
    slots: Arc<Semaphore>,
    bucket: Option<Arc<Mutex<TokenBucket>>>,
}

impl LimitLayer {
    /// A layer with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let bucket = limits
            .rate
            .map(|(per_second, burst)| TokenBucket::new(per_second, burst, Instant::now()));
        Self {
            slots: Arc::new(Semaphore::new(limits.in_flight.max(1))),
            bucket: bucket.map(|bucket| Arc::new(Mutex::new(bucket))),
        }
    }
}

impl Layer<Transport> for LimitLayer {
    type Service = Transport;

    fn layer(&self, inner: Transport) -> Transport {
        let Self { slots, bucket } = self.clone();
        BoxCloneService::new(service_fn(move |request: Request<Body>| {
            let (inner, slots, bucket) = (inner.clone(), slots.clone(), bucket.clone());
            async move {
                let wait = bucket.map(|bucket| bucket.lock().reserve(Instant::now()));
                if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
                    tokio::time::sleep(wait).await;
                }
                let _slot = match Call::read(request.method(), request.uri()).verb.as_str() {
                    "watch" => None,
                    _ => Some(slots.acquire_owned().await?),
                };
                inner.oneshot(request).await
            }
        }))
    }
}
