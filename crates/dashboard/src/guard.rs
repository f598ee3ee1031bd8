//! Which requests are answered.
//!
//! Other pages in the same browser can send requests to a loopback address, and names of theirs can be made to resolve to it.
//! So a request must name this server as its host, must not come from another origin, and must carry the token of this run: in
//! the address once, and from then on in a cookie that scripts cannot read and other sites cannot send. Pure.

use std::net::SocketAddr;

use http::{HeaderMap, Method, StatusCode, Uri, header};
use sha2::{Digest as _, Sha256};

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is answered.
    Pass,
    /// It brought the token: the browser gets the cookie, and the page at this address.
    Enter(String),
    /// It is refused.
    Refuse(StatusCode, &'static str),
}

/// The rules for one server.
#[derive(Clone)]
pub struct Guard {
    token: String,
    address: SocketAddr,
}

const NO_TOKEN: &str = "Open the address that the program printed: it has the token of this run.";

impl Guard {
    /// The rules of a server at an address, with the token of this run.
    #[must_use]
    pub fn new(address: SocketAddr, token: String) -> Self {
        Self { token, address }
    }

    /// The address for a browser.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// The cookie that stands for the token. Cookies are shared by all ports of a host, so its name has ours.
    #[must_use]
    pub fn cookie(&self) -> String {
        format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie_name(),
            self.token
        )
    }

    fn cookie_name(&self) -> String {
        format!("coppice-dashboard-{}", self.address.port())
    }

    /// The names by which browsers on this machine reach us.
    fn is_our_host(&self, host: &str) -> bool {
        let port = self.address.port();
        let named = [format!("localhost:{port}"), self.address.to_string()];
        named.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    /// Decides about a request.
    #[must_use]
    pub fn decide(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text("host").unwrap_or_default();
        if headers.get_all(header::HOST).iter().count() != 1 || !self.is_our_host(host) {
            return Verdict::Refuse(StatusCode::MISDIRECTED_REQUEST, "This server goes by another name.");
        }
        let own_origin = text("origin").map(|origin| origin.strip_prefix("http://") == Some(host));
        let site = text("sec-fetch-site");
        let navigation = text("sec-fetch-mode") == Some("navigate") && *method == Method::GET;
        let foreign = site.is_some_and(|site| !["same-origin", "none"].contains(&site)) && !navigation;
        if own_origin == Some(false) || foreign {
            return Verdict::Refuse(StatusCode::FORBIDDEN, "Requests of other sites are not answered.");
        }
        match *method {
            Method::GET | Method::HEAD => {}
            Method::POST if own_origin == Some(true) => {}
            Method::POST => return Verdict::Refuse(StatusCode::FORBIDDEN, "A form must come from this site."),
            _ => return Verdict::Refuse(StatusCode::METHOD_NOT_ALLOWED, "Nothing can be changed here."),
        }
        // Browsers ask for it on their own, also for the page that says that the token is missing.
        if uri.path() == "/favicon.ico" {
            return Verdict::Pass;
        }
        let query: Vec<(String, String)> = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
        if let Some((_, given)) = query.iter().find(|(name, _)| name == "token") {
            if *method != Method::GET || !self.is_token(given) {
                return Verdict::Refuse(StatusCode::UNAUTHORIZED, NO_TOKEN);
            }
            let rest = query.iter().filter(|(name, _)| name != "token");
            let rest = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(rest)
                .finish();
            // A path that begins with two slashes would be another host.
            let path = format!("/{}", uri.path().trim_start_matches('/'));
            return Verdict::Enter(if rest.is_empty() {
                path
            } else {
                format!("{path}?{rest}")
            });
        }
        let name = self.cookie_name();
        let cookies = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        if pairs.any(|(key, value)| key == name && self.is_token(value)) {
            return Verdict::Pass;
        }
        Verdict::Refuse(StatusCode::UNAUTHORIZED, NO_TOKEN)
    }

    /// Digests are compared, so that time says nothing of the token.
    fn is_token(&self, given: &str) -> bool {
        Sha256::digest(given.as_bytes()) == Sha256::digest(self.token.as_bytes())
    }
}

/// What every answer says to the browser: nothing from elsewhere, nothing inline, no frames, nothing kept.
pub const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // With "no-referrer" browsers send the origin "null" with our own forms.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("cache-control", "no-store"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new("127.0.0.1:8088".parse().expect("an address"), "s3cret".to_owned())
    }

    fn ask(method: &Method, uri: &str, headers: &[(&str, &str)]) -> Verdict {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().expect("a name");
            map.append(name, value.parse().expect("a value"));
        }
        guard().decide(method, &uri.parse().expect("an address"), &map)
    }

    fn code(verdict: &Verdict) -> u16 {
        match verdict {
            Verdict::Refuse(code, _) => code.as_u16(),
            Verdict::Pass => 200,
            Verdict::Enter(_) => 303,
        }
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8088");
    const COOKIE: (&str, &str) = ("cookie", "a=b; coppice-dashboard-8088=s3cret");

    #[test]
    fn the_token_opens_and_the_cookie_keeps_open() {
        assert_eq!(ask(&Method::GET, "/?token=s3cret", &[HOST]), Verdict::Enter("/".into()));
        assert_eq!(
            ask(&Method::GET, "//evil.example/x?a=1&token=s3cret", &[HOST]),
            Verdict::Enter("/evil.example/x?a=1".into())
        );
        assert_eq!(ask(&Method::GET, "/sets", &[HOST, COOKIE]), Verdict::Pass);
        assert_eq!(
            ask(&Method::GET, "/", &[("host", "localhost:8088"), COOKIE]),
            Verdict::Pass
        );
        for (uri, cookie) in [
            ("/", "x=y"),
            ("/", "coppice-dashboard-8088=no"),
            ("/", "coppice-dashboard-9=s3cret"),
            ("/?token=no", COOKIE.1),
        ] {
            assert_eq!(
                code(&ask(&Method::GET, uri, &[HOST, ("cookie", cookie)])),
                401,
                "{uri} {cookie}"
            );
        }
        assert_eq!(ask(&Method::GET, "/favicon.ico", &[HOST]), Verdict::Pass);
        assert!(guard().cookie().ends_with("; HttpOnly; SameSite=Strict; Path=/"));
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        for host in ["evil.example:8088", "127.0.0.1", "127.0.0.1:80", "localhost", ""] {
            assert_eq!(code(&ask(&Method::GET, "/", &[("host", host), COOKIE])), 421, "{host}");
        }
        assert_eq!(code(&ask(&Method::GET, "/", &[HOST, HOST, COOKIE])), 421);
        let foreign = [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "https://127.0.0.1:8088"),
            ("origin", "http://127.0.0.1:9999"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ];
        for header in foreign {
            assert_eq!(
                code(&ask(&Method::GET, "/", &[HOST, COOKIE, header])),
                403,
                "{header:?}"
            );
        }
        // A link in another page may lead here; the browser then leaves the cookie out.
        let link = [HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(code(&ask(&Method::GET, "/", &link)), 401);
    }

    #[test]
    fn forms_come_from_here_and_nothing_else_is_written() {
        let own = ("origin", "http://127.0.0.1:8088");
        assert_eq!(ask(&Method::POST, "/plan", &[HOST, COOKIE, own]), Verdict::Pass);
        assert_eq!(code(&ask(&Method::POST, "/plan", &[HOST, COOKIE])), 403);
        assert_eq!(code(&ask(&Method::POST, "/plan?token=s3cret", &[HOST, own])), 401);
        let navigated = [
            HOST,
            COOKIE,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert_eq!(code(&ask(&Method::POST, "/plan", &navigated)), 403);
        for method in [Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            assert_eq!(code(&ask(&method, "/", &[HOST, COOKIE])), 405, "{method}");
        }
    }
}
