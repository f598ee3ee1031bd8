//! The lives that workloads lead: applied and deleted beside the floor, scaled, churned. Each phase ends when the cluster
//! says so and not after a time.

use std::io::{Seek, SeekFrom};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::bystander::Bystander;
use crate::content;
use crate::floor::Floor;
use crate::measured::{Measured, Phase, Usage};
use crate::observe::{Pods, sets, until_set};
use crate::operator::{Choice, Operator};
use crate::plane::Plane;
use crate::progress;
use crate::requests::{Requests, Who};
use crate::shapes::{SET, Shape};

/// A workload on a plane.
pub(crate) struct Stage<'a> {
    /// Where.
    pub(crate) plane: &'a Plane,
    /// By whom.
    pub(crate) operator: &'a Choice,
    /// Of what kind.
    pub(crate) shape: Shape,
    /// How long a milestone may take.
    pub(crate) limit: Duration,
    /// Requests in flight of the floor client.
    pub(crate) concurrency: usize,
}

/// A set under an operator.
pub(crate) struct Life<'a> {
    stage: &'a Stage<'a>,
    namespace: String,
    operator: Operator,
    pods: Pods,
    replicas: u32,
}

/// What the operator had asked before a phase.
struct Before {
    log: u64,
    requests: Option<Requests>,
}

impl<'a> Stage<'a> {
    fn pods(&self, replicas: u32) -> usize {
        (replicas * self.shape.pods()) as usize
    }

    fn audit_since(&self, offset: u64) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.plane.audit else {
            return Ok(None);
        };
        let mut file = std::fs::File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Some(std::io::read_to_string(file)?))
    }

    fn audit_length(&self) -> anyhow::Result<u64> {
        let length = self.plane.audit.as_ref().map(std::fs::metadata).transpose()?;
        Ok(length.map_or(0, |metadata| metadata.len()))
    }

    /// Starts a bystander in a namespace beside one of a workload.
    async fn bystander(&self, namespace: &str) -> anyhow::Result<Bystander> {
        let beside = format!("{namespace}-bystander");
        content::namespace(&self.plane.client, &beside).await?;
        Bystander::start(&self.plane.kubeconfig, &beside).await
    }

    /// Starts an operator in a cluster without a set.
    pub(crate) async fn begin(&'a self, namespace: &str) -> anyhow::Result<Life<'a>> {
        let operator = self.operator.start(self.plane).await?;
        content::namespace(&self.plane.client, namespace).await?;
        let pods = Pods::watch(&self.plane.client, namespace).await?;
        Ok(Life {
            stage: self,
            namespace: namespace.to_owned(),
            operator,
            pods,
            replicas: 0,
        })
    }

    /// Creates the bodies as fast as the floor client can, waits until all pods are ready, and removes everything.
    pub(crate) async fn floor(&self, namespace: &str, bodies: &[Value]) -> anyhow::Result<Measured> {
        let client = &self.plane.client;
        content::namespace(client, namespace).await?;
        let mut bodies = bodies.to_vec();
        content::own(client, namespace, &mut bodies).await?;
        let wanted = bodies.iter().filter(|body| body["kind"] == "Pod").count();
        let pods = Pods::watch(client, namespace).await?;
        let directory = self.plane.directory.path();
        let mut floor = Floor::start(&self.plane.kubeconfig, directory, &bodies, self.concurrency).await?;
        let bystander = self.bystander(namespace).await?;
        let offset = self.audit_length()?;
        let mut phase = Phase::begin("floor", Usage::read(self.plane, floor.process)?);
        let began = SystemTime::now();
        pods.begin();
        floor.go().await?;
        floor.done().await?;
        phase.milestones.insert("all objects created", pods.elapsed());
        milestones(&pods, &mut phase, wanted, self.limit).await?;
        let created = phase.milestones.get("pods created").copied().unwrap_or_default();
        let bystander = bystander.end(began, created).await?;
        let log = self.audit_since(offset)?;
        let requests = log.map(|log| Requests::of_audit(&log, Who::Floor));
        let mut measured = phase.end(self.plane, floor.process, &pods.times(), requests.as_ref())?;
        measured.bystander = Some(bystander);
        drop(floor);
        content::delete_all(client, namespace).await?;
        pods.until("pods gone", self.limit, |now, _| now.there == 0).await?;
        content::until_empty(client, namespace, self.limit).await?;
        Ok(measured)
    }
}

/// Waits for so many pods created, scheduled and ready since the beginning.
async fn milestones(pods: &Pods, phase: &mut Phase, wanted: usize, limit: Duration) -> anyhow::Result<()> {
    pods.until("all pods created", limit, |_, times| times.created.len() >= wanted)
        .await?;
    pods.until("all pods scheduled", limit, |_, times| times.scheduled.len() >= wanted)
        .await?;
    pods.until("all pods ready", limit, |_, times| times.ready.len() >= wanted)
        .await?;
    let times = pods.times();
    for (name, times) in [
        ("pods created", &times.created),
        ("pods scheduled", &times.scheduled),
        ("pods ready", &times.ready),
    ] {
        if let Some(last) = wanted.checked_sub(1).and_then(|last| times.get(last)) {
            phase.milestones.insert(name, *last);
        }
    }
    Ok(())
}

impl Life<'_> {
    async fn before(&self) -> anyhow::Result<Before> {
        let log = self.stage.audit_length()?;
        let requests = match self.stage.plane.audit {
            Some(_) => Some(Requests::default()),
            None => self.operator.requests(None).await?,
        };
        Ok(Before { log, requests })
    }

    async fn end(&mut self, phase: Phase, before: Before) -> anyhow::Result<Measured> {
        self.operator.check()?;
        let log = self.stage.audit_since(before.log)?;
        let after = self.operator.requests(log.as_deref()).await?;
        let requests = after.zip(before.requests).map(|(after, before)| after.since(&before));
        let times = self.pods.times();
        phase.end(self.stage.plane, self.operator.process, &times, requests.as_ref())
    }

    /// Applies the set and waits until it is available.
    pub(crate) async fn apply(&mut self, replicas: u32) -> anyhow::Result<Measured> {
        let stage = self.stage;
        let bystander = stage.bystander(&self.namespace).await?;
        let before = self.before().await?;
        let mut phase = Phase::begin("apply", Usage::read(stage.plane, self.operator.process)?);
        let set = serde_json::from_value(stage.shape.set(&self.namespace, replicas))?;
        let began = SystemTime::now();
        self.pods.begin();
        sets(&stage.plane.client, &self.namespace)
            .create(&PostParams::default(), &set)
            .await?;
        self.replicas = replicas;
        milestones(&self.pods, &mut phase, stage.pods(replicas), stage.limit).await?;
        until_set(&stage.plane.client, &self.namespace, Some(replicas), stage.limit).await?;
        phase.milestones.insert("available", self.pods.elapsed());
        let created = phase.milestones.get("pods created").copied().unwrap_or_default();
        let bystander = bystander.end(began, created).await?;
        let mut measured = self.end(phase, before).await?;
        measured.bystander = Some(bystander);
        Ok(measured)
    }

    /// Changes the number of replicas and waits until that many are available and the others are gone.
    pub(crate) async fn scale(&mut self, replicas: u32) -> anyhow::Result<Measured> {
        let stage = self.stage;
        let name = format!("{} to {replicas} replicas", self.replicas);
        let before = self.before().await?;
        let mut phase = Phase::begin(&name, Usage::read(stage.plane, self.operator.process)?);
        let patch = json!({"spec": {"replicas": replicas}});
        self.pods.begin();
        sets(&stage.plane.client, &self.namespace)
            .patch(SET, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        let more = stage.pods(replicas.saturating_sub(self.replicas));
        if more > 0 {
            milestones(&self.pods, &mut phase, more, stage.limit).await?;
        }
        let wanted = stage.pods(replicas);
        self.pods
            .until("superfluous pods gone", stage.limit, |now, _| {
                now.there == wanted && now.ready == wanted
            })
            .await?;
        if more == 0 {
            phase.milestones.insert("pods gone", self.pods.elapsed());
        }
        until_set(&stage.plane.client, &self.namespace, Some(replicas), stage.limit).await?;
        phase.milestones.insert("available", self.pods.elapsed());
        self.replicas = replicas;
        self.end(phase, before).await
    }

    /// Deletes one pod of every `step`-th replica and waits until all is as before.
    pub(crate) async fn kill(&mut self, every: usize) -> anyhow::Result<Measured> {
        let stage = self.stage;
        let client = &stage.plane.client;
        let api: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        let mut names: Vec<String> = api
            .list_metadata(&ListParams::default())
            .await?
            .items
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect();
        names.sort();
        let victims: Vec<&String> = names.iter().step_by(every.max(1)).collect();
        let before = self.before().await?;
        let mut phase = Phase::begin(
            &format!("{} pods killed", victims.len()),
            Usage::read(stage.plane, self.operator.process)?,
        );
        self.pods.begin();
        for victim in &victims {
            api.delete(victim, &DeleteParams::default().grace_period(0)).await?;
        }
        let wanted = stage.pods(self.replicas);
        self.pods
            .until("killed pods replaced", stage.limit, |now, times| {
                times.gone.len() >= victims.len() && now.there == wanted && now.ready == wanted
            })
            .await?;
        phase.milestones.insert("pods ready", self.pods.elapsed());
        until_set(client, &self.namespace, Some(self.replicas), stage.limit).await?;
        phase.milestones.insert("available", self.pods.elapsed());
        self.end(phase, before).await
    }

    /// Everything that the operator made, for the floor client.
    pub(crate) async fn bodies(&self) -> anyhow::Result<Vec<Value>> {
        content::bodies(&self.stage.plane.client, &self.namespace, "").await
    }

    /// Deletes the set and waits until nothing is left of it; ends the operator.
    pub(crate) async fn delete(mut self) -> anyhow::Result<Measured> {
        let stage = self.stage;
        let client = &stage.plane.client;
        let before = self.before().await?;
        let mut phase = Phase::begin("delete", Usage::read(stage.plane, self.operator.process)?);
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        self.pods.begin();
        sets(client, &self.namespace).delete(SET, &parameters).await?;
        self.pods
            .until("pods gone", stage.limit, |now, _| now.there == 0)
            .await?;
        phase.milestones.insert("pods gone", self.pods.elapsed());
        until_set(client, &self.namespace, None, stage.limit).await?;
        content::until_empty(client, &self.namespace, stage.limit).await?;
        phase.milestones.insert("nothing left", self.pods.elapsed());
        let measured = self.end(phase, before).await?;
        self.operator.stop().await?;
        Ok(measured)
    }
}

/// Says where it is.
pub(crate) fn tell(what: &str, measured: &Measured) {
    let milestones: Vec<String> = measured
        .milestones
        .iter()
        .map(|(name, seconds)| format!("{name} {seconds:.1} s"))
        .collect();
    progress(&format!(
        "  {what}, {}: {}; {:.1} s of processor time, {} MiB",
        measured.phase,
        milestones.join(", "),
        measured.cpu_seconds,
        measured.peak_rss_bytes >> 20,
    ));
}
