//! Which resource a kind is served as: asked from discovery once, and for custom resources read from their definitions
//! as soon as those are established. Discovery lags behind new definitions, the definitions do not.

use kube::Client;
use kube::core::ApiResource;
use kube::discovery::{Discovery, Scope};
use serde_json::Value;

use super::target::KindName;
use super::world::World;

/// A kind as the API server serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    /// Group, version, kind and path.
    pub(super) api: ApiResource,
    /// Whether its objects live in namespaces.
    pub(super) namespaced: bool,
}

/// The kinds known from discovery, recommended versions first.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds {
    resources: Vec<Resource>,
}

impl Kinds {
    /// Asks the API server.
    pub(super) async fn discover(client: &Client) -> Result<Self, kube::Error> {
        let discovery = match Discovery::new(client.clone()).run_aggregated().await {
            Ok(discovery) => discovery,
            Err(_) => Discovery::new(client.clone()).run().await?,
        };
        let mut resources = Vec::new();
        for group in discovery.groups_alphabetical() {
            let versions = group.versions().flat_map(|version| group.versioned_resources(version));
            for (api, capabilities) in group.recommended_resources().into_iter().chain(versions) {
                resources.push(Resource {
                    api,
                    namespaced: capabilities.scope == Scope::Namespaced,
                });
            }
        }
        Ok(Self { resources })
    }

    /// The resource of a kind: from discovery, or from the definitions in the world. Without a group, the core group
    /// wins, then the first in the order of the alphabet.
    pub(super) fn resolve(&self, kind: &KindName, world: &World) -> Option<Resource> {
        self.resources
            .iter()
            .find(|resource| serves(resource, kind))
            .cloned()
            .or_else(|| {
                world
                    .objects()
                    .filter(|(key, _)| key.kind == "CustomResourceDefinition")
                    .flat_map(|(_, definition)| defined(definition))
                    .find(|resource| serves(resource, kind))
            })
    }
}

fn serves(resource: &Resource, kind: &KindName) -> bool {
    resource.api.kind == kind.kind
        && kind.group.as_ref().is_none_or(|group| *group == resource.api.group)
        && kind
            .version
            .as_ref()
            .is_none_or(|version| *version == resource.api.version)
}

/// What an established definition serves, its storage version first.
fn defined(definition: &Value) -> Vec<Resource> {
    let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let list = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let established = list("/status/conditions").any(|condition| {
        text(condition, "/type").as_deref() == Some("Established")
            && text(condition, "/status").as_deref() == Some("True")
    });
    if !established {
        return Vec::new();
    }
    let make = |version: &Value| {
        let (group, version) = (text(definition, "/spec/group")?, text(version, "/name")?);
        let api_version = format!("{group}/{version}");
        let (kind, plural) = (
            text(definition, "/spec/names/kind")?,
            text(definition, "/spec/names/plural")?,
        );
        let namespaced = text(definition, "/spec/scope")? == "Namespaced";
        Some(Resource {
            api: ApiResource {
                group,
                version,
                api_version,
                kind,
                plural,
            },
            namespaced,
        })
    };
    let stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let served = |version: &&Value| version.get("served") == Some(&Value::Bool(true));
    let (first, rest): (Vec<&Value>, Vec<&Value>) = list("/spec/versions").filter(served).partition(stored);
    first.into_iter().chain(rest).filter_map(make).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::world;
    use serde_json::json;

    fn world(established: &str) -> World {
        let scope = world::Scope {
            kind: "CustomResourceDefinition".to_owned(),
            group: "apiextensions.k8s.io".to_owned(),
            namespace: String::new(),
        };
        let mut world = World::default();
        world.apply(
            scope.key("widgets.example.com"),
            json!({
                "spec": {
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": {"kind": "Widget", "plural": "widgets"},
                    "versions": [
                        {"name": "v1alpha1", "served": true, "storage": false},
                        {"name": "v1", "served": true, "storage": true},
                        {"name": "v2", "served": false, "storage": false},
                    ],
                },
                "status": {"conditions": [{"type": "Established", "status": established}]},
            }),
        );
        world
    }

    fn resolve(kind: &KindName, world: &World) -> Option<String> {
        Kinds::default()
            .resolve(kind, world)
            .map(|resource| resource.api.api_version)
    }

    #[test]
    fn definitions_serve_once_they_are_established() {
        let widget: KindName = "Widget".parse().unwrap();
        assert_eq!(resolve(&widget, &world("False")), None);
        assert_eq!(resolve(&widget, &world("True")).as_deref(), Some("example.com/v1"));
        let alpha = widget.clone().with_api_version("example.com/v1alpha1");
        assert_eq!(resolve(&alpha, &world("True")).as_deref(), Some("example.com/v1alpha1"));
        assert_eq!(
            resolve(&widget.with_api_version("example.com/v2"), &world("True")),
            None
        );
    }
}
