//! The facts that come with the crate, parsed on first use.

use std::sync::{Arc, LazyLock};

use crate::facts;
use crate::model::Definitions;

static KUBERNETES: LazyLock<Arc<Definitions>> = LazyLock::new(|| parse(include_str!("../facts/kubernetes.facts")));
static POD_TEMPLATE: LazyLock<Arc<Definitions>> =
    LazyLock::new(|| parse(include_str!("../facts/pod-template-1.35.facts")));

fn parse(text: &str) -> Arc<Definitions> {
    Arc::new(facts::read(text).expect("the facts in the crate are well-formed"))
}

/// The built-in kinds of Kubernetes 1.36.
pub fn kubernetes() -> &'static Arc<Definitions> {
    &KUBERNETES
}

/// The types that custom resources embed (PodSpec, MetricSpec, ResourceClaimTemplateSpec, …) as of Kubernetes 1.35, with
/// the constraints that code generators add to them.
pub fn pod_template() -> &'static Arc<Definitions> {
    &POD_TEMPLATE
}
