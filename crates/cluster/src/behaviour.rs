//! How simulated pods and nodes are told to behave.
//!
//! Owns the annotations `simulation.coppice.dev/…`, their parsing, and the defaults of a cluster. Annotations may
//! change while a pod runs and take effect at once. A bad value is an error to report, and the default holds in its
//! place; parsing never fails as a whole and never panics.
//!
//! | annotation on a pod | meaning |
//! |---|---|
//! | `start-delay` | time from acceptance by the node until the first container starts, such as `5s` |
//! | `init-duration` | how long each init container runs |
//! | `ready-delay` | time from a container's start until it is ready |
//! | `never-ready` | `true`: containers run but never become ready |
//! | `crash-after` | containers end with `crash-exit-code` this long after their first start |
//! | `crash-exit-code` | exit code of crashes, default 1 |
//! | `crash-loop` | `true`: every run crashes, after `crash-after` (default at once) |
//! | `image-pull-error` | `true` or a message: images cannot be pulled |
//! | `complete-after` | containers end by themselves with `exit-code` this long after each start |
//! | `exit-code` | exit code of completion, default 0 |
//! | `termination-delay` | how long containers take to stop when asked to |
//! | `ignore-termination` | `true`: containers do not stop until the grace period is over |
//! | `kill` | any token: running containers are killed each time the value changes |
//!
//! On a node, `power: "off"` makes it dead: no heartbeats and no pod status until the annotation is removed or
//! becomes `on`; its containers restart then.

use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::time::Duration;

/// The prefix of every annotation that steers the simulation.
pub const PREFIX: &str = "simulation.coppice.dev/";
/// On a pod: time until the first container starts.
pub const START_DELAY: &str = "simulation.coppice.dev/start-delay";
/// On a pod: how long each init container runs.
pub const INIT_DURATION: &str = "simulation.coppice.dev/init-duration";
/// On a pod: time from a container's start until it is ready.
pub const READY_DELAY: &str = "simulation.coppice.dev/ready-delay";
/// On a pod: containers never become ready.
pub const NEVER_READY: &str = "simulation.coppice.dev/never-ready";
/// On a pod: containers crash this long after their first start.
pub const CRASH_AFTER: &str = "simulation.coppice.dev/crash-after";
/// On a pod: the exit code of crashes.
pub const CRASH_EXIT_CODE: &str = "simulation.coppice.dev/crash-exit-code";
/// On a pod: every run crashes, not only the first.
pub const CRASH_LOOP: &str = "simulation.coppice.dev/crash-loop";
/// On a pod: images cannot be pulled.
pub const IMAGE_PULL_ERROR: &str = "simulation.coppice.dev/image-pull-error";
/// On a pod: containers end by themselves this long after each start.
pub const COMPLETE_AFTER: &str = "simulation.coppice.dev/complete-after";
/// On a pod: the exit code with which containers end by themselves.
pub const EXIT_CODE: &str = "simulation.coppice.dev/exit-code";
/// On a pod: how long containers take to stop.
pub const TERMINATION_DELAY: &str = "simulation.coppice.dev/termination-delay";
/// On a pod: containers stop only when the grace period is over.
pub const IGNORE_TERMINATION: &str = "simulation.coppice.dev/ignore-termination";
/// On a pod: running containers are killed each time the value changes.
pub const KILL: &str = "simulation.coppice.dev/kill";
/// On a node: `off` makes it dead.
pub const POWER: &str = "simulation.coppice.dev/power";

const POD_ANNOTATIONS: [&str; 13] = [
    START_DELAY,
    INIT_DURATION,
    READY_DELAY,
    NEVER_READY,
    CRASH_AFTER,
    CRASH_EXIT_CODE,
    CRASH_LOOP,
    IMAGE_PULL_ERROR,
    COMPLETE_AFTER,
    EXIT_CODE,
    TERMINATION_DELAY,
    IGNORE_TERMINATION,
    KILL,
];

/// A crash to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Time from the start of the container.
    pub after: Duration,
    /// With which code it exits.
    pub exit_code: i32,
    /// Whether every run ends like this, or only the first.
    pub every_run: bool,
}

/// An end of the container's own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Time from the start of the container.
    pub after: Duration,
    /// With which code it exits.
    pub exit_code: i32,
}

/// How one pod behaves; also the defaults of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodBehaviour {
    /// Time from acceptance by the node until the first container starts.
    pub start_delay: Duration,
    /// How long each init container runs.
    pub init_duration: Duration,
    /// Time from a container's start until it is ready.
    pub ready_delay: Duration,
    /// Containers never become ready.
    pub never_ready: bool,
    /// Containers crash.
    pub crash: Option<Crash>,
    /// Images cannot be pulled, with this message.
    pub image_pull_error: Option<String>,
    /// Containers end by themselves.
    pub completion: Option<Completion>,
    /// How long containers take to stop; at most the grace period.
    pub termination_delay: Duration,
    /// Containers stop only when the grace period is over.
    pub ignore_termination: bool,
    /// The first restart of a container takes this long, so that a crash can be seen.
    pub restart_delay: Duration,
    /// A token whose change kills the running containers.
    pub kill: Option<String>,
}

impl Default for PodBehaviour {
    fn default() -> Self {
        Self {
            start_delay: Duration::ZERO,
            init_duration: Duration::ZERO,
            ready_delay: Duration::ZERO,
            never_ready: false,
            crash: None,
            image_pull_error: None,
            completion: None,
            termination_delay: Duration::ZERO,
            ignore_termination: false,
            restart_delay: Duration::from_secs(1),
            kill: None,
        }
    }
}

/// An annotation that cannot be followed. The default holds in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}: {problem}")]
pub struct BehaviourError {
    annotation: String,
    problem: String,
}

impl PodBehaviour {
    /// What the annotations of a pod say, on top of the defaults, with everything in them that makes no sense.
    pub fn from_annotations(
        annotations: &BTreeMap<String, String>,
        defaults: &PodBehaviour,
    ) -> (PodBehaviour, Vec<BehaviourError>) {
        let mut reader = Reader {
            annotations,
            errors: Vec::new(),
        };
        let mut behaviour = defaults.clone();
        reader.duration(START_DELAY, &mut behaviour.start_delay);
        reader.duration(INIT_DURATION, &mut behaviour.init_duration);
        reader.duration(READY_DELAY, &mut behaviour.ready_delay);
        reader.flag(NEVER_READY, &mut behaviour.never_ready);
        reader.duration(TERMINATION_DELAY, &mut behaviour.termination_delay);
        reader.flag(IGNORE_TERMINATION, &mut behaviour.ignore_termination);
        behaviour.crash = reader.crash(defaults.crash);
        behaviour.completion = reader.completion(defaults.completion);
        if let Some(value) = annotations.get(IMAGE_PULL_ERROR) {
            behaviour.image_pull_error = match value.as_str() {
                "false" => None,
                "true" | "" => Some("image cannot be pulled in this simulation".to_owned()),
                message => Some(message.to_owned()),
            };
        }
        if let Some(token) = annotations.get(KILL) {
            behaviour.kill = Some(token.clone());
        }
        reader.reject_unknown();
        (behaviour, reader.errors)
    }
}

struct Reader<'a> {
    annotations: &'a BTreeMap<String, String>,
    errors: Vec<BehaviourError>,
}

impl Reader<'_> {
    fn report(&mut self, annotation: &str, problem: String) {
        self.errors.push(BehaviourError {
            annotation: annotation.to_owned(),
            problem,
        });
    }

    fn duration(&mut self, annotation: &str, target: &mut Duration) {
        let Some(value) = self.annotations.get(annotation) else {
            return;
        };
        match parse_duration(value) {
            Some(duration) => *target = duration,
            None => self.report(
                annotation,
                format!("{value:?} is not a duration such as 500ms, 5s or 1m30s"),
            ),
        }
    }

    fn flag(&mut self, annotation: &str, target: &mut bool) {
        let Some(value) = self.annotations.get(annotation) else {
            return;
        };
        match value.parse() {
            Ok(flag) => *target = flag,
            Err(_) => self.report(annotation, format!("{value:?} is neither true nor false")),
        }
    }

    fn exit_code(&mut self, annotation: &str, target: &mut i32) {
        let Some(value) = self.annotations.get(annotation) else {
            return;
        };
        match value.parse::<u8>() {
            Ok(code) => *target = i32::from(code),
            Err(_) => self.report(annotation, format!("{value:?} is not an exit code from 0 to 255")),
        }
    }

    fn crash(&mut self, default: Option<Crash>) -> Option<Crash> {
        let base = default.unwrap_or(Crash {
            after: Duration::ZERO,
            exit_code: 1,
            every_run: false,
        });
        let mut crash = base;
        self.duration(CRASH_AFTER, &mut crash.after);
        self.flag(CRASH_LOOP, &mut crash.every_run);
        self.exit_code(CRASH_EXIT_CODE, &mut crash.exit_code);
        // A value that could not be read must not start a crash of its own.
        let asked = self
            .annotations
            .get(CRASH_AFTER)
            .is_some_and(|value| parse_duration(value).is_some())
            || self.annotations.get(CRASH_LOOP).is_some_and(|value| value == "true");
        (asked || default.is_some()).then_some(crash)
    }

    fn completion(&mut self, default: Option<Completion>) -> Option<Completion> {
        let mut completion = default.unwrap_or(Completion {
            after: Duration::ZERO,
            exit_code: 0,
        });
        self.duration(COMPLETE_AFTER, &mut completion.after);
        self.exit_code(EXIT_CODE, &mut completion.exit_code);
        let asked = self
            .annotations
            .get(COMPLETE_AFTER)
            .is_some_and(|value| parse_duration(value).is_some());
        (asked || default.is_some()).then_some(completion)
    }

    fn reject_unknown(&mut self) {
        let unknown: Vec<&String> = self
            .annotations
            .keys()
            .filter(|key| key.starts_with(PREFIX) && !POD_ANNOTATIONS.contains(&key.as_str()))
            .collect();
        for key in unknown {
            let known: Vec<&str> = POD_ANNOTATIONS
                .iter()
                .map(|name| name.trim_start_matches(PREFIX))
                .collect();
            self.report(
                key,
                format!("unknown on a pod; known after {PREFIX} are {}", known.join(", ")),
            );
        }
    }
}

fn parse_duration(value: &str) -> Option<Duration> {
    let duration: SignedDuration = value.trim().parse().ok()?;
    Duration::try_from(duration).ok()
}

/// Whether a node with these annotations has power. Only the value `off` takes it away.
pub fn has_power(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(POWER).is_none_or(|value| value != "off")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> (PodBehaviour, Vec<String>) {
        let annotations = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let (behaviour, errors) = PodBehaviour::from_annotations(&annotations, &PodBehaviour::default());
        (behaviour, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn no_annotation_means_the_defaults() {
        let defaults = PodBehaviour {
            ready_delay: Duration::from_secs(3),
            ..PodBehaviour::default()
        };
        let annotations = BTreeMap::from([("other/annotation".to_owned(), "x".to_owned())]);
        assert_eq!(
            PodBehaviour::from_annotations(&annotations, &defaults),
            (defaults, vec![])
        );
    }

    #[test]
    fn every_annotation_is_understood() {
        let (behaviour, errors) = parse(&[
            (START_DELAY, "1m30s"),
            (INIT_DURATION, "2s"),
            (READY_DELAY, "500ms"),
            (NEVER_READY, "true"),
            (CRASH_AFTER, "10s"),
            (CRASH_EXIT_CODE, "42"),
            (CRASH_LOOP, "true"),
            (IMAGE_PULL_ERROR, "no such image"),
            (COMPLETE_AFTER, "1h"),
            (EXIT_CODE, "3"),
            (TERMINATION_DELAY, "7s"),
            (IGNORE_TERMINATION, "true"),
            (KILL, "now"),
        ]);
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(
            behaviour,
            PodBehaviour {
                start_delay: Duration::from_secs(90),
                init_duration: Duration::from_secs(2),
                ready_delay: Duration::from_millis(500),
                never_ready: true,
                crash: Some(Crash {
                    after: Duration::from_secs(10),
                    exit_code: 42,
                    every_run: true
                }),
                image_pull_error: Some("no such image".to_owned()),
                completion: Some(Completion {
                    after: Duration::from_secs(3600),
                    exit_code: 3
                }),
                termination_delay: Duration::from_secs(7),
                ignore_termination: true,
                restart_delay: Duration::from_secs(1),
                kill: Some("now".to_owned()),
            }
        );
    }

    #[test]
    fn bad_values_are_reported_and_change_nothing() {
        let (behaviour, errors) = parse(&[
            (START_DELAY, "soon"),
            (READY_DELAY, "-5s"),
            (NEVER_READY, "yes"),
            (CRASH_AFTER, "1 fortnight"),
            (CRASH_EXIT_CODE, "256"),
        ]);
        assert_eq!(behaviour, PodBehaviour::default());
        assert_eq!(errors.len(), 5);
        assert_eq!(
            errors[0],
            "annotation simulation.coppice.dev/start-delay: \"soon\" is not a duration such as 500ms, 5s or 1m30s"
        );
    }

    #[test]
    fn a_crash_loop_alone_crashes_at_once_and_false_switches_off() {
        assert_eq!(
            parse(&[(CRASH_LOOP, "true")]).0.crash,
            Some(Crash {
                after: Duration::ZERO,
                exit_code: 1,
                every_run: true
            })
        );
        assert_eq!(parse(&[(CRASH_LOOP, "false")]).0.crash, None);
        assert_eq!(parse(&[(IMAGE_PULL_ERROR, "false")]).0.image_pull_error, None);
    }

    #[test]
    fn a_misspelt_annotation_is_reported_with_the_known_ones() {
        let (_, errors) = parse(&[("simulation.coppice.dev/start-dely", "5s")]);
        assert!(
            errors[0].contains("start-dely: unknown on a pod") && errors[0].contains("start-delay"),
            "{errors:?}"
        );
    }

    #[test]
    fn only_off_takes_the_power_away() {
        let power = |value: &str| has_power(&BTreeMap::from([(POWER.to_owned(), value.to_owned())]));
        assert!(has_power(&BTreeMap::new()) && power("on") && !power("off"));
    }
}
