//! A real API server with some set of definitions, and what it makes of documents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coppice_crds::{Change, InstallOptions, install_definitions};
use coppice_harness::control_plane::{ControlPlane, Options};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::corpus::Manifest;

/// How long anything may take before the test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// What became of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was accepted; this is stored, without what the server makes up for each object.
    Stored(Value),
    /// It was refused for these fields, each with the kind of error. Messages may differ.
    Refused {
        /// The status code.
        code: u16,
        /// Kind and field of each error.
        causes: BTreeSet<(String, String)>,
        /// The messages, for the reader of a failed test.
        message: Text,
    },
}

/// A text that does not count in comparisons.
#[derive(Clone, Debug)]
pub struct Text(pub String);

impl PartialEq for Text {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A control plane with a set of definitions.
pub struct Server {
    _control_plane: ControlPlane,
    client: Client,
    definitions: Vec<Value>,
}

impl Server {
    /// Starts a control plane with the definitions as they were before the rules on whole objects existed, creates the old
    /// documents of all updates, and then installs the definitions as they are.
    pub async fn start(definitions: Vec<Value>, manifests: &[Manifest]) -> (Self, BTreeMap<String, Outcome>) {
        let control_plane = ControlPlane::start(&Options::default())
            .await
            .expect("a control plane starts");
        let server = Self {
            client: control_plane.client(),
            _control_plane: control_plane,
            definitions,
        };
        let mut older = server.definitions.clone();
        for definition in &mut older {
            let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            schema
                .as_object_mut()
                .expect("a schema is an object")
                .remove("x-kubernetes-validations");
        }
        server.install(&older).await;
        server.wait_until_pack_domain(true).await;
        let mut old = BTreeMap::new();
        for manifest in manifests.iter().filter(|manifest| manifest.documents.len() > 1) {
            server.create_namespace(&manifest.name).await;
            let outcome = server.create(&manifest.name, &manifest.documents[0]).await;
            old.insert(manifest.name.clone(), outcome);
        }
        server.install(&server.definitions).await;
        server.wait_until_pack_domain(false).await;
        (server, old)
    }

    /// Installs definitions and says what that changed.
    pub async fn install(&self, definitions: &[Value]) -> Vec<(String, Change)> {
        let result = install_definitions(self.client.clone(), definitions, &InstallOptions::default(), drop).await;
        result.expect("definitions are installed")
    }

    /// All PodCliqueSets, as they are.
    pub async fn sets(&self) -> Vec<Value> {
        let path = "/apis/grove.io/v1alpha1/podcliquesets";
        let list = self
            .send(Method::GET, path, &Value::Null)
            .await
            .expect("sets can be listed");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The server takes new definitions into use a moment after it says so; a dry run shows when.
    async fn wait_until_pack_domain(&self, accepted: bool) {
        let probe = json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "probe" },
            "spec": { "template": { "topologyConstraint": { "packDomain": "rack" }, "cliques": [] } },
        });
        let path = format!("{}?dryRun=All", self.path("default", &probe));
        let until = async { while self.send(Method::POST, &path, &probe).await.is_ok() != accepted {} };
        tokio::time::timeout(LIMIT, until)
            .await
            .expect("the server takes the definitions into use");
    }

    /// Judges a manifest: creates its only document, or updates the old one to the new one. A status is written too.
    pub async fn judge(&self, manifest: &Manifest) -> Vec<Outcome> {
        let namespace = &manifest.name;
        let mut outcomes = Vec::new();
        let document = match manifest.documents.as_slice() {
            [document] => {
                self.create_namespace(namespace).await;
                outcomes.push(self.create(namespace, document).await);
                document
            }
            [_, document] => {
                outcomes.push(self.replace(namespace, document, "").await);
                document
            }
            other => panic!("{namespace} has {} documents", other.len()),
        };
        if document.get("status").is_some() && matches!(outcomes.last(), Some(Outcome::Stored(_))) {
            outcomes.push(self.replace(namespace, document, "/status").await);
        }
        outcomes
    }

    /// Cluster-scoped objects of different manifests share one name space; each is removed when it was judged.
    pub async fn forget(&self, manifest: &Manifest) {
        for document in manifest
            .documents
            .iter()
            .filter(|document| !self.is_namespaced(document))
        {
            let path = self.object_path(&manifest.name, document);
            if let Ok(mut stored) = self.send(Method::GET, &path, &Value::Null).await {
                stored["metadata"]["finalizers"] = json!([]);
                self.send(Method::PUT, &path, &stored)
                    .await
                    .expect("finalizers can be removed");
                self.send(Method::DELETE, &path, &Value::Null)
                    .await
                    .expect("an object can be deleted");
            }
        }
    }

    async fn create_namespace(&self, name: &str) {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.send(Method::POST, "/api/v1/namespaces", &namespace)
            .await
            .expect("a namespace is created");
    }

    async fn create(&self, namespace: &str, document: &Value) -> Outcome {
        outcome(self.send(Method::POST, &self.path(namespace, document), document).await)
    }

    async fn replace(&self, namespace: &str, document: &Value, subresource: &str) -> Outcome {
        let path = self.object_path(namespace, document);
        let stored = self
            .send(Method::GET, &path, &Value::Null)
            .await
            .expect("the old object is stored");
        let mut document = document.clone();
        document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        document["metadata"]["namespace"] = stored["metadata"]["namespace"].clone();
        outcome(self.send(Method::PUT, &format!("{path}{subresource}"), &document).await)
    }

    /// Sends a request. While the server takes changed definitions into use it answers that it is busy (429); the request
    /// is then sent again.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let until_answered = async {
            loop {
                let request = Request::builder()
                    .method(&method)
                    .uri(path)
                    .header("content-type", "application/json");
                let request = request.body(body.clone()).expect("a request can be built");
                match self.client.request(request).await {
                    Err(kube::Error::Api(status)) if status.code == 429 => {}
                    answer => return answer,
                }
            }
        };
        tokio::time::timeout(LIMIT, until_answered)
            .await
            .expect("the server answers in time")
    }

    fn definition_of(&self, document: &Value) -> &Value {
        let mut found = self
            .definitions
            .iter()
            .filter(|definition| definition["spec"]["names"]["kind"] == document["kind"]);
        found
            .next()
            .unwrap_or_else(|| panic!("no definition of {}", document["kind"]))
    }

    fn is_namespaced(&self, document: &Value) -> bool {
        self.definition_of(document)["spec"]["scope"] == "Namespaced"
    }

    fn path(&self, namespace: &str, document: &Value) -> String {
        let spec = &self.definition_of(document)["spec"];
        let group = spec["group"].as_str().expect("a group");
        let plural = spec["names"]["plural"].as_str().expect("a plural");
        let namespace = if spec["scope"] == "Namespaced" {
            format!("/namespaces/{namespace}")
        } else {
            String::new()
        };
        format!("/apis/{group}/v1alpha1{namespace}/{plural}")
    }

    fn object_path(&self, namespace: &str, document: &Value) -> String {
        let name = document["metadata"]["name"].as_str().expect("the object has a name");
        format!("{}/{name}", self.path(namespace, document))
    }
}

fn outcome(answer: Result<Value, kube::Error>) -> Outcome {
    match answer {
        Ok(stored) => Outcome::Stored(normalised(stored)),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            Outcome::Refused {
                code: status.code,
                causes: causes
                    .map(|cause| (cause.reason.clone(), cause.field.clone()))
                    .collect(),
                message: Text(status.message.clone()),
            }
        }
        Err(error) => panic!("the API server did not answer: {error}"),
    }
}

/// Without what differs between any two objects: identity, times, owners of fields and generated names.
fn normalised(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("an object has metadata");
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    if metadata.contains_key("generateName") {
        metadata.remove("name");
    }
    object
}
