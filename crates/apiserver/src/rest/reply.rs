//! Answers on their way out.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::negotiate::Encoding;
use crate::status::ApiError;

/// The body of every answer: whole, or a stream of watch events.
pub type ApiBody = UnsyncBoxBody<Bytes, Infallible>;

/// An answer before it is written.
pub(crate) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    body: ApiBody,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    /// An answer with a ready body.
    pub(crate) fn bytes(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            content_type,
            body: Full::new(body.into()).boxed_unsync(),
            headers: Vec::new(),
        }
    }

    /// An answer of JSON text.
    pub(crate) fn json_bytes(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::bytes(status, "application/json", body)
    }

    /// An answer of one tree.
    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        let body = serde_json::to_vec(value).expect("trees always serialise");
        Self::json_bytes(status, body)
    }

    /// Plain text.
    pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self::bytes(status, "text/plain; charset=utf-8", text.into())
    }

    /// A stream.
    pub(crate) fn stream(body: ApiBody) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: "application/json",
            body,
            headers: Vec::new(),
        }
    }

    /// What a path that leads nowhere answers.
    pub(crate) fn page_not_found() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    /// Sets the content type.
    #[must_use]
    pub(crate) fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds warnings for the person behind the client.
    #[must_use]
    pub(crate) fn warnings(mut self, warnings: &[String]) -> Self {
        for text in warnings {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
                self.headers.push((WARNING, value));
            }
        }
        self
    }

    /// The HTTP response, whole bodies written in `encoding`.
    pub(crate) fn into_response(self) -> Response<ApiBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        response
    }
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Self {
        let reply = Self::json(error.code(), &error.to_value());
        match error.retry_after() {
            Some(seconds) => reply.header(RETRY_AFTER, HeaderValue::from(seconds)),
            None => reply,
        }
    }
}

/// JSON text in the encoding the client asked for.
pub(crate) fn encode(status: StatusCode, json: Bytes, encoding: Encoding) -> Reply {
    match encoding {
        Encoding::Json => Reply::json_bytes(status, json),
        Encoding::Yaml => {
            let tree: Value = serde_json::from_slice(&json).unwrap_or(Value::Null);
            match serde_saphyr::to_string(&tree) {
                Ok(text) => Reply::bytes(status, "application/yaml", text),
                Err(error) => ApiError::internal(error).into(),
            }
        }
    }
}
