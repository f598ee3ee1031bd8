//! The `paths` of OpenAPI documents: which verbs a resource has, and with which parameters.

use serde_json::{Map, Value, json};

use crate::registry::Served;

/// Adds the paths of a resource.
pub(super) fn add(served: &Served, schema: &str, paths: &mut Map<String, Value>) {
    let root = if served.group.is_empty() {
        format!("/api/{}", served.version)
    } else {
        format!("/apis/{}/{}", served.group, served.version)
    };
    let collection = if served.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", served.plural)
    } else {
        format!("{root}/{}", served.plural)
    };
    paths.insert(
        collection.clone(),
        operations(
            served,
            schema,
            &[("get", "list"), ("post", "create"), ("delete", "deletecollection")],
        ),
    );
    if served.verbs.contains(&"get") {
        let object = format!("{collection}/{{name}}");
        let verbs = [
            ("get", "get"),
            ("put", "update"),
            ("patch", "patch"),
            ("delete", "delete"),
        ];
        paths.insert(object, operations(served, schema, &verbs));
    }
}

fn operations(served: &Served, schema: &str, verbs: &[(&str, &str)]) -> Value {
    let mut entry = Map::new();
    for (method, verb) in verbs.iter().filter(|(_, verb)| served.verbs.contains(verb)) {
        let action = match *verb {
            "create" => "post",
            "update" => "put",
            other => other,
        };
        let mut operation = json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind":
                {"group": &*served.group, "version": &*served.version, "kind": &*served.kind},
            "responses": {"200": {"description": "OK", "content": {"application/json":
                {"schema": {"$ref": format!("#/components/schemas/{schema}")}}}}},
        });
        let names: &[&str] = match *verb {
            "create" | "update" => &["dryRun", "fieldManager", "fieldValidation"],
            "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
            "delete" | "deletecollection" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
            _ => &[],
        };
        operation["parameters"] = names.iter().map(|name| parameter(name)).collect();
        entry.insert((*method).to_owned(), operation);
    }
    Value::Object(entry)
}

fn parameter(name: &str) -> Value {
    let kind = match name {
        "force" => "boolean",
        "gracePeriodSeconds" => "integer",
        _ => "string",
    };
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}
