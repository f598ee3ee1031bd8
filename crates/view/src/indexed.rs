//! The objects of a set by what views look them up by.

use std::collections::BTreeMap;

use coppice_api::names::labels;
use coppice_api::types::{PodClique, PodCliqueScalingGroup, PodGang};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::ResourceExt as _;

use crate::build::{Objects, replica_index};

/// Objects by what they are looked up by, so that a set with many replicas costs what its objects are, and not their square.
pub(crate) struct Indexed<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) cliques: BTreeMap<&'a str, &'a PodClique>,
    pub(crate) groups: BTreeMap<&'a str, &'a PodCliqueScalingGroup>,
    /// Cliques by the object of their scaling group.
    pub(crate) of_group: BTreeMap<&'a str, Vec<&'a PodClique>>,
    pub(crate) of_replica: BTreeMap<u32, Vec<&'a PodClique>>,
    /// Cliques by their gang.
    pub(crate) of_gang: BTreeMap<&'a str, Vec<&'a PodClique>>,
    /// Pods by the object of their clique.
    pub(crate) pods: BTreeMap<&'a str, Vec<&'a Pod>>,
    pub(crate) pods_of_gang: BTreeMap<&'a str, Vec<&'a Pod>>,
    pub(crate) gangs: BTreeMap<&'a str, &'a PodGang>,
    pub(crate) gangs_of_replica: BTreeMap<u32, Vec<&'a PodGang>>,
}

fn by_label<'a, K: Resource>(objects: &'a [K], label: &str) -> BTreeMap<&'a str, Vec<&'a K>> {
    let mut found: BTreeMap<&str, Vec<&K>> = BTreeMap::new();
    for object in objects {
        if let Some(value) = object.labels().get(label) {
            found.entry(value).or_default().push(object);
        }
    }
    found
}

fn by_replica<K: Resource>(objects: &[K]) -> BTreeMap<u32, Vec<&K>> {
    let mut found: BTreeMap<u32, Vec<&K>> = BTreeMap::new();
    for object in objects {
        if let Some(index) = replica_index(object) {
            found.entry(index).or_default().push(object);
        }
    }
    found
}

fn by_name<K: Resource>(objects: &[K]) -> BTreeMap<&str, &K> {
    let named = objects
        .iter()
        .filter_map(|object| Some((object.meta().name.as_deref()?, object)));
    named.collect()
}

impl<'a> Indexed<'a> {
    pub(crate) fn new(objects: &'a Objects) -> Self {
        Self {
            cliques: by_name(&objects.cliques),
            groups: by_name(&objects.groups),
            of_group: by_label(&objects.cliques, labels::SCALING_GROUP),
            of_replica: by_replica(&objects.cliques),
            of_gang: by_label(&objects.cliques, labels::POD_GANG),
            pods: by_label(&objects.pods, labels::POD_CLIQUE),
            pods_of_gang: by_label(&objects.pods, labels::POD_GANG),
            gangs: by_name(&objects.gangs),
            gangs_of_replica: by_replica(&objects.gangs),
            objects,
        }
    }
}
