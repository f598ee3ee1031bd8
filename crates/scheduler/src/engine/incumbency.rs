//! The index of running gangs, kept between decisions.
//!
//! Owns when it is brought up to date: before somebody asks for victims, gang by gang as the model notes changes, and from
//! scratch only when nodes came or went or priorities changed. Who is to be evicted leaves the index at once, so that nobody
//! is evicted twice in one decision, and is looked at again in the next.

use coppice_placement::preempt::Incumbents;

use crate::model::{Changes, GangId, Model};

/// The index, and what keeping it cost.
#[derive(Debug, Default)]
pub(super) struct Incumbency {
    incumbents: Incumbents,
    /// How often it was built from scratch, and how many gangs were put or removed since the beginning.
    pub(super) built: usize,
    pub(super) changed: usize,
}

impl Incumbency {
    /// The index as of now.
    pub(super) fn of(&mut self, model: &mut Model) -> &Incumbents {
        match model.take_changes() {
            Changes::All => {
                self.built += 1;
                self.incumbents = Incumbents::new(model.state(), &model.running());
            }
            Changes::Gangs(gangs) => {
                for gang in gangs {
                    self.changed += 1;
                    match model.running_gang(&gang) {
                        Some(running) => self.incumbents.put(model.state(), running),
                        None => {
                            self.incumbents.remove(model.state(), &gang.to_string());
                        }
                    }
                }
            }
        }
        &self.incumbents
    }

    /// Takes a gang out for the rest of this decision.
    pub(super) fn lose(&mut self, model: &Model, gang: &str) {
        self.incumbents.remove(model.state(), gang);
    }
}

/// The gang with this name in the placement engine.
pub(super) fn named(name: &str) -> GangId {
    match name.strip_prefix("pod ") {
        Some(pod) => GangId::Pod(super::attempt::key_of(pod)),
        None => GangId::Gang(super::attempt::key_of(name)),
    }
}
