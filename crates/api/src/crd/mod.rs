//! The CustomResourceDefinitions, generated from the types.
//!
//! Owns what a cluster is told about the API: schemas, columns, subresources. The shape is that of the Go operator's
//! CRDs, so that both accept, prune and default the same objects (the test `crd_structure` compares them node by node);
//! the descriptions are short and our own, which makes the documents small enough for any way of applying them.
//! Pure: installing them is the business of the crate `coppice-crds`.

mod kinds;
mod structural;
mod yaml;

use serde_json::Value;

/// All CustomResourceDefinitions, always in the same order and with the same content.
pub fn all() -> Vec<Value> {
    kinds::all()
}

/// All CustomResourceDefinitions as one YAML stream, for `kubectl apply --server-side -f -`.
pub fn to_yaml() -> String {
    let mut text = String::from(HEADER);
    for definition in all() {
        text.push_str("---\n");
        yaml::write(&mut text, &definition);
    }
    text
}

/// All CustomResourceDefinitions as one JSON `List`, which `kubectl` also applies; one line for each definition.
pub fn to_json() -> String {
    let items: Vec<String> = all().iter().map(Value::to_string).collect();
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}\n]}}\n",
        items.join(",\n")
    )
}

const HEADER: &str = "\
# The custom resources of Coppice. Generated from its API types by `coppice crds`; do not edit.
# Apply with `coppice crds install`, or with `kubectl apply --server-side -f`.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_forms_hold_all_definitions() {
        let read: Vec<Value> = serde_saphyr::from_multiple(&to_yaml()).expect("our own YAML can be read");
        assert_eq!(read, all());
        let list: Value = serde_json::from_str(&to_json()).expect("our own JSON can be read");
        assert_eq!(list["items"], Value::from(all()));
    }

    #[test]
    fn the_text_does_not_depend_on_anything() {
        assert_eq!(to_yaml(), to_yaml());
        assert!(to_yaml().starts_with("# The custom resources of Coppice."));
    }

    /// An annotation holds at most 256 KiB, and client-side apply stores the object in one.
    #[test]
    fn each_definition_is_small_enough_for_every_way_of_applying_it() {
        for definition in all() {
            let size = definition.to_string().len();
            assert!(size < 128 * 1024, "{} has {size} bytes", definition["metadata"]["name"]);
        }
    }

    #[test]
    fn every_field_of_our_own_types_is_described() {
        fn walk(schema: &Value, path: &str, missing: &mut Vec<String>) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                if property.get("description").is_none() {
                    missing.push(path.clone());
                }
                if !["podSpec", "templateSpec", "metrics", "conditions"].contains(&name.as_str()) {
                    walk(property, &path, missing);
                    walk(&property["items"], &path, missing);
                }
            }
        }
        let mut missing = Vec::new();
        for definition in all() {
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            for part in ["spec", "status"] {
                walk(&schema["properties"][part], part, &mut missing);
            }
        }
        assert!(missing.is_empty(), "fields without a description: {missing:?}");
    }
}
