//! The server: requests to pages, and what a dashboard needs to run.
//!
//! Owns the socket, the routes and the token. [`State`] makes the pages, [`Guard`] decides who gets them. Never writes to the cluster.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State as Extract};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use coppice_runtime::clock::{SharedClock, SystemClock};
use coppice_runtime::metrics::Metrics;
use coppice_runtime::serving::{Limits, Options as ServingOptions, serve};
use coppice_runtime::supervise::{Group, Supervisor};
use coppice_view::plan::PlanView;
use futures::future::BoxFuture;
use kube::Client;
use maud::html;
use rand::RngExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::guard::{Guard, HEADERS, Verdict};
use crate::model::address::Page;
use crate::page;
use crate::state::State;
use crate::world::World;

/// Says what a manifest would change: its text, the namespace of what names none, and whether to rehearse an update.
pub type Planner =
    Arc<dyn Fn(String, Option<String>, bool) -> BoxFuture<'static, Result<Vec<PlanView>, String>> + Send + Sync>;

/// What a dashboard is to be like.
pub struct Options {
    /// Where to listen: a loopback address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Show this namespace alone.
    pub namespace: Option<String>,
    /// The namespace that is shown where the user may not read all of them.
    pub own_namespace: String,
    /// What the cluster is called.
    pub cluster: String,
    /// Who makes plans.
    pub planner: Planner,
    /// Who is informed when a task ends that should not.
    pub supervisor: Supervisor,
}

/// Why a dashboard cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address can be reached from other machines.
    #[error(
        "{0} is not a loopback address: whoever reaches the dashboard sees what you may see. Listen on 127.0.0.1, and reach it \
         from another machine with ssh -L"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        #[source]
        error: io::Error,
    },
}

/// A running dashboard.
pub struct Dashboard {
    guard: Guard,
    group: Group,
}

/// Running requests may end within this time.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of a pasted manifest.
const MANIFEST: usize = 2 << 20;

/// For browsers of one person: a stream for each open page, and plans that take a minute.
const LIMITS: Limits = Limits {
    connections: 128,
    connections_per_address: 128,
    streams: 64,
    handshake: Duration::from_secs(10),
    request: Duration::from_secs(15),
    answer: Duration::from_secs(180),
    // A page that follows the cluster is one answer for as long as it is open.
    idle: Duration::from_secs(12 * 3_600),
    ping: Duration::from_secs(20),
    body: MANIFEST,
    bodies: 4 * MANIFEST,
};

impl Dashboard {
    /// Watches the cluster and serves pages until it is stopped.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        if !options.listen.ip().is_loopback() {
            return Err(StartError::NotLoopback(options.listen));
        }
        let bind = |error| StartError::Bind {
            address: options.listen,
            error,
        };
        let listener = TcpListener::bind(options.listen).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let guard = Guard::new(address, token());
        let group = options.supervisor.group("dashboard");
        let clock: SharedClock = Arc::new(SystemClock);
        let world = World::new(clock.clone());
        let own = options
            .namespace
            .clone()
            .unwrap_or_else(|| options.own_namespace.clone());
        let state = Arc::new(State::new(world.clone(), options.cluster, own, options.planner));
        let watching = {
            let (group, world) = (group.clone(), world);
            let (only, own) = (options.namespace, options.own_namespace);
            async move {
                world.watch(&client, only.as_deref(), &own, &group).await;
                group.stopping().cancelled().await;
            }
        };
        let stop = group.stopping();
        group.spawn("watches", async move {
            stop.run_until_cancelled(watching).await;
        });
        let serving = ServingOptions {
            name: "dashboard",
            limits: LIMITS,
            metrics: Metrics::default(),
        };
        let plain = |stream: TcpStream| std::future::ready(Ok(stream));
        let router = router(state, guard.clone(), group.stopping());
        group.spawn("server", serve(listener, serving, plain, router, group.stopping()));
        Ok(Self { guard, group })
    }

    /// The address for a browser, with the token of this run.
    #[must_use]
    pub fn url(&self) -> String {
        self.guard.url()
    }

    /// Ends it.
    pub async fn stop(self) {
        self.group.stop(GRACE).await;
    }
}

/// 256 random bits.
fn token() -> String {
    let bytes: [u8; 32] = rand::rng().random();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

/// The routes of a dashboard.
fn router(state: Arc<State>, guard: Guard, stop: CancellationToken) -> Router {
    let live = move |Extract(state): Extract<Arc<State>>, request: Request| {
        let stop = stop.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            let address = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "page");
            let address = address.map(|(_, value)| value.into_owned()).unwrap_or_default();
            let (path, query) = address.split_once('?').unwrap_or((&address, ""));
            match Page::read(path, query) {
                Some(page) => crate::live::follow(state, page, stop).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }
    };
    Router::new()
        .route(
            "/assets/style.css",
            get(|| asset("text/css; charset=utf-8", include_str!("../assets/style.css"))),
        )
        .route(
            "/assets/script.js",
            get(|| asset("text/javascript; charset=utf-8", include_str!("../assets/script.js"))),
        )
        .route(
            "/favicon.ico",
            get(|| asset("image/svg+xml", include_str!("../assets/icon.svg"))),
        )
        .route(
            "/assets/icon.svg",
            get(|| asset("image/svg+xml", include_str!("../assets/icon.svg"))),
        )
        .route("/live", get(live))
        .route("/plan", post(plan).get(show))
        .fallback(get(show))
        .with_state(state)
        .layer(middleware::from_fn_with_state(Arc::new(guard), admit))
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Lets in what may come in, and says to the browser what pages may do.
async fn admit(Extract(guard): Extract<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut answer = match guard.decide(request.method(), request.uri(), request.headers()) {
        Verdict::Pass => next.run(request).await,
        Verdict::Enter(address) => enter(&guard, &address),
        Verdict::Refuse(code, why) => {
            let text = html! {
                (maud::DOCTYPE)
                html lang="en" { head { meta charset="utf-8"; title { "Coppice" } } body { p { (why) } } }
            };
            (code, [(header::CONTENT_TYPE, HTML)], text.into_string()).into_response()
        }
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

const HTML: &str = "text/html; charset=utf-8";

/// A page that leads on. The browser came from elsewhere, maybe, and would leave the cookie out if it were redirected.
fn enter(guard: &Guard, address: &str) -> Response {
    let text = html! {
        (maud::DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content={ "0;url=" (address) }; title { "Coppice" } }
            body { p { a href=(address) { "Open the dashboard" } } }
        }
    };
    let headers = [
        (header::CONTENT_TYPE, HTML.to_owned()),
        (header::SET_COOKIE, guard.cookie()),
    ];
    (headers, text.into_string()).into_response()
}

async fn show(Extract(state): Extract<Arc<State>>, request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let uri = request.uri();
    let Some(page) = Page::read(uri.path(), uri.query().unwrap_or_default()) else {
        let body = page::body(
            &state.frame_now(),
            &Page::map(),
            &page::nothing("Not found", "There is no such page."),
        );
        let text = page::document("Not found", &Page::Plan, &body);
        return (
            StatusCode::NOT_FOUND,
            [(header::CONTENT_TYPE, HTML)],
            text.into_string(),
        )
            .into_response();
    };
    let rendered = state.render(page.clone()).await;
    let text = page::document(&page::title(&page), &page, &maud::PreEscaped(rendered.body));
    (rendered.status, [(header::CONTENT_TYPE, HTML)], text.into_string()).into_response()
}

async fn plan(Extract(state): Extract<Arc<State>>, body: Bytes) -> Response {
    let fields: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| {
        let mut named = fields.iter().filter(|(key, _)| key == name);
        named.next().map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let (manifest, namespace) = (field("manifest"), field("namespace"));
    let answer = state.plan(&manifest, &namespace, field("rehearse") == "yes").await;
    let content = page::plan(&manifest, &namespace, Some(&answer));
    let body = page::body(&state.frame_now(), &Page::Plan, &content);
    let text = page::document(&page::title(&Page::Plan), &Page::Plan, &body);
    ([(header::CONTENT_TYPE, HTML)], text.into_string()).into_response()
}
