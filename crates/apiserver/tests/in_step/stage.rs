//! The server under the script: started, stopped, written to, made to forget.

use std::sync::Arc;
use std::time::Duration;

use coppice_apiserver::auth::{Authenticator, User};
use coppice_apiserver::store::{Change, Draft, Expect};
use coppice_apiserver::{ApiServer, Certificates, Serving, Tls};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Event, Objects};

/// The observed resources: one built in, one custom.
pub(crate) const RESOURCES: [&str; 2] = ["pods", "widgets"];

/// Longer than the server stays silent on a watch that allows bookmarks.
const SILENCE: Duration = Duration::from_secs(61);

pub(crate) struct Stage {
    server: ApiServer,
    certificates: Arc<Certificates>,
    serving: Option<Serving>,
    address: std::net::SocketAddr,
    client: Client,
    requests: watch::Receiver<Vec<String>>,
    commits: Arc<Mutex<Vec<(String, Event)>>>,
    round: usize,
}

/// Lets everyone in, and remembers what was asked.
struct Doorkeeper(watch::Sender<Vec<String>>);

impl Authenticator for Doorkeeper {
    fn authenticate(&self, request: &http::request::Parts) -> Option<User> {
        self.0.send_modify(|requests| requests.push(request.uri.to_string()));
        Some(User::admin())
    }
}

impl Stage {
    /// A server with the custom resource, and its address.
    pub(crate) async fn new() -> Self {
        let (asked, requests) = watch::channel(Vec::new());
        let server = ApiServer::builder().seed(1).authenticator(Doorkeeper(asked)).build();
        let commits = Arc::new(Mutex::new(Vec::new()));
        let kept = commits.clone();
        server.store().observe(move |commit| {
            let event = match commit.change() {
                Change::Created => "add",
                Change::Updated => "update",
                Change::Deleted => "delete",
            };
            let object = commit.object();
            let event = Event {
                event: event.to_owned(),
                name: object.key().name().to_owned(),
                state: format!("{}@{}", object.facts().uid, object.revision()),
                r#final: true,
            };
            let resource = commit.resource().split('.').next().unwrap_or_default().to_owned();
            kept.lock().push((resource, event));
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let certificates = Arc::new(Certificates::generate(&[]).expect("certificates"));
        let serving = server
            .serve(listener, Tls::On(certificates.clone()))
            .expect("it serves");
        let client = Client::new(server.service(), "default");
        define_widgets(&client).await;
        Self {
            server,
            certificates,
            serving: Some(serving),
            address,
            client,
            requests,
            commits,
            round: 0,
        }
    }

    /// How to reach the server.
    pub(crate) fn kubeconfig(&self) -> String {
        self.serving.as_ref().expect("it serves").kubeconfig()
    }

    /// Closes every connection and listens no more. The store stays.
    pub(crate) async fn stop(&mut self) {
        self.serving.take().expect("it serves").stop().await;
    }

    /// Listens again, where it did before.
    pub(crate) async fn start(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the port is still free");
        let tls = Tls::On(self.certificates.clone());
        self.serving = Some(self.server.serve(listener, tls).expect("it serves"));
    }

    /// The last revision.
    pub(crate) fn revision(&self) -> u64 {
        self.server.store().revision()
    }

    /// What was committed to a resource so far.
    pub(crate) fn commits(&self, resource: &str) -> Vec<Event> {
        let commits = self.commits.lock();
        let of_resource = commits.iter().filter(|(committed, _)| committed == resource);
        of_resource.map(|(_, event)| event.clone()).collect()
    }

    /// What the server lists.
    pub(crate) async fn objects(&self, resource: &str) -> Objects {
        let listed = self.api(resource).list(&ListParams::default()).await.expect("a list");
        let state = |object: &DynamicObject| {
            let version = object.resource_version().unwrap_or_default();
            format!("{}@{version}", object.uid().unwrap_or_default())
        };
        listed.iter().map(|object| (object.name_any(), state(object))).collect()
    }

    /// Creates, changes, deletes and replaces objects of each resource.
    pub(crate) async fn churn(&mut self) {
        self.round += 1;
        let round = self.round;
        for resource in RESOURCES {
            let api = self.api(resource);
            for name in [format!("a-{round}"), format!("b-{round}"), "again".to_owned()] {
                if name == "again" && round > 1 {
                    api.delete(&name, &DeleteParams::default()).await.expect("it is there");
                }
                let object = serde_json::from_value(object(resource, &name)).expect("an object");
                api.create(&PostParams::default(), &object).await.expect("a new name");
            }
            let label = json!({"metadata": {"labels": {"round": round.to_string()}}});
            for name in [
                "again".to_owned(),
                format!("a-{round}"),
                format!("a-{}", round.max(2) - 1),
            ] {
                let change = Patch::Merge(&label);
                api.patch(&name, &PatchParams::default(), &change)
                    .await
                    .expect("it is there");
            }
            let gone = format!("b-{round}");
            api.delete(&gone, &DeleteParams::default()).await.expect("it is there");
        }
    }

    /// Forgets all history.
    pub(crate) fn forget(&self) {
        self.server.store().compact(self.revision());
    }

    /// Changes an object of each resource and forgets the change before any watcher can have read it: the test's one
    /// thread does not give way in between.
    pub(crate) fn change_and_forget_at_once(&self) {
        let store = self.server.store();
        for resource in ["pods", "widgets.example.com"] {
            let current = store.all(resource, "default").pop().expect("there are objects");
            let mut value = current.value();
            value["metadata"]["labels"] = json!({"round": "forgotten"});
            let draft = Draft::new(&value, current.facts().fields.clone());
            store
                .put(resource, current.key(), Expect::Revision(current.revision()), draft)
                .expect("nobody else writes");
        }
        self.forget();
    }

    /// Lets other resources change, then a minute pass in which nothing happens.
    pub(crate) async fn pass_a_minute_of_silence(&self) {
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        let map = json!({"metadata": {"generateName": "unrelated-"}});
        let map = serde_json::from_value(map).expect("a config map");
        maps.create(&PostParams::default(), &map).await.expect("a new name");
        tokio::time::pause();
        tokio::time::advance(SILENCE).await;
        tokio::time::resume();
    }

    /// How many watches of a resource were asked for.
    pub(crate) fn watches_begun(&self, resource: &str) -> usize {
        count_watches(&self.requests.borrow(), resource)
    }

    /// Waits until more than `known` watches of a resource were asked for.
    pub(crate) async fn next_watch(&self, resource: &str, known: usize) {
        let mut requests = self.requests.clone();
        requests
            .wait_for(|requests| count_watches(requests, resource) > known)
            .await
            .expect("the server lives");
    }

    fn api(&self, resource: &str) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.client.clone(), &api_resource(resource))
    }
}

/// What kube needs to know of an observed resource.
pub(crate) fn api_resource(resource: &str) -> ApiResource {
    let kind = match resource {
        "pods" => GroupVersionKind::gvk("", "v1", "Pod"),
        _ => GroupVersionKind::gvk("example.com", "v1", "Widget"),
    };
    ApiResource::from_gvk_with_plural(&kind, resource)
}

fn count_watches(requests: &[String], resource: &str) -> usize {
    let watches = |uri: &&String| uri.contains(&format!("/{resource}?")) && uri.contains("watch=");
    requests.iter().filter(watches).count()
}

fn object(resource: &str, name: &str) -> Value {
    match resource {
        "pods" => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]}}),
        _ => json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}}),
    }
}

async fn define_widgets(client: &Client) {
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}});
    let definition = serde_json::from_value(definition).expect("a definition");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .expect("a new definition");
}
