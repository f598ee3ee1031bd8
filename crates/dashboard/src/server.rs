//! The server: requests to pages, and what a dashboard needs to run.
//!
//! Owns the socket, the routes and the token. Pages are made beside the requests, on threads that may take their time; the one
//! of a gang is made for one reader at a time and kept until something changes. Never writes to the cluster.

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
use coppice_api::names::labels;
use coppice_api::types::{PodCliqueSet, PodGang};
use coppice_runtime::clock::{SharedClock, SystemClock};
use coppice_runtime::metrics::Metrics;
use coppice_runtime::serving::{Limits, Options as ServingOptions, serve};
use coppice_runtime::supervise::{Group, Supervisor};
use coppice_view::build::{Objects, set_state};
use coppice_view::explain::Snapshot;
use coppice_view::plan::PlanView;
use coppice_view::{SetState, events};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{Client, ResourceExt as _};
use maud::{Markup, html};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::guard::{Guard, HEADERS, Verdict};
use crate::model::address::Page;
use crate::model::{self, Shown};
use crate::page::{self, Frame, PlanAnswer};
use crate::world::{Picture, World};

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
/// Events of a set that a page shows.
const EVENTS: usize = 60;

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
        let state = Arc::new(State {
            world: world.clone(),
            cluster: options.cluster,
            planner: options.planner,
            own_namespace: options
                .namespace
                .clone()
                .unwrap_or_else(|| options.own_namespace.clone()),
            since: clock.now(),
            explaining: Semaphore::new(1),
            planning: Semaphore::new(1),
            explained: Mutex::default(),
        });
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

/// What all requests share.
pub(crate) struct State {
    pub(crate) world: World,
    cluster: String,
    planner: Planner,
    own_namespace: String,
    since: Timestamp,
    explaining: Semaphore,
    planning: Semaphore,
    /// The last page of a gang, and the revision that it was made from.
    explained: Mutex<Option<(u64, Page, StatusCode, String)>>,
}

/// A page as text.
pub(crate) struct Rendered {
    status: StatusCode,
    pub(crate) body: String,
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
            &state.frame(&state.world.picture()),
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
    let answer = match state.planning.try_acquire() {
        Err(_) => PlanAnswer::Failed("another plan is being made: try again when it has ended".to_owned()),
        Ok(_turn) => {
            let named = (!namespace.is_empty()).then(|| namespace.clone());
            match (state.planner)(manifest.clone(), named, field("rehearse") == "yes").await {
                Ok(plans) => PlanAnswer::Plans(plans),
                Err(why) => PlanAnswer::Failed(why),
            }
        }
    };
    let content = page::plan(&manifest, &namespace, Some(&answer));
    let body = page::body(&state.frame(&state.world.picture()), &Page::Plan, &content);
    let text = page::document(&page::title(&Page::Plan), &Page::Plan, &body);
    ([(header::CONTENT_TYPE, HTML)], text.into_string()).into_response()
}

impl State {
    /// A page as it is now.
    pub(crate) async fn render(self: &Arc<Self>, page: Page) -> Rendered {
        let turn = match page {
            Page::Gang { .. } => self.explaining.acquire().await.ok(),
            _ => None,
        };
        let state = self.clone();
        let asked = page.clone();
        let made = tokio::task::spawn_blocking(move || state.make(&asked)).await;
        drop(turn);
        made.unwrap_or_else(|error| {
            tracing::error!(%error, address = %page, "a page could not be made");
            let content = page::nothing(
                "This page could not be made",
                "The dashboard has a bug: it panicked. Its log says where.",
            );
            Rendered {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                body: page::body(&Frame::default(), &page, &content).into_string(),
            }
        })
    }

    fn make(&self, page: &Page) -> Rendered {
        let picture = self.world.picture();
        let known = match page {
            Page::Gang { .. } => self.explained.lock().clone(),
            _ => None,
        };
        if let Some((_, _, status, body)) =
            known.filter(|(revision, known, ..)| *revision == picture.revision && known == page)
        {
            return Rendered { status, body };
        }
        let (status, content) = self.content(page, &picture);
        let body = page::body(&self.frame(&picture), page, &content).into_string();
        if matches!(page, Page::Gang { .. }) {
            *self.explained.lock() = Some((picture.revision, page.clone(), status, body.clone()));
        }
        Rendered { status, body }
    }

    fn frame(&self, picture: &Picture) -> Frame {
        let problems = picture.sets.iter().filter(|set| {
            let status = set.status.clone().unwrap_or_default();
            set_state(set, &status).0 == SetState::Degraded
        });
        Frame {
            cluster: self.cluster.clone(),
            pending: model::pending::count(picture.gangs.iter().map(|gang| &**gang)),
            sets: (problems.count(), picture.sets.len()),
            notices: picture.notices.clone(),
            loading: picture.loading.clone(),
        }
    }

    fn content(&self, page: &Page, picture: &Picture) -> (StatusCode, Markup) {
        let missing = |kind: &str, name: &str| {
            let title = format!("{kind} {name}");
            (
                StatusCode::NOT_FOUND,
                page::nothing(&title, "It is not in the cluster, or not any more."),
            )
        };
        let nodes = || picture.nodes.iter().map(|node| -> &Node { node });
        let pods = || picture.pods.iter().map(|pod| -> &Pod { pod });
        let content = match page {
            Page::Map {
                topology,
                within,
                colour,
            } => {
                let question = model::map::Question {
                    topology: topology.as_deref(),
                    within,
                    colour: *colour,
                };
                let topologies = picture.topologies.iter().map(|topology| &**topology);
                let map = model::map::map(&question, topologies, nodes(), pods());
                let named = |gang: &&PodGang| {
                    let mut owners = map.legend.iter();
                    owners.any(|owner| {
                        gang.name_any() == owner.name && gang.namespace().as_ref() == Some(&owner.namespace)
                    })
                };
                let contents = contents(picture, picture.gangs.iter().map(|gang| &**gang).filter(named));
                page::map(&map, &contents, page)
            }
            Page::Node(name) => match model::node::node(name, nodes(), pods()) {
                Some(view) => page::node(&view),
                None => return missing("Node", name),
            },
            Page::Pending { namespace } => page::pending(&model::pending::pending(
                namespace.as_deref(),
                picture.gangs.iter().map(|gang| &**gang),
                picture.sets.iter().map(|set| &**set),
                picture.cliques.iter().map(|clique| &**clique),
                pods(),
            )),
            Page::Gang {
                namespace,
                name,
                assume,
            } => return self.gang(picture, namespace, name, assume.as_deref()),
            Page::Sets { namespace } => page::sets(&model::sets::sets(
                namespace.as_deref(),
                picture.sets.iter().map(|set| &**set),
                picture.gangs.iter().map(|gang| &**gang),
                pods(),
            )),
            Page::Set {
                namespace,
                name,
                replica,
            } => match set(picture, namespace, name, *replica) {
                Some(content) => content,
                None => return missing("Set", name),
            },
            Page::Timeline { namespace, kind } => {
                page::timeline(&self.world.history(), self.since, namespace.as_deref(), kind.as_deref())
            }
            Page::Plan => page::plan("", &self.own_namespace, None),
        };
        (StatusCode::OK, content)
    }

    fn gang(&self, picture: &Picture, namespace: &str, name: &str, assume: Option<&str>) -> (StatusCode, Markup) {
        let here = |gang: &&Arc<PodGang>| gang.name_any() == name && gang.namespace().as_deref() == Some(namespace);
        let Some(gang) = picture.gangs.iter().find(here) else {
            let title = format!("Gang {name}");
            return (
                StatusCode::NOT_FOUND,
                page::nothing(&title, "It is not in the cluster, or not any more."),
            );
        };
        let set = gang.labels().get(labels::PART_OF).cloned();
        match model::gang::gang(&snapshot(picture), namespace, name, assume) {
            Ok(view) => {
                let content = contents(picture, [&**gang]).into_values().next();
                (
                    StatusCode::OK,
                    page::gang(&view, namespace, name, set.as_deref(), content.as_deref()),
                )
            }
            Err(error) => (StatusCode::OK, page::gang_failed(name, &causes(&error))),
        }
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// What gangs are.
fn contents<'a>(picture: &'a Picture, gangs: impl IntoIterator<Item = &'a PodGang>) -> model::gang::Contents {
    let sets = picture.sets.iter().map(|set| &**set);
    model::gang::contents(gangs, sets, picture.cliques.iter().map(|clique| &**clique))
}

/// What `coppice explain` reads from a cluster.
fn snapshot(picture: &Picture) -> Snapshot {
    let mut snapshot = Snapshot {
        source: "the cluster".to_owned(),
        ..Snapshot::default()
    };
    let objects = &mut snapshot.objects;
    objects.nodes = picture
        .nodes
        .iter()
        .map(|object| model::gang::listed(&**object))
        .collect();
    objects.pods = picture
        .pods
        .iter()
        .map(|object| model::gang::listed(&**object))
        .collect();
    objects.gangs = picture
        .gangs
        .iter()
        .map(|object| model::gang::listed(&**object))
        .collect();
    objects.topologies = picture
        .topologies
        .iter()
        .map(|object| model::gang::listed(&**object))
        .collect();
    objects.disruption_budgets = picture
        .budgets
        .iter()
        .map(|object| model::gang::listed(&**object))
        .collect();
    snapshot
}

fn set(picture: &Picture, namespace: &str, name: &str, replica: Option<u32>) -> Option<Markup> {
    fn part<K: kube::Resource + Clone>(objects: &[Arc<K>], namespace: &str, set: &str) -> Vec<K> {
        let ours = |object: &&Arc<K>| {
            object.namespace().as_deref() == Some(namespace)
                && object.labels().get(labels::PART_OF).map(String::as_str) == Some(set)
        };
        objects.iter().filter(ours).map(|object| K::clone(object)).collect()
    }
    let here = |set: &&Arc<PodCliqueSet>| set.name_any() == name && set.namespace().as_deref() == Some(namespace);
    let found = picture.sets.iter().find(here)?;
    let pods: Vec<Pod> = part(&picture.pods, namespace, name);
    let used: std::collections::BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref())
        .collect();
    let nodes = picture
        .nodes
        .iter()
        .filter(|node| used.contains(node.name_any().as_str()));
    let nodes = nodes.map(|node| (node.name_any(), Node::clone(node))).collect();
    let objects = Objects {
        cliques: part(&picture.cliques, namespace, name),
        groups: part(&picture.groups, namespace, name),
        gangs: part(&picture.gangs, namespace, name),
        nodes,
        topologies: picture.topologies.iter().map(|topology| (**topology).clone()).collect(),
        pods,
        revisions: Vec::new(),
        domains: Vec::new(),
    };
    let mut owned: std::collections::BTreeSet<String> = found.uid().into_iter().collect();
    owned.extend(objects.cliques.iter().filter_map(kube::ResourceExt::uid));
    owned.extend(objects.groups.iter().filter_map(kube::ResourceExt::uid));
    owned.extend(objects.gangs.iter().filter_map(kube::ResourceExt::uid));
    owned.extend(objects.pods.iter().filter_map(kube::ResourceExt::uid));
    let about = |event: &&Arc<Event>| {
        event
            .involved_object
            .uid
            .as_ref()
            .is_some_and(|uid| owned.contains(uid))
    };
    let about: Vec<Event> = picture
        .events
        .iter()
        .filter(about)
        .map(|event| (**event).clone())
        .collect();
    let mut entries = events::build::entries(&about, None);
    entries.sort_by_key(|entry| (entry.severity == "Normal", std::cmp::Reverse(entry.last)));
    let view = model::set::set(found, &objects, replica);
    Some(page::set(&view, &Shown::first(entries, EVENTS)))
}
