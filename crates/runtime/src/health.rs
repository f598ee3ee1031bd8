//! What the probes of a process answer: whether it is to be restarted, and whether it can do its work.
//!
//! Owns the answers. Assumes that each part of the process reports its own condition. Never ends anything: the
//! [supervisor](crate::supervise) does.
//!
//! ```
//! use coppice_runtime::health::Health;
//! let health = Health::default();
//! let cache = health.condition("cache");
//! assert!(health.readiness().is_err());
//! cache.set_ready();
//! assert!(health.readiness().is_ok());
//! ```

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

#[derive(Default)]
struct State {
    dead: Option<String>,
    conditions: BTreeMap<String, Result<(), String>>,
}

/// What the probes answer. Clones share.
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

/// One thing that must be well for the process to be ready.
#[derive(Clone)]
pub struct Condition {
    name: String,
    state: Arc<Mutex<State>>,
}

impl Health {
    /// Adds a condition for readiness; it is not met at first.
    #[must_use]
    pub fn condition(&self, name: &str) -> Condition {
        let condition = Condition {
            name: name.to_owned(),
            state: self.state.clone(),
        };
        condition.set_unready("not yet");
        condition
    }

    /// Only a restart helps. The first reason stays.
    pub fn set_dead(&self, reason: &str) {
        self.state.lock().dead.get_or_insert_with(|| reason.to_owned());
    }

    /// Whether the process is to be left alone.
    ///
    /// # Errors
    /// Why it is to be restarted.
    pub fn liveness(&self) -> Result<(), String> {
        self.state.lock().dead.clone().map_or(Ok(()), Err)
    }

    /// Whether the process can do its work.
    ///
    /// # Errors
    /// Which conditions are not met, and why, in the order of their names.
    pub fn readiness(&self) -> Result<(), Vec<String>> {
        let state = self.state.lock();
        let unmet = |(name, result): (&String, &Result<(), String>)| {
            result.as_ref().err().map(|reason| format!("{name}: {reason}"))
        };
        let unmet: Vec<String> = state
            .conditions
            .iter()
            .filter_map(unmet)
            .chain(state.dead.clone())
            .collect();
        if unmet.is_empty() { Ok(()) } else { Err(unmet) }
    }
}

impl Condition {
    /// The condition is met.
    pub fn set_ready(&self) {
        self.state.lock().conditions.insert(self.name.clone(), Ok(()));
    }

    /// The condition is not met.
    pub fn set_unready(&self, reason: &str) {
        self.state
            .lock()
            .conditions
            .insert(self.name.clone(), Err(reason.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_what_is_missing() {
        let health = Health::default();
        let (cache, lease) = (health.condition("cache"), health.condition("lease"));
        lease.set_ready();
        assert_eq!(health.readiness(), Err(vec!["cache: not yet".to_owned()]));
        cache.set_ready();
        assert_eq!((health.readiness(), health.liveness()), (Ok(()), Ok(())));
        health.set_dead("stuck");
        assert_eq!(health.liveness(), Err("stuck".to_owned()));
        assert!(health.readiness().is_err());
    }
}
