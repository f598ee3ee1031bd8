//! The built-in resources: names, scope, verbs and subresources, as data for discovery.
//!
//! One line per resource, indented lines for its subresources:
//!
//! ```text
//! pods v1 Pod namespaced singular=pod short=po categories=all verbs=create,delete,get
//!   status v1/Pod verbs=get,patch,update
//! ```

use std::sync::LazyLock;

use crate::SchemaError;
use crate::apply::{FieldSet, Reach};
use crate::model::GroupVersionKind;

/// One resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Plural name, as in paths.
    pub plural: Box<str>,
    /// Singular name.
    pub singular: Box<str>,
    /// The kind it holds.
    pub kind: GroupVersionKind,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Short names.
    pub short_names: Vec<Box<str>>,
    /// Categories such as `all`.
    pub categories: Vec<Box<str>>,
    /// What can be done with it.
    pub verbs: Vec<Box<str>>,
    /// Its subresources.
    pub subresources: Vec<Subresource>,
}

/// One subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// The last part of its path.
    pub name: Box<str>,
    /// The kind it speaks, which may be another than its resource's.
    pub kind: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Vec<Box<str>>,
}

impl Resource {
    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| &*subresource.name == name)
    }

    /// Which fields a write through the resource (empty name) or one of its subresources can own. The scale of a
    /// resource is written as a change of the resource itself, through the subresource `scale`.
    pub fn reach(&self, subresource: &str) -> Reach {
        let has_status = self.subresource("status").is_some();
        let reset: &[&[&str]] = match (subresource, &*self.kind.kind) {
            ("status", "Pod") => &[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ],
            ("status", "Deployment") => &[&["spec"], &["metadata", "labels"]],
            ("status", "ResourceClaim") => &[&["metadata"], &["spec"]],
            ("status", _) => &[&["spec"]],
            _ if has_status => &[&["status"]],
            _ => &[],
        };
        Reach::Except(FieldSet::of_fields(reset))
    }
}

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    read(include_str!("../facts/resources.facts")).expect("the resource table in the crate is well-formed")
});

/// All built-in resources, core group first, then by group and name.
pub fn resources() -> &'static [Resource] {
    &RESOURCES
}

/// The resource of that group, version and plural name.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    resources().iter().find(|resource| {
        *resource.plural == *plural && *resource.kind.group == *group && *resource.kind.version == *version
    })
}

/// The resource that holds a kind.
pub fn resource_of_kind(kind: &GroupVersionKind) -> Option<&'static Resource> {
    resources().iter().find(|resource| resource.kind == *kind)
}

/// Reads a table.
pub fn read(text: &str) -> Result<Vec<Resource>, SchemaError> {
    let mut resources: Vec<Resource> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let result = match line.strip_prefix("  ") {
            Some(rest) => read_subresource(rest, &mut resources),
            None => read_resource(line).map(|resource| resources.push(resource)),
        };
        result.map_err(|error| error.inside(&format!("line {}", index + 1)))?;
    }
    Ok(resources)
}

fn read_resource(line: &str) -> Result<Resource, SchemaError> {
    let words: Vec<&str> = line.split(' ').collect();
    let [plural, api_version, kind, scope, rest @ ..] = words.as_slice() else {
        return Err(SchemaError::new("expected name, version, kind and scope"));
    };
    let namespaced = match *scope {
        "namespaced" => true,
        "cluster" => false,
        other => return Err(SchemaError::new(format!("unknown scope {other}"))),
    };
    let mut resource = Resource {
        plural: (*plural).into(),
        singular: Box::default(),
        kind: GroupVersionKind::from_api_version(api_version, kind),
        namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: Vec::new(),
        subresources: Vec::new(),
    };
    for word in rest {
        match word.split_once('=') {
            Some(("singular", name)) => resource.singular = name.into(),
            Some(("short", names)) => resource.short_names = words_of(names),
            Some(("categories", names)) => resource.categories = words_of(names),
            Some(("verbs", names)) => resource.verbs = words_of(names),
            _ => return Err(SchemaError::new(format!("unknown word {word}"))),
        }
    }
    Ok(resource)
}

fn read_subresource(line: &str, resources: &mut [Resource]) -> Result<(), SchemaError> {
    let owner = resources
        .last_mut()
        .ok_or_else(|| SchemaError::new("subresource without resource"))?;
    let words: Vec<&str> = line.split(' ').collect();
    let [name, kind, verbs] = words.as_slice() else {
        return Err(SchemaError::new("expected name, kind and verbs"));
    };
    let (api_version, kind) = kind
        .rsplit_once('/')
        .ok_or_else(|| SchemaError::new("kind has no version"))?;
    let verbs = verbs
        .strip_prefix("verbs=")
        .ok_or_else(|| SchemaError::new("expected verbs"))?;
    owner.subresources.push(Subresource {
        name: (*name).into(),
        kind: GroupVersionKind::from_api_version(api_version, kind),
        verbs: words_of(verbs),
    });
    Ok(())
}

fn words_of(list: &str) -> Vec<Box<str>> {
    list.split(',').map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets::kubernetes;

    #[test]
    fn every_resource_has_a_schema() {
        assert!(resources().len() > 30);
        for resource in resources() {
            assert!(kubernetes().kind(&resource.kind).is_some(), "{}", resource.kind);
            for subresource in &resource.subresources {
                assert!(kubernetes().kind(&subresource.kind).is_some(), "{}", subresource.kind);
            }
        }
    }

    #[test]
    fn pods_are_described() {
        let pods = resource("", "v1", "pods").unwrap();
        assert!(pods.namespaced);
        assert_eq!(
            (&*pods.singular, &*pods.short_names[0], &*pods.categories[0]),
            ("pod", "po", "all")
        );
        assert_eq!(pods.verbs.len(), 8);
        assert_eq!(&*pods.subresource("eviction").unwrap().kind.group, "policy");
        assert_eq!(pods.subresource("binding").unwrap().verbs, ["create".into()]);
        assert_eq!(pods.reach(""), Reach::without_status());
        assert!(pods.subresource("exec").is_none(), "streams have no schema");
        assert!(resource_of_kind(&pods.kind).is_some());
        assert!(resource("", "v1", "gadgets").is_none());
    }

    #[test]
    fn scopes_and_groups() {
        assert!(!resource("", "v1", "nodes").unwrap().namespaced);
        assert!(!resource("resource.k8s.io", "v1", "deviceclasses").unwrap().namespaced);
        assert!(resource("autoscaling", "v2", "horizontalpodautoscalers").is_some());
        assert!(resource("autoscaling", "v1", "horizontalpodautoscalers").is_some());
        let secrets = resource("", "v1", "secrets").unwrap();
        assert_eq!(secrets.reach(""), Reach::everything());
    }

    #[test]
    fn malformed_tables_are_refused() {
        let errors = [
            ("pods v1", "line 1: expected name, version, kind and scope"),
            ("pods v1 Pod galaxy", "line 1: unknown scope galaxy"),
            ("  status v1/Pod verbs=get", "line 1: subresource without resource"),
            (
                "pods v1 Pod cluster\n  status Pod verbs=get",
                "line 2: kind has no version",
            ),
        ];
        for (text, expected) in errors {
            assert_eq!(read(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
