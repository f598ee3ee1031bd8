//! Statements that must hold during a whole scenario, or between two of its steps. The tracker is fed every change in
//! the order in which it was observed and is pure: no clock, no client. What it can see is what a watch delivers, so a
//! state between two observations (for example while the API server is down) goes unseen.

use std::fmt;

use super::target::Target;
use super::world::{Change, Verb, World};

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Never {
    /// Where in the scenario file it stands.
    pub line: u64,
    /// What it is called in reports.
    pub name: String,
    /// What must not happen.
    pub what: Forbidden,
    /// Holds only once this step has finished; from the start when not given.
    pub after: Option<String>,
    /// Holds only until this step starts; to the end when not given.
    pub until: Option<String>,
}

/// What must not happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Forbidden {
    /// More objects than this at one time.
    MoreThan(usize, Target),
    /// Fewer objects than this at one time.
    FewerThan(usize, Target),
    /// The deletion of any such object.
    Deleted(Target),
    /// The appearance of any such object.
    Created(Target),
}

impl Forbidden {
    /// The objects it is about.
    pub fn target(&self) -> &Target {
        match self {
            Self::MoreThan(_, target) | Self::FewerThan(_, target) | Self::Deleted(target) | Self::Created(target) => {
                target
            }
        }
    }
}

/// A statement that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where the statement stands.
    pub line: u64,
    /// Its name.
    pub name: String,
    /// What happened instead.
    pub happened: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "never (line {}): {}\n  but {}",
            self.line, self.name, self.happened
        )
    }
}

/// Follows the statements through a scenario.
#[derive(Debug)]
pub struct Tracker {
    namespace: String,
    statements: Vec<(Never, bool)>,
}

impl Tracker {
    /// Starts before the first step. `namespace` is the scenario's own.
    pub fn new(statements: Vec<Never>, namespace: &str) -> Self {
        let statements = statements
            .into_iter()
            .map(|statement| (statement.after.is_none(), statement));
        Self {
            namespace: namespace.to_owned(),
            statements: statements.map(|(active, statement)| (statement, active)).collect(),
        }
    }

    /// A step begins: statements that hold until it cease to.
    pub fn step_started(&mut self, step: &str) {
        for (statement, active) in &mut self.statements {
            if statement.until.as_deref() == Some(step) {
                *active = false;
            }
        }
    }

    /// A step has finished: statements that hold after it begin to, and are looked at once right away.
    pub fn step_finished(&mut self, step: &str, world: &World) -> Option<Violation> {
        for (statement, active) in &mut self.statements {
            if statement.after.as_deref() == Some(step) {
                *active = true;
            }
        }
        self.observe(&[], world)
    }

    /// Changes were observed that led to this world; the first statement that does not hold.
    pub fn observe(&self, changes: &[Change], world: &World) -> Option<Violation> {
        let active = self.statements.iter().filter(|(_, active)| *active);
        active.map(|(statement, _)| statement).find_map(|statement| {
            self.breach(&statement.what, changes, world).map(|happened| Violation {
                line: statement.line,
                name: statement.name.clone(),
                happened,
            })
        })
    }

    fn breach(&self, what: &Forbidden, changes: &[Change], world: &World) -> Option<String> {
        let changed = |verb: Verb, target: &Target| {
            changes.iter().filter(move |change| change.verb == verb).find(|change| {
                let object = change.before.as_ref().or(change.after.as_ref());
                object.is_some_and(|object| target.matches(&change.key, object, &self.namespace))
            })
        };
        match what {
            Forbidden::MoreThan(limit, target) => {
                let found = target.select(world, &self.namespace);
                let names: Vec<&str> = found.iter().map(|(key, _)| key.name.as_str()).collect();
                (names.len() > *limit).then(|| format!("there were {} {target}: {}", names.len(), names.join(", ")))
            }
            Forbidden::FewerThan(limit, target) => {
                let found = target.select(world, &self.namespace).len();
                (found < *limit).then(|| format!("there were only {found} {target}"))
            }
            Forbidden::Deleted(target) => {
                changed(Verb::Deleted, target).map(|change| format!("{} was deleted", change.key))
            }
            Forbidden::Created(target) => {
                changed(Verb::Added, target).map(|change| format!("{} was created", change.key))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::matcher::Matcher;
    use crate::scenario::target::ConditionMatcher;
    use crate::scenario::world::Scope;
    use serde_json::json;

    struct Play {
        world: World,
        tracker: Tracker,
    }

    impl Play {
        fn new(what: Forbidden, after: Option<&str>, until: Option<&str>) -> Self {
            let text = |step: &str| step.to_owned();
            let never = Never {
                line: 3,
                name: "statement".to_owned(),
                what,
                after: after.map(text),
                until: until.map(text),
            };
            Self {
                world: World::default(),
                tracker: Tracker::new(vec![never], "ns"),
            }
        }

        fn scope() -> Scope {
            Scope {
                kind: "Pod".to_owned(),
                group: String::new(),
                namespace: "ns".to_owned(),
            }
        }

        fn pod(&mut self, name: &str, ready: &str) -> Option<String> {
            let conditions = json!([{"type": "Ready", "status": ready}]);
            let object = json!({"metadata": {"uid": name}, "status": {"conditions": conditions}});
            let changes = self.world.apply(Self::scope().key(name), object);
            self.tracker
                .observe(&changes, &self.world)
                .map(|violation| violation.happened)
        }

        fn delete(&mut self, name: &str) -> Option<String> {
            let changes = self.world.delete(&Self::scope().key(name));
            self.tracker
                .observe(&changes, &self.world)
                .map(|violation| violation.happened)
        }

        fn finish(&mut self, step: &str) -> Option<String> {
            self.tracker
                .step_finished(step, &self.world)
                .map(|violation| violation.happened)
        }
    }

    fn pods() -> Target {
        Target::all("Pod".parse().unwrap())
    }

    fn pods_not_ready() -> Target {
        let status = Matcher::Not(json!("True"));
        let mut target = pods();
        target.conditions.insert(
            "Ready".to_owned(),
            ConditionMatcher {
                status,
                reason: None,
                message: None,
            },
        );
        target
    }

    #[test]
    fn more_than_is_broken_by_the_change_that_exceeds_it() {
        let mut play = Play::new(Forbidden::MoreThan(1, pods_not_ready()), None, None);
        assert_eq!(play.pod("a", "False"), None);
        assert_eq!(play.pod("b", "True"), None);
        assert_eq!(play.pod("a", "True"), None);
        assert_eq!(play.pod("b", "False"), None);
        let happened = play.pod("a", "Unknown").unwrap();
        assert!(
            happened.starts_with("there were 2 Pod") && happened.ends_with(": a, b"),
            "{happened}"
        );
    }

    #[test]
    fn fewer_than_holds_once_the_step_before_it_has_finished() {
        let mut play = Play::new(Forbidden::FewerThan(2, pods()), Some("ready"), None);
        assert_eq!(play.pod("a", "True"), None);
        assert_eq!(play.finish("other"), None);
        assert_eq!(play.pod("b", "True"), None);
        assert_eq!(play.finish("ready"), None);
        assert_eq!(play.delete("a").unwrap(), "there were only 1 Pod");
    }

    #[test]
    fn a_statement_is_looked_at_when_it_begins_to_hold() {
        let mut play = Play::new(Forbidden::FewerThan(2, pods()), Some("ready"), None);
        play.pod("a", "True");
        assert_eq!(play.finish("ready").unwrap(), "there were only 1 Pod");
    }

    #[test]
    fn deletions_are_forbidden_until_the_named_step() {
        let mut play = Play::new(Forbidden::Deleted(pods()), None, Some("clean up"));
        play.pod("a", "True");
        play.pod("b", "True");
        assert_eq!(play.delete("a").unwrap(), "Pod a was deleted");
        play.tracker.step_started("clean up");
        assert_eq!(play.delete("b"), None);
    }

    #[test]
    fn a_replaced_object_counts_as_deleted_and_created() {
        let mut play = Play::new(Forbidden::Created(pods()), Some("start"), None);
        play.pod("a", "True");
        play.finish("start");
        let changes = play
            .world
            .apply(Play::scope().key("a"), json!({"metadata": {"uid": "another"}}));
        let violation = play.tracker.observe(&changes, &play.world).unwrap();
        assert_eq!(
            violation.to_string(),
            "never (line 3): statement\n  but Pod a was created"
        );
    }
}
