//! Pages: from view models to markup.
//!
//! Pure. Text is escaped by the markup's own macro, links are written by [`Page`], and nothing here is markup that came from a
//! cluster. What changes with time alone (ages, countdowns) is left to the script, so that a page that has not changed
//! is the same text.

mod gang;
mod map;
mod node;
mod pending;
mod plan;
mod set;
mod sets;
mod timeline;
mod words;

pub use gang::{failed as gang_failed, gang};
pub use map::map;
pub use node::node;
pub use pending::pending;
pub use plan::{Answer as PlanAnswer, plan};
pub use set::set;
pub use sets::sets;
pub use timeline::timeline;

use maud::{DOCTYPE, Markup, html};

use crate::model::address::Page;

/// What all pages have in common.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Where the cluster is, or which it is.
    pub cluster: String,
    /// Gangs that wait.
    pub pending: usize,
    /// Sets with problems, and all.
    pub sets: (usize, usize),
    /// What cannot be shown, and why.
    pub notices: Vec<String>,
    /// Kinds that have not been listed yet.
    pub loading: Vec<String>,
}

/// The part of a document that changes: the bar of pages and the page.
pub fn body(frame: &Frame, page: &Page, content: &Markup) -> Markup {
    html! {
        (bar(frame, page))
        main id="main" tabindex="-1" {
            @for notice in &frame.notices { p.notice role="note" { (notice) } }
            @if !frame.loading.is_empty() {
                p.notice role="status" { "Reading " (frame.loading.join(", ")) " from the cluster." }
            }
            (content)
        }
    }
}

/// A whole document.
pub fn document(title: &str, page: &Page, body: &Markup) -> Markup {
    let live = !matches!(page, Page::Plan);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Coppice" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/script.js" defer {}
            }
            body data-live=[live.then(|| page.to_string())] {
                a.skip href="#main" { "Skip to content" }
                div #page { (body) }
            }
        }
    }
}

/// The title of a page.
#[must_use]
pub fn title(page: &Page) -> String {
    match page {
        Page::Map { within, .. } if within.is_empty() => "Cluster".to_owned(),
        Page::Map { within, .. } => within.join(" / "),
        Page::Node(name) => format!("Node {name}"),
        Page::Pending { .. } => "Pending gangs".to_owned(),
        Page::Gang { name, .. } => format!("Gang {name}"),
        Page::Sets { .. } => "Sets".to_owned(),
        Page::Set { name, .. } => format!("Set {name}"),
        Page::Timeline { .. } => "Timeline".to_owned(),
        Page::Plan => "Plan".to_owned(),
    }
}

fn bar(frame: &Frame, page: &Page) -> Markup {
    let (problems, sets) = frame.sets;
    let entry = |to: Page, words: &str, here: bool, count: Option<usize>, alarming: bool| {
        html! {
            a href=(to) aria-current=[here.then_some("page")] {
                (words)
                @if let Some(count) = count { span.badge.alarm[alarming && count > 0] { (count) } }
            }
        }
    };
    html! {
        header.bar {
            a.brand href="/" { img src="/assets/icon.svg" alt="" width="20" height="20"; "Coppice" }
            nav aria-label="Pages" {
                (entry(Page::map(), "Cluster", matches!(page, Page::Map { .. } | Page::Node(_)), None, false))
                (entry(Page::Pending { namespace: None }, "Pending", matches!(page, Page::Pending { .. } | Page::Gang { .. }), Some(frame.pending), true))
                (entry(Page::Sets { namespace: None }, "Sets", matches!(page, Page::Sets { .. } | Page::Set { .. }), Some(sets), problems > 0))
                (entry(Page::Timeline { namespace: None, kind: None }, "Timeline", matches!(page, Page::Timeline { .. }), None, false))
                (entry(Page::Plan, "Plan", matches!(page, Page::Plan), None, false))
            }
            div.where {
                span.dim { (frame.cluster) }
                @if !matches!(page, Page::Plan) { span.live role="status" data-live-state { "live" } }
            }
        }
    }
}

/// A page that says what is not there.
pub fn nothing(title: &str, message: &str) -> Markup {
    html! {
        h1 { (title) }
        p.empty { (message) }
    }
}
