//! What a request is about, read from its path and query.

use http::Method;

use crate::status::ApiError;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A resource, or an object, or a part of one.
    Resource(ResourcePath),
    /// Anything else: discovery, health, version, schemas.
    Other(Vec<String>),
}

/// The parts of a resource path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// The group, empty for the core group.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The namespace, empty when the path names none.
    pub(crate) namespace: String,
    /// The plural resource name.
    pub(crate) resource: String,
    /// The object's name, empty for the collection.
    pub(crate) name: String,
    /// The part of the object, empty for the whole.
    pub(crate) subresource: String,
    /// Whether the path itself asks for a watch (`/api/v1/watch/...`), the old way.
    pub(crate) watch: bool,
    /// What follows the subresource (`proxy/some/path`).
    pub(crate) rest: Vec<String>,
}

impl Target {
    /// Reads a path.
    pub(crate) fn parse(path: &str) -> Self {
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(percent_decode)
            .collect();
        let (group, version, rest) = match segments.first().map(String::as_str) {
            Some("api") if segments.len() > 2 => (String::new(), segments[1].clone(), &segments[2..]),
            Some("apis") if segments.len() > 3 => (segments[1].clone(), segments[2].clone(), &segments[3..]),
            _ => return Self::Other(segments),
        };
        let (watch, rest) = match rest {
            [first, tail @ ..] if first == "watch" && !tail.is_empty() => (true, tail),
            other => (false, other),
        };
        let mut path = ResourcePath {
            watch,
            group,
            version,
            ..ResourcePath::default()
        };
        let rest = match rest {
            // A namespace and its parts are themselves resources; anything deeper lies inside the namespace.
            [first, namespace, second, tail @ ..] if first == "namespaces" && !is_namespace_part(second) => {
                path.namespace.clone_from(namespace);
                path.resource.clone_from(second);
                tail
            }
            [first, tail @ ..] => {
                path.resource.clone_from(first);
                tail
            }
            [] => return Self::Other(segments),
        };
        let mut parts = rest.iter();
        path.name = parts.next().cloned().unwrap_or_default();
        path.subresource = parts.next().cloned().unwrap_or_default();
        path.rest = parts.cloned().collect();
        Self::Resource(path)
    }
}

fn is_namespace_part(segment: &str) -> bool {
    matches!(segment, "status" | "finalize")
}

fn percent_decode(segment: &str) -> String {
    if !segment.contains('%') {
        return segment.to_owned();
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let decoded = (*first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The verb of a method on a path.
    pub(crate) fn of(method: &Method, path: &ResourcePath, watch: bool) -> Result<Self, ApiError> {
        let named = !path.name.is_empty();
        match *method {
            Method::GET | Method::HEAD if watch && path.subresource.is_empty() => Ok(Self::Watch),
            Method::GET | Method::HEAD if named => Ok(Self::Get),
            Method::GET | Method::HEAD => Ok(Self::List),
            Method::POST if !named || !path.subresource.is_empty() => Ok(Self::Create),
            Method::PUT if named => Ok(Self::Update),
            Method::PATCH if named => Ok(Self::Patch),
            Method::DELETE if named => Ok(Self::Delete),
            Method::DELETE => Ok(Self::DeleteCollection),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// Whether the body holds options and no object.
    pub(crate) fn is_deletion(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteCollection)
    }

    /// The word used in discovery and authorization.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> (String, String, String, String, String, String) {
        match Target::parse(path) {
            Target::Resource(path) => (
                path.group,
                path.version,
                path.namespace,
                path.resource,
                path.name,
                path.subresource,
            ),
            Target::Other(segments) => panic!("{segments:?}"),
        }
    }

    fn text(parts: [&str; 6]) -> (String, String, String, String, String, String) {
        let [group, version, namespace, resource, name, subresource] = parts.map(str::to_owned);
        (group, version, namespace, resource, name, subresource)
    }

    #[test]
    fn paths_of_objects() {
        assert_eq!(
            resource("/api/v1/namespaces/ns/pods/p/status"),
            text(["", "v1", "ns", "pods", "p", "status"])
        );
        assert_eq!(
            resource("/apis/apps/v1/deployments"),
            text(["apps", "v1", "", "deployments", "", ""])
        );
        assert_eq!(
            resource("/api/v1/namespaces"),
            text(["", "v1", "", "namespaces", "", ""])
        );
        assert_eq!(
            resource("/api/v1/namespaces/ns"),
            text(["", "v1", "", "namespaces", "ns", ""])
        );
        assert_eq!(
            resource("/api/v1/namespaces/ns/finalize"),
            text(["", "v1", "", "namespaces", "ns", "finalize"])
        );
        assert_eq!(
            resource("/api/v1/nodes/n%2F1"),
            text(["", "v1", "", "nodes", "n/1", ""])
        );
    }

    #[test]
    fn other_paths() {
        for path in [
            "/api",
            "/apis",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/version",
            "/",
            "/healthz",
        ] {
            assert!(matches!(Target::parse(path), Target::Other(_)), "{path}");
        }
    }

    #[test]
    fn verbs_follow_the_method_and_the_path() {
        let object = ResourcePath {
            name: "p".into(),
            ..ResourcePath::default()
        };
        let collection = ResourcePath::default();
        assert_eq!(Verb::of(&Method::GET, &object, false), Ok(Verb::Get));
        assert_eq!(Verb::of(&Method::GET, &collection, true), Ok(Verb::Watch));
        assert_eq!(
            Verb::of(&Method::DELETE, &collection, false),
            Ok(Verb::DeleteCollection)
        );
        assert!(Verb::of(&Method::POST, &object, false).is_err());
        assert!(Verb::of(&Method::PUT, &collection, false).is_err());
    }
}
