//! The control plane, and one round on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use coppice_domains::api::{Clique, crd, names};
use coppice_harness::control_plane::{ControlPlane, Options};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::checker::Checker;
use crate::daemons::{Daemon, Seen};
use crate::{NODES, Round, Way, group_commit};

/// The clique of every rack: they differ by their domain.
pub(crate) const CLIQUE: &str = "7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d.1";

pub(crate) struct Plane {
    control_plane: ControlPlane,
    number: AtomicU64,
}

/// Writes of a round by their outcome.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Counts {
    /// Counts an answer. Errors other than conflicts end the run.
    pub(crate) fn count<T>(&self, answer: kube::Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(value) => {
                self.accepted.fetch_add(1, Ordering::Relaxed);
                Ok(Some(value))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The definitions without the rules that ours add: server-side apply stores duplicates in between.
fn without_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for rule in ["x-kubernetes-validations", "maxItems"] {
                fields.remove(rule);
            }
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}

impl Plane {
    pub(crate) async fn start() -> Result<Self> {
        let control_plane = ControlPlane::start(&Options::default()).await?;
        let client = control_plane.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for mut definition in crd::all() {
            without_rules(&mut definition);
            let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let definition = serde_json::from_value(definition)?;
            definitions.create(&PostParams::default(), &definition).await?;
            await_condition(definitions.clone(), &name, conditions::is_crd_established()).await?;
        }
        Ok(Self {
            control_plane,
            number: AtomicU64::new(0),
        })
    }

    pub(crate) fn version(&self) -> String {
        format!("{:?}", self.control_plane.versions())
    }

    /// A client with connections of its own.
    async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.control_plane.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    pub(crate) async fn round(&self, way: Way, cliques: usize, patience: Duration) -> Result<Round> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("round-{number}");
        let namespaces: Api<Namespace> = Api::all(self.control_plane.client());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        namespaces.create(&PostParams::default(), &object).await?;
        let checker = Checker::start(Api::namespaced(self.control_plane.client(), &namespace)).await?;
        let counts = Arc::new(Counts::default());
        let ready = Arc::new(Barrier::new(cliques * NODES + 1));
        let mut tasks = Vec::new();
        for clique in 0..cliques {
            let object = names::clique(&format!("domain-{clique}"), CLIQUE);
            for node in 0..NODES {
                let daemon = Daemon {
                    api: Api::namespaced(self.client().await?, &namespace),
                    object: object.clone(),
                    node: format!("node-{node:02}"),
                    address: format!("10.{clique}.0.{}", node + 1),
                    way,
                    counts: counts.clone(),
                };
                let ready = ready.clone();
                tasks.push(tokio::spawn(daemon.run(ready)));
            }
        }
        // Every watch has begun; what is measured begins now.
        let cpu = || coppice_bench::process::cpu(&self.control_plane.processes());
        let before = cpu()?;
        ready.wait().await;
        let began = Instant::now();
        let mut writers = Vec::new();
        if way == Way::GroupCommit {
            for clique in 0..cliques {
                let api: Api<Clique> = Api::namespaced(self.control_plane.client(), &namespace);
                let object = names::clique(&format!("domain-{clique}"), CLIQUE);
                writers.push(tokio::spawn(group_commit::run(api, object, clique, counts.clone())));
            }
        }
        let stops: Vec<_> = tasks.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        let all = tokio::time::timeout(patience, join_all(tasks)).await;
        let ended = all.is_ok();
        stops.iter().for_each(tokio::task::AbortHandle::abort);
        let mut round = Round {
            ended,
            ..Round::default()
        };
        for seen in all.unwrap_or_default() {
            let Seen { index, full } = seen.context("a daemon panicked")??;
            let millis = |at: Instant| u64::try_from(at.duration_since(began).as_millis()).unwrap_or(u64::MAX);
            round.indices = round.indices.max(millis(index));
            round.full_view = round.full_view.max(millis(full));
        }
        for writer in writers {
            writer.abort();
        }
        round.server_cpu = u64::try_from((cpu()? - before).as_millis())?;
        round.accepted = counts.accepted.load(Ordering::Relaxed);
        round.refused = counts.refused.load(Ordering::Relaxed);
        round.violations = checker.stop(way != Way::Apply).await?;
        let cliques: Api<Clique> = Api::namespaced(self.control_plane.client(), &namespace);
        cliques
            .delete_collection(&DeleteParams::default(), &Default::default())
            .await?;
        Ok(round)
    }
}
