//! From what a file says to a scenario: everything that the words alone do not guarantee is checked here, and every
//! complaint carries its place.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::behaviour::annotation_value;
use super::expectation::{Count, Expectation};
use super::file::{
    BehaviourFile, EventFile, ExpectationFile, NeverFile, NodesFile, PodsFile, ScenarioFile, StepFile, conditions,
};
use super::matcher::Matcher;
use super::model::{Action, Objects, Place, Refusal, Scenario, Step};
use super::names::one_of;
use super::never::{Forbidden, Never};
use super::parse::{FileError, parse_manifests};
use super::target::{KindName, Target};

/// How long a step may take unless it says otherwise.
const DEFAULT_WITHIN: Duration = Duration::from_secs(180);

pub(super) struct Converter<'a> {
    pub(super) file: &'a Path,
}

type Checked<T> = Result<T, FileError>;

impl Converter<'_> {
    fn error(&self, place: Location, message: impl Into<String>) -> FileError {
        FileError::new(self.file, place.line(), place.column(), message)
    }

    pub(super) fn scenario(&self, file: ScenarioFile) -> Checked<Scenario> {
        let valid = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if file.name.value.is_empty() || file.name.value.len() > 50 || !file.name.value.chars().all(valid) {
            let message = "`name` becomes part of a namespace: up to 50 lower-case letters, digits and dashes";
            return Err(self.error(file.name.referenced, message));
        }
        if file.steps.is_empty() {
            return Err(self.error(file.name.referenced, "a scenario without steps proves nothing"));
        }
        let manifests = self.manifests(file.manifests, true)?;
        let mut steps = Vec::new();
        let mut remembered = BTreeSet::new();
        for step in file.steps {
            let place = step.referenced;
            let step = self.step(step, &remembered)?;
            if steps.iter().any(|earlier: &Step| earlier.name == step.name) {
                let message = format!("a second step called `{}`: give one of them another `name`", step.name);
                return Err(self.error(place, message));
            }
            if let Action::Remember { name, .. } = &step.action {
                remembered.insert(name.clone());
            }
            steps.push(step);
        }
        let never = file
            .never
            .into_iter()
            .map(|never| self.never(never, &steps))
            .collect::<Checked<_>>()?;
        let runs_on = file
            .runs_on
            .unwrap_or_else(|| vec![Place::Real, Place::Embedded])
            .into_iter()
            .collect();
        Ok(Scenario {
            file: self.file.to_owned(),
            name: file.name.value,
            description: file.description.trim().to_owned(),
            runs_on,
            cluster: file.cluster,
            manifests,
            never,
            steps,
        })
    }

    fn step(&self, step: Spanned<StepFile>, remembered: &BTreeSet<String>) -> Checked<Step> {
        let place = step.referenced;
        let mut file = step.value;
        let expect = std::mem::take(&mut file.expect)
            .into_iter()
            .map(|expectation| self.expectation(expectation, remembered))
            .collect::<Checked<Vec<_>>>()?;
        let fails = file.fails.take().map(|fails| Refusal {
            code: fails.code,
            reason: fails.reason,
            message: fails.message,
        });
        let (name, within, holds_for) = (file.name.take(), file.within, file.holds_for);
        let action = self.action(place, file, !expect.is_empty())?;
        if fails.is_some() && !action.is_api_call() {
            return Err(self.error(place, "`fails` is for steps that send a request to the API server"));
        }
        if holds_for.is_some() && expect.is_empty() {
            return Err(self.error(place, "`holdsFor` needs an `expect` that holds"));
        }
        Ok(Step {
            line: place.line(),
            name: name.unwrap_or_else(|| action.describe()),
            action,
            fails,
            expect,
            within: within.map_or(DEFAULT_WITHIN, |time| time.0),
            holds_for: holds_for.map(|time| time.0),
        })
    }

    /// Exactly one action; none at all is waiting, if there is something to wait for.
    fn action(&self, place: Location, file: StepFile, expects: bool) -> Checked<Action> {
        let mut actions: Vec<(&'static str, Action)> = Vec::new();
        if let Some(manifests) = file.apply {
            actions.push(("apply", Action::Apply(self.manifests(manifests, true)?)));
        }
        if let Some(manifests) = file.create {
            actions.push(("create", Action::Create(self.manifests(manifests, false)?)));
        }
        if let Some(patch) = file.patch {
            let objects = Objects {
                target: patch.target_of(patch.kind.clone()),
                count: patch.count,
            };
            let (kind, subresource) = (patch.patch_type, patch.subresource);
            actions.push((
                "patch",
                Action::Patch {
                    objects,
                    kind,
                    subresource,
                    patch: patch.patch,
                },
            ));
        }
        if let Some(edit) = file.edit {
            if edit.set.is_empty() && edit.remove.is_empty() {
                return Err(self.error(place, "`edit` needs `set` or `remove`"));
            }
            let objects = Objects {
                target: edit.target_of(edit.kind.clone()),
                count: edit.count,
            };
            actions.push((
                "edit",
                Action::Edit {
                    objects,
                    set: edit.set,
                    remove: edit.remove,
                },
            ));
        }
        if let Some(scale) = file.scale {
            let objects = Objects {
                target: scale.target_of(scale.kind.clone()),
                count: None,
            };
            actions.push((
                "scale",
                Action::Scale {
                    objects,
                    replicas: scale.replicas,
                },
            ));
        }
        if let Some(delete) = file.delete {
            let objects = Objects {
                target: delete.target_of(delete.kind.clone()),
                count: delete.count,
            };
            let (propagation, grace_period_seconds) = (delete.propagation, delete.grace_period_seconds);
            actions.push((
                "delete",
                Action::Delete {
                    objects,
                    propagation,
                    grace_period_seconds,
                },
            ));
        }
        type OfNodes = fn(Objects) -> Action;
        let of_nodes: [(&'static str, Option<NodesFile>, OfNodes); 5] = [
            ("cordon", file.cordon, Action::Cordon),
            ("uncordon", file.uncordon, Action::Uncordon),
            ("drain", file.drain, Action::Drain),
            ("killNode", file.kill_node, Action::KillNode),
            ("restoreNode", file.restore_node, Action::RestoreNode),
        ];
        for (word, nodes, make) in of_nodes {
            if let Some(nodes) = nodes {
                actions.push((word, make(self.nodes(place, word, &nodes)?)));
            }
        }
        if let Some(pods) = file.kill_pod {
            actions.push(("killPod", Action::KillPod(self.pods(place, &pods)?)));
        }
        if let Some(behaviour) = file.pod_behaviour {
            actions.push(("podBehaviour", self.behaviour(place, &behaviour)?));
        }
        if let Some(remember) = file.remember {
            let target = remember.target_of(remember.kind.clone());
            actions.push((
                "remember",
                Action::Remember {
                    name: remember.remember_as,
                    target,
                },
            ));
        }
        if file.restart_operator.is_some() {
            actions.push(("restartOperator", Action::RestartOperator));
        }
        if file.restart_scheduler.is_some() {
            actions.push(("restartScheduler", Action::RestartScheduler));
        }
        if let Some(kill) = file.kill_scheduler {
            let after_bindings = kill.after_bindings;
            actions.push(("killScheduler", Action::KillScheduler { after_bindings }));
        }
        if file.kill_api_server.is_some() {
            actions.push(("killApiServer", Action::KillApiServer));
        }
        if file.restart_api_server.is_some() {
            actions.push(("restartApiServer", Action::RestartApiServer));
        }
        if let Some(wait) = file.wait {
            actions.push((
                "wait",
                Action::Wait {
                    quiet_for: wait.quiet_for.map(|time| time.0),
                },
            ));
        }
        let words: Vec<&str> = actions.iter().map(|(word, _)| *word).collect();
        match actions.len() {
            0 if expects => Ok(Action::Wait { quiet_for: None }),
            0 => Err(self.error(
                place,
                "a step does something or expects something; this one does neither",
            )),
            1 => Ok(actions.remove(0).1),
            _ => Err(self.error(
                place,
                format!("a step does one thing; this one has `{}`", words.join("`, `")),
            )),
        }
    }

    fn nodes(&self, place: Location, word: &str, file: &NodesFile) -> Checked<Objects> {
        if !file.narrows() {
            let message =
                format!("`{word}` needs to know which nodes: `name`, `selector`, `where`, `count` or `all: true`");
            return Err(self.error(place, message));
        }
        Ok(Objects {
            target: file.target(),
            count: file.count,
        })
    }

    fn pods(&self, place: Location, file: &PodsFile) -> Checked<Objects> {
        if !file.narrows() {
            let message = "`killPod` needs to know which pods: `name`, `selector`, `where`, `count` or `all: true`";
            return Err(self.error(place, message));
        }
        Ok(Objects {
            target: file.target(),
            count: file.count,
        })
    }

    fn behaviour(&self, place: Location, file: &BehaviourFile) -> Checked<Action> {
        if !file.narrows() || file.set.is_empty() {
            let message = "`podBehaviour` needs pods (`name`, `selector`, `where`, `count` or `all: true`) and `set`";
            return Err(self.error(place, message));
        }
        let annotations = file
            .set
            .iter()
            .map(|(key, value)| (key.annotation(), annotation_value(value)))
            .collect();
        Ok(Action::PodBehaviour {
            objects: Objects {
                target: file.target(),
                count: file.count,
            },
            annotations,
        })
    }

    fn expectation(
        &self,
        expectation: Spanned<ExpectationFile>,
        remembered: &BTreeSet<String>,
    ) -> Checked<Expectation> {
        let place = expectation.referenced;
        let file = expectation.value;
        if let Some(name) = file
            .keeps
            .iter()
            .chain(&file.replaces)
            .find(|name| !remembered.contains(*name))
        {
            return Err(self.error(place, format!("no earlier step remembers anything as `{name}`")));
        }
        let line = place.line();
        let target = match (&file.kind, &file.absent, &file.event) {
            (Some(kind), None, None) => file.target_of(kind.clone()),
            (None, Some(absent), None) => absent.target_of(absent.kind.clone()),
            (None, None, Some(event)) => event_target(event),
            _ => {
                return Err(self.error(place, "an expectation has exactly one of `kind`, `absent` and `event`"));
            }
        };
        let of_kind = file.kind.is_some();
        let lone = file.count.is_none()
            && file.fields.is_empty()
            && file.conditions.is_empty()
            && file.distinct.is_empty()
            && file.same.is_empty()
            && file.same_node_labels.is_empty()
            && file.distinct_node_labels.is_empty()
            && file.keeps.is_none()
            && file.replaces.is_none();
        if !of_kind && !lone {
            return Err(self.error(
                place,
                "beside `absent` or `event` nothing else stands in an expectation",
            ));
        }
        let counted = file
            .count
            .or(file.event.and_then(|event| event.count))
            .map(|count| count.0);
        let count = match (file.absent.is_some(), counted) {
            (true, _) => Count {
                at_least: 0,
                at_most: 0,
            },
            (false, Some(count)) => count,
            // Where old and new may live side by side for a while, `keeps` and `replaces` must not hold vacuously.
            (false, None) => Count {
                at_least: 1,
                at_most: usize::MAX,
            },
        };
        Ok(Expectation {
            line,
            target,
            count,
            fields: file.fields,
            conditions: conditions(&file.conditions),
            distinct: file.distinct,
            same: file.same,
            same_node_labels: file.same_node_labels,
            distinct_node_labels: file.distinct_node_labels,
            keeps: file.keeps,
            replaces: file.replaces,
        })
    }

    fn never(&self, never: Spanned<NeverFile>, steps: &[Step]) -> Checked<Never> {
        let place = never.referenced;
        let file = never.value;
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        for step in file.after.iter().chain(&file.until) {
            if !names.contains(&step.as_str()) {
                return Err(self.error(place, format!("no step called {}", one_of(step, &names))));
            }
        }
        let target = |target: &super::file::TargetFile| target.target_of(target.kind.clone());
        let what = match (file.more_than, file.fewer_than, &file.of, &file.deleted, &file.created) {
            (Some(limit), None, Some(of), None, None) => Forbidden::MoreThan(limit, target(of)),
            (None, Some(limit), Some(of), None, None) => {
                if file.after.is_none() {
                    let message = "`fewerThan` needs `after`: at the start there is nothing yet";
                    return Err(self.error(place, message));
                }
                Forbidden::FewerThan(limit, target(of))
            }
            (None, None, None, Some(deleted), None) => Forbidden::Deleted(target(deleted)),
            (None, None, None, None, Some(created)) => Forbidden::Created(target(created)),
            _ => {
                let message =
                    "a never-statement has `moreThan` with `of`, `fewerThan` with `of`, `deleted`, or `created`";
                return Err(self.error(place, message));
            }
        };
        let name = file.name.unwrap_or_else(|| match &what {
            Forbidden::MoreThan(limit, target) => format!("more than {limit} {target}"),
            Forbidden::FewerThan(limit, target) => format!("fewer than {limit} {target}"),
            Forbidden::Deleted(target) => format!("{target} deleted"),
            Forbidden::Created(target) => format!("{target} created"),
        });
        Ok(Never {
            line: place.line(),
            name,
            what,
            after: file.after,
            until: file.until,
        })
    }

    /// Inline objects, and the objects of files named by `file`.
    fn manifests(&self, manifests: Vec<Spanned<Value>>, named: bool) -> Checked<Vec<Value>> {
        let mut objects = Vec::new();
        for manifest in manifests {
            let place = manifest.referenced;
            let Some(file) = manifest.value.get("file") else {
                check_manifest(&manifest.value, named).map_err(|message| self.error(place, message))?;
                objects.push(manifest.value);
                continue;
            };
            let (Some(file), Some(1)) = (file.as_str(), manifest.value.as_object().map(serde_json::Map::len)) else {
                return Err(self.error(place, "a manifest is an object, or `file: PATH` alone"));
            };
            let path = self.file.parent().unwrap_or(Path::new("")).join(file);
            let text = std::fs::read_to_string(&path)
                .map_err(|problem| self.error(place, format!("manifest {}: {problem}", path.display())))?;
            for object in parse_manifests(&text, &path)? {
                let problem = |message| self.error(place, format!("manifest {}: {message}", path.display()));
                check_manifest(&object, named).map_err(problem)?;
                objects.push(object);
            }
        }
        Ok(objects)
    }
}

fn check_manifest(manifest: &Value, named: bool) -> Result<(), String> {
    let text = |pointer: &str| {
        manifest
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    for (pointer, field) in [("/apiVersion", "apiVersion"), ("/kind", "kind")] {
        if text(pointer).is_none() {
            return Err(format!("a manifest needs `{field}`"));
        }
    }
    let name = text("/metadata/name").or_else(|| text("/metadata/generateName").filter(|_| !named));
    name.map(drop)
        .ok_or_else(|| "a manifest needs `metadata.name` (`create` also takes `generateName`)".to_owned())
}

fn event_target(event: &EventFile) -> Target {
    let path = |text: &str| text.parse().expect("written here and well-formed");
    let text = |text: &String| Matcher::Equals(Value::String(text.clone()));
    let mut target = Target::all(KindName::core("Event"));
    target.namespace.clone_from(&event.namespace);
    target.fields.insert(path("reason"), event.reason.clone());
    let optional = [
        ("type", event.event_type.clone()),
        ("message", event.message.clone()),
        ("involvedObject.kind", event.kind.as_ref().map(text)),
        ("involvedObject.name", event.name.as_ref().map(text)),
    ];
    target.fields.extend(
        optional
            .into_iter()
            .filter_map(|(name, matcher)| Some((path(name), matcher?))),
    );
    target
}
