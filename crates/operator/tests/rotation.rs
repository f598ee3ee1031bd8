//! The webhooks over TLS, called by the embedded API server: certificates made, trusted, rotated and restored while sets
//! are being created, without one failed request.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;

use coppice_api::types::PodCliqueSet;
use coppice_apiserver::ApiServer;
use coppice_crds::{InstallOptions, install};
use coppice_operator::certificates::material::{Authority, Material};
use coppice_operator::certificates::{keeper, served::Served};
use coppice_operator::webhooks::configurations::Address;
use coppice_operator::webhooks::service::{Certificates, Service};
use coppice_operator::webhooks::{Admission, Endpoint, Policy, install as configurations, server};
use coppice_operator::world::World;
use coppice_runtime::cache::Cache;
use coppice_runtime::clock::Clock;
use coppice_runtime::metrics::Metrics;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const SECRET: &str = "grove-webhook-server-cert";
const ENDPOINTS: [Endpoint; 3] = [
    Endpoint::DefaultPodCliqueSet,
    Endpoint::ValidatePodCliqueSet,
    Endpoint::ValidateClusterTopologyBinding,
];

/// A clock that can be set, and goes on by a minute whenever somebody looks: nobody has to wait for it.
struct Minutes(Mutex<Timestamp>);

impl Clock for Minutes {
    fn now(&self) -> Timestamp {
        let mut now = self.0.lock();
        *now += SignedDuration::from_mins(1);
        *now
    }
}

fn set(name: &str, minimum: i32) -> PodCliqueSet {
    serde_json::from_value(json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name},
        "spec": {"replicas": 0, "template": {"cliques": [{"name": "a", "spec": {
            "roleName": "a", "replicas": 2, "minAvailable": minimum,
            "podSpec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]}}}]}},
    }))
    .expect("a set")
}

fn bundle(configuration: Option<&ValidatingWebhookConfiguration>) -> String {
    let webhooks = configuration.and_then(|configuration| configuration.webhooks.as_ref());
    let bundle = webhooks.and_then(|all| all.first()?.client_config.ca_bundle.clone());
    bundle
        .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
        .unwrap_or_default()
}

fn certificates(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

struct Plane {
    client: Client,
    sets: Api<PodCliqueSet>,
    secrets: Api<Secret>,
    validating: Api<ValidatingWebhookConfiguration>,
    clock: Arc<Minutes>,
    service: Service,
}

impl Plane {
    async fn start() -> Self {
        let client = Client::new(ApiServer::builder().seed(1).build().service(), "default");
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .unwrap();
        let server = server::Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let url = Address::Url(format!("https://{}", server.address().unwrap()));
        configurations::install(&client, &ENDPOINTS, &url).await.unwrap();
        // The API server verifies by real time, so the past of the certificate is real as well.
        let clock = Arc::new(Minutes(Mutex::new(
            Timestamp::now() - SignedDuration::from_hours(270 * 24),
        )));
        let admission = Admission::new(Policy::default(), World::new(Cache::default()), client.clone());
        let options = keeper::Options {
            endpoints: ENDPOINTS.to_vec(),
            clock: clock.clone(),
            ..keeper::Options::new("default", SECRET)
        };
        let kept = Certificates::Kept(Box::new(options));
        let service = Service::start(&client, server, admission, kept, &Metrics::default()).unwrap();
        let plane = Self {
            sets: Api::default_namespaced(client.clone()),
            secrets: Api::default_namespaced(client.clone()),
            validating: Api::all(client.clone()),
            client,
            clock,
            service,
        };
        for endpoint in ENDPOINTS.into_iter().filter(|endpoint| !endpoint.mutates()) {
            plane.until_bundle(endpoint, |bundle| certificates(bundle) == 1).await;
        }
        plane
    }

    async fn until_bundle(&self, endpoint: Endpoint, holds: impl Fn(&str) -> bool) {
        let condition = |found: Option<&ValidatingWebhookConfiguration>| holds(&bundle(found));
        await_condition(self.validating.clone(), endpoint.configuration(), condition)
            .await
            .unwrap();
    }

    async fn secret(&self) -> Secret {
        self.secrets.get(SECRET).await.unwrap()
    }

    /// Wakes the keeper, as any change of what it watches does.
    async fn nudge(&self, number: u32) {
        let patch = json!({"metadata": {"annotations": {"nudge": number.to_string()}}});
        let name = Endpoint::ValidatePodCliqueSet.configuration();
        self.validating
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    async fn stop(self) {
        self.service.stop().await;
        drop(self.client);
    }
}

#[tokio::test]
async fn a_rotation_fails_no_request() {
    let plane = Plane::start().await;
    let stored = plane
        .sets
        .create(&PostParams::default(), &set("good", 1))
        .await
        .unwrap();
    assert_eq!(
        stored.spec.template.termination_delay.as_deref(),
        Some("4h"),
        "defaulted"
    );
    let refused = plane
        .sets
        .create(&PostParams::default(), &set("bad", 3))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!(status.code, 422);
    assert!(
        status.message.contains("spec.template.cliques[0].spec.minAvailable"),
        "{}",
        status.message
    );

    let first = plane.service.served().leaf();
    let before = plane.secret().await;
    assert_eq!(before.type_.as_deref(), Some("kubernetes.io/tls"));
    assert!(
        !before.data.as_ref().unwrap().contains_key("ca.key"),
        "nobody keeps the key of the authority"
    );
    *plane.clock.0.lock() = Timestamp::now();
    let loaded = plane.service.served().subscribe();
    let mut number = 0;
    let mut staged = false;
    while *loaded.borrow() < 2 {
        assert!(number < 2000, "the certificate is never promoted");
        plane.nudge(number).await;
        let name = format!("during-{number}");
        let created = plane.sets.create(&PostParams::default(), &set(&name, 1)).await;
        assert!(created.is_ok(), "request {number} failed: {created:?}");
        staged |= plane
            .secret()
            .await
            .data
            .is_some_and(|data| data.contains_key("next-tls.crt"));
        number += 1;
    }
    assert!(staged, "the next certificate waits beside the current one");
    assert_ne!(plane.service.served().leaf(), first);
    plane
        .sets
        .create(&PostParams::default(), &set("after", 1))
        .await
        .unwrap();
    let after = plane.secret().await.data.unwrap();
    let trusted = String::from_utf8_lossy(&after["ca.crt"].0).into_owned();
    assert_eq!(certificates(&trusted), 2, "the old authority stays until it expires");
    plane.stop().await;
}

#[tokio::test]
async fn what_others_overwrite_is_restored() {
    let plane = Plane::start().await;
    let name = Endpoint::ValidateClusterTopologyBinding.configuration();
    let good = bundle(plane.validating.get_opt(name).await.unwrap().as_ref());
    let patch = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    plane
        .validating
        .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
        .unwrap();
    plane
        .until_bundle(Endpoint::ValidateClusterTopologyBinding, |bundle| bundle == good)
        .await;

    let before = plane.secret().await;
    let mut wiped = before.clone();
    // This type of Secret has to have the keys.
    let nothing = || k8s_openapi::ByteString(b"\n".to_vec());
    wiped.data = Some(["tls.crt", "tls.key"].map(|key| (key.to_owned(), nothing())).into());
    plane
        .secrets
        .replace(SECRET, &PostParams::default(), &wiped)
        .await
        .unwrap();
    let full = |secret: Option<&Secret>| {
        let data = secret.and_then(|secret| secret.data.as_ref());
        data.is_some_and(|data| data["tls.crt"].0.len() > 1)
    };
    let restored = await_condition(plane.secrets.clone(), SECRET, full)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        restored.data, before.data,
        "the same certificate, which everyone trusts"
    );
    assert_ne!(restored.resource_version(), before.resource_version());
    plane
        .sets
        .create(&PostParams::default(), &set("good", 1))
        .await
        .unwrap();
    plane.stop().await;
}

/// Replicas of the operator that start together on a cluster without a certificate agree on one.
#[tokio::test]
async fn replicas_that_start_together_serve_one_certificate() {
    let client = Client::new(ApiServer::builder().seed(2).build().service(), "default");
    let url = Address::Url("https://127.0.0.1:9443".to_owned());
    configurations::install(&client, &ENDPOINTS, &url).await.unwrap();
    let stop = CancellationToken::new();
    let replicas: Vec<Served> = std::iter::repeat_with(Served::default).take(4).collect();
    let tasks: Vec<_> = replicas
        .iter()
        .map(|served| {
            let options = keeper::Options {
                endpoints: ENDPOINTS.to_vec(),
                ..keeper::Options::new("default", SECRET)
            };
            tokio::spawn(keeper::Keeper::new(client.clone(), options, served.clone()).run(stop.clone()))
        })
        .collect();
    for served in &replicas {
        served.wait_loaded().await;
    }
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mut bundles = Vec::new();
    for endpoint in ENDPOINTS.into_iter().filter(|endpoint| !endpoint.mutates()) {
        let condition = |found: Option<&ValidatingWebhookConfiguration>| certificates(&bundle(found)) > 0;
        let found = await_condition(validating.clone(), endpoint.configuration(), condition)
            .await
            .unwrap();
        bundles.push(bundle(found.as_ref()));
    }
    stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let stored = secrets.get(SECRET).await.unwrap().data.unwrap();
    let held = Material::read(&stored["tls.crt"].0, &stored["tls.key"].0).unwrap();
    let authorities = Authority::read_all(bundles[0].as_bytes()).unwrap();
    assert!(
        authorities.len() == 1 && held.is_signed_by(&authorities[0]),
        "what is stored is what is trusted"
    );
    assert!(bundles.iter().all(|bundle| *bundle == bundles[0]));
    let leaf = replicas[0].leaf();
    assert!(leaf.is_some() && replicas.iter().all(|served| served.leaf() == leaf));
}
