//! Which resources are served, and by which rules.
//!
//! A [`Registry`] is an immutable snapshot: the built-in table plus the custom resources that exist. Whoever handles a
//! request takes the snapshot once; a change of a CustomResourceDefinition makes a new one.

mod builtin;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kinds::Kind;
use crate::status::About;

pub(crate) use builtin::builtin_resources;

/// A part of an object that is read or written on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// Its name, the last element of the path.
    pub(crate) name: String,
    /// The kind it speaks, as `(group, version, kind)`; the object's own when absent.
    pub(crate) speaks: Option<(&'static str, &'static str, &'static str)>,
    /// The verbs it has.
    pub(crate) verbs: &'static [&'static str],
}

/// One resource in one version, as served.
#[derive(Clone)]
pub(crate) struct Served {
    /// The name in the store (`pods`, `deployments.apps`), shared by all versions.
    pub(crate) id: Arc<str>,
    /// The group, empty for the core group.
    pub(crate) group: Arc<str>,
    /// The version.
    pub(crate) version: Arc<str>,
    /// The `apiVersion` objects are stored under.
    pub(crate) storage_api_version: Arc<str>,
    /// The plural name.
    pub(crate) plural: Arc<str>,
    /// The singular name.
    pub(crate) singular: Arc<str>,
    /// The kind.
    pub(crate) kind: Arc<str>,
    /// The kind of lists.
    pub(crate) list_kind: Arc<str>,
    /// Short names for people.
    pub(crate) short_names: Vec<String>,
    /// Groups of resources, such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub(crate) namespaced: bool,
    /// The verbs.
    pub(crate) verbs: &'static [&'static str],
    /// The parts.
    pub(crate) subresources: Vec<Subresource>,
    /// Whether the kind comes from a CustomResourceDefinition.
    pub(crate) custom: bool,
    /// The rules of the kind.
    pub(crate) rules: Arc<dyn Kind>,
}

impl Served {
    /// `group/version`, or the version alone in the core group.
    pub(crate) fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// The resource, for errors.
    pub(crate) fn about(&self) -> About<'_> {
        About {
            group: &self.group,
            resource: &self.plural,
        }
    }

    /// The kind, for errors about the object's content.
    pub(crate) fn about_kind(&self) -> About<'_> {
        About {
            group: &self.group,
            resource: &self.kind,
        }
    }

    /// The part of that name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|part| part.name == name)
    }
}

impl std::fmt::Debug for Served {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{} {}", self.group, self.version, self.plural)
    }
}

/// `group/version`, or the version alone in the core group.
pub(crate) fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Resources of one group and version by plural name.
type ByPlural = BTreeMap<Arc<str>, Arc<Served>>;

/// All served resources.
#[derive(Clone, Default, Debug)]
pub(crate) struct Registry {
    groups: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    group_order: Vec<Arc<str>>,
    resources: BTreeMap<(Arc<str>, Arc<str>), ByPlural>,
}

impl Registry {
    /// A registry of these resources; groups and versions keep the order in which they first appear.
    pub(crate) fn new(resources: impl IntoIterator<Item = Served>) -> Self {
        let mut registry = Self::default();
        for served in resources {
            let versions = registry.groups.entry(served.group.clone()).or_insert_with(|| {
                registry.group_order.push(served.group.clone());
                Vec::new()
            });
            if !versions.contains(&served.version) {
                versions.push(served.version.clone());
            }
            let key = (served.group.clone(), served.version.clone());
            registry
                .resources
                .entry(key)
                .or_default()
                .insert(served.plural.clone(), Arc::new(served));
        }
        registry
    }

    /// The groups with their versions, in order of preference.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Arc<str>, &[Arc<str>])> {
        self.group_order
            .iter()
            .map(|group| (group, self.groups[group].as_slice()))
    }

    /// The versions of a group.
    pub(crate) fn versions(&self, group: &str) -> Option<&[Arc<str>]> {
        self.groups.get(group).map(Vec::as_slice)
    }

    /// The resources of a group and version.
    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<&ByPlural> {
        self.resources.get(&(group.into(), version.into()))
    }

    /// One resource.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.resources(group, version)?.get(plural)
    }

    /// A resource in the version the group prefers.
    pub(crate) fn find_resource(&self, group: &str, plural: &str) -> Option<&Arc<Served>> {
        self.versions(group)?
            .iter()
            .find_map(|version| self.find(group, version, plural))
    }
}
