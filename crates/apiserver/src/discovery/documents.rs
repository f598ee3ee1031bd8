//! Discovery documents, in the old form (one document per version) and the aggregated one.

use serde_json::{Value, json};

use crate::registry::{Registry, Served, Subresource, join_api_version};

/// GET /api.
pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// GET /apis.
pub(super) fn group_list(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .filter(|(group, _)| !group.is_empty())
        .filter_map(|(name, _)| group_entry(registry, name))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// GET /apis/GROUP.
pub(super) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let mut entry = group_entry(registry, name)?;
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Some(entry)
}

fn group_entry(registry: &Registry, name: &str) -> Option<Value> {
    let versions = registry.versions(name).filter(|_| !name.is_empty())?;
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": join_api_version(name, version), "version": &**version}))
        .collect();
    Some(json!({"name": name, "versions": versions, "preferredVersion": versions.first()}))
}

/// GET /api/VERSION and /apis/GROUP/VERSION.
pub(super) fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for served in registry.resources(group, version)?.values() {
        resources.push(resource_entry(served));
        resources.extend(served.subresources.iter().map(|part| part_entry(served, part)));
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": join_api_version(group, version),
        "resources": resources,
    }))
}

fn resource_entry(served: &Served) -> Value {
    let mut entry = json!({
        "name": &*served.plural,
        "singularName": &*served.singular,
        "namespaced": served.namespaced,
        "kind": &*served.kind,
        "verbs": served.verbs,
    });
    if !served.short_names.is_empty() {
        entry["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        entry["categories"] = json!(served.categories);
    }
    entry
}

fn part_entry(served: &Served, part: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", served.plural, part.name),
        "singularName": "",
        "namespaced": served.namespaced,
        "kind": part.speaks.map_or(&*served.kind, |(_, _, kind)| kind),
        "verbs": part.verbs,
    });
    if let Some((group, version, _)) = part.speaks {
        entry["group"] = json!(group);
        entry["version"] = json!(version);
    }
    entry
}

/// GET /api and /apis in the aggregated form.
pub(super) fn aggregated(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources = registry
                        .resources(group, version)
                        .into_iter()
                        .flat_map(|map| map.values());
                    let resources: Vec<Value> = resources.map(|served| aggregated_resource(served)).collect();
                    json!({"version": &**version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if core {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": &**group, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(served: &Served) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": &*served.plural,
        "responseKind": kind(&served.group, &served.version, &served.kind),
        "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*served.singular,
        "verbs": served.verbs,
    });
    if !served.short_names.is_empty() {
        entry["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        entry["categories"] = json!(served.categories);
    }
    let parts: Vec<Value> = served
        .subresources
        .iter()
        .map(|part| {
            let response = match part.speaks {
                Some((group, version, name)) => kind(group, version, name),
                None => kind(&served.group, &served.version, &served.kind),
            };
            json!({"subresource": part.name, "responseKind": response, "verbs": part.verbs})
        })
        .collect();
    if !parts.is_empty() {
        entry["subresources"] = json!(parts);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::builtin_resources;

    #[test]
    fn both_forms_name_the_same_resources() {
        let registry = Registry::new(builtin_resources());
        let old = resource_list(&registry, "", "v1").unwrap();
        let old: Vec<&str> = old["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|entry| entry["name"].as_str())
            .filter(|name| !name.contains('/'))
            .collect();
        let new = aggregated(&registry, true);
        let new: Vec<&str> = new["items"][0]["versions"][0]["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|entry| entry["resource"].as_str())
            .collect();
        assert_eq!(old, new);
        assert!(old.contains(&"pods"));
    }

    #[test]
    fn groups_exclude_the_core_one() {
        let registry = Registry::new(builtin_resources());
        let list = group_list(&registry);
        assert!(
            list["groups"]
                .as_array()
                .unwrap()
                .iter()
                .all(|group| group["name"] != "")
        );
        assert_eq!(
            group(&registry, "apps").unwrap()["preferredVersion"]["groupVersion"],
            "apps/v1"
        );
        assert!(group(&registry, "").is_none());
    }
}
