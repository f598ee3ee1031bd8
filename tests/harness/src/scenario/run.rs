//! Runs a scenario: a fresh namespace, nodes, manifests, then step after step, and at the end everything is removed. A
//! failure carries what was expected, what is there, and the timeline up to it.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client, Error, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actions::{ActionError, Actor};
use super::environment::{Environment, Nodes, lacking};
use super::expectation::{Memory, Mismatch};
use super::kinds::Kinds;
use super::matcher::Matcher;
use super::model::{Refusal, Scenario, Step};
use super::recorder::{Recorder, Waited};
use super::requests::persist;
use super::target::{KindName, Target};

/// How long the preparations may take.
const PREPARATION: Duration = Duration::from_secs(60);
/// How long the clean-up may take; what is left then stays, in a namespace nobody looks at again.
const CLEAN_UP: Duration = Duration::from_secs(30);
/// How many lines of the timeline a failure shows.
const TIMELINE_LINES: usize = 80;

/// What happens while a scenario runs, for whoever shows it.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The scenario begins, in this namespace.
    Started(&'a Scenario, &'a str),
    /// A step begins.
    StepStarted(&'a Step),
    /// A step has succeeded.
    StepPassed(&'a Step, Duration),
    /// A step has failed.
    StepFailed(&'a Step),
}

/// A scenario that did not run as written.
#[derive(Debug)]
pub struct Failure {
    /// The scenario's file.
    pub file: String,
    /// The line of the step, or 0 when no step is to blame.
    pub line: u64,
    /// The name of the step.
    pub step: String,
    /// What went wrong, over several lines.
    pub problem: String,
    /// What happened up to then, rendered.
    pub timeline: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            step,
            problem,
            timeline,
        } = self;
        match line {
            0 => writeln!(formatter, "{file}: {step}")?,
            _ => writeln!(formatter, "{file}:{line}: step failed: {step}")?,
        }
        writeln!(formatter, "{}", problem.trim_end())?;
        if !timeline.is_empty() {
            writeln!(formatter, "timeline:\n{}", timeline.trim_end())?;
        }
        Ok(())
    }
}

/// A problem together with the kinds it is about.
struct Problem {
    text: String,
    kinds: Vec<KindName>,
}

impl Problem {
    fn new(text: impl fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            kinds: Vec::new(),
        }
    }
}

/// Runs a scenario to its end or to its first failure.
pub async fn run(
    scenario: &Scenario,
    environment: &dyn Environment,
    progress: &(dyn Fn(Progress<'_>) + Send + Sync),
) -> Result<(), Box<Failure>> {
    let failure = |problem: String| {
        let step = "could not be started".to_owned();
        Box::new(Failure {
            file: scenario.file.display().to_string(),
            line: 0,
            step,
            problem,
            timeline: String::new(),
        })
    };
    if let Some(what) = lacking(scenario, environment.offers()) {
        return Err(failure(format!(
            "{} does not offer {what}, which this scenario needs",
            environment.name()
        )));
    }
    let client = environment.client();
    let deadline = Instant::now() + PREPARATION;
    let namespace = create_namespace(&client, &scenario.name, deadline).await;
    let namespace = namespace.map_err(|error| failure(format!("create a namespace: {error}")))?;
    progress(Progress::Started(scenario, &namespace));
    let kinds = persist(deadline, |_| Kinds::discover(&client)).await;
    let kinds = kinds.map_err(|error| failure(format!("discovery: {error}")))?;
    let never = scenario.never.clone();
    let recorder = Recorder::start(client.clone(), &namespace, kinds, scenario.kinds(), never, deadline).await;
    let recorder = recorder.map_err(|problem| failure(format!("watches did not start: {problem:?}")))?;
    let nodes = match &scenario.cluster.nodes {
        None => None,
        Some(group) => Some(
            environment
                .start_nodes(group)
                .await
                .map_err(|error| failure(error.to_string()))?,
        ),
    };
    let actor = Actor {
        client,
        namespace,
        environment,
        recorder: &recorder,
        memory: Memory::new(),
        made: Vec::new(),
    };
    let mut run = Run {
        scenario,
        actor,
        progress,
    };
    let result = run.steps().await;
    run.clean_up(nodes).await;
    recorder.stop().await;
    result
}

struct Run<'a> {
    scenario: &'a Scenario,
    actor: Actor<'a>,
    progress: &'a (dyn Fn(Progress<'_>) + Send + Sync),
}

impl Run<'_> {
    async fn steps(&mut self) -> Result<(), Box<Failure>> {
        let deadline = Instant::now() + PREPARATION;
        for manifest in &self.scenario.manifests {
            let applied = self.actor.apply(manifest, deadline).await;
            applied.map_err(|error| self.failure(0, "manifests could not be applied", Problem::new(error)))?;
        }
        for step in &self.scenario.steps {
            (self.progress)(Progress::StepStarted(step));
            let started = Instant::now();
            self.actor.recorder.step_started(&step.name);
            if let Err(problem) = self.step(step, started + step.within).await {
                (self.progress)(Progress::StepFailed(step));
                return Err(self.failure(step.line, &step.name, problem));
            }
            (self.progress)(Progress::StepPassed(step, started.elapsed()));
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step, deadline: Instant) -> Result<(), Problem> {
        let acted = self.actor.act(&step.action, deadline).await;
        match (&step.fails, acted) {
            (None, acted) => acted.map_err(problem_of_action)?,
            (Some(refusal), Err(ActionError::Request { error, .. })) => check_refusal(refusal, &error)?,
            (Some(_), Err(error)) => return Err(problem_of_action(error)),
            (Some(refusal), Ok(())) => {
                return Err(Problem::new(format!(
                    "the API server accepted what it should have refused: {refusal:?}"
                )));
            }
        }
        self.expect(step, deadline).await?;
        self.actor.recorder.step_finished(&step.name).map_err(Problem::new)
    }

    /// Waits until all expectations hold together, and for as long as they have to.
    async fn expect(&self, step: &Step, deadline: Instant) -> Result<(), Problem> {
        if step.expect.is_empty() {
            return Ok(());
        }
        let recorder = self.actor.recorder;
        let evaluate = |world: &super::world::World| -> Vec<Mismatch> {
            let of = |expectation: &super::expectation::Expectation| {
                expectation
                    .evaluate(world, &self.actor.memory, &self.actor.namespace)
                    .err()
            };
            step.expect.iter().filter_map(of).collect()
        };
        let too_long = |broken: &[Mismatch]| {
            let mut text = format!("not within {:?}:\n", step.within);
            let mismatches = recorder.look(|seen| evaluate(&seen.world));
            let shown = if mismatches.is_empty() { broken } else { &mismatches };
            shown.iter().for_each(|mismatch| text.push_str(&mismatch.to_string()));
            if mismatches.is_empty() {
                text.push_str("it holds now, but not for long enough\n");
            }
            let kinds = step
                .expect
                .iter()
                .map(|expectation| expectation.target.kind.clone())
                .collect();
            Problem { text, kinds }
        };
        let mut broken = Vec::new();
        loop {
            match recorder
                .wait(deadline, |seen| evaluate(&seen.world).is_empty().then_some(()))
                .await
            {
                Ok(()) => {}
                Err(Waited::TooLong) => return Err(too_long(&broken)),
                Err(Waited::Violated(violation)) => return Err(Problem::new(violation)),
            }
            let Some(time) = step.holds_for else {
                return Ok(());
            };
            let end = Instant::now() + time;
            let mismatch = |seen: &super::recorder::Seen| Some(evaluate(&seen.world)).filter(|all| !all.is_empty());
            match recorder.wait(end, mismatch).await {
                Ok(mismatches) if Instant::now() < deadline => broken = mismatches,
                Ok(mismatches) => return Err(too_long(&mismatches)),
                Err(Waited::TooLong) => return Ok(()),
                Err(Waited::Violated(violation)) => return Err(Problem::new(violation)),
            }
        }
    }

    fn failure(&self, line: u64, step: &str, problem: Problem) -> Box<Failure> {
        Box::new(Failure {
            file: self.scenario.file.display().to_string(),
            line,
            step: step.to_owned(),
            problem: problem.text,
            timeline: self
                .actor
                .recorder
                .look(|seen| seen.timeline.render(&problem.kinds, TIMELINE_LINES)),
        })
    }

    /// Removes what the scenario made: what it saw in its namespace, the namespace, and cluster-wide objects. Not every
    /// control plane empties namespaces, so the objects go first; failing to remove something fails nothing.
    async fn clean_up(&self, nodes: Option<Box<dyn Nodes>>) {
        self.actor.recorder.release_statements();
        let deadline = Instant::now() + CLEAN_UP;
        let (client, namespace) = (self.actor.client.clone(), self.actor.namespace.as_str());
        let at_once = DeleteParams::background().grace_period(0);
        let namespaces: Api<Namespace> = Api::all(client.clone());
        if persist(deadline, |_| async {
            namespaces.delete(namespace, &DeleteParams::default()).await
        })
        .await
        .is_ok()
        {
            let targets: Vec<_> = self.actor.recorder.look(|seen| {
                let inside = seen.world.objects().filter(|(key, _)| key.namespace == namespace);
                inside.map(|(key, _)| key.clone()).collect()
            });
            for key in targets {
                let kind = KindName {
                    kind: key.kind,
                    group: Some(key.group),
                    version: None,
                };
                if let Some(resource) = self.actor.recorder.resolve(&kind) {
                    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource.api);
                    let _ = persist(deadline, |_| api.delete(&key.name, &at_once)).await;
                }
            }
            let gone = |seen: &super::recorder::Seen| {
                // Events are written about the end itself and expire on their own.
                let left = seen
                    .world
                    .objects()
                    .any(|(key, _)| key.namespace == namespace && key.kind != "Event");
                (!left).then_some(())
            };
            let _ = self.actor.recorder.wait(deadline, gone).await;
            for (resource, name) in self.actor.made.iter().rev() {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource.api);
                let _ = persist(deadline, |_| api.delete(name, &at_once)).await;
            }
            let made = |seen: &super::recorder::Seen| {
                let is_made = |(resource, name): &(super::kinds::Resource, String)| {
                    let target = Target {
                        name: Some(name.clone()),
                        ..Target::all(kind_of(resource))
                    };
                    !target.select(&seen.world, namespace).is_empty()
                };
                (!self.actor.made.iter().any(is_made)).then_some(())
            };
            let _ = self.actor.recorder.wait(deadline, made).await;
        }
        if let Some(nodes) = nodes {
            let _ = nodes.stop().await;
        }
    }
}

fn kind_of(resource: &super::kinds::Resource) -> KindName {
    KindName {
        kind: resource.api.kind.clone(),
        group: Some(resource.api.group.clone()),
        version: None,
    }
}

fn problem_of_action(error: ActionError) -> Problem {
    match error {
        ActionError::Waited(Waited::Violated(violation)) => Problem::new(violation),
        other => Problem::new(other),
    }
}

/// Compares a refusal with the one expected.
fn check_refusal(refusal: &Refusal, error: &Error) -> Result<(), Problem> {
    let Error::Api(status) = error else {
        return Err(Problem::new(format!("the request got no answer: {error}")));
    };
    let mut text = String::new();
    let mut compare = |what: &str, expected: String, actual: String| {
        text.push_str(&format!(
            "refused, but {what} differs\n    - expected {expected}\n    + actual   {actual}\n"
        ));
    };
    if let Some(code) = refusal.code.filter(|code| *code != status.code) {
        compare("the code", code.to_string(), status.code.to_string());
    }
    let words = [
        ("the reason", &refusal.reason, &status.reason),
        ("the message", &refusal.message, &status.message),
    ];
    for (what, matcher, actual) in words {
        let value = Value::String(actual.clone());
        if let Some(matcher) = matcher
            .as_ref()
            .filter(|matcher: &&Matcher| !matcher.matches(&[&value]))
        {
            compare(what, matcher.to_string(), value.to_string());
        }
    }
    if text.is_empty() {
        Ok(())
    } else {
        Err(Problem::new(text))
    }
}

/// A namespace under a name of its own. A lost answer may leave an empty one behind, which harms nobody.
async fn create_namespace(client: &Client, scenario: &str, deadline: Instant) -> Result<String, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace: Namespace = serde_json::from_value(json!({
        "metadata": {"generateName": format!("{scenario}-"), "labels": {"simulation.coppice.dev/scenario": scenario}},
    }))
    .map_err(Error::SerdeError)?;
    let created = persist(deadline, |_| async {
        namespaces.create(&PostParams::default(), &namespace).await
    })
    .await;
    created.map(|namespace| namespace.name_any())
}
