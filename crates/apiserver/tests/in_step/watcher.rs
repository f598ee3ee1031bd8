//! kube-rs's watchers as observers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use kube::api::DynamicObject;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::util::{MapRequestLayer, MapResponseLayer};

use super::stage::{RESOURCES, Stage, api_resource};
use super::{Event, Habits, Objects, Observer, Record, Seen};

/// What is known of one resource.
#[derive(Default)]
struct Known {
    record: Record,
    objects: Objects,
    /// The objects of a list or stream that has not ended.
    arriving: Option<Objects>,
    bookmark: u64,
}

type Shared = Arc<watch::Sender<Known>>;

/// One watcher for each resource, each with a client of its own.
pub(crate) struct Watchers {
    known: BTreeMap<&'static str, Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Watchers {
    pub(crate) async fn start(stage: &Stage, habits: Habits) -> Self {
        let mut started = Self {
            known: BTreeMap::new(),
            tasks: Vec::new(),
        };
        for resource in RESOURCES {
            let known: Shared = Arc::new(watch::Sender::new(Known::default()));
            let client = client(&stage.kubeconfig(), &known).await;
            let api: Api<DynamicObject> = Api::default_namespaced_with(client, &api_resource(resource));
            let mut config = watcher::Config::default();
            if habits.streaming {
                config = config.streaming_lists();
            }
            if let Some(seconds) = habits.watch_seconds {
                config = config.timeout(seconds);
            }
            started.known.insert(resource, known.clone());
            started.tasks.push(tokio::spawn(async move {
                let mut events = watcher(api, config).default_backoff().boxed();
                while let Some(event) = events.next().await {
                    known.send_modify(|known| known.take(event));
                }
            }));
        }
        started
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Observer for Watchers {
    async fn await_objects(&mut self, resource: &str, objects: &Objects) -> Seen {
        let mut known = self.known[resource].subscribe();
        let reached = known
            .wait_for(|known| known.objects == *objects && known.arriving.is_none())
            .await;
        let reached = reached.expect("the sender is kept here");
        Seen {
            objects: reached.objects.clone(),
            events: reached.record.events.len(),
        }
    }

    async fn await_bookmark(&mut self, resource: &str, version: u64) {
        let mut known = self.known[resource].subscribe();
        known
            .wait_for(|known| known.bookmark >= version)
            .await
            .expect("the sender is kept here");
    }

    async fn report(&mut self) -> BTreeMap<String, Record> {
        let report = |(resource, known): (&&str, &Shared)| ((*resource).to_owned(), known.borrow().record.clone());
        self.known.iter().map(report).collect()
    }
}

impl Known {
    fn take(&mut self, event: Result<watcher::Event<DynamicObject>, watcher::Error>) {
        match event {
            Ok(watcher::Event::Apply(object)) => {
                let (name, state) = identify(&object);
                self.apply(name, state);
            }
            Ok(watcher::Event::Delete(object)) => {
                let (name, state) = identify(&object);
                self.delete(&name, state, true);
            }
            Ok(watcher::Event::Init) => self.arriving = Some(Objects::new()),
            Ok(watcher::Event::InitApply(object)) => {
                let (name, state) = identify(&object);
                self.arriving.get_or_insert_default().insert(name, state);
            }
            Ok(watcher::Event::InitDone) => self.replace(),
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) if status.code == 410 => {
                self.record.refused_start += 1;
            }
            // Broken connections are what the script is about; ERROR events are counted as they pass.
            Err(_) => {}
        }
    }

    fn apply(&mut self, name: String, state: String) {
        let event = if self.objects.contains_key(&name) {
            "update"
        } else {
            "add"
        };
        let before = self.objects.insert(name.clone(), state.clone());
        if before.as_ref() == Some(&state) {
            self.record.broken.push(format!("{name} was told twice as {state}"));
        }
        self.tell(event, name, state, true);
    }

    fn delete(&mut self, name: &str, state: String, seen: bool) {
        if self.objects.remove(name).is_none() {
            self.record
                .broken
                .push(format!("{name} was deleted as {state} but not there"));
        }
        self.tell("delete", name.to_owned(), state, seen);
    }

    /// A whole new copy, told as what differs from the old one.
    fn replace(&mut self) {
        let arrived = self.arriving.take().unwrap_or_default();
        let gone: Vec<_> = self
            .objects
            .iter()
            .filter(|(name, _)| !arrived.contains_key(*name))
            .collect();
        let gone: Vec<_> = gone
            .into_iter()
            .map(|(name, state)| (name.clone(), state.clone()))
            .collect();
        for (name, state) in gone {
            self.delete(&name, state, false);
        }
        for (name, state) in arrived {
            if self.objects.get(&name) != Some(&state) {
                self.apply(name, state);
            }
        }
    }

    fn tell(&mut self, event: &str, name: String, state: String, seen: bool) {
        self.record.events.push(Event {
            event: event.to_owned(),
            name,
            state,
            r#final: seen,
        });
    }

    fn requested(&mut self, query: &str) {
        match (query.contains("watch="), query.contains("sendInitialEvents=true")) {
            (false, _) => self.record.lists += 1,
            (true, true) => self.record.streams += 1,
            (true, false) => self.record.watches += 1,
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(told) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        match told["type"].as_str() {
            Some("ERROR") => self.record.error_events += 1,
            Some("BOOKMARK") => {
                let version = told["object"]["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap_or_default();
                self.bookmark = self.bookmark.max(version.parse().expect("bookmarks have a version"));
            }
            _ => {}
        }
    }
}

fn identify(object: &DynamicObject) -> (String, String) {
    let version = object.resource_version().unwrap_or_default();
    (
        object.name_any(),
        format!("{}@{version}", object.uid().unwrap_or_default()),
    )
}

/// A client that tells `known` what it asks and which lines come back.
async fn client(kubeconfig: &str, known: &Shared) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("the kubeconfig is usable");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.expect("the kubeconfig is usable");
    let asked = known.clone();
    let asks = MapRequestLayer::new(move |request: http::Request<kube::client::Body>| {
        asked.send_modify(|known| known.requested(request.uri().query().unwrap_or_default()));
        request
    });
    let told = known.clone();
    let tells = MapResponseLayer::new(move |response: http::Response<_>| {
        let (told, mut begun) = (told.clone(), Vec::new());
        response.map(|body: Box<kube::client::DynBody>| {
            body.map_frame(move |frame: http_body::Frame<Bytes>| {
                if let Some(data) = frame.data_ref() {
                    begun.extend_from_slice(data);
                }
                while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = begun.drain(..=end).collect();
                    told.send_modify(|known| known.line(&line));
                }
                frame
            })
        })
    });
    let builder = ClientBuilder::try_from(config).expect("the kubeconfig is usable");
    builder.with_layer(&asks).with_layer(&tells).build()
}
