//! What the user may read, asked once per kind before it is watched.
//!
//! Owns the choice between the whole cluster, one namespace, and nothing. A kind that may not be read, or that the cluster
//! does not serve, is left out with a sentence that says so; the rest of the dashboard works without it.

use kube::Client;
use kube::core::{ApiResource, DynamicObject, Resource as _};

/// How much of a kind may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    Cluster,
    /// One namespace.
    Namespace(String),
    /// Nothing, and why.
    Nothing(String),
}

/// Whether a kind has namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Its objects are in namespaces.
    Namespaced,
    /// Its objects are in none.
    ClusterWide,
}

/// Lists one object of a kind to learn whether it may be listed: in `only`, if given, else in all namespaces, else in `own`.
pub async fn probe(client: &Client, resource: &ApiResource, reach: Reach, only: Option<&str>, own: &str) -> Scope {
    let places: Vec<Option<&str>> = match (reach, only) {
        (Reach::ClusterWide, _) => vec![None],
        (Reach::Namespaced, Some(only)) => vec![Some(only)],
        (Reach::Namespaced, None) => vec![None, Some(own)],
    };
    let mut refused = String::new();
    for place in places {
        match list_one(client, resource, place).await {
            Ok(()) => {
                return place.map_or(Scope::Cluster, |namespace| Scope::Namespace(namespace.to_owned()));
            }
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let first = format!("{} may not be listed: {}", resource.kind, status.message);
                refused = if refused.is_empty() { first } else { refused };
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Scope::Nothing(format!(
                    "the cluster does not serve {}: install the CRDs with `coppice crds install`, then start the dashboard again",
                    resource.plural
                ));
            }
            // Anything else may pass: the watch tries again.
            Err(_) => return place.map_or(Scope::Cluster, |namespace| Scope::Namespace(namespace.to_owned())),
        }
    }
    Scope::Nothing(refused)
}

async fn list_one(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Result<(), kube::Error> {
    let path = DynamicObject::url_path(resource, namespace);
    let request = http::Request::get(format!("{path}?limit=1")).body(Vec::new());
    let request =
        request.map_err(|error| kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error)))?;
    client.request_text(request).await.map(drop)
}
