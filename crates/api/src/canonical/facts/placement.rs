//! Facts about affinity, tolerations and topology spread.

use super::pod::LABEL_SELECTOR;
use super::{Object, list, number, object, optional, scalars, text};

pub(in crate::canonical) static AFFINITY: Object = Object::transparent(&[
    object("nodeAffinity", &NODE_AFFINITY),
    object("podAffinity", &POD_AFFINITY),
    object("podAntiAffinity", &POD_ANTI_AFFINITY),
]);

pub(in crate::canonical) static NODE_AFFINITY: Object = Object::transparent(&[
    list(
        "preferredDuringSchedulingIgnoredDuringExecution",
        &PREFERRED_SCHEDULING_TERM,
    ),
    object("requiredDuringSchedulingIgnoredDuringExecution", &NODE_SELECTOR),
]);

pub(in crate::canonical) static NODE_SELECTOR: Object =
    Object::counted(&[list("nodeSelectorTerms", &NODE_SELECTOR_TERM)]);

pub(in crate::canonical) static NODE_SELECTOR_TERM: Object = Object::counted(&[
    list("matchExpressions", &NODE_SELECTOR_REQUIREMENT),
    list("matchFields", &NODE_SELECTOR_REQUIREMENT),
]);

pub(in crate::canonical) static NODE_SELECTOR_REQUIREMENT: Object =
    Object::counted(&[text("key"), text("operator"), scalars("values")]);

pub(in crate::canonical) static PREFERRED_SCHEDULING_TERM: Object =
    Object::counted(&[object("preference", &NODE_SELECTOR_TERM), number("weight")]);

pub(in crate::canonical) static POD_AFFINITY: Object = Object::transparent(&[
    list(
        "preferredDuringSchedulingIgnoredDuringExecution",
        &WEIGHTED_POD_AFFINITY_TERM,
    ),
    list("requiredDuringSchedulingIgnoredDuringExecution", &POD_AFFINITY_TERM),
]);

pub(in crate::canonical) static POD_ANTI_AFFINITY: Object = Object::transparent(&[
    list(
        "preferredDuringSchedulingIgnoredDuringExecution",
        &WEIGHTED_POD_AFFINITY_TERM,
    ),
    list("requiredDuringSchedulingIgnoredDuringExecution", &POD_AFFINITY_TERM),
]);

pub(in crate::canonical) static POD_AFFINITY_TERM: Object = Object::counted(&[
    object("labelSelector", &LABEL_SELECTOR),
    scalars("matchLabelKeys"),
    scalars("mismatchLabelKeys"),
    object("namespaceSelector", &LABEL_SELECTOR),
    scalars("namespaces"),
    text("topologyKey"),
]);

pub(in crate::canonical) static WEIGHTED_POD_AFFINITY_TERM: Object =
    Object::counted(&[object("podAffinityTerm", &POD_AFFINITY_TERM), number("weight")]);

pub(in crate::canonical) static TOLERATION: Object = Object::counted(&[
    text("effect"),
    text("key"),
    text("operator"),
    optional("tolerationSeconds"),
    text("value"),
]);

pub(in crate::canonical) static TOPOLOGY_SPREAD_CONSTRAINT: Object = Object::counted(&[
    object("labelSelector", &LABEL_SELECTOR),
    scalars("matchLabelKeys"),
    number("maxSkew"),
    optional("minDomains"),
    optional("nodeAffinityPolicy"),
    optional("nodeTaintsPolicy"),
    text("topologyKey"),
    text("whenUnsatisfiable"),
]);
