//! Where the demo is shown: the tree drawn in place on a terminal, a line for each change in a pipe.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use kube::Client;

use super::story::NAMESPACE;
use crate::gather::{Changes, Live, REDRAW_PAUSE};
use crate::output;
use crate::screen::Screen;
use crate::view::text::{self, Colour, Style};
use crate::view::{SetView, build, changes};

const PATIENCE: Duration = Duration::from_secs(120);

/// The set as it is, and how it is shown.
pub(super) struct Stage {
    live: Live,
    changes: Changes,
    last: Option<SetView>,
    started: Instant,
}

impl Stage {
    pub(super) async fn open(client: &Client, set: &str) -> Result<Self> {
        let (live, changes) = Live::follow(client, NAMESPACE, set).await?;
        Ok(Self {
            live,
            changes,
            last: None,
            started: Instant::now(),
        })
    }

    /// What was shown last.
    pub(super) fn last(&self) -> Result<SetView> {
        self.last.clone().context("nothing was shown yet")
    }

    /// Waits without a word until the set is as it should be.
    pub(super) async fn quietly(&mut self, what: &str, holds: impl Fn(&SetView) -> bool) -> Result<SetView> {
        self.wait(what, false, |_| {}, holds).await
    }

    /// Shows the set until it is as it should be; `seen` is told of every state on the way.
    pub(super) async fn until(
        &mut self,
        what: &str,
        seen: impl FnMut(&SetView),
        holds: impl Fn(&SetView) -> bool,
    ) -> Result<SetView> {
        self.wait(what, true, seen, holds).await
    }

    async fn wait(
        &mut self,
        what: &str,
        aloud: bool,
        mut seen: impl FnMut(&SetView),
        holds: impl Fn(&SetView) -> bool,
    ) -> Result<SetView> {
        let mut screen = Screen::default();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        // What is known already may be all there is to wait for.
        let mut frame = tokio::time::Instant::now();
        let mut changed = true;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(frame), if changed => {
                    changed = false;
                    let Some(view) = self.look() else { continue };
                    let done = holds(&view);
                    if aloud {
                        self.show(&mut screen, &view, done)?;
                    }
                    self.last = Some(view.clone());
                    if done {
                        return Ok(view);
                    }
                }
                change = self.changes.next() => {
                    change.context("the watch ended")??;
                    if !changed {
                        changed = true;
                        frame = tokio::time::Instant::now() + REDRAW_PAUSE;
                    }
                    if let Some(view) = self.look() {
                        seen(&view);
                    }
                }
                () = tokio::time::sleep_until(deadline) => bail!(
                    "waited {} s in vain until {what}; please report this with the output above",
                    PATIENCE.as_secs()
                ),
            }
        }
    }

    fn look(&self) -> Option<SetView> {
        let (set, objects) = self.live.now()?;
        Some(build::set_view(&set, &objects))
    }

    fn show(&self, screen: &mut Screen, view: &SetView, last: bool) -> Result<()> {
        if !Screen::is_there() {
            for line in changes::lines(self.last.as_ref(), view) {
                outln!("   {:>6}  {line}", seconds(self.started));
            }
            return Ok(());
        }
        let drawn = |pods: bool| {
            let style = Style {
                terminal: output::is_terminal(),
                pods,
            };
            let tree = text::draw(view, style);
            tree.lines().map(|line| format!("   {line}\n")).collect::<String>()
        };
        if last {
            return screen.finish(&drawn(true));
        }
        screen.draw(&[drawn(true), drawn(false)])
    }
}

/// Begins a part of the story.
pub(super) fn title(line: &str) {
    let style = Style {
        terminal: output::is_terminal(),
        pods: false,
    };
    outln!("\n{}", style.paint(line, Colour::Bold));
}

/// Seconds since then, with one digit after the point.
pub(super) fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
