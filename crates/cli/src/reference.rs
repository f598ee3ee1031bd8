//! The API reference, written from the schemas that a cluster is given.
//!
//! Pure. `docs/api-reference.md` is what it writes; the test below fails when the two differ.

use std::fmt::Write as _;

use serde_json::Value;

/// Fields whose content Kubernetes defines.
const FOREIGN: [&str; 4] = ["podSpec", "templateSpec", "metrics", "conditions"];

const HEAD: &str = "\
# API reference

Generated from the types by `coppice crds -o markdown`; do not edit. [Concepts](concepts.md) says what these objects are
for, [the comparison](compatibility.md) how they relate to the Go operator's.

A field is written with its whole path: `cliques[].name` is the name of each clique, `labels{}` a map. Fields marked with
a star are required. Fields of Kubernetes' own types (pod specifications, metrics, conditions) are not repeated here.

| kind | API version | short | scope | subresources |
|---|---|---|---|---|
";

/// The whole page.
pub(crate) fn markdown(definitions: &[Value]) -> String {
    let mut page = String::from(HEAD);
    for definition in definitions {
        let (kind, names) = (kind(definition), &definition["spec"]["names"]);
        let short = names["shortNames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let subresources = version(definition)["subresources"].as_object();
        let subresources: Vec<&str> = subresources
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        let _ = writeln!(
            page,
            "| [{kind}](#{}) | `{}` | `{}` | {} | {} |",
            kind.to_lowercase(),
            api_version(definition),
            short.collect::<Vec<_>>().join("`, `"),
            definition["spec"]["scope"].as_str().unwrap_or_default(),
            subresources.join(", ")
        );
    }
    for definition in definitions {
        one(&mut page, definition);
    }
    page
}

fn kind(definition: &Value) -> &str {
    definition["spec"]["names"]["kind"].as_str().unwrap_or_default()
}

fn version(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]
}

fn api_version(definition: &Value) -> String {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    format!("{group}/{}", version(definition)["name"].as_str().unwrap_or_default())
}

fn one(page: &mut String, definition: &Value) {
    let schema = &version(definition)["schema"]["openAPIV3Schema"];
    let _ = write!(
        page,
        "\n## {}\n\n`{}`. {}\n",
        kind(definition),
        api_version(definition),
        words(schema)
    );
    for part in ["spec", "status"] {
        let Some(schema) = schema["properties"].get(part) else {
            continue;
        };
        let mut rows = String::new();
        fields(&mut rows, schema, "");
        if rows.is_empty() {
            continue;
        }
        let _ = write!(
            page,
            "\n### {} {part}\n\n| field | type | |\n|---|---|---|\n{rows}",
            kind(definition)
        );
    }
    let columns = version(definition)["additionalPrinterColumns"].as_array();
    let columns: Vec<&str> = columns
        .into_iter()
        .flatten()
        .filter_map(|column| column["name"].as_str())
        .collect();
    if !columns.is_empty() {
        let _ = write!(page, "\n`kubectl get` shows: {}.\n", columns.join(", "));
    }
}

/// A row for each property of an object, and for those within.
fn fields(rows: &mut String, schema: &Value, above: &str) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let (path, inner) = within(&format!("{above}{name}"), field);
        let star = if required.contains(&name.as_str()) { " *" } else { "" };
        let _ = writeln!(rows, "| `{path}`{star} | {} | {} |", type_of(field), remarks(field));
        if !FOREIGN.contains(&name.as_str()) {
            fields(rows, inner, &format!("{path}."));
        }
    }
}

/// The path with what kind of collection it is, and the schema of what is in it.
fn within<'a>(path: &str, field: &'a Value) -> (String, &'a Value) {
    if field["items"].is_object() {
        return (format!("{path}[]"), &field["items"]);
    }
    if field["additionalProperties"].is_object() {
        return (format!("{path}{{}}"), &field["additionalProperties"]);
    }
    (path.to_owned(), field)
}

fn type_of(field: &Value) -> String {
    let (_, inner) = within("", field);
    let own = |schema: &Value| {
        let name = schema["type"].as_str().unwrap_or("any");
        match schema["format"].as_str() {
            Some(format) => format!("{name} ({format})"),
            None => name.to_owned(),
        }
    };
    match (field["items"].is_object(), field["additionalProperties"].is_object()) {
        (true, _) => format!("list of {}", own(inner)),
        (_, true) => format!("map of {}", own(inner)),
        _ => own(field),
    }
}

/// What it means, what it may be, and what it is when it is left out.
fn remarks(field: &Value) -> String {
    let mut parts = vec![words(field)];
    let (_, inner) = within("", field);
    for schema in [field, inner] {
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<String> = values.iter().map(|value| format!("`{}`", plain(value))).collect();
            parts.push(format!("One of {}.", values.join(", ")));
        }
        if let Some(pattern) = schema["pattern"].as_str() {
            // A bar would end the cell.
            parts.push(format!("Matches `{}`.", pattern.replace('|', "\\|")));
        }
        for (key, text) in [
            ("minimum", "At least"),
            ("maximum", "At most"),
            ("minItems", "Entries: at least"),
            ("maxItems", "Entries: at most"),
            ("maxLength", "Characters: at most"),
        ] {
            if schema[key].is_number() {
                parts.push(format!("{text} {}.", schema[key]));
            }
        }
        let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
        parts.extend(
            rules
                .filter_map(|rule| rule["message"].as_str())
                .map(|message| format!("Rule: {message}.")),
        );
        if std::ptr::eq(field, inner) {
            break;
        }
    }
    if let Some(default) = field.get("default") {
        parts.push(format!("Default: `{}`.", plain(default)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

fn words(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .replace('\n', " ")
        .replace('|', "\\|")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        crate::golden::check("../../../docs/api-reference.md", &markdown(&coppice_api::crd::all()));
    }

    /// The names on the way to every property below a schema, collections left out. Walks the schema by itself, so that a
    /// branch that the page forgets is noticed.
    fn paths(schema: &Value, above: &str, found: &mut Vec<String>) {
        for inner in [&schema["items"], &schema["additionalProperties"]] {
            paths_below(inner, above, found);
        }
        paths_below(schema, above, found);
    }

    fn paths_below(schema: &Value, above: &str, found: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{above}{name}");
            found.push(path.clone());
            if !FOREIGN.contains(&name.as_str()) {
                paths(field, &format!("{path}."), found);
            }
        }
    }

    #[test]
    fn every_field_of_our_own_has_a_row() {
        let definitions = coppice_api::crd::all();
        let page = markdown(&definitions);
        let rows: std::collections::BTreeSet<String> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .map(|path| path.replace("[]", "").replace("{}", ""))
            .collect();
        let mut wanted = Vec::new();
        for definition in &definitions {
            let definition = serde_json::to_value(definition).expect("a definition is JSON");
            for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
                let schema = &version["schema"]["openAPIV3Schema"];
                for part in ["spec", "status"] {
                    paths(&schema["properties"][part], "", &mut wanted);
                }
            }
        }
        assert!(
            wanted.len() > 200,
            "{} fields: are the schemas still read?",
            wanted.len()
        );
        let missing: Vec<&String> = wanted.iter().filter(|path| !rows.contains(*path)).collect();
        assert!(missing.is_empty(), "fields without a row: {missing:?}");
        assert!(
            !page.contains("podSpec.containers"),
            "pod specifications are Kubernetes' own"
        );
    }

    #[test]
    fn rows_say_what_a_field_may_be() {
        let schema = json!({"required": ["kind"], "properties": {
            "kind": {"type": "string", "enum": ["A", "B"], "default": "A", "description": "Which | what."},
            "sizes": {"type": "array", "items": {"type": "integer", "format": "int32", "minimum": 0}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}});
        let mut rows = String::new();
        fields(&mut rows, &schema, "");
        assert_eq!(
            rows,
            "| `kind` * | string | Which \\| what. One of `A`, `B`. Default: `A`. |\n\
             | `labels{}` | map of string |  |\n\
             | `sizes[]` | list of integer (int32) | At least 0. |\n"
        );
    }
}
