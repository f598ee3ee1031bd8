//! What the integration tests share: the embedded API server, clients of it with faults, and a cache of config maps.

use std::sync::Arc;

use coppice_apiserver::ApiServer;
use coppice_runtime::{
    cache::{Cache, Kind, ObjectKey, Typed, reflect},
    clock::{Clock, TokioClock},
    layers::{self, Call, Fault, FaultHook},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, core::ApiResource};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The kind that the tests use.
pub(crate) type Maps = Kind<Typed<ConfigMap>>;

pub(crate) fn clock() -> TokioClock {
    TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap())
}

pub(crate) fn server() -> ApiServer {
    // A short history, so that an interrupted watch may really find its version expired.
    let clock = clock();
    ApiServer::builder()
        .seed(1)
        .clock(move || clock.now())
        .history_limit(20)
        .build()
}

pub(crate) fn client(server: &ApiServer, hook: impl FaultHook) -> Client {
    let options = layers::Options {
        faults: Some(Arc::new(hook)),
        ..layers::Options::default()
    };
    layers::client_of_service(server.service(), "default", &options)
}

pub(crate) fn pass(_: &Call) -> Fault {
    Fault::Pass
}

pub(crate) struct Watched {
    pub(crate) cache: Cache,
    pub(crate) maps: Maps,
    _stop: DropGuard,
}

/// A cache of the config maps that are there, fed through `client`.
pub(crate) fn watched(client: Client, options: reflect::Options) -> Watched {
    let cache = Cache::default();
    let maps = cache.kind(ApiResource::erase::<ConfigMap>(&()), Typed::default());
    let stop = CancellationToken::new();
    tokio::spawn(reflect::reflect(client, maps.clone(), options, stop.clone()));
    Watched {
        cache,
        maps,
        _stop: stop.drop_guard(),
    }
}

impl Watched {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<ConfigMap>> {
        self.maps.get(&self.cache.moment(), &ObjectKey::new("default", name))
    }

    /// Name and version of all that is held.
    pub(crate) fn versions(&self) -> Vec<(String, String)> {
        versions(self.maps.all(&self.cache.moment()).iter().map(|map| &**map))
    }
}

/// Name and version of all that is on the server.
pub(crate) async fn truth(api: &Api<ConfigMap>) -> Vec<(String, String)> {
    versions(&api.list(&kube::api::ListParams::default()).await.unwrap().items)
}

fn versions<'map>(maps: impl IntoIterator<Item = &'map ConfigMap>) -> Vec<(String, String)> {
    let mut versions: Vec<_> = maps
        .into_iter()
        .map(|map| {
            (
                map.metadata.name.clone().unwrap(),
                map.metadata.resource_version.clone().unwrap(),
            )
        })
        .collect();
    versions.sort();
    versions
}
