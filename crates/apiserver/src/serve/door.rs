//! The door between encrypted connections and the server: who does not show the administrator's certificate or a token that
//! this server gave out is turned away with 401, except from what anyone may read. Clients in the process, and
//! those of a loopback address without TLS, never come by here.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tower::Service;

use crate::auth::User;
use crate::rest::{ApiBody, Reply};
use crate::server::ApiService;
use crate::status::ApiError;

/// What a real server shows to everyone.
const OPEN_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// The server as one connection reaches it.
#[derive(Clone)]
pub(super) struct Door {
    service: ApiService,
    /// Who the connection's certificate belongs to.
    certified: Option<User>,
}

impl Door {
    pub(super) fn new(service: ApiService, certified: Option<User>) -> Self {
        Self { service, certified }
    }

    /// Who sends a request: as with a real server, one good credential is enough.
    fn sender(&self, request: &Request<Incoming>) -> Option<User> {
        self.certified
            .clone()
            .or_else(|| self.service.user_of_token(bearer(request.headers())?))
            .or_else(|| OPEN_PATHS.contains(&request.uri().path()).then(User::anonymous))
    }
}

/// The token in the headers of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Service<Request<Incoming>> for Door {
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        match self.sender(&request) {
            Some(user) => {
                request.extensions_mut().insert(user);
                self.service.call(request)
            }
            None => Box::pin(ready(Ok(Reply::from(ApiError::unauthorized()).into_response()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_of_a_token_is_read_in_any_case() {
        let token = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(token("Basic abc"), None);
        assert_eq!(token("abc"), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
