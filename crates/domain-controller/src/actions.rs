//! Carries out commands of the deciders, each conditional on what was read.
//!
//! Owns the wire form of commands. A conflict or an object that is there already is followed by a read, so that the next
//! plan sees it; nothing is retried here.

use coppice_domains::api::{ComputeDomain, names};
use coppice_domains::decide::domain::{Command, Existing, ObjectKind};
use coppice_domains::decide::render::TEMPLATE_HASH;
use coppice_domains::decide::status::Reason;
use coppice_runtime::cache::{Kind, Meta, ObjectKey};
use coppice_runtime::events::{EventKind, ObjectReference, Recorder};
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError, Writer};
use serde_json::{Value, json};

use crate::views::Objects;
use crate::world::World;

#[derive(Clone)]
pub(crate) struct Actions {
    pub(crate) world: World,
    pub(crate) writer: Writer,
    pub(crate) recorder: Recorder,
}

fn key_of(object: &Existing) -> ObjectKey {
    ObjectKey::new(object.namespace.as_str(), object.name.as_str())
}

impl Actions {
    /// Carries out one command. Commands about the domain itself need it.
    pub(crate) async fn run(&self, domain: Option<&ComputeDomain>, command: &Command) -> Result<(), WriteError> {
        match command {
            Command::AddDomainFinalizer => self.set_domain_finalizer(domain, true).await,
            Command::RemoveDomainFinalizer => self.set_domain_finalizer(domain, false).await,
            Command::Create(object) => self.create(object).await,
            Command::ReplacePodTemplate { uid, rendered } => self.replace_template(uid, rendered).await,
            Command::Delete(kind, object) => {
                let Some(kind) = self.kind(*kind, &object.namespace) else {
                    return Ok(());
                };
                let key = key_of(object);
                let Some(known) = kind.latest(&key).filter(|known| *known.meta.uid == *object.uid) else {
                    return Ok(());
                };
                let deleted = self.writer.delete(&kind, &known.meta, DeleteOptions::default()).await;
                self.settled(&kind, &key, deleted).await
            }
            Command::RemoveFinalizer(kind, object) => {
                let Some(kind) = self.kind(*kind, &object.namespace) else {
                    return Ok(());
                };
                let key = key_of(object);
                let Some(known) = kind.latest(&key).filter(|known| *known.meta.uid == *object.uid) else {
                    return Ok(());
                };
                let left: Vec<&String> = known
                    .finalizers
                    .iter()
                    .filter(|finalizer| *finalizer != names::FINALIZER)
                    .collect();
                let patch = Patch::Merge(json!({"metadata": {"finalizers": left}}));
                let condition = Precondition::version(&known.meta);
                let patched = self.writer.patch(&kind, &key, &condition, patch).await;
                self.settled(&kind, &key, patched.map(drop)).await
            }
            Command::RemoveNodeLabel { node, domain_uid } => self.remove_label(node, domain_uid).await,
        }
    }

    /// An object that is gone is as it should be; one that has changed is read, for the next plan.
    async fn settled(
        &self,
        kind: &Kind<Objects>,
        key: &ObjectKey,
        result: Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        match result {
            Err(WriteError::NotFound(_)) => Ok(()),
            Err(error @ WriteError::Conflict(_)) => match self.writer.read(kind, key).await {
                Err(WriteError::NotFound(_)) => Ok(()),
                _ => Err(error),
            },
            other => other,
        }
    }

    fn kind(&self, kind: ObjectKind, namespace: &str) -> Option<Kind<Objects>> {
        match kind {
            ObjectKind::ClaimTemplate => Some(self.world.templates.clone()),
            ObjectKind::DaemonSet => {
                let mut managed = self.world.managed.iter();
                let managed = managed.find(|managed| managed.namespace == namespace)?;
                Some(managed.daemon_sets.clone())
            }
            ObjectKind::Node => None,
        }
    }

    async fn create(&self, object: &Value) -> Result<(), WriteError> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let kind = match object["kind"].as_str() {
            Some("DaemonSet") => ObjectKind::DaemonSet,
            _ => ObjectKind::ClaimTemplate,
        };
        let Some(kind) = self.kind(kind, text("namespace")) else {
            return Ok(());
        };
        match self.writer.create(&kind, Some(text("namespace")), object).await {
            // Ours from a lost answer, or something else: the next plan looks at it.
            Err(WriteError::AlreadyExists(_)) => {
                let key = ObjectKey::new(text("namespace"), text("name"));
                match self.writer.read(&kind, &key).await {
                    Ok(_) | Err(WriteError::NotFound(_)) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            other => other.map(drop),
        }
    }

    async fn replace_template(&self, uid: &str, rendered: &Value) -> Result<(), WriteError> {
        let text = |field: &str| rendered["metadata"][field].as_str().unwrap_or_default();
        let key = ObjectKey::new(text("namespace"), text("name"));
        let Some(kind) = self.kind(ObjectKind::DaemonSet, text("namespace")) else {
            return Ok(());
        };
        let Some(known) = kind.latest(&key).filter(|known| *known.meta.uid == *uid) else {
            return Ok(());
        };
        let mut template = rendered["spec"]["template"].clone();
        for field in &known.pod_fields {
            // What the new template does not have is removed; the server fills its defaults in again.
            if template["spec"].get(field).is_none() {
                template["spec"][field] = Value::Null;
            }
        }
        let patch = Patch::Merge(json!({
            "metadata": {"annotations": {TEMPLATE_HASH: rendered["metadata"]["annotations"][TEMPLATE_HASH]}},
            "spec": {"template": template},
        }));
        let condition = Precondition::version(&known.meta);
        let patched = self.writer.patch(&kind, &key, &condition, patch).await;
        self.settled(&kind, &key, patched.map(drop)).await
    }

    async fn set_domain_finalizer(&self, domain: Option<&ComputeDomain>, wanted: bool) -> Result<(), WriteError> {
        let Some((domain, meta)) = domain.and_then(|domain| Meta::of(domain).map(|meta| (domain, meta))) else {
            return Ok(());
        };
        let stored = domain.metadata.finalizers.clone().unwrap_or_default();
        let mut finalizers: Vec<String> = stored
            .into_iter()
            .filter(|finalizer| finalizer != names::FINALIZER)
            .collect();
        if wanted {
            finalizers.push(names::FINALIZER.to_owned());
        }
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let condition = Precondition::version(&meta);
        let domains = &self.world.domains;
        match self.writer.patch(domains, &meta.key, &condition, patch).await {
            Err(WriteError::NotFound(_)) => Ok(()),
            Err(error @ WriteError::Conflict(_)) => match self.writer.read(domains, &meta.key).await {
                Err(WriteError::NotFound(_)) => Ok(()),
                _ => Err(error),
            },
            other => other.map(drop),
        }
    }

    async fn remove_label(&self, node: &str, domain_uid: &str) -> Result<(), WriteError> {
        let key = ObjectKey::new("", node);
        let nodes = &self.world.nodes;
        let labelled = |known: &std::sync::Arc<crate::views::NodeView>| known.domain_uid.as_deref() == Some(domain_uid);
        let Some(known) = nodes.latest(&key).filter(labelled) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({"metadata": {"labels": {names::DOMAIN_LABEL: null}}}));
        let condition = Precondition::version(&known.meta);
        match self.writer.patch(nodes, &key, &condition, patch).await {
            Err(WriteError::NotFound(_)) => Ok(()),
            // Nodes are written by many; the next attempt is on the newest version.
            Err(error @ WriteError::Conflict(_)) => match self.writer.read(nodes, &key).await {
                Err(WriteError::NotFound(_)) => Ok(()),
                _ => Err(error),
            },
            other => other.map(drop),
        }
    }

    /// Reports something that happened to a domain.
    pub(crate) fn report(&self, domain: &ComputeDomain, kind: EventKind, reason: Reason, message: &str) {
        let reference = ObjectReference {
            api_version: names::API_VERSION.to_owned(),
            kind: "ComputeDomain".to_owned(),
            namespace: domain.metadata.namespace.clone(),
            name: domain.metadata.name.clone().unwrap_or_default(),
            uid: domain.uid().to_owned(),
        };
        self.recorder.record(&reference, kind, reason.as_str(), message);
    }
}
