//! The epochs of a replica: one for its anchor, one for further copies by the template, one for those added later.

use std::collections::BTreeSet;

use coppice_api::names::Epoch;
use coppice_api::types::PodGangRole;

use super::{Before, StoredGangs};

/// The epoch that new units of each role get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epochs {
    pub(super) anchor: Epoch,
    pub(super) tail: Epoch,
    pub(super) scale_out: Epoch,
}

impl Epochs {
    /// The newest epoch of each role: of the stored map, else of the gangs that exist, else one that nothing has.
    pub(super) fn choose(before: &[Before<'_>], stored: &StoredGangs<'_>) -> Self {
        let of_map: Vec<(Epoch, &PodGangRole)> = before.iter().map(|old| (old.epoch, &old.entry.role)).collect();
        let of_gangs: Vec<(Epoch, &PodGangRole)> = stored.gangs.values().map(|(epoch, role)| (*epoch, role)).collect();
        let known = if of_map.is_empty() { &of_gangs } else { &of_map };
        let mut taken: BTreeSet<Epoch> = of_map.iter().chain(&of_gangs).map(|(epoch, _)| *epoch).collect();
        let newest = |wanted: PodGangRole| {
            let same = known.iter().filter(|(_, role)| **role == wanted);
            same.map(|(epoch, _)| *epoch).max()
        };
        let mut free = |first: Epoch| {
            let epoch = match taken.last() {
                Some(last) if taken.contains(&first) => last.next(),
                _ => first,
            };
            taken.insert(epoch);
            epoch
        };
        let anchor = newest(PodGangRole::Anchor).unwrap_or_else(|| free(Epoch::FIRST));
        let tail = newest(PodGangRole::Tail).unwrap_or_else(|| free(anchor.next()));
        let scale_out = newest(PodGangRole::ScaleOut).unwrap_or_else(|| free(anchor.next().next()));
        Self {
            anchor,
            tail,
            scale_out,
        }
    }

    pub(super) fn of(&self, role: &PodGangRole) -> Epoch {
        match role {
            PodGangRole::Tail => self.tail,
            PodGangRole::ScaleOut => self.scale_out,
            _ => self.anchor,
        }
    }
}
