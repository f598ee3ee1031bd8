//! What a request to the API server is about, read off its method and path. Pure.

use http::{Method, Uri};

/// A request in the terms of the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the lower-case method for
    /// what is not a resource.
    pub verb: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// The plural of the resource; the path for what is not a resource.
    pub resource: String,
    /// The subresource, if any.
    pub subresource: Option<String>,
    /// The namespace, if any.
    pub namespace: Option<String>,
    /// The name, if any.
    pub name: Option<String>,
    /// The number of the call, counted from 1 by the layer that made it.
    pub number: u64,
}

impl Call {
    /// Reads a request.
    #[must_use]
    pub fn read(method: &Method, uri: &Uri) -> Self {
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _version, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                let verb = method.as_str().to_ascii_lowercase();
                return Self {
                    verb,
                    resource: uri.path().to_owned(),
                    ..Self::default()
                };
            }
        };
        // A namespace is itself a resource; only these two below one are its subresources.
        let (namespace, rest) = match rest {
            ["namespaces", _name] | ["namespaces", _name, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let name = rest.get(1).map(|name| (*name).to_owned());
        let watching = uri.query().is_some_and(|query| {
            query
                .split('&')
                .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"))
        });
        let verb = match (method.as_str(), &name) {
            ("GET", _) if watching => "watch",
            ("GET", Some(_)) => "get",
            ("GET", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            _ => "other",
        };
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: rest[0].to_owned(),
            subresource: rest.get(2).map(|subresource| (*subresource).to_owned()),
            namespace,
            name,
            number: 0,
        }
    }

    /// Whether the call may change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch" | "head" | "options")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> (String, String, String, Option<String>, Option<String>, Option<String>) {
        let call = Call::read(&method.parse().unwrap(), &uri.parse().unwrap());
        (
            call.verb,
            call.group,
            call.resource,
            call.subresource,
            call.namespace,
            call.name,
        )
    }

    #[test]
    fn paths_and_methods() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("PATCH", "/apis/grove.io/v1alpha1/namespaces/n/podcliques/a/status?x=1"),
            (
                "patch".into(),
                "grove.io".into(),
                "podcliques".into(),
                some("status"),
                some("n"),
                some("a")
            )
        );
        assert_eq!(
            read("GET", "/api/v1/pods?watch=true&resourceVersion=5"),
            ("watch".into(), String::new(), "pods".into(), None, None, None)
        );
        assert_eq!(
            read("GET", "/api/v1/namespaces/n"),
            ("get".into(), String::new(), "namespaces".into(), None, None, some("n"))
        );
        assert_eq!(
            read("DELETE", "/api/v1/namespaces/n/pods"),
            (
                "deletecollection".into(),
                String::new(),
                "pods".into(),
                None,
                some("n"),
                None
            )
        );
        assert_eq!(read("GET", "/api/v1/nodes").0, "list");
        assert_eq!(read("GET", "/version").2, "/version");
    }

    #[test]
    fn writes_are_known() {
        let is_write = |method: &str, uri: &str| Call::read(&method.parse().unwrap(), &uri.parse().unwrap()).is_write();
        assert!(is_write("POST", "/api/v1/namespaces/n/pods"));
        assert!(!is_write("GET", "/api/v1/pods?watch=true"));
        assert!(
            !is_write("GET", "/version"),
            "what is not a resource is read with GET too"
        );
    }
}
