//! Carries out the plan: writes the Secret, loads what is served, and keeps the CA bundles as they should be.
//!
//! Runs in every replica, leader or not, because every replica serves webhooks. Acts on events and computed deadlines
//! only; every write is conditional on what was read, so a replica that comes second is refused and reads what the first
//! one wrote. Never ends on its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use coppice_runtime::backoff::Backoff;
use coppice_runtime::cache::{Cache, Kind, ObjectKey, Projection, Typed, reflect};
use coppice_runtime::clock::{SharedClock, SystemClock, instant_of};
use coppice_runtime::events::{EventKind, ObjectReference, Recorder};
use coppice_runtime::metrics::Metrics;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::issue::issue;
use super::plan::{Action, Foreign, Observed, Plan, SECRET_TYPE, Stored, labels, plan_certificates};
use super::{Served, bundles};
use crate::webhooks::Endpoint;
use crate::webhooks::install::resource;
use crate::world::Document;

/// What to keep.
#[derive(Clone)]
pub struct Options {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// What clients call us, beside the names in the webhook configurations.
    pub names: BTreeSet<String>,
    /// The webhooks whose configurations get the CA bundle.
    pub endpoints: Vec<Endpoint>,
    /// Where time comes from.
    pub clock: SharedClock,
    /// Where to tell people of trouble.
    pub recorder: Option<Recorder>,
    /// Where to count.
    pub metrics: Metrics,
}

impl Options {
    /// Options for a Secret, with the machine's clock.
    #[must_use]
    pub fn new(namespace: &str, secret: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            names: BTreeSet::new(),
            endpoints: Endpoint::ALL.to_vec(),
            clock: Arc::new(SystemClock),
            recorder: None,
            metrics: Metrics::default(),
        }
    }
}

/// Keeps the certificate of the webhook server.
pub struct Keeper {
    client: Client,
    options: Options,
    served: Served,
    cache: Cache,
    secrets: Kind<Typed<Secret>>,
    configurations: Vec<(Endpoint, Kind<Document>)>,
    changed: Arc<Notify>,
    held: Option<Stored>,
    published_since: Option<Timestamp>,
    missing: Option<BTreeSet<&'static str>>,
}

/// The webhook configurations that are there.
type Found = Vec<(Endpoint, Arc<Value>)>;

/// Why a turn did not end well; it is tried again.
#[derive(Debug, thiserror::Error)]
enum TurnError {
    #[error("cannot write Secret {0}: {1}")]
    Secret(String, kube::Error),
    #[error("cannot write the CA bundle into {0}: {1}")]
    Bundle(&'static str, kube::Error),
    #[error("cannot issue a certificate: {0}")]
    Issue(String),
}

impl Keeper {
    /// A keeper that loads what it keeps into `served`.
    #[must_use]
    pub fn new(client: Client, options: Options, served: Served) -> Self {
        // A cache of its own: configurations of one resource are watched one by one, as the chart's rights are given.
        let cache = Cache::default();
        let changed = Arc::new(Notify::new());
        let secrets = cache.kind(ApiResource::erase::<Secret>(&()), Typed::<Secret>::default());
        notify_on_change(&secrets, &changed);
        let configurations: Vec<_> = options
            .endpoints
            .iter()
            .map(|endpoint| (*endpoint, cache.kind(resource(*endpoint), Document)))
            .collect();
        configurations
            .iter()
            .for_each(|(_, kind)| notify_on_change(kind, &changed));
        Self {
            client,
            options,
            served,
            cache,
            secrets,
            configurations,
            changed,
            held: None,
            published_since: None,
            missing: None,
        }
    }

    /// Keeps the certificate until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let by_name = |name: &str, namespace: Option<String>| reflect::Options {
            field_selector: Some(format!("metadata.name={name}")),
            namespace,
            ..reflect::Options::default()
        };
        let secret = by_name(&self.options.secret, Some(self.options.namespace.clone()));
        let secret = reflect::reflect(self.client.clone(), self.secrets.clone(), secret, stop.clone());
        let configurations = self.configurations.iter().map(|(endpoint, kind)| {
            let options = by_name(endpoint.configuration(), None);
            reflect::reflect(self.client.clone(), kind.clone(), options, stop.clone())
        });
        // In one task, so that a watch that panics ends the keeper, which is supervised.
        let configurations = join_all(configurations);
        let work = stop.clone().run_until_cancelled_owned(self.work());
        futures::join!(secret, configurations, work);
    }

    async fn work(&mut self) {
        self.cache.wait_synced().await;
        let backoff = Backoff::default();
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut failures = 0_u32;
        loop {
            let changed = self.changed.clone();
            let wake = match self.turn().await {
                Ok(wake) => {
                    failures = 0;
                    wake.map(|wake| instant_of(&*self.options.clock, wake))
                }
                Err(problem) => {
                    failures = failures.saturating_add(1);
                    warn!(%problem, "the webhook certificate is not as it should be; trying again");
                    Some(tokio::time::Instant::now() + backoff.delay(failures, &mut random))
                }
            };
            let deadline = async {
                match wake {
                    Some(wake) => tokio::time::sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = deadline => {}
            }
        }
    }

    /// Looks, decides and acts once. Returns when to look again if nothing changes before.
    async fn turn(&mut self) -> Result<Option<Timestamp>, TurnError> {
        let (secret, configurations) = self.look();
        self.tell_missing(&configurations, secret.as_deref());
        let mut names = self.options.names.clone();
        let mut trusted = Vec::new();
        for (_, configuration) in &configurations {
            names.extend(bundles::names(configuration));
            trusted.extend(bundles::bundles(configuration));
        }
        let observed = Observed {
            secret: secret.as_deref(),
            held: self.held.as_ref(),
            bundles: &trusted,
            published_since: self.published_since,
            names: &names,
        };
        let now = self.options.clock.now();
        let plan = match plan_certificates(&observed, now) {
            Ok(plan) => plan,
            Err(foreign) => {
                self.tell_foreign(&foreign, secret.as_deref());
                return Ok(None);
            }
        };
        self.published_since = plan.published_since;
        if let Some(stored) = &plan.stored {
            self.load(stored);
        }
        self.write(&plan, secret.as_deref(), &names, now).await?;
        // What is about to be replaced is trusted by nobody, and better stays so.
        if let Some(stored) = plan.stored.as_ref().filter(|_| plan.action != Action::Issue) {
            for (endpoint, configuration) in &configurations {
                self.inject(*endpoint, configuration, &stored.bundle()).await?;
            }
        }
        Ok(plan.wake)
    }

    fn look(&self) -> (Option<Arc<Secret>>, Found) {
        let moment = self.cache.moment();
        let key = ObjectKey::new(self.options.namespace.as_str(), self.options.secret.as_str());
        let configurations = self.configurations.iter().filter_map(|(endpoint, kind)| {
            let found = kind.get(&moment, &ObjectKey::new("", endpoint.configuration()));
            found.map(|configuration| (*endpoint, configuration))
        });
        (self.secrets.get(&moment, &key), configurations.collect())
    }

    fn load(&mut self, stored: &Stored) {
        if self.held.as_ref().is_none_or(|held| held.current != stored.current) {
            self.served.replace(&stored.current);
            let expires = stored.current.not_after;
            info!(%expires, "the webhook certificate was loaded");
            let gauge = self.options.metrics.gauge(
                "webhook_certificate_expiry_timestamp_seconds",
                "When the served webhook certificate expires",
            );
            gauge.with(&[]).set(expires.as_second());
        }
        self.held = Some(stored.clone());
    }

    async fn write(
        &self,
        plan: &Plan,
        secret: Option<&Secret>,
        names: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<(), TurnError> {
        let issued = || issue(names, now).map_err(|error| TurnError::Issue(error.to_string()));
        let unreadable = |error: super::material::MaterialError| TurnError::Issue(error.to_string());
        let wanted = match (plan.action, &plan.stored, &self.held) {
            (Action::Keep, ..) => return Ok(()),
            (Action::Stage, Some(stored), _) => stored.staged(&issued()?, now).map_err(unreadable)?,
            (Action::Promote, Some(stored), _) => stored.promoted(),
            (Action::Restore, _, Some(held)) => held.clone(),
            _ => Stored::of(&issued()?).map_err(unreadable)?,
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.options.namespace);
        let mut object = secret.cloned().unwrap_or_else(|| Secret {
            metadata: ObjectMeta {
                name: Some(self.options.secret.clone()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            ..Secret::default()
        });
        object.labels_mut().extend(labels());
        object.data = Some(wanted.data());
        let written = match secret {
            None => api.create(&PostParams::default(), &object).await,
            // The version that was read goes along: whoever comes second is refused.
            Some(_) => api.replace(&self.options.secret, &PostParams::default(), &object).await,
        };
        match written {
            Ok(_) => {
                info!(action = ?plan.action, why = plan.why, secret = self.options.secret, "the webhook certificate was written");
                Ok(())
            }
            Err(error) if was_beaten(&error) => Ok(()),
            Err(error) => Err(TurnError::Secret(self.options.secret.clone(), error)),
        }
    }

    async fn inject(&self, endpoint: Endpoint, configuration: &Value, bundle: &str) -> Result<(), TurnError> {
        let Some(wanted) = bundles::with_bundle(configuration, bundle) else {
            return Ok(());
        };
        let mut patch = json_patch::diff(configuration, &wanted);
        if let Some(version) = configuration["metadata"]["resourceVersion"].as_str() {
            let pin = serde_json::json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]);
            let pin: json_patch::Patch = serde_json::from_value(pin).expect("a JSON patch");
            patch.0.extend(pin.0);
        }
        let name = endpoint.configuration();
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource(endpoint));
        match api
            .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
            .await
        {
            Ok(_) => {
                info!(configuration = name, "the CA bundle was written");
                Ok(())
            }
            Err(error) if was_beaten(&error) => Ok(()),
            Err(error) => Err(TurnError::Bundle(name, error)),
        }
    }

    /// Says once which configurations are not there. They may come later, and are then seen by the watch.
    fn tell_missing(&mut self, found: &[(Endpoint, Arc<Value>)], secret: Option<&Secret>) {
        let expected = self.options.endpoints.iter().map(|endpoint| endpoint.configuration());
        let there: BTreeSet<&str> = found.iter().map(|(endpoint, _)| endpoint.configuration()).collect();
        let missing: BTreeSet<&'static str> = expected.filter(|name| !there.contains(name)).collect();
        if self.missing.as_ref() == Some(&missing) {
            return;
        }
        if !missing.is_empty() {
            let list: Vec<&str> = missing.iter().copied().collect();
            let message = format!(
                "webhook configurations are missing, so these webhooks are not called: {}",
                list.join(", ")
            );
            warn!(missing = list.join(", "), "webhook configurations are missing");
            self.tell(secret, "WebhookConfigurationMissing", &message);
        }
        self.missing = Some(missing);
    }

    fn tell_foreign(&self, foreign: &Foreign, secret: Option<&Secret>) {
        let name = format!("{}/{}", self.options.namespace, self.options.secret);
        error!(secret = name, problem = %foreign, "there is no webhook certificate");
        self.tell(secret, "WebhookSecretForeign", &foreign.to_string());
    }

    fn tell(&self, secret: Option<&Secret>, reason: &str, message: &str) {
        let Some(recorder) = &self.options.recorder else { return };
        let about = ObjectReference {
            api_version: "v1".into(),
            kind: "Secret".into(),
            namespace: Some(self.options.namespace.clone()),
            name: self.options.secret.clone(),
            uid: secret.and_then(ResourceExt::uid).unwrap_or_default(),
        };
        recorder.record(&about, EventKind::Warning, reason, message);
    }
}

/// Whether somebody else was faster; the watch tells what they did.
fn was_beaten(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

fn notify_on_change<P: Projection>(kind: &Kind<P>, changed: &Arc<Notify>) {
    let changed = changed.clone();
    kind.on_change(move |_| changed.notify_one());
}
