//! `coppice get`: a set as a tree, or all sets as a table.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use coppice_api::types::PodCliqueSet;
use coppice_runtime::layers;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

use crate::client::Cluster;
use crate::gather::{self, Live};
use crate::output::{self, Format};
use crate::view::text::{self, Style};
use crate::view::{SetView, build, table};

/// Changes that come within this time are drawn together.
const REDRAW_PAUSE: Duration = Duration::from_millis(100);

/// Show a set as a tree of replicas, groups, cliques and pods; without a name, all sets.
#[derive(Args)]
pub(crate) struct Get {
    /// The PodCliqueSet
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
            eprintln!("no PodCliqueSets in {place}; an example: examples/disaggregated.yaml");
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
        let mut drawn = String::new();
        let mut seen = false;
        while let Some(change) = changes.next().await {
            change?;
            let pause = tokio::time::sleep(REDRAW_PAUSE);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(change) = changes.next() => change?,
                }
            }
            let Some((set, objects)) = live.now() else {
                if seen {
                    println!("PodCliqueSet {namespace}/{name} is gone");
                    return Ok(ExitCode::SUCCESS);
                }
                continue;
            };
            seen = true;
            let view = build::set_view(&set, &objects);
            if self.output != Format::Text {
                self.output.print(&view, |_| String::new())?;
                continue;
            }
            let style = self.style();
            let text = text::draw(&view, style);
            if text == drawn {
                continue;
            }
            if style.terminal && !drawn.is_empty() {
                // Up to the first line of the last drawing, and clear to the end of the screen.
                print!("\x1b[{}A\x1b[J", drawn.lines().count());
            }
            print!("{text}");
            if !style.terminal {
                println!();
            }
            std::io::stdout().flush()?;
            drawn = text;
        }
        Ok(ExitCode::SUCCESS)
    }
}
