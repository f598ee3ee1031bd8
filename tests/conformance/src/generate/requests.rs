//! The requests of a generated case.

use serde_json::{Map, Value, json};

use super::content;
use super::dice::Dice;
use super::kinds::Kind;
use crate::corpus::Step;

/// What is created last, so that the watch at the end knows when it has seen everything.
const LAST: &str = "the-last";

/// The requests of one case.
pub(super) fn steps(dice: &mut Dice, kind: &'static Kind) -> Vec<Step> {
    let mut making = Making {
        dice,
        kind,
        steps: Vec::new(),
    };
    making.start();
    for _ in 0..making.dice.below(10) + 6 {
        making.step();
    }
    making.finish();
    making.steps
}

struct Making<'a> {
    dice: &'a mut Dice,
    kind: &'static Kind,
    steps: Vec<Step>,
}

impl Making<'_> {
    fn start(&mut self) {
        let collection = self.kind.collection;
        self.steps.push(Step {
            request: format!("GET {collection}?limit=1"),
            keep: Some("start".to_owned()),
            silent: true,
            ..Step::default()
        });
        self.create("a");
    }

    /// One more, and the watch over all that happened.
    fn finish(&mut self) {
        let (collection, name) = (self.kind.collection, self.full_name(LAST));
        let least = serde_json::from_str(self.kind.least).expect("they are written here, and tested");
        let mut body = self.typed(least);
        body["metadata"] = json!({"name": name, "labels": {"app": "a"}});
        self.steps.push(Step {
            request: format!("POST {collection}"),
            body: Some(body),
            silent: true,
            ..Step::default()
        });
        let selector = self.dice.one(&["", "", "&labelSelector=app%3Da", "&labelSelector=app"]);
        self.steps.push(Step {
            request: format!(
                "GET {collection}?watch=true&resourceVersion=$start.metadata.resourceVersion{selector}&timeoutSeconds=10"
            ),
            events: Some(1000),
            until: Some(name),
            optional: true,
            ..Step::default()
        });
    }

    fn step(&mut self) {
        let name = self.dice.one(&["a", "a", "a", "b"]);
        match self.dice.below(100) {
            0..12 => self.create(name),
            12..26 => self.replace(name),
            26..40 => self.merge(name),
            40..52 => self.strategic(name),
            52..60 => self.json_patch(name),
            60..78 => self.apply(name),
            78..84 => self.delete(name),
            84..86 => self.delete_collection(),
            86..92 => self.read(name),
            _ => self.extra(name),
        }
    }

    fn create(&mut self, name: &str) {
        let body = self.object(name, true);
        let query = self.query(&[]);
        self.send(format!("POST {}{query}", self.kind.collection), Some(body), None);
    }

    fn replace(&mut self, name: &str) {
        let mut body = self.object(name, true);
        let subresource = self.subresource();
        self.with_status(&mut body, subresource);
        if self.dice.chance(60)
            && let Some(kept) = self.kept()
        {
            body["metadata"]["resourceVersion"] = json!(format!("${kept}.metadata.resourceVersion"));
            if self.dice.chance(30) {
                body["metadata"]["uid"] = json!(format!("${kept}.metadata.uid"));
            }
        }
        let query = self.query(&[]);
        self.send(format!("PUT {}{query}", self.path(name, subresource)), Some(body), None);
    }

    fn merge(&mut self, name: &str) {
        let mut body = self.change();
        if self.dice.chance(40) {
            self.nullify(&mut body);
        }
        let subresource = self.subresource();
        self.with_status(&mut body, subresource);
        self.version(&mut body);
        let query = self.query(&[]);
        let request = format!("PATCH {}{query}", self.path(name, subresource));
        self.send(request, Some(body), Some("application/merge-patch+json"));
    }

    fn strategic(&mut self, name: &str) {
        // What their data is only their owner knows, so it cannot be merged.
        if self.kind.kind == "ControllerRevision" {
            return self.merge(name);
        }
        let mut body = self.change();
        if self.dice.chance(30) {
            self.nullify(&mut body);
        }
        if self.dice.chance(25) {
            self.direct(&mut body);
        }
        let subresource = self.subresource();
        self.with_status(&mut body, subresource);
        self.version(&mut body);
        let query = self.query(&[]);
        let request = format!("PATCH {}{query}", self.path(name, subresource));
        self.send(request, Some(body), Some("application/strategic-merge-patch+json"));
    }

    fn json_patch(&mut self, name: &str) {
        let mut operations = Vec::new();
        for _ in 0..self.dice.below(3) + 1 {
            let content = self.change();
            let mut paths = Vec::new();
            places(&content, &mut String::new(), &mut paths);
            let (path, value) = self.dice.one(&paths);
            operations.push(match self.dice.below(10) {
                0..4 => json!({"op": "add", "path": path, "value": value}),
                4..6 => json!({"op": "replace", "path": path, "value": value}),
                6..8 => json!({"op": "remove", "path": path}),
                8 => json!({"op": "test", "path": path, "value": value}),
                _ => json!({"op": dice_move(self.dice), "from": path, "path": "/metadata/annotations"}),
            });
        }
        let subresource = self.subresource();
        let query = self.query(&[]);
        let request = format!("PATCH {}{query}", self.path(name, subresource));
        self.send(request, Some(json!(operations)), Some("application/json-patch+json"));
    }

    fn apply(&mut self, name: &str) {
        let complete = self.dice.chance(70);
        let mut body = self.object(name, complete);
        let subresource = self.subresource();
        self.with_status(&mut body, subresource);
        if self.dice.chance(8) {
            self.version(&mut body);
        }
        let manager = format!("fieldManager={}", self.dice.one(&["one", "two"]));
        let query = match self.dice.chance(40) {
            true => self.query(&[&manager, "force=true"]),
            false => self.query(&[&manager]),
        };
        let request = format!("PATCH {}{query}", self.path(name, subresource));
        self.send(request, Some(body), Some("application/apply-patch+yaml"));
    }

    fn delete(&mut self, name: &str) {
        let mut options = Map::from_iter([
            ("apiVersion".to_owned(), json!("v1")),
            ("kind".to_owned(), json!("DeleteOptions")),
        ]);
        if self.dice.chance(30) {
            let policy = self.dice.one(&["Foreground", "Background", "Orphan", "Sideways"]);
            options.insert("propagationPolicy".to_owned(), json!(policy));
        }
        if self.dice.chance(30) {
            options.insert("gracePeriodSeconds".to_owned(), json!(self.dice.one(&[0, 1, 5, -1])));
        }
        if self.dice.chance(20)
            && let Some(kept) = self.kept()
        {
            let field = self.dice.one(&["uid", "resourceVersion"]);
            options.insert(
                "preconditions".to_owned(),
                json!({field: format!("${kept}.metadata.{field}")}),
            );
        }
        let body = self.dice.chance(70).then_some(Value::Object(options));
        self.send(format!("DELETE {}", self.path(name, "")), body, None);
    }

    fn delete_collection(&mut self) {
        if !self.kind.is_namespaced() {
            return self.delete("a");
        }
        let selector = self.dice.one(&[
            "",
            "?labelSelector=app%3Da",
            "?labelSelector=app%21%3Da",
            "?fieldSelector=metadata.name%3Da",
        ]);
        self.send(format!("DELETE {}{selector}", self.kind.collection), None, None);
    }

    fn read(&mut self, name: &str) {
        let accept = self.dice.one(&["", "", "Table", "PartialObjectMetadata"]);
        let list = self.kind.is_namespaced() && self.dice.chance(50);
        let request = match list {
            true => {
                let query = self.dice.one(&[
                    "",
                    "?limit=1",
                    "?labelSelector=app",
                    "?labelSelector=app+in+(a,b),!tier",
                    "?fieldSelector=metadata.name!%3Da",
                ]);
                format!("GET {}{query}", self.kind.collection)
            }
            false => {
                let subresource = self.subresource();
                format!("GET {}", self.path(name, subresource))
            }
        };
        self.send(request, None, None);
        if let Some(step) = self.steps.last_mut().filter(|_| !accept.is_empty()) {
            let accept = match list && accept != "Table" {
                true => format!("{accept}List"),
                false => accept.to_owned(),
            };
            step.headers.insert(
                "accept".to_owned(),
                format!("application/json;as={accept};g=meta.k8s.io;v=v1"),
            );
        }
    }

    /// What only some kinds have.
    fn extra(&mut self, name: &str) {
        if self.kind.scale {
            // Not what an object has already: a real server writes that down again.
            let replicas = self
                .dice
                .one(&[json!(3), json!(4), json!(6), json!(11), json!(-1), json!("two")]);
            let path = self.path(name, "/scale");
            return match self.dice.below(3) {
                0 => self.send(format!("GET {path}"), None, None),
                1 => self.send(
                    format!("PATCH {path}"),
                    Some(json!({"spec": {"replicas": replicas}})),
                    Some("application/merge-patch+json"),
                ),
                _ => {
                    let metadata = json!({"name": self.full_name(name), "namespace": "$NS"});
                    let body = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}});
                    self.send(format!("PUT {path}"), Some(body), None);
                }
            };
        }
        if self.kind.kind == "Pod" {
            let metadata = json!({"name": name, "namespace": "$NS"});
            return match self.dice.chance(60) {
                true => {
                    let target = json!({"apiVersion": "v1", "kind": "Node", "name": self.dice.one(&["n1", "n2"])});
                    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
                    self.send(format!("POST {}", self.path(name, "/binding")), Some(body), None);
                }
                false => {
                    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
                    self.send(format!("POST {}", self.path(name, "/eviction")), Some(body), None);
                }
            };
        }
        self.read(name);
    }

    fn send(&mut self, request: String, body: Option<Value>, content_type: Option<&str>) {
        let mut step = Step {
            request,
            body,
            keep: Some(format!("answer{}", self.steps.len())),
            optional: true,
            ..Step::default()
        };
        if let Some(content_type) = content_type {
            step.headers.insert("content-type".to_owned(), content_type.to_owned());
        }
        self.steps.push(step);
    }

    /// An object with its type, name and contents.
    fn object(&mut self, name: &str, complete: bool) -> Value {
        let content = (self.kind.content)(self.dice, complete);
        let mut object = self.typed(content);
        let mut metadata = content::metadata(self.dice);
        metadata.insert("name".to_owned(), json!(self.full_name(name)));
        object["metadata"] = Value::Object(metadata);
        object
    }

    fn typed(&self, mut content: Value) -> Value {
        content["apiVersion"] = json!(self.kind.api_version);
        content["kind"] = json!(self.kind.kind);
        content
    }

    /// Some fields, and perhaps metadata.
    fn change(&mut self) -> Value {
        let mut content = (self.kind.content)(self.dice, false);
        let metadata = content::metadata(self.dice);
        if !metadata.is_empty() || content.as_object().is_none_or(Map::is_empty) {
            content["metadata"] = Value::Object(metadata);
        }
        content
    }

    /// Replaces one value below the top by null.
    fn nullify(&mut self, body: &mut Value) {
        let mut paths = Vec::new();
        places(body, &mut String::new(), &mut paths);
        // Items of lists are never null.
        paths.retain(|(path, _)| !path.ends_with(|last: char| last.is_ascii_digit()));
        let (path, _) = self.dice.one(&paths);
        if let Some(value) = body.pointer_mut(&path) {
            *value = Value::Null;
        }
    }

    /// Puts a directive of strategic merge patches into one of the maps.
    fn direct(&mut self, body: &mut Value) {
        let mut paths = Vec::new();
        places(body, &mut String::new(), &mut paths);
        paths.retain(|(path, value)| value.is_object() && path.matches('/').count() > 1);
        if paths.is_empty() {
            return;
        }
        let (path, _) = self.dice.one(&paths);
        let directive = self.dice.one(&["replace", "delete"]);
        if let Some(value) = body.pointer_mut(&path) {
            value["$$patch"] = json!(directive);
        }
    }

    /// Sometimes the version of an earlier answer, which may be stale.
    fn version(&mut self, body: &mut Value) {
        if self.dice.chance(8)
            && let Some(kept) = self.kept()
        {
            body["metadata"]["resourceVersion"] = json!(format!("${kept}.metadata.resourceVersion"));
        }
    }

    /// A status, always for the subresource and sometimes beside it.
    fn with_status(&mut self, body: &mut Value, subresource: &str) {
        if let Some(status) = self.kind.status
            && (subresource == "/status" || self.dice.chance(5))
        {
            body["status"] = status(self.dice);
        }
    }

    fn subresource(&mut self) -> &'static str {
        match self.kind.status {
            Some(_) if self.dice.chance(25) => "/status",
            _ => "",
        }
    }

    fn kept(&mut self) -> Option<String> {
        let kept: Vec<String> = self.steps.iter().filter_map(|step| step.keep.clone()).skip(1).collect();
        (!kept.is_empty()).then(|| self.dice.one(&kept))
    }

    fn query(&mut self, more: &[&str]) -> String {
        let mut parts: Vec<&str> = more.to_vec();
        if self.dice.chance(6) {
            parts.push("dryRun=All");
        }
        if self.dice.chance(10) {
            parts.push(self.dice.one(&["fieldValidation=Strict", "fieldValidation=Ignore"]));
        }
        match parts.is_empty() {
            true => String::new(),
            false => format!("?{}", parts.join("&")),
        }
    }

    fn path(&self, name: &str, subresource: &str) -> String {
        format!("{}/{}{subresource}", self.kind.collection, self.full_name(name))
    }

    fn full_name(&self, name: &str) -> String {
        match self.kind.is_namespaced() {
            true => name.to_owned(),
            false => format!("$NS-{name}"),
        }
    }
}

fn dice_move(dice: &mut Dice) -> &'static str {
    dice.one(&["move", "copy"])
}

/// All places below the top of a value, as JSON pointers, with what is there.
fn places(value: &Value, path: &mut String, found: &mut Vec<(String, Value)>) {
    let mut descend = |key: &str, item: &Value| {
        let length = path.len();
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        found.push((path.clone(), item.clone()));
        places(item, path, found);
        path.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, item)| descend(key, item)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| descend(&index.to_string(), item)),
        _ => {}
    }
}
