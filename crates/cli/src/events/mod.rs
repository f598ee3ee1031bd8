//! `coppice events`: what happened to a set and everything it owns, warnings first.
//!
//! Events are found by the UIDs of the objects that they are about, so those of pods that are gone already are not among
//! a set's; those of the namespace have them. Never writes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use coppice_api::types::PodCliqueSet;
use coppice_runtime::layers;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};

use crate::client::{Cluster, set_name};
use crate::gather::{self, Live};
use crate::output::{self, Format};
use crate::view::build::Objects;
use crate::view::events::{build, text};
use crate::view::text::Style;

/// Show what happened to a set and everything it owns, warnings first
///
/// Without a name, what happened in the namespace.
#[derive(Args)]
pub(crate) struct Events {
    /// The PodCliqueSet: NAME or pcs/NAME
    #[arg(value_parser = set_name)]
    name: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
    /// The namespace; that of the kubeconfig's context when not given
    #[arg(short, long)]
    namespace: Option<String>,
    /// A line for each object; otherwise normal events of a kind and reason are one line
    #[arg(short, long)]
    all: bool,
    /// Go on with what happens from now on, in the order of time, until Ctrl-C
    #[arg(short, long)]
    watch: bool,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Events {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (client, own) = self.cluster.client_and_namespace(&layers::Options::default()).await?;
        let namespace = self.namespace.clone().unwrap_or(own);
        let owned = match &self.name {
            Some(name) => {
                let set = gather::set(&client, &namespace, name).await?;
                let objects = gather::objects(&client, &namespace, name).await?;
                Some(uids(&set, &objects))
            }
            None => None,
        };
        if self.watch {
            return self.follow(&client, &namespace).await;
        }
        let events: Vec<Event> = gather::list(Api::namespaced(client, &namespace), &ListParams::default()).await?;
        let view = build::view(
            &namespace,
            self.name.as_deref(),
            build::entries(&events, owned.as_ref()),
        );
        let style = Style {
            terminal: output::is_terminal(),
            pods: self.all,
        };
        self.output
            .print(&view, |view| text::draw(view, style, Timestamp::now()))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints what is there and then whatever is new, each when it is seen.
    async fn follow(&self, client: &Client, namespace: &str) -> Result<ExitCode> {
        let (events, following) =
            gather::follow::<Event>(Api::namespaced(client.clone(), namespace), watcher::Config::default());
        let (live, mut changes) = match &self.name {
            Some(name) => {
                let (live, others) = Live::follow(client, namespace, name).await?;
                (Some(live), stream::select_all([following.changes, others]).boxed())
            }
            None => (None, following.changes),
        };
        // What belonged to the set once still does when it is gone.
        let mut owned: BTreeSet<String> = BTreeSet::new();
        let mut told: BTreeMap<[String; 5], i64> = BTreeMap::new();
        loop {
            gather::settled(&mut changes).await?;
            if let Some((set, objects)) = live.as_ref().and_then(Live::now) {
                owned.extend(uids(&set, &objects));
            }
            let entries = build::entries(&gather::state(&events), live.is_some().then_some(&owned));
            for entry in entries.into_iter().rev() {
                if told.insert(entry.key(), entry.count) != Some(entry.count) {
                    self.output.print(&entry, text::line)?;
                }
            }
        }
    }
}

/// The UIDs of a set and of what belongs to it.
fn uids(set: &PodCliqueSet, objects: &Objects) -> BTreeSet<String> {
    let mut uids: BTreeSet<String> = set.uid().into_iter().collect();
    uids.extend(objects.cliques.iter().filter_map(kube::ResourceExt::uid));
    uids.extend(objects.groups.iter().filter_map(kube::ResourceExt::uid));
    uids.extend(objects.gangs.iter().filter_map(kube::ResourceExt::uid));
    uids.extend(objects.pods.iter().filter_map(kube::ResourceExt::uid));
    uids
}
