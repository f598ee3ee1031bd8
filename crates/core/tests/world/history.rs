//! Histories: a set, and what happens to it. Data, so that a history that once went wrong can be kept and replayed.

use std::collections::BTreeSet;

use coppice_core::command::{Command, Kind};
use serde_json::{Value, json};

use super::World;

/// A clique of a generated set.
#[derive(Clone, Debug)]
pub(crate) struct Clique {
    pub(crate) replicas: u32,
    pub(crate) min_available: u32,
    /// The scaling group it belongs to, if any.
    pub(crate) group: Option<usize>,
    /// How many pods may be unavailable during an update; by default one.
    pub(crate) budget: Option<u32>,
}

/// A scaling group of a generated set.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) replicas: u32,
    pub(crate) min_available: u32,
    /// How many copies may be unavailable during an update; by default one.
    pub(crate) budget: Option<u32>,
}

/// A generated set.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) replicas: u32,
    pub(crate) cliques: Vec<Clique>,
    pub(crate) groups: Vec<Group>,
    pub(crate) ordered: bool,
    /// The update strategy, by its position among [`STRATEGIES`].
    pub(crate) strategy: usize,
}

/// Kinds of children that somebody may delete by hand.
pub(crate) const CHILDREN: [&str; 7] = [
    "Pod",
    "PodClique",
    "PodCliqueScalingGroup",
    "PodGang",
    "Service",
    "ControllerRevision",
    "PodGangMap",
];

/// Something that happens. Numbers choose among what is there.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Somebody scales the set.
    ScaleSet(u32),
    /// Somebody scales a clique.
    ScaleClique(usize, u32),
    /// Somebody scales a group.
    ScaleGroup(usize, u32),
    /// Somebody changes the image of a clique of the template.
    Edit(usize, u32),
    /// Somebody changes the update strategy.
    Strategy(usize),
    /// Somebody deletes a child.
    Delete(usize, usize),
    /// A pod ends.
    Fail(usize),
    /// A pod stops being ready and stays so until the end.
    Break(usize),
    /// All pods lose their nodes: they are deleted and gone.
    LoseNodes,
    /// The cluster has room for so many pods only.
    Capacity(usize),
    /// Time passes.
    Wait(u32),
    /// Kubelets and the scheduler do one step.
    Kubelets,
    /// The operator plans once; some of its commands go wrong.
    Plan(Vec<Trouble>),
}

/// What happens to a command. The rest of its plan is not carried out unless all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// It is not carried out.
    Before,
    /// It is carried out, but nobody knows.
    After,
}

impl Shape {
    /// The set as YAML would have it.
    pub(crate) fn set(&self) -> Value {
        let cliques: Vec<Value> = (0..self.cliques.len()).map(|index| self.clique(index)).collect();
        let groups: Vec<Value> = self
            .groups
            .iter()
            .enumerate()
            .filter_map(|(index, group)| {
                let members: Vec<String> = (0..self.cliques.len())
                    .filter(|clique| self.cliques[*clique].group == Some(index))
                    .map(|clique| format!("c{clique}"))
                    .collect();
                (!members.is_empty()).then(|| {
                    json!({"name": format!("g{index}"), "cliqueNames": members, "replicas": group.replicas,
                           "minAvailable": group.min_available, "rollingUpdate": {"maxUnavailable": group.budget}})
                })
            })
            .collect();
        let order = if self.ordered {
            "CliqueStartupTypeInOrder"
        } else {
            "CliqueStartupTypeAnyOrder"
        };
        json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "wl", "namespace": "test"},
            "spec": {
                "replicas": self.replicas,
                "updateStrategy": {"type": strategy(self.strategy)},
                "template": {"terminationDelay": "10s", "cliqueStartupType": order, "cliques": cliques,
                             "podCliqueScalingGroups": groups},
            },
        })
    }

    fn clique(&self, index: usize) -> Value {
        let clique = &self.cliques[index];
        let budget = clique.budget.filter(|_| clique.group.is_none());
        json!({"name": format!("c{index}"), "rollingUpdate": {"maxUnavailable": budget}, "spec": {
            "roleName": format!("r{index}"), "replicas": clique.replicas, "minAvailable": clique.min_available,
            "podSpec": {"containers": [{"name": "m", "image": "i:0"}]},
        }})
    }
}

/// All update strategies.
pub(crate) const STRATEGIES: [&str; 3] = ["RollingRecreate", "OnDelete", "Coherent"];

fn strategy(number: usize) -> &'static str {
    STRATEGIES[number % STRATEGIES.len()]
}

fn nth(names: &[String], number: usize) -> Option<String> {
    (!names.is_empty()).then(|| names[number % names.len()].clone())
}

impl World {
    /// Lets something happen.
    pub(crate) fn happen(&mut self, event: &Event) {
        match event {
            Event::ScaleSet(size) => self.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = (*size).into()),
            Event::ScaleClique(number, size) => self.scale("PodClique", *number, *size),
            Event::ScaleGroup(number, size) => self.scale("PodCliqueScalingGroup", *number, *size),
            Event::Edit(number, version) => self.edit("PodCliqueSet", "wl", |set| {
                let cliques = set["spec"]["template"]["cliques"].as_array_mut().expect("cliques");
                let number = number % cliques.len();
                cliques[number]["spec"]["podSpec"]["containers"][0]["image"] = format!("i:{version}").into();
            }),
            Event::Strategy(number) => self.edit("PodCliqueSet", "wl", |set| {
                set["spec"]["updateStrategy"]["type"] = strategy(*number).into();
            }),
            Event::Delete(kind, number) => {
                let kind = CHILDREN[kind % CHILDREN.len()];
                if let Some(name) = nth(&self.names(kind), *number) {
                    self.delete(kind, &name);
                }
            }
            Event::Fail(number) => {
                if let Some(name) = nth(&self.names("Pod"), *number) {
                    self.fail(&name);
                }
            }
            Event::Break(number) => self.pod_status(*number, json!({"ready": false, "stuck": true})),
            Event::LoseNodes => {
                for name in self.names("Pod") {
                    if self.get("Pod", &name)["spec"]["nodeName"].is_string() {
                        self.objects.remove(&("Pod".to_owned(), name));
                    }
                }
            }
            Event::Capacity(capacity) => self.capacity = Some(*capacity),
            Event::Wait(seconds) => self.advance(i64::from(*seconds)),
            Event::Kubelets => {
                self.kubelets();
            }
            Event::Plan(troubles) => {
                self.troubles = troubles.iter().rev().copied().collect();
                self.step();
                self.troubles.clear();
            }
        }
    }

    fn scale(&mut self, kind: &str, number: usize, size: u32) {
        if let Some(name) = nth(&self.names(kind), number) {
            self.edit(kind, &name, |object| object["spec"]["replicas"] = size.into());
        }
    }

    fn pod_status(&mut self, number: usize, status: Value) {
        // A pod that ended stays so.
        let runs = |name: &String| self.get("Pod", name)["status"]["phase"] != "Failed";
        if let Some(name) = nth(&self.names("Pod"), number).filter(runs) {
            self.edit("Pod", &name, |pod| pod["status"] = status);
        }
    }

    /// Everything that hinders pods goes away.
    pub(crate) fn heal(&mut self) {
        self.capacity = None;
        for name in self.names("Pod") {
            if self.get("Pod", &name)["status"]["stuck"] == true {
                self.edit("Pod", &name, |pod| pod["status"] = json!({"ready": false}));
            }
        }
    }

    /// Carries out a plan until something goes wrong. Returns how many of its commands change something.
    pub(crate) fn carry_out_plan(&mut self, stages: &[Vec<Command>]) -> usize {
        let mut changes = 0;
        let mut patched = BTreeSet::new();
        for command in stages.iter().flatten() {
            if let Command::Merge { target, .. } | Command::Status { target, .. } = command {
                assert!(
                    patched.insert(&target.uid),
                    "two patches of {} in one plan: the second one would be refused",
                    target.name
                );
            }
        }
        let binds = |stage: &[Command]| {
            let mut commands = stage.iter();
            commands.any(|command| matches!(command, Command::Create(object) if object.kind == Kind::RoleBinding))
        };
        for (first, command) in stages.iter().flat_map(|stage| {
            stage
                .iter()
                .enumerate()
                .map(move |(at, command)| ((at == 0).then_some(stage), command))
        }) {
            // The commands of a stage go out side by side, and a binding to a role that is not there is refused.
            assert!(
                !first.is_some_and(|stage| binds(stage)) || self.of_kind("Role").next().is_some(),
                "a role is there before its binding is made"
            );
            changes += usize::from(!matches!(command, Command::Event { .. }));
            // What was thought to be gone is there: the plan was made from a world that is not so.
            let is_there = |name: &String| self.objects.contains_key(&("Pod".to_owned(), name.clone()));
            if let Command::Confirm { names, .. } = command
                && names.iter().any(is_there)
            {
                self.carry_out(command);
                return changes;
            }
            let trouble = self.troubles.pop().unwrap_or(Trouble::None);
            if trouble == Trouble::Before {
                return changes;
            }
            self.carry_out(command);
            if trouble == Trouble::After {
                return changes;
            }
        }
        changes
    }
}
