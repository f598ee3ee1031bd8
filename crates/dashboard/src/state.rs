//! What all requests share, and how a page is made from it.
//!
//! Pages are made beside the requests, on threads that may take their time; the one of a gang takes planning, so it is made
//! for one reader at a time and kept until something changes. A page that panics says so, and the others go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use coppice_api::names::labels;
use coppice_api::types::{PodCliqueSet, PodCliqueSetStatus, PodGang};
use coppice_view::build::{Objects, set_state};
use coppice_view::explain::Snapshot;
use coppice_view::{SetState, events};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::ResourceExt as _;
use maud::Markup;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::model::address::Page;
use crate::model::{self, Shown};
use crate::page::{self, Frame, PlanAnswer};
use crate::server::Planner;
use crate::world::{Picture, World};

/// Events of a set that a page shows.
const EVENTS: usize = 60;

/// What all requests share.
pub(crate) struct State {
    pub(crate) world: World,
    cluster: String,
    planner: Planner,
    /// The namespace of manifests that name none.
    own_namespace: String,
    since: Timestamp,
    explaining: Semaphore,
    planning: Semaphore,
    /// The last page of a gang, and the revision that it was made from.
    explained: Mutex<Option<(u64, Page, StatusCode, String)>>,
}

/// A page as text.
pub(crate) struct Rendered {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

impl State {
    pub(crate) fn new(world: World, cluster: String, own_namespace: String, planner: Planner) -> Self {
        Self {
            since: world.now(),
            world,
            cluster,
            planner,
            own_namespace,
            explaining: Semaphore::new(1),
            planning: Semaphore::new(1),
            explained: Mutex::default(),
        }
    }

    /// What a manifest would change; one at a time.
    pub(crate) async fn plan(&self, manifest: &str, namespace: &str, rehearse: bool) -> PlanAnswer {
        let Ok(_turn) = self.planning.try_acquire() else {
            return PlanAnswer::Failed("another plan is being made: try again when it has ended".to_owned());
        };
        let named = (!namespace.is_empty()).then(|| namespace.to_owned());
        match (self.planner)(manifest.to_owned(), named, rehearse).await {
            Ok(plans) => PlanAnswer::Plans(plans),
            Err(why) => PlanAnswer::Failed(why),
        }
    }

    /// What all pages have in common, now.
    pub(crate) fn frame_now(&self) -> Frame {
        self.frame(&self.world.picture())
    }

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
        let unreported = PodCliqueSetStatus::default();
        let problems = picture.sets.iter().filter(|set| {
            let status = set.status.as_ref().unwrap_or(&unreported);
            set_state(set, status).0 == SetState::Degraded
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
    let used: BTreeSet<&str> = pods
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
    let mut owned: BTreeSet<String> = found.uid().into_iter().collect();
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
