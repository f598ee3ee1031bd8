//! Removes objects and node labels of domains that do not exist any more.
//!
//! Owns the live list that confirms it: what is missing from the cache may only be newer than the cache.

use std::collections::BTreeSet;

use coppice_domains::api::{ComputeDomain, limits};
use coppice_domains::decide::domain::{Existing, ObjectKind, candidates, confirmed};
use coppice_runtime::queue::Outcome;
use coppice_runtime::write::WriteError;
use kube::Api;
use kube::api::ListParams;
use tracing::info;

use crate::controller::Controller;

impl Controller {
    /// Looks for leftovers and removes those that a live list of domains confirms.
    pub(crate) async fn remove_leftovers(&self) -> Outcome<WriteError> {
        let candidates = {
            let moment = self.world.cache.moment();
            let mut objects: Vec<(ObjectKind, Existing)> = Vec::new();
            for node in self.world.nodes.all(&moment) {
                let node = Existing {
                    name: node.meta.key.name.to_string(),
                    domain_uid: node.domain_uid.clone().filter(|uid| limits::is_uid(uid)),
                    ..Existing::default()
                };
                objects.push((ObjectKind::Node, node));
            }
            for template in self.world.templates.all(&moment) {
                objects.push((ObjectKind::ClaimTemplate, template.existing.clone()));
            }
            for managed in &self.world.managed {
                for set in managed.daemon_sets.all(&moment) {
                    objects.push((ObjectKind::DaemonSet, set.existing.clone()));
                }
            }
            let cached = self.world.domain_uids(&moment);
            candidates(objects.iter().map(|(kind, object)| (*kind, object)), &cached)
        };
        if candidates.is_empty() {
            return Outcome::Done;
        }
        let domains: Api<ComputeDomain> = Api::all(self.client.clone());
        let live: BTreeSet<String> = match domains.list_metadata(&ListParams::default()).await {
            Ok(list) => list
                .items
                .into_iter()
                .filter_map(|domain| domain.metadata.uid)
                .collect(),
            Err(error) => return Outcome::Retry(error.into()),
        };
        for command in confirmed(&candidates, &live) {
            info!(?command, "removing what a deleted ComputeDomain left behind");
            if let Err(error) = self.actions.run(None, &command).await {
                return Outcome::Retry(error);
            }
        }
        Outcome::Done
    }
}
