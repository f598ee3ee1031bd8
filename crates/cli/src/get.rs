//! `coppice get`: a set as a tree, or all sets as a table.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use coppice_api::types::PodCliqueSet;
use coppice_runtime::layers;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

use crate::client::{Cluster, set_name};
use crate::gather::{self, Live};
use crate::output::{self, Format};
use crate::screen::Screen;
use crate::view::text::{self, Style};
use crate::view::{SetView, build, table};

/// Show a set as a tree of replicas, groups, cliques and pods; or all sets
#[derive(Args)]
pub(crate) struct Get {
    /// The PodCliqueSet: NAME or pcs/NAME
    #[arg(value_parser = set_name)]
    name: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
    /// The namespace; that of the kubeconfig's context when not given
    #[arg(short, long)]
    namespace: Option<String>,
    /// The sets of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["name", "namespace"])]
    all_namespaces: bool,
    /// A line for each pod; otherwise only for those that are not ready
    #[arg(short, long)]
    pods: bool,
    /// Draw again whenever something changes, until Ctrl-C
    #[arg(short, long, requires = "name")]
    watch: bool,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Get {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let (client, default_namespace) = self.cluster.client_and_namespace(&layers::Options::default()).await?;
        let namespace = self.namespace.clone().unwrap_or(default_namespace);
        let Some(name) = &self.name else {
            return self.list(&client, &namespace).await;
        };
        if self.watch {
            return self.follow(&client, &namespace, name).await;
        }
        let set = gather::set(&client, &namespace, name).await?;
        let objects = gather::objects(&client, &namespace, name).await?;
        let view = build::set_view(&set, &objects);
        self.output.print(&view, |view| text::draw(view, self.style()))?;
        Ok(ExitCode::SUCCESS)
    }

    fn style(&self) -> Style {
        Style {
            terminal: output::is_terminal(),
            pods: self.pods,
        }
    }

    async fn list(&self, client: &kube::Client, namespace: &str) -> Result<ExitCode> {
        let sets: Api<PodCliqueSet> = if self.all_namespaces {
            Api::all(client.clone())
        } else {
            Api::namespaced(client.clone(), namespace)
        };
        let mut views: Vec<SetView> = Vec::new();
        for set in gather::sets(sets, &ListParams::default()).await? {
            let own = set.namespace().unwrap_or_default();
            let objects = gather::objects(client, &own, &set.name_any()).await?;
            views.push(build::set_view(&set, &objects));
        }
        if views.is_empty() && self.output == Format::Text {
            let place = if self.all_namespaces { "the cluster" } else { namespace };
            errln!("no PodCliqueSets in {place}; an example: examples/disaggregated.yaml");
        }
        let list = table::SetList::new(views);
        self.output.print(&list, table::draw)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Draws whenever something changed; ends when the set is gone.
    async fn follow(&self, client: &kube::Client, namespace: &str, name: &str) -> Result<ExitCode> {
        // An absent set is an error here as it is without --watch.
        gather::set(client, namespace, name).await?;
        let (live, mut changes) = Live::follow(client, namespace, name).await?;
        let mut screen = Screen::default();
        let mut last: Option<SetView> = None;
        loop {
            gather::settled(&mut changes).await?;
            let Some((set, objects)) = live.now() else {
                if last.is_some() {
                    outln!("PodCliqueSet {namespace}/{name} is gone");
                    return Ok(ExitCode::SUCCESS);
                }
                continue;
            };
            let view = build::set_view(&set, &objects);
            if last.as_ref() == Some(&view) {
                continue;
            }
            if self.output != Format::Text {
                self.output.print(&view, |_| String::new())?;
            } else if Screen::is_there() {
                let style = self.style();
                let short = Style { pods: false, ..style };
                screen.draw(&[text::draw(&view, style), text::draw(&view, short)])?;
            } else {
                outln!("{}", text::draw(&view, self.style()));
            }
            last = Some(view);
        }
    }
}
