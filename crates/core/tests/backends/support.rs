//! Cases: a set with live sizes and a topology, or a PodGang as another operator left it.

use std::collections::BTreeMap;
use std::path::Path;

use coppice_api::types::{PodCliqueSet, PodGang};
use coppice_core::backends::{Backend, BackendTopology, Gang};
use coppice_core::facts::SetFacts;
use coppice_core::gang_map::{Generation, StoredGangs};
use coppice_core::layout::{LiveSizes, ReplicaLayout};
use coppice_core::objects::pod_gang;
use coppice_core::settings::{Settings, TopologyLevels};
use serde_json::{Value, json};

pub(crate) struct Case {
    pub(crate) name: String,
    content: Value,
}

impl Case {
    pub(crate) fn all(directory: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(directory).expect("cases");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.iter().map(|name| Self::named(directory, name)).collect()
    }

    pub(crate) fn named(directory: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(directory.join(name)).expect("a case");
        Self {
            name: name.to_owned(),
            content: serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")),
        }
    }

    /// The set, with this scheduler for all its cliques.
    pub(crate) fn set(&self, scheduler: &str) -> PodCliqueSet {
        let mut set = self.content["set"].clone();
        set["apiVersion"] = "grove.io/v1alpha1".into();
        set["kind"] = "PodCliqueSet".into();
        for clique in set["spec"]["template"]["cliques"].as_array_mut().expect("cliques") {
            clique["spec"]["podSpec"]["schedulerName"] = scheduler.into();
        }
        serde_json::from_value(set).expect("a set")
    }

    fn topology(&self) -> Option<(TopologyLevels, BackendTopology)> {
        let topology = self.content.get("topology")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let levels = topology["levels"].as_array().expect("levels");
        let keys = levels.iter().map(|level| (text(&level["domain"]), text(&level["key"])));
        let reference = topology.get("reference").unwrap_or(&topology["name"]);
        let of_backend = BackendTopology {
            name: text(reference),
            keys: levels.iter().map(|level| text(&level["key"])).collect(),
        };
        let levels = TopologyLevels {
            name: text(&topology["name"]),
            keys: keys.collect(),
        };
        Some((levels, of_backend))
    }

    fn live(&self) -> LiveSizes {
        let sizes = |part: &str| -> BTreeMap<String, u32> {
            let map = self.content["live"][part].as_object();
            map.into_iter()
                .flatten()
                .map(|(name, size)| (name.clone(), size.as_u64().expect("a size") as u32))
                .collect()
        };
        LiveSizes {
            cliques: sizes("cliques"),
            groups: sizes("groups"),
            ..LiveSizes::default()
        }
    }

    /// Calls a function with each gang of replica 0, as it is stored.
    pub(crate) fn each_gang(&self, set: &PodCliqueSet, backend: &dyn Backend, mut call: impl FnMut(Gang<'_>)) {
        let facts = SetFacts::of(set);
        let topology = self.topology();
        let settings = Settings {
            topology_aware: true,
            ..Settings::default()
        };
        let layout = ReplicaLayout::new(
            &facts,
            0,
            &self.live(),
            &StoredGangs::default(),
            Generation { hash: "h", given: true },
        );
        let pods: BTreeMap<String, Vec<String>> = layout
            .cliques
            .iter()
            .map(|clique| {
                let names = (0..clique.replicas).map(|index| format!("{}-{index}", clique.name));
                (clique.name.clone(), names.collect())
            })
            .collect();
        let gangs: Vec<Value> = match self.content.get("gang") {
            Some(gang) => vec![gang.clone()],
            None => (0..layout.gangs.len())
                .map(|gang| {
                    let levels = topology.as_ref().map(|(levels, _)| levels);
                    json!(pod_gang(&facts, &settings, levels, &layout, gang, &pods))
                })
                .collect(),
        };
        for (index, mut object) in gangs.into_iter().enumerate() {
            object["metadata"]["uid"] = format!("gang-{index}").into();
            for (key, value) in backend.gang_annotations() {
                object["metadata"]["annotations"][*key] = (*value).into();
            }
            let object: PodGang = serde_json::from_value(object).expect("a gang");
            call(Gang {
                object: &object,
                facts: &facts,
                topology: topology.as_ref().map(|(_, of_backend)| of_backend),
            });
        }
    }
}

/// An object as YAML.
pub(crate) fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("YAML")
}
