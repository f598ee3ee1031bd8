//! What happened.

use jiff::Timestamp;
use maud::{Markup, html};

use super::words::{age, message};
use crate::model::address::Page;
use crate::model::timeline::{Entry, Kind};

/// Entries that the page shows.
const ENTRIES: usize = 200;

/// The page.
pub fn timeline(entries: &[Entry], since: Timestamp, namespace: Option<&str>, kind: Option<&str>) -> Markup {
    let matching: Vec<&Entry> = entries
        .iter()
        .filter(|entry| kind.is_none_or(|kind| entry.kind.word() == kind))
        .filter(|entry| namespace.is_none_or(|only| entry.namespace == only))
        .collect();
    let to = |kind: Option<Kind>| Page::Timeline {
        namespace: namespace.map(str::to_owned),
        kind: kind.map(|kind| kind.word().to_owned()),
    };
    html! {
        div.head {
            h1 { "Timeline" }
            nav.switch aria-label="Show" {
                a href=(to(None)) aria-current=[kind.is_none().then_some("true")] { "all" }
                @for choice in Kind::ALL {
                    a href=(to(Some(choice))) aria-current=[(kind == Some(choice.word())).then_some("true")] { (choice.word()) }
                }
            }
        }
        p.dim { "What was seen since the dashboard started (" (age(Some(since))) "), and what events report from before." }
        @if matching.is_empty() {
            p.empty { "Nothing has happened yet." }
        } @else {
            ol.timeline {
                @for entry in matching.iter().take(ENTRIES) {
                    li class={ "entry of-" (entry.kind.word()) } {
                        span.when { (age(Some(entry.at))) }
                        span.kind { (entry.kind.word()) }
                        span.what {
                            (subject(entry))
                            " "
                            (words(entry))
                        }
                    }
                }
            }
            @if matching.len() > ENTRIES { p.dim { "The newest " (ENTRIES) " of " (matching.len()) " are shown." } }
        }
    }
}

fn words(entry: &Entry) -> Markup {
    let several = entry.count > 1;
    html! {
        @if entry.object == "pod" && !entry.reported && several { strong { (entry.count) " pods" } " " (message(&entry.message)) }
        @else { (message(&entry.message)) @if several { span.dim { " ×" (entry.count) } } }
    }
}

fn subject(entry: &Entry) -> Markup {
    let namespace = || entry.namespace.clone();
    let several = entry.object == "pod" && entry.count > 1 && !entry.reported;
    html! {
        @match (entry.object, &entry.gang) {
            ("node", _) => { "node " a href=(Page::Node(entry.name.clone())) { (entry.name) } }
            ("set", _) => { "set " a href=(Page::Set { namespace: namespace(), name: entry.name.clone(), replica: None }) { (entry.namespace) "/" (entry.name) } }
            ("gang", _) => { "gang " a href=(Page::Gang { namespace: namespace(), name: entry.name.clone(), assume: None }) { (entry.namespace) "/" (entry.name) } }
            ("pod", Some(gang)) => {
                @if !several { (entry.name) " of " }
                "gang " a href=(Page::Gang { namespace: namespace(), name: gang.clone(), assume: None }) { (entry.namespace) "/" (gang) }
            }
            (object, _) => { (object) " " (entry.namespace) "/" (entry.name) }
        }
    }
}
