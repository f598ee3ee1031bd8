//! What the rules need to know: the operator's configuration, and what its cache knows of the cluster.
//!
//! A cache may lag behind what a user created a moment ago, and a refusal because of that would be a riddle. So what it
//! does not know is asked of the API server once more before a request is judged by its absence. Never writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use coppice_api::admission::authorizer::{Owner, Trusted};
use coppice_api::admission::{Context, Schedulers};
use coppice_api::types::{ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::warn;

use super::Endpoint;
use super::review::{self, Answer, Malformed, Request};
use crate::keys::SetKey;
use crate::world::World;

/// What the configuration says about admission.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The enabled schedulers.
    pub schedulers: Schedulers,
    /// Whether topology constraints are honoured.
    pub topology_aware_scheduling: bool,
    /// Whether NVLink groups are honoured.
    pub auto_mnnvl: bool,
    /// Who may change managed objects; everyone when none.
    pub guard: Option<Guard>,
}

/// Who may change managed objects.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The operator's own user name.
    pub operator: String,
    /// Further users, by full name.
    pub exempt: Vec<String>,
}

/// A fact that could not be looked up; the request may be sent again.
#[derive(Debug, thiserror::Error)]
#[error("cannot look up {what}: {source}; send the request again")]
struct LookupError {
    what: String,
    source: kube::Error,
}

/// Why a request got no answer of the rules.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

/// Answers reviews. Clones share.
#[derive(Clone)]
pub struct Admission {
    policy: Arc<Policy>,
    world: World,
    client: Client,
}

impl Admission {
    /// Answers by `policy` and by what `world` knows.
    #[must_use]
    pub fn new(policy: Policy, world: World, client: Client) -> Self {
        Self {
            policy: Arc::new(policy),
            world,
            client,
        }
    }

    /// Whether this question is answered at all.
    #[must_use]
    pub fn answers(&self, endpoint: Endpoint) -> bool {
        endpoint != Endpoint::Authorize || self.policy.guard.is_some()
    }

    /// Answers a review with a review.
    ///
    /// # Errors
    /// When it is no review, or one about something else.
    pub async fn review(&self, endpoint: Endpoint, review: &Value) -> Result<Value, Malformed> {
        let request = Request::read(review)?;
        let answer = match self.answer(endpoint, &request).await {
            Ok(answer) => answer,
            Err(Unanswered::Malformed(malformed)) => return Err(malformed),
            Err(Unanswered::Lookup(error)) => {
                warn!(%error, "a request was refused because nothing could be looked up");
                Answer::failure(&error.to_string())
            }
        };
        Ok(answer.to_review(&request.uid))
    }

    async fn answer(&self, endpoint: Endpoint, request: &Request) -> Result<Answer, Unanswered> {
        Ok(match endpoint {
            Endpoint::DefaultPodCliqueSet => review::default_set(request)?,
            Endpoint::ValidatePodCliqueSet => {
                let mut context = self.context();
                let named = request.set().map(|set| topology_names(&set)).unwrap_or_default();
                for name in named.into_iter().filter(|_| context.topology_aware_scheduling) {
                    if !context.topologies.contains_key(&name)
                        && let Some(binding) = self.look_up_topology(&name).await?
                    {
                        context.topologies.insert(name, binding.spec);
                    }
                }
                review::validate_set(request, &context)?
            }
            Endpoint::ValidateClusterTopologyBinding => review::validate_binding(request, &self.context())?,
            Endpoint::ValidatePodClique => self.judge_size::<PodClique>(request).await?,
            Endpoint::ValidatePodCliqueScalingGroup => self.judge_size::<PodCliqueScalingGroup>(request).await?,
            Endpoint::Authorize => {
                let Some(guard) = &self.policy.guard else {
                    return Ok(Answer::default());
                };
                let trusted = Trusted {
                    operator: &guard.operator,
                    exempt: &guard.exempt,
                };
                let set = match request.guarding_set()? {
                    None => return Ok(review::authorize(request, Owner::None, trusted)?),
                    Some(name) => self.look_up_set(&request.namespace, &name).await?,
                };
                let owner = set
                    .as_ref()
                    .map_or(Owner::Missing, |set| Owner::Found(set.metadata.annotations.as_ref()));
                review::authorize(request, owner, trusted)?
            }
        })
    }

    /// Judges a new size. A write to `scale` does not say what the minimum is; whoever is gone by now is not judged.
    async fn judge_size<K: HasMinimum>(&self, request: &Request) -> Result<Answer, Unanswered> {
        let mut resize = request.resize(K::KIND)?;
        if !resize.is_none() && resize.min_available.is_none() {
            let objects: Api<K> = Api::namespaced(self.client.clone(), &request.namespace);
            let found = objects.get_opt(&request.name).await;
            let found = found
                .map_err(|source| failed(format!("{} {}/{}", K::KIND, request.namespace, request.name), source))?;
            resize.min_available = found.and_then(|object| object.minimum());
        }
        Ok(review::judge_size(request, K::KIND, resize)?)
    }

    fn context(&self) -> Context {
        let bindings = self.world.topologies.all(&self.world.cache.moment());
        Context {
            schedulers: self.policy.schedulers.clone(),
            topology_aware_scheduling: self.policy.topology_aware_scheduling,
            auto_mnnvl: self.policy.auto_mnnvl,
            topologies: bindings
                .iter()
                .map(|binding| (binding.name_any(), binding.spec.clone()))
                .collect(),
            volcano_queues: None,
        }
    }

    async fn look_up_topology(&self, name: &str) -> Result<Option<ClusterTopologyBinding>, LookupError> {
        let bindings: Api<ClusterTopologyBinding> = Api::all(self.client.clone());
        let found = bindings.get_opt(name).await;
        found.map_err(|source| failed(format!("ClusterTopologyBinding {name:?}"), source))
    }

    async fn look_up_set(&self, namespace: &str, name: &str) -> Result<Option<Arc<PodCliqueSet>>, LookupError> {
        let known = self
            .world
            .set(&self.world.cache.moment(), &SetKey::new(namespace, name));
        if known.is_some() {
            return Ok(known);
        }
        let sets: Api<PodCliqueSet> = Api::namespaced(self.client.clone(), namespace);
        let found = sets.get_opt(name).await;
        let found = found.map_err(|source| failed(format!("PodCliqueSet {namespace}/{name}"), source))?;
        Ok(found.map(Arc::new))
    }
}

/// A kind with a size and a minimum.
trait HasMinimum:
    kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + std::fmt::Debug
{
    const KIND: &'static str;

    fn minimum(&self) -> Option<i32>;
}

impl HasMinimum for PodClique {
    const KIND: &'static str = "PodClique";

    fn minimum(&self) -> Option<i32> {
        self.spec.min_available
    }
}

impl HasMinimum for PodCliqueScalingGroup {
    const KIND: &'static str = "PodCliqueScalingGroup";

    fn minimum(&self) -> Option<i32> {
        self.spec.min_available
    }
}

fn failed(what: String, source: kube::Error) -> LookupError {
    LookupError { what, source }
}

/// The topologies that the constraints of a set name.
fn topology_names(set: &PodCliqueSet) -> BTreeSet<String> {
    let template = &set.spec.template;
    let groups = template.pod_clique_scaling_groups.iter();
    let cliques = template.cliques.iter();
    let constraints = template
        .topology_constraint
        .iter()
        .chain(groups.filter_map(|group| group.topology_constraint.as_ref()))
        .chain(cliques.filter_map(|clique| clique.topology_constraint.as_ref()));
    constraints
        .filter_map(|constraint| constraint.topology_name.clone())
        .filter(|name| !name.is_empty())
        .collect()
}
