//! What the operator watches, and the snapshots it takes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::labels;
use coppice_api::names::selectors::managed_selector;
use coppice_api::types::{ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, PodGangMap};
use coppice_core::backends::{BackendTopology, STAMP_ANNOTATIONS};
use coppice_core::command::Kind as CommandKind;
use coppice_core::settings::TopologyLevels;
use coppice_core::snapshot::ReplicaSnapshot;
use coppice_core::state::has_attempt;
use coppice_runtime::cache::{
    Cache, Change, Departures, Index, Interner, Kind, Meta, Moment, ObjectKey, PodProjection, PodView, Projection,
    Typed, Version, reflect,
};
use coppice_runtime::supervise::Group;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::keys::{SetKey, replica_of, replica_of_unlabelled, set_of};
use crate::pod_groups::PodGroups;
use crate::pods;

pub(crate) type ReplicaIndex<V> = Index<V, (SetKey, u32)>;

/// The whole object as JSON, without its managed fields: for kinds whose defaults we only compare.
#[derive(Debug, Default)]
pub struct Document;

impl Projection for Document {
    type View = Value;

    fn project(&self, _meta: &Meta, object: &RawValue, _names: &Interner) -> Result<Value, serde_json::Error> {
        let mut value: Value = serde_json::from_str(object.get())?;
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Ok(value)
    }
}

/// The kinds that the operator watches, with the indexes by which it reads them.
#[derive(Clone)]
pub struct World {
    /// The cache of all kinds.
    pub cache: Cache,
    pub(crate) sets: Kind<Typed<PodCliqueSet>>,
    pub(crate) cliques: Kind<Typed<PodClique>>,
    pub(crate) groups: Kind<Typed<PodCliqueScalingGroup>>,
    pub(crate) gangs: Kind<Typed<PodGang>>,
    pub(crate) gang_maps: Kind<Typed<PodGangMap>>,
    pub(crate) topologies: Kind<Typed<ClusterTopologyBinding>>,
    pub(crate) revisions: Kind<Typed<ControllerRevision>>,
    pub(crate) pods: Kind<PodProjection>,
    pub(crate) services: Kind<Document>,
    pub(crate) autoscalers: Kind<Document>,
    pub(crate) roles: Kind<Document>,
    pub(crate) role_bindings: Kind<Document>,
    pub(crate) claims: Kind<Document>,
    pub(crate) domains: Kind<Document>,
    pub(crate) claim_templates: Kind<Document>,
    pub(crate) kai_topologies: Kind<Document>,
    pub(crate) pod_groups: PodGroups,
    cliques_by_replica: ReplicaIndex<PodClique>,
    groups_by_replica: ReplicaIndex<PodCliqueScalingGroup>,
    gangs_by_replica: ReplicaIndex<PodGang>,
    gang_maps_by_replica: ReplicaIndex<PodGangMap>,
    pods_by_replica: ReplicaIndex<PodView>,
    departed_pods: Departures<PodView, (SetKey, u32)>,
    services_by_replica: ReplicaIndex<Value>,
    autoscalers_by_replica: ReplicaIndex<Value>,
    revisions_by_set: Index<ControllerRevision, SetKey>,
    roles_by_set: Index<Value, SetKey>,
    role_bindings_by_set: Index<Value, SetKey>,
    claims_by_replica: ReplicaIndex<Value>,
    domains_by_replica: ReplicaIndex<Value>,
    claims_by_set: Index<Value, SetKey>,
}

/// Which kinds the API server serves that not every cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// ResourceClaims and their templates, in the version we speak.
    pub resource_claims: bool,
    /// ComputeDomains, in the version we speak.
    pub compute_domains: bool,
    /// KAI's Topologies, in the version we speak.
    pub kai_topologies: bool,
    /// KAI's PodGroups, in the version we speak.
    pub kai_pod_groups: bool,
    /// Volcano's PodGroups, in the version we speak.
    pub volcano_pod_groups: bool,
    /// PodGroups of Kubernetes itself, in the version we speak.
    pub native_pod_groups: bool,
}

impl Served {
    /// Asks the API server.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn discover(client: &Client) -> Result<Self, kube::Error> {
        let groups = client.list_api_groups().await?;
        let serves = |group_version: &str| {
            let mut versions = groups.groups.iter().flat_map(|group| &group.versions);
            versions.any(|version| version.group_version == group_version)
        };
        // Older versions of a scheduler serve the group without the kind.
        let has = async |kind: CommandKind| -> Result<bool, kube::Error> {
            if !serves(kind.api_version()) {
                return Ok(false);
            }
            let list = client.list_api_group_resources(kind.api_version()).await?;
            Ok(list.resources.iter().any(|served| served.name == kind.plural()))
        };
        Ok(Self {
            kai_pod_groups: has(CommandKind::KaiPodGroup).await?,
            volcano_pod_groups: has(CommandKind::VolcanoPodGroup).await?,
            native_pod_groups: has(CommandKind::NativePodGroup).await?,
            resource_claims: serves(CommandKind::ResourceClaim.api_version()),
            compute_domains: serves(CommandKind::ComputeDomain.api_version()),
            kai_topologies: has(CommandKind::KaiTopology).await?,
        })
    }
}

/// How the API server serves a kind.
pub(crate) fn resource(kind: CommandKind) -> ApiResource {
    let (group, version) = kind.group_and_version();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: kind.api_version().to_owned(),
        kind: kind.as_str().to_owned(),
        plural: kind.plural().to_owned(),
    }
}

/// A kind that is not served has no objects.
fn nothing<P: Projection>(kind: &Kind<P>) {
    kind.begin_list();
    // The first list of a kind cannot be older than another one.
    let _ = kind.finish_list(Version(0), true);
}

fn replica_of_object<K: Resource>(object: &K) -> Option<(SetKey, u32)> {
    replica_of(object.meta().namespace.as_deref(), object.labels())
}

/// Gangs of other operators carry no index label.
fn replica_of_gang(gang: &PodGang) -> Option<(SetKey, u32)> {
    let namespace = gang.metadata.namespace.as_deref();
    replica_of(namespace, gang.labels())
        .or_else(|| replica_of_unlabelled(namespace, gang.labels(), gang.metadata.name.as_deref()?))
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let map = object["metadata"]["labels"].as_object();
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

pub(crate) fn replica_of_document(object: &Value) -> Option<(SetKey, u32)> {
    let namespace = object["metadata"]["namespace"].as_str();
    let labels = labels_of(object);
    replica_of(namespace, &labels)
        .or_else(|| replica_of_unlabelled(namespace, &labels, object["metadata"]["name"].as_str()?))
}

/// As for pods: a Service that another object controls is not ours.
fn replica_of_service(service: &Value) -> Option<(SetKey, u32)> {
    let owners = service["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    (controller["kind"] == "PodCliqueSet").then(|| replica_of_document(service))?
}

fn set_of_document(object: &Value) -> Option<SetKey> {
    set_of(object["metadata"]["namespace"].as_str(), &labels_of(object))
}

/// A pod belongs to a replica by its labels, if a PodClique controls it. Any other pod belongs to another controller or
/// to nobody, whatever its labels say: it is neither counted nor deleted.
fn replica_of_pod(pod: &PodView) -> Option<(SetKey, u32)> {
    use coppice_api::names::{labels, parsing::parse_index};
    if pod.controller_kind.as_deref() != Some("PodClique") {
        return None;
    }
    let set = SetKey {
        namespace: pod.meta.key.namespace.clone(),
        name: pod.label(labels::PART_OF)?.clone(),
    };
    Some((set, parse_index(pod.label(labels::SET_REPLICA_INDEX)?)?))
}

impl World {
    /// An empty world.
    pub fn new(cache: Cache) -> Self {
        let cliques = cache.kind(resource(CommandKind::PodClique), Typed::<PodClique>::default());
        let groups = cache.kind(
            resource(CommandKind::PodCliqueScalingGroup),
            Typed::<PodCliqueScalingGroup>::default(),
        );
        let gangs = cache.kind(resource(CommandKind::PodGang), Typed::<PodGang>::default());
        let gang_maps = cache.kind(resource(CommandKind::PodGangMap), Typed::<PodGangMap>::default());
        let revisions = cache.kind(
            resource(CommandKind::ControllerRevision),
            Typed::<ControllerRevision>::default(),
        );
        let pods = cache.kind(
            resource(CommandKind::Pod),
            PodProjection {
                annotations: &STAMP_ANNOTATIONS,
                ..PodProjection::default()
            },
        );
        let services = cache.kind(resource(CommandKind::Service), Document);
        let autoscalers = cache.kind(resource(CommandKind::HorizontalPodAutoscaler), Document);
        let roles = cache.kind(resource(CommandKind::Role), Document);
        let role_bindings = cache.kind(resource(CommandKind::RoleBinding), Document);
        let claims = cache.kind(resource(CommandKind::ResourceClaim), Document);
        let domains = cache.kind(resource(CommandKind::ComputeDomain), Document);
        Self {
            cliques_by_replica: cliques.index(|object, emit| replica_of_object(object).into_iter().for_each(emit)),
            groups_by_replica: groups.index(|object, emit| replica_of_object(object).into_iter().for_each(emit)),
            gangs_by_replica: gangs.index(|object, emit| replica_of_gang(object).into_iter().for_each(emit)),
            gang_maps_by_replica: gang_maps.index(|object, emit| replica_of_object(object).into_iter().for_each(emit)),
            departed_pods: pods.departures(replica_of_pod, |left, right| left.meta.uid == right.meta.uid),
            pods_by_replica: pods.index(|object, emit| replica_of_pod(object).into_iter().for_each(emit)),
            services_by_replica: services.index(|object, emit| replica_of_service(object).into_iter().for_each(emit)),
            autoscalers_by_replica: autoscalers
                .index(|object, emit| replica_of_document(object).into_iter().for_each(emit)),
            revisions_by_set: revisions.index(|object, emit| {
                set_of(object.metadata.namespace.as_deref(), object.labels())
                    .into_iter()
                    .for_each(emit);
            }),
            claims_by_replica: claims.index(|object, emit| replica_of_document(object).into_iter().for_each(emit)),
            domains_by_replica: domains.index(|object, emit| replica_of_document(object).into_iter().for_each(emit)),
            domains,
            claims_by_set: claims.index(|object, emit| {
                if replica_of_document(object).is_none() {
                    set_of_document(object).into_iter().for_each(emit);
                }
            }),
            claim_templates: cache.kind(ApiResource::erase::<ResourceClaimTemplate>(&()), Document),
            kai_topologies: cache.kind(resource(CommandKind::KaiTopology), Document),
            pod_groups: PodGroups::new(&cache),
            claims,
            roles_by_set: roles.index(|object, emit| set_of_document(object).into_iter().for_each(emit)),
            role_bindings_by_set: role_bindings
                .index(|object, emit| set_of_document(object).into_iter().for_each(emit)),
            sets: cache.kind(resource(CommandKind::PodCliqueSet), Typed::<PodCliqueSet>::default()),
            topologies: cache.kind(
                resource(CommandKind::ClusterTopologyBinding),
                Typed::<ClusterTopologyBinding>::default(),
            ),
            cliques,
            groups,
            gangs,
            gang_maps,
            revisions,
            pods,
            services,
            autoscalers,
            roles,
            role_bindings,
            cache,
        }
    }

    /// Starts watching everything that the API server serves.
    pub fn watch(&self, client: &Client, served: &Served, group: &Group) {
        let ours = reflect::Options {
            label_selector: Some(managed_selector()),
            ..reflect::Options::default()
        };
        let all = reflect::Options::default();
        fn start<P: Projection>(client: &Client, kind: &Kind<P>, options: &reflect::Options, group: &Group) {
            let reflector = reflect::reflect(client.clone(), kind.clone(), options.clone(), group.stopping());
            group.spawn(&format!("watch of {}", kind.resource().plural), reflector);
        }
        if served.resource_claims {
            start(client, &self.claims, &ours, group);
            start(client, &self.claim_templates, &all, group);
        } else {
            for kind in [&self.claims, &self.claim_templates] {
                nothing(kind);
            }
        }
        if served.compute_domains {
            start(client, &self.domains, &ours, group);
        } else {
            nothing(&self.domains);
        }
        if served.kai_topologies {
            start(client, &self.kai_topologies, &all, group);
        } else {
            nothing(&self.kai_topologies);
        }
        for (served, kind) in [
            (served.kai_pod_groups, &self.pod_groups.kai),
            (served.volcano_pod_groups, &self.pod_groups.volcano),
            (served.native_pod_groups, &self.pod_groups.native),
        ] {
            if served {
                start(client, kind, &ours, group);
            } else {
                nothing(kind);
            }
        }
        start(client, &self.sets, &all, group);
        start(client, &self.topologies, &all, group);
        start(client, &self.cliques, &ours, group);
        start(client, &self.groups, &ours, group);
        start(client, &self.gangs, &ours, group);
        start(client, &self.gang_maps, &ours, group);
        start(client, &self.pods, &ours, group);
        start(client, &self.services, &ours, group);
        start(client, &self.autoscalers, &ours, group);
        start(client, &self.roles, &ours, group);
        start(client, &self.role_bindings, &ours, group);
        start(client, &self.revisions, &ours, group);
    }

    /// Calls a function with the replica of every object that changes, and with the set of every object that
    /// concerns a whole set.
    pub fn on_change(&self, replica: &Arc<dyn Fn(SetKey, u32) + Send + Sync>, set: &Arc<dyn Fn(SetKey) + Send + Sync>) {
        fn each<V>(index: &ReplicaIndex<V>, change: &Change<V>, replica: &dyn Fn(SetKey, u32))
        where
            V: Send + Sync + 'static,
        {
            let mut keys = BTreeSet::new();
            for view in change.old.iter().chain(&change.new) {
                index.keys_of(view, |key| {
                    keys.insert(key);
                });
            }
            keys.into_iter().for_each(|(set, index)| replica(set, index));
        }
        macro_rules! by_replica {
            ($kind:ident, $index:ident) => {{
                let (index, replica) = (self.$index.clone(), replica.clone());
                self.$kind
                    .on_change(move |change| each(&index, change, &*replica));
            }};
        }
        by_replica!(cliques, cliques_by_replica);
        by_replica!(groups, groups_by_replica);
        by_replica!(gangs, gangs_by_replica);
        by_replica!(gang_maps, gang_maps_by_replica);
        by_replica!(pods, pods_by_replica);
        by_replica!(services, services_by_replica);
        by_replica!(autoscalers, autoscalers_by_replica);
        by_replica!(claims, claims_by_replica);
        by_replica!(domains, domains_by_replica);
        for (kind, index) in self.pod_groups.indexed() {
            let (index, replica) = (index.clone(), replica.clone());
            kind.on_change(move |change| each(&index, change, &*replica));
        }
        let mark = set.clone();
        self.revisions.on_change(move |change| {
            for object in change.old.iter().chain(&change.new) {
                if let Some(key) = set_of(object.metadata.namespace.as_deref(), object.labels()) {
                    mark(key);
                }
            }
        });
        for kind in [&self.roles, &self.role_bindings, &self.claims] {
            let mark = set.clone();
            kind.on_change(move |change| {
                for object in change.old.iter().chain(&change.new) {
                    if let Some(key) = set_of_document(object) {
                        mark(key);
                    }
                }
            });
        }
    }

    /// The set.
    pub fn set(&self, moment: &Moment<'_>, key: &SetKey) -> Option<Arc<PodCliqueSet>> {
        self.sets.get(
            moment,
            &ObjectKey {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
            },
        )
    }

    /// The revisions of a set.
    pub fn revisions(&self, moment: &Moment<'_>, key: &SetKey) -> Vec<Arc<ControllerRevision>> {
        self.revisions_by_set.get(moment, key)
    }

    /// The role and the role binding of a set.
    pub fn permissions(&self, moment: &Moment<'_>, key: &SetKey) -> (Option<Arc<Value>>, Option<Arc<Value>>) {
        let first = |index: &Index<Value, SetKey>| index.get(moment, key).into_iter().next();
        (first(&self.roles_by_set), first(&self.role_bindings_by_set))
    }

    /// The claims that all replicas of a set share, by name.
    pub fn claims_of_set(&self, moment: &Moment<'_>, key: &SetKey) -> BTreeMap<String, Arc<Value>> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let claims = self.claims_by_set.get(moment, key);
        claims.into_iter().map(|claim| (name(&claim), claim)).collect()
    }

    /// KAI's topology objects, by name.
    pub fn kai_topologies(&self, moment: &Moment<'_>) -> BTreeMap<String, Arc<Value>> {
        let named = |object: Arc<Value>| Some((object["metadata"]["name"].as_str()?.to_owned(), object));
        let all = self.kai_topologies.all(moment);
        all.into_iter().filter_map(named).collect()
    }

    /// Existing ResourceClaimTemplates of those a set refers to, by namespace and name.
    pub fn claim_templates(
        &self,
        moment: &Moment<'_>,
        wanted: BTreeSet<(String, String)>,
    ) -> BTreeMap<(String, String), Arc<Value>> {
        let find = |key: &(String, String)| {
            let object = ObjectKey::new(key.0.as_str(), key.1.as_str());
            self.claim_templates.get(moment, &object)
        };
        wanted
            .into_iter()
            .filter_map(|key| find(&key).map(|content| (key, content)))
            .collect()
    }

    /// The topology of this name.
    pub fn topology(&self, moment: &Moment<'_>, name: &str) -> Option<TopologyLevels> {
        let binding = self.topologies.get(moment, &ObjectKey::new("", name))?;
        let keys = binding
            .spec
            .levels
            .iter()
            .map(|level| (level.domain.clone(), level.key.clone()))
            .collect();
        Some(TopologyLevels {
            name: name.to_owned(),
            keys,
        })
    }

    /// The replicas of a set of which objects exist.
    pub fn existing_replicas(&self, moment: &Moment<'_>, key: &SetKey) -> BTreeSet<u32> {
        fn collect<V>(index: &ReplicaIndex<V>, moment: &Moment<'_>, key: &SetKey, found: &mut BTreeSet<u32>)
        where
            V: Send + Sync + 'static,
        {
            for view in index.range(moment, &(key.clone(), 0), |(set, _)| set == key) {
                index.keys_of(&view, |(_, replica)| {
                    found.insert(replica);
                });
            }
        }
        let mut found = BTreeSet::new();
        collect(&self.cliques_by_replica, moment, key, &mut found);
        collect(&self.groups_by_replica, moment, key, &mut found);
        collect(&self.gangs_by_replica, moment, key, &mut found);
        collect(&self.gang_maps_by_replica, moment, key, &mut found);
        collect(&self.pods_by_replica, moment, key, &mut found);
        collect(&self.services_by_replica, moment, key, &mut found);
        collect(&self.autoscalers_by_replica, moment, key, &mut found);
        collect(&self.claims_by_replica, moment, key, &mut found);
        collect(&self.domains_by_replica, moment, key, &mut found);
        found
    }

    /// The topology of this name, as a scheduler knows it: under the name that the binding gives for that scheduler.
    pub(crate) fn backend_topology(&self, moment: &Moment<'_>, name: &str, scheduler: &str) -> Option<BackendTopology> {
        let binding = self.topologies.get(moment, &ObjectKey::new("", name))?;
        let mut named = binding.spec.scheduler_topology_bindings.iter();
        let reference = named.find(|entry| entry.scheduler_name == scheduler);
        Some(BackendTopology {
            name: reference.map_or(name, |entry| &entry.topology_reference).to_owned(),
            keys: binding.spec.levels.iter().map(|level| level.key.clone()).collect(),
        })
    }

    /// One replica.
    pub fn replica(&self, moment: &Moment<'_>, key: &SetKey, index: u32) -> ReplicaSnapshot {
        let at = (key.clone(), index);
        fn named<K: Resource>(objects: Vec<Arc<K>>) -> BTreeMap<String, Arc<K>> {
            objects.into_iter().map(|object| (object.name_any(), object)).collect()
        }
        fn documents(objects: Vec<Arc<Value>>) -> BTreeMap<String, Arc<Value>> {
            let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            objects.into_iter().map(|object| (name(&object), object)).collect()
        }
        let cliques = named(self.cliques_by_replica.get(moment, &at));
        // Only names that a new pod could get again need be remembered.
        let is_needed = |pod: &PodView| {
            let name = pod.label(labels::POD_CLIQUE);
            let clique = name.and_then(|name| cliques.get(&**name));
            clique.is_some_and(|clique| has_attempt(clique, &pods::facts(pod)))
        };
        let departed = self.departed_pods.retain(moment, &at, is_needed);
        ReplicaSnapshot {
            index,
            departed: departed.iter().map(|pod| Arc::new(pods::facts(pod))).collect(),
            cliques,
            groups: named(self.groups_by_replica.get(moment, &at)),
            gangs: named(self.gangs_by_replica.get(moment, &at)),
            map: self.gang_maps_by_replica.get(moment, &at).into_iter().next(),
            pods: self
                .pods_by_replica
                .get(moment, &at)
                .iter()
                .map(|pod| (pod.meta.key.name.to_string(), Arc::new(pods::facts(pod))))
                .collect(),
            services: documents(self.services_by_replica.get(moment, &at)),
            autoscalers: documents(self.autoscalers_by_replica.get(moment, &at)),
            claims: documents(self.claims_by_replica.get(moment, &at)),
            domains: documents(self.domains_by_replica.get(moment, &at)),
            pod_groups: self.pod_groups.of_replica(moment, &at),
            failures: Vec::new(),
        }
    }
}
