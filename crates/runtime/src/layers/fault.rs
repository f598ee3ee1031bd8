//! The fault hook: what may go wrong between a client and the API server, decided per call by a test or a simulation.
//!
//! Owns how each fault is carried out. It sits directly above the transport, so everything above meets the fault as it
//! would meet a real one. Never drops or reorders single events inside a live watch: Kubernetes does not either.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::client::Body;
use serde_json::json;
use tower::{BoxError, Layer, ServiceExt, service_fn, util::BoxCloneService};

use super::{Call, ResponseBody, Transport};

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Pass,
    /// The server cannot be reached; the call has no effect.
    FailBefore,
    /// The call has its effect, but the answer is lost.
    LoseResponse,
    /// The call is answered with this error and has no effect.
    Status {
        /// The HTTP status.
        code: u16,
        /// The `reason` of the status object.
        reason: String,
        /// Its message.
        message: String,
        /// The seconds to wait that the answer asks for.
        retry_after: Option<u32>,
    },
    /// The call is sent later, and then this happens.
    Delay(Duration, Box<Fault>),
    /// The body of the answer (a watch) arrives, but each part of it this much later.
    DelayBody(Duration),
    /// The body of the answer (a watch) ends early.
    CutBody {
        /// So many lines pass.
        after_lines: usize,
        /// How it ends then.
        ending: Ending,
    },
}

/// How a cut body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// In order, as if the server had closed the watch.
    Close,
    /// With a broken connection.
    Reset,
    /// With an error event: the version has expired.
    Expired,
}

/// Decides what happens to each call.
pub trait FaultHook: Send + Sync + 'static {
    /// What happens to this call.
    fn decide(&self, call: &Call) -> Fault;
}

impl<F: Fn(&Call) -> Fault + Send + Sync + 'static> FaultHook for F {
    fn decide(&self, call: &Call) -> Fault {
        self(call)
    }
}

/// The layer that asks a [`FaultHook`] about each call.
#[derive(Clone)]
pub struct FaultLayer {
    hook: Arc<dyn FaultHook>,
    calls: Arc<AtomicU64>,
}

impl FaultLayer {
    /// A layer that asks `hook`.
    #[must_use]
    pub fn new(hook: Arc<dyn FaultHook>) -> Self {
        Self {
            hook,
            calls: Arc::default(),
        }
    }
}

impl Layer<Transport> for FaultLayer {
    type Service = Transport;

    fn layer(&self, inner: Transport) -> Transport {
        let Self { hook, calls } = self.clone();
        BoxCloneService::new(service_fn(move |request: Request<Body>| {
            let mut call = Call::read(request.method(), request.uri());
            call.number = calls.fetch_add(1, Ordering::Relaxed) + 1;
            let (inner, fault) = (inner.clone(), hook.decide(&call));
            carry_out(fault, inner, request)
        }))
    }
}

async fn carry_out(
    mut fault: Fault,
    inner: Transport,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, BoxError> {
    while let Fault::Delay(wait, then) = fault {
        tokio::time::sleep(wait).await;
        fault = *then;
    }
    match fault {
        Fault::Pass | Fault::Delay(..) => inner.oneshot(request).await,
        Fault::FailBefore => {
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, "injected: connection refused").into())
        }
        Fault::LoseResponse => {
            inner.oneshot(request).await?;
            Err(io::Error::new(io::ErrorKind::ConnectionReset, "injected: the answer was lost").into())
        }
        Fault::Status {
            code,
            reason,
            message,
            retry_after,
        } => Ok(status(code, &reason, &message, retry_after)),
        Fault::DelayBody(delay) => {
            let answer = inner.oneshot(request).await?;
            Ok(answer.map(|body| delayed(body, delay)))
        }
        Fault::CutBody { after_lines, ending } => {
            let answer = inner.oneshot(request).await?;
            Ok(answer.map(|body| cut(body, after_lines, ending)))
        }
    }
}

fn status(code: u16, reason: &str, message: &str, retry_after: Option<u32>) -> Response<ResponseBody> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
        "details": {"retryAfterSeconds": retry_after.unwrap_or(0)},
    });
    let body = Full::from(body.to_string())
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

/// Parts that wait at the same time; more than a watch brings in any delay that a test asks for.
const UNDER_WAY: usize = 4096;

fn delayed(body: ResponseBody, delay: Duration) -> ResponseBody {
    let frames = BodyStream::new(body).map(move |frame| async move {
        tokio::time::sleep(delay).await;
        frame
    });
    StreamBody::new(frames.buffered(UNDER_WAY)).boxed_unsync()
}

fn cut(body: ResponseBody, after_lines: usize, ending: Ending) -> ResponseBody {
    let frames = BodyStream::new(body);
    let passing = stream::unfold((frames, after_lines), |(mut frames, left)| async move {
        if left == 0 {
            return None;
        }
        let frame = match frames.next().await? {
            Ok(frame) => frame,
            Err(error) => return Some((Err(error), (frames, 0))),
        };
        let Ok(data) = frame.into_data() else {
            return Some((Ok(Frame::data(Bytes::new())), (frames, left)));
        };
        let ends: Vec<usize> = data
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at)
            .collect();
        let (kept, left) = match ends.get(left - 1) {
            Some(last) => (data.slice(..=*last), 0),
            None => (data, left - ends.len()),
        };
        Some((Ok(Frame::data(kept)), (frames, left)))
    });
    let last: Option<Result<Frame<Bytes>, BoxError>> = match ending {
        Ending::Close => None,
        Ending::Reset => Some(Err(io::Error::new(
            io::ErrorKind::ConnectionReset,
            "injected: the watch broke",
        )
        .into())),
        Ending::Expired => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired", "message": "injected: too old resource version"});
            let line = format!("{}\n", json!({"type": "ERROR", "object": status}));
            Some(Ok(Frame::data(Bytes::from(line))))
        }
    };
    StreamBody::new(passing.chain(stream::iter(last))).boxed_unsync()
}
