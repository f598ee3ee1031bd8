//! What the controller watches, and the facts of one domain out of it.
//!
//! Owns the kinds, their indexes by domain, and how views become the facts that deciders take. Reading is by label and
//! index only: nothing is looked up by a part of its name. Never writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_domains::api::{Clique, ComputeDomain, limits, names};
use coppice_domains::decide::domain::{DeletionFacts, LiveFacts};
use coppice_domains::decide::rows::{DomainFacts, NodeFacts};
use coppice_runtime::cache::{Cache, Index, Kind, Moment, ObjectKey, Projection, Typed, reflect};
use coppice_runtime::supervise::Group;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaimTemplate, ResourceSlice};
use kube::core::ApiResource;
use kube::{Client, Resource};

use crate::views::{DaemonPodView, DaemonPods, NodeView, Nodes, ObjectView, Objects, SliceView, Slices};

/// A namespace with DaemonSets, their pods and cliques.
#[derive(Clone)]
pub(crate) struct Managed {
    pub(crate) namespace: String,
    pub(crate) daemon_sets: Kind<Objects>,
    pub(crate) pods: Kind<DaemonPods>,
    pub(crate) cliques: Kind<Typed<Clique>>,
    sets_of: Index<ObjectView, String>,
    pods_of: Index<DaemonPodView, String>,
    cliques_of: Index<Clique, String>,
}

/// Everything that is watched.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cache: Cache,
    pub(crate) domains: Kind<Typed<ComputeDomain>>,
    pub(crate) nodes: Kind<Nodes>,
    pub(crate) slices: Kind<Slices>,
    pub(crate) templates: Kind<Objects>,
    /// The namespace of the driver first.
    pub(crate) managed: Vec<Managed>,
    domains_by_uid: Index<ComputeDomain, String>,
    domains_by_template: Index<ComputeDomain, ObjectKey>,
    nodes_of: Index<NodeView, String>,
    slices_of: Index<SliceView, String>,
    templates_of: Index<ObjectView, String>,
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// The domain that an object's labels name.
fn labelled(object: &impl Resource) -> Option<String> {
    object.meta().labels.as_ref()?.get(names::DOMAIN_LABEL).cloned()
}

/// The clique ID of a clique object whose name and labels agree.
pub(crate) fn clique_id_of(clique: &Clique) -> Option<&str> {
    let labels = clique.metadata.labels.as_ref()?;
    let (uid, id) = (labels.get(names::DOMAIN_LABEL)?, labels.get(names::CLIQUE_LABEL)?);
    let agree = clique.metadata.name.as_deref() == Some(names::clique(uid, id).as_str());
    (agree && limits::is_clique_id(id)).then_some(id)
}

/// The workload template that a domain wants.
fn wanted_template(domain: &ComputeDomain) -> ObjectKey {
    let namespace = domain.metadata.namespace.as_deref().unwrap_or_default();
    ObjectKey::new(namespace, domain.spec.channel.resource_claim_template.name.as_str())
}

impl World {
    pub(crate) fn new(cache: Cache, namespaces: &[String]) -> Self {
        let managed = namespaces.iter().map(|namespace| {
            let daemon_sets = cache.kind(resource::<DaemonSet>(), Objects);
            let pods = cache.kind(resource::<Pod>(), DaemonPods);
            let cliques = cache.kind(resource::<Clique>(), Typed::default());
            Managed {
                namespace: namespace.clone(),
                sets_of: daemon_sets
                    .index(|set: &ObjectView, emit| set.existing.domain_uid.iter().cloned().for_each(emit)),
                pods_of: pods.index(|pod: &DaemonPodView, emit| pod.domain_uid.iter().cloned().for_each(emit)),
                cliques_of: cliques.index(|clique: &Clique, emit| labelled(clique).into_iter().for_each(emit)),
                daemon_sets,
                pods,
                cliques,
            }
        });
        let managed = managed.collect();
        let domains = cache.kind(resource::<ComputeDomain>(), Typed::default());
        let nodes = cache.kind(resource::<Node>(), Nodes);
        let slices = cache.kind(resource::<ResourceSlice>(), Slices);
        let templates = cache.kind(resource::<ResourceClaimTemplate>(), Objects);
        Self {
            domains_by_template: domains.index(|domain: &ComputeDomain, emit| emit(wanted_template(domain))),
            domains_by_uid: domains.index(|domain: &ComputeDomain, emit| emit(domain.uid().to_owned())),
            nodes_of: nodes.index(|node: &NodeView, emit| node.domain_uid.iter().cloned().for_each(emit)),
            slices_of: slices.index(|slice: &SliceView, emit| emit(slice.node.clone())),
            templates_of: templates
                .index(|template: &ObjectView, emit| template.existing.domain_uid.iter().cloned().for_each(emit)),
            cache,
            domains,
            nodes,
            slices,
            templates,
            managed,
        }
    }

    /// Starts watching everything.
    pub(crate) fn watch(&self, client: &Client, group: &Group) {
        fn start<P: Projection>(client: &Client, group: &Group, kind: &Kind<P>, options: reflect::Options) {
            let place = options.namespace.as_ref().map(|namespace| format!(" in {namespace}"));
            let name = format!("watch of {}{}", kind.resource().plural, place.unwrap_or_default());
            group.spawn(
                &name,
                reflect::reflect(client.clone(), kind.clone(), options, group.stopping()),
            );
        }
        let all = reflect::Options::default;
        let with_label = || reflect::Options {
            label_selector: Some(names::DOMAIN_LABEL.to_owned()),
            ..all()
        };
        start(client, group, &self.domains, all());
        start(client, group, &self.nodes, with_label());
        let of_driver = reflect::Options {
            field_selector: Some(format!("spec.driver={}", names::DRIVER)),
            ..all()
        };
        start(client, group, &self.slices, of_driver);
        // All of them: a template of the wanted name that belongs to something else has no label.
        start(client, group, &self.templates, all());
        for managed in &self.managed {
            let here = || reflect::Options {
                namespace: Some(managed.namespace.clone()),
                ..with_label()
            };
            start(client, group, &managed.daemon_sets, here());
            start(client, group, &managed.pods, here());
            start(client, group, &managed.cliques, here());
        }
    }

    /// The domain with a UID.
    pub(crate) fn domain(&self, moment: &Moment<'_>, uid: &str) -> Option<Arc<ComputeDomain>> {
        self.domains_by_uid.get(moment, &uid.to_owned()).into_iter().next()
    }

    /// Domains whose workload template has this key.
    pub(crate) fn domains_wanting(&self, moment: &Moment<'_>, template: &ObjectKey) -> Vec<Arc<ComputeDomain>> {
        self.domains_by_template.get(moment, template)
    }

    /// UIDs of all cached domains.
    pub(crate) fn domain_uids(&self, moment: &Moment<'_>) -> BTreeSet<String> {
        self.domains_by_uid.keys(moment).into_iter().collect()
    }

    /// The DaemonSet of a domain, and the namespace it is in.
    pub(crate) fn daemon_set(&self, moment: &Moment<'_>, uid: &str) -> Option<(&Managed, Arc<ObjectView>)> {
        self.managed.iter().find_map(|managed| {
            let set = managed.sets_of.get(moment, &uid.to_owned()).into_iter().next()?;
            Some((managed, set))
        })
    }

    /// The cliques of a domain in a namespace, by clique ID.
    pub(crate) fn cliques(managed: &Managed, moment: &Moment<'_>, uid: &str) -> BTreeMap<String, Arc<Clique>> {
        let cliques = managed.cliques_of.get(moment, &uid.to_owned()).into_iter();
        cliques
            .filter_map(|clique| Some((clique_id_of(&clique)?.to_owned(), clique)))
            .collect()
    }

    /// The clique of a node: that of its newest slice, else that of its label.
    pub(crate) fn clique_of(&self, moment: &Moment<'_>, node: &str) -> Option<String> {
        let slices = self.slices_of.get(moment, &node.to_owned());
        let newest = slices.iter().max_by_key(|slice| slice.generation);
        newest.and_then(|slice| slice.clique.clone()).or_else(|| {
            let node = self.nodes.get(moment, &ObjectKey::new("", node))?;
            node.gpu_clique.clone()
        })
    }

    /// UID of the domain that a node is labelled for.
    pub(crate) fn domain_of_node(&self, node: &str) -> Option<String> {
        let node = self.nodes.latest(&ObjectKey::new("", node))?;
        node.domain_uid.clone()
    }

    /// What rows are planned from.
    pub(crate) fn domain_facts(
        &self,
        moment: &Moment<'_>,
        domain: &ComputeDomain,
        cliques: &BTreeMap<String, Arc<Clique>>,
        deleted_pods: BTreeSet<String>,
    ) -> DomainFacts {
        let uid = domain.uid().to_owned();
        let mut facts = DomainFacts {
            deleting: domain.is_deleting(),
            deleted_pods,
            rows: cliques
                .iter()
                .map(|(id, clique)| (id.clone(), clique.daemons.clone()))
                .collect(),
            ..DomainFacts::default()
        };
        for node in self.nodes_of.get(moment, &uid) {
            let name = node.meta.key.name.to_string();
            let clique_id = self.clique_of(moment, &name);
            facts.nodes.insert(
                name,
                NodeFacts {
                    domain_uid: Some(uid.clone()),
                    clique_id,
                },
            );
        }
        for row in cliques.values().flat_map(|clique| &clique.daemons) {
            let key = ObjectKey::new("", row.node_name.as_str());
            if facts.nodes.contains_key(&row.node_name) {
                continue;
            }
            if let Some(node) = self.nodes.get(moment, &key) {
                let node = NodeFacts {
                    domain_uid: node.domain_uid.clone(),
                    clique_id: self.clique_of(moment, &row.node_name),
                };
                facts.nodes.insert(row.node_name.clone(), node);
            }
        }
        for managed in &self.managed {
            let pods = managed.pods_of.get(moment, &uid);
            let on_nodes = pods.iter().filter(|pod| !pod.facts.node.is_empty());
            facts.pods.extend(on_nodes.map(|pod| pod.facts.clone()));
        }
        facts.uid = uid;
        facts
    }

    fn has_finalizer(domain: &ComputeDomain) -> bool {
        let finalizers = domain.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|finalizer| finalizer == names::FINALIZER)
    }

    fn template_with_target(&self, moment: &Moment<'_>, uid: &str, target: &str) -> Vec<Arc<ObjectView>> {
        let mut templates = self.templates_of.get(moment, &uid.to_owned());
        templates.retain(|template| template.target.as_deref() == Some(target));
        templates
    }

    /// What the objects of a domain are planned from.
    pub(crate) fn live_facts(&self, moment: &Moment<'_>, domain: &ComputeDomain) -> LiveFacts {
        let uid = domain.uid();
        let in_managed = |template: &&Arc<ObjectView>| self.is_managed(&template.existing.namespace);
        let daemon_templates = self.template_with_target(moment, uid, names::TARGET_DAEMON);
        let wanted = wanted_template(domain);
        let pods = self
            .managed
            .iter()
            .map(|managed| managed.pods_of.count(moment, &uid.to_owned()));
        LiveFacts {
            daemon_set: self.daemon_set(moment, uid).map(|(_, set)| set.existing.clone()),
            daemon_template: daemon_templates
                .iter()
                .find(in_managed)
                .map(|template| template.existing.clone()),
            workload_template: self
                .templates
                .get(moment, &wanted)
                .map(|template| template.existing.clone()),
            has_finalizer: Self::has_finalizer(domain),
            daemon_pods: pods.sum(),
            labelled_nodes: self.nodes_of.count(moment, &uid.to_owned()),
        }
    }

    fn is_managed(&self, namespace: &str) -> bool {
        self.managed.iter().any(|managed| managed.namespace == namespace)
    }

    /// What a deletion is planned from.
    pub(crate) fn deletion_facts(&self, moment: &Moment<'_>, domain: &ComputeDomain) -> DeletionFacts {
        let uid = domain.uid().to_owned();
        let namespace = domain.metadata.namespace.as_deref().unwrap_or_default();
        let workload = self.template_with_target(moment, &uid, names::TARGET_WORKLOAD);
        let workload = workload
            .iter()
            .find(|template| template.existing.namespace == namespace);
        let daemon_templates = self.template_with_target(moment, &uid, names::TARGET_DAEMON);
        let sets = self
            .managed
            .iter()
            .flat_map(|managed| managed.sets_of.get(moment, &uid));
        DeletionFacts {
            has_finalizer: Self::has_finalizer(domain),
            workload_template: workload.map(|template| template.existing.clone()),
            daemon_sets: sets.map(|set| set.existing.clone()).collect(),
            daemon_templates: daemon_templates
                .iter()
                .filter(|template| self.is_managed(&template.existing.namespace))
                .map(|template| template.existing.clone())
                .collect(),
            labelled_nodes: self
                .nodes_of
                .get(moment, &uid)
                .iter()
                .map(|node| node.meta.key.name.to_string())
                .collect(),
            domain_uid: uid,
        }
    }
}
