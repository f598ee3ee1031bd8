//! Schedulers that need no object beside the PodGang: those that read PodGangs themselves, and those that know no gangs.
//! What the latter do not guarantee is reported for the whole set, by admission and by the condition
//! `GangsNotGuaranteed`.

use serde_json::Value;

use super::{Backend, Correction, Gang, Mapping, Stamp};
use crate::command::Kind;
use crate::object::NewObject;

/// No object, and nothing on pods.
pub(super) struct Nothing;

impl Backend for Nothing {
    fn kind(&self) -> Option<Kind> {
        None
    }

    fn map(&self, _gang: &Gang<'_>) -> Mapping {
        Mapping::nothing()
    }

    fn stamp(&self, _gang: &str, _clique: &str) -> Stamp {
        Stamp::default()
    }

    fn correct(&self, _gang: &Gang<'_>, _stored: &Value, _wanted: &NewObject) -> Correction {
        Correction::default()
    }

    fn waits_for(&self, _stored: &Value) -> Option<String> {
        None
    }
}
