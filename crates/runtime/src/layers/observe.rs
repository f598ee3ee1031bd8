//! Counting calls, and saying who calls.

use http::{HeaderValue, Request, header::USER_AGENT};
use kube::client::Body;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneService};

use super::{Call, Transport};
use crate::metrics::{Metrics, SECONDS};

/// Counts calls by verb, resource and code, and the time to the head of their answers.
#[derive(Clone)]
pub struct MetricsLayer {
    metrics: Metrics,
}

impl MetricsLayer {
    /// A layer that counts in `metrics`.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics }
    }
}

impl Layer<Transport> for MetricsLayer {
    type Service = Transport;

    fn layer(&self, inner: Transport) -> Transport {
        let requests = self
            .metrics
            .counter("client_requests", "API calls by verb, resource and code");
        let seconds = self
            .metrics
            .histogram("client_request_seconds", "Time to the head of the answer", SECONDS);
        BoxCloneService::new(service_fn(move |request: Request<Body>| {
            let (inner, requests, seconds) = (inner.clone(), requests.clone(), seconds.clone());
            async move {
                let call = Call::read(request.method(), request.uri());
                let resource = match &call.subresource {
                    Some(subresource) => format!("{}/{subresource}", call.resource),
                    None => call.resource,
                };
                let begun = Instant::now();
                let result = inner.oneshot(request).await;
                let code = result
                    .as_ref()
                    .map_or_else(|_| "error".to_owned(), |answer| answer.status().as_u16().to_string());
                requests
                    .with(&[("verb", &call.verb), ("resource", &resource), ("code", &code)])
                    .inc();
                let labels = [("verb", call.verb.as_str()), ("resource", resource.as_str())];
                seconds.with(&labels).observe(begun.elapsed().as_secs_f64());
                result
            }
        }))
    }
}

/// Sets the user agent of requests that have none.
#[derive(Clone)]
pub struct UserAgentLayer {
    agent: HeaderValue,
}

impl UserAgentLayer {
    /// A layer that presents itself as `agent`; characters that a header cannot carry are left out.
    #[must_use]
    pub fn new(agent: &str) -> Self {
        let clean: String = agent
            .chars()
            .filter(|character| matches!(character, ' '..='~'))
            .collect();
        Self {
            agent: HeaderValue::from_str(&clean).expect("printable ASCII is a valid header value"),
        }
    }
}

impl Layer<Transport> for UserAgentLayer {
    type Service = Transport;

    fn layer(&self, inner: Transport) -> Transport {
        let agent = self.agent.clone();
        BoxCloneService::new(service_fn(move |mut request: Request<Body>| {
            request.headers_mut().entry(USER_AGENT).or_insert_with(|| agent.clone());
            inner.clone().oneshot(request)
        }))
    }
}
