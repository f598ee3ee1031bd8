//! A store for unit tests: single objects over HTTP, with versions, uids and preconditions. No lists, no watches.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::layers::{Options, client_of_service};

#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) objects: BTreeMap<String, Value>,
    pub(crate) version: u64,
    /// Method and path of every call that arrived.
    pub(crate) calls: Vec<String>,
}

#[derive(Clone, Default)]
pub(crate) struct Store {
    pub(crate) contents: Arc<Mutex<Contents>>,
}

impl Store {
    pub(crate) fn client(&self, options: &Options) -> Client {
        let store = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let store = store.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.expect("a request body in memory").to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, answer) = store.contents.lock().answer(&parts.method, parts.uri.path(), &body);
                let mut response = Response::new(Full::<Bytes>::from(answer.to_string()));
                *response.status_mut() = StatusCode::from_u16(code).expect("a known code");
                Ok::<_, Infallible>(response)
            }
        });
        client_of_service(service, "default", options)
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.contents.lock().objects.get(path).cloned()
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}),
    )
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("made an object above").remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

impl Contents {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        self.calls.push(format!("{method} {path}"));
        let found = self.objects.get(path).cloned();
        match (method.as_str(), found) {
            ("POST", _) => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().expect("a name"));
                if self.objects.contains_key(&path) {
                    return failure(409, "AlreadyExists");
                }
                let mut object = body.clone();
                object["metadata"]["uid"] = json!(format!("uid-{}", self.version + 1));
                (201, self.put(&path, object))
            }
            (_, None) => failure(404, "NotFound"),
            ("GET", Some(object)) => (200, object),
            ("PUT" | "PATCH", Some(object)) => {
                let mut new = object.clone();
                if method == Method::PUT {
                    new = body.clone();
                } else {
                    merge(&mut new, body);
                }
                new["metadata"]["uid"] = object["metadata"]["uid"].clone();
                let given = &body["metadata"];
                let wrong = |field: &str| {
                    given
                        .get(field)
                        .is_some_and(|value| *value != object["metadata"][field])
                };
                if wrong("resourceVersion") || wrong("uid") {
                    return failure(409, "Conflict");
                }
                if new == object {
                    (200, object)
                } else {
                    (200, self.put(path, new))
                }
            }
            ("DELETE", Some(mut object)) => {
                let given = &body["preconditions"];
                let wrong = |field: &str| {
                    given
                        .get(field)
                        .is_some_and(|value| *value != object["metadata"][field])
                };
                if wrong("resourceVersion") || wrong("uid") {
                    return failure(409, "Conflict");
                }
                if object["metadata"]["finalizers"].is_array() {
                    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    return (200, self.put(path, object));
                }
                self.version += 1;
                self.objects.remove(path);
                (200, json!({"kind": "Status", "status": "Success", "metadata": {}}))
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}
