//! Events as people read them.

use jiff::Timestamp;

use super::{Entry, EventsView};
use crate::table::aligned;
use crate::text::{Colour, Style};

/// Warnings one by one, then the rest: normal events of a reason and a kind are one line unless every object is wanted.
pub fn draw(view: &EventsView, style: Style, now: Timestamp) -> String {
    let place = match &view.set {
        Some(set) => format!("PodCliqueSet {}/{set}", view.namespace),
        None => format!("namespace {}", view.namespace),
    };
    if view.warnings.is_empty() && view.normal.is_empty() {
        return format!("No events of {place}: nothing happened within the time that the cluster keeps them\n");
    }
    let mut text = match view.warnings.len() {
        0 => format!("No warnings of {place}\n"),
        1 => format!("{}\n", style.paint(&format!("1 warning of {place}"), Colour::Yellow)),
        several => format!(
            "{}\n",
            style.paint(&format!("{several} warnings of {place}"), Colour::Yellow)
        ),
    };
    let warnings: Vec<Line<'_>> = view.warnings.iter().map(single).collect();
    text.push_str(&table(&warnings, now));
    let normal: Vec<Line<'_>> = if style.pods {
        view.normal.iter().map(single).collect()
    } else {
        together(&view.normal)
    };
    if !normal.is_empty() {
        text.push_str("\nNormal\n");
        text.push_str(&table(&normal, now));
    }
    text
}

/// One event as it happens.
pub fn line(entry: &Entry) -> String {
    let time = entry
        .last
        .map_or_else(|| "-".to_owned(), |time| time.strftime("%H:%M:%S").to_string());
    format!(
        "{time}  {:7}  {}  {}  {}\n",
        entry.severity,
        entry.reason,
        object(entry),
        entry.message
    )
}

struct Line<'a> {
    newest: &'a Entry,
    count: i64,
    others: usize,
}

fn single(entry: &Entry) -> Line<'_> {
    Line {
        newest: entry,
        count: entry.count,
        others: 0,
    }
}

/// Entries of the same reason and kind; they come the newest first.
fn together(entries: &[Entry]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for entry in entries {
        let same =
            |line: &&mut Line<'_>| line.newest.reason == entry.reason && line.newest.object_kind == entry.object_kind;
        match lines.iter_mut().find(same) {
            Some(line) => {
                line.count += entry.count;
                line.others += usize::from(line.newest.object_name != entry.object_name);
            }
            None => lines.push(single(entry)),
        }
    }
    lines
}

fn table(lines: &[Line<'_>], now: Timestamp) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut rows = vec![["AGO", "COUNT", "REASON", "OBJECT", "MESSAGE"].map(str::to_owned)];
    rows.extend(lines.iter().map(|line| {
        let more = match line.others {
            0 => String::new(),
            others => format!(" +{others}"),
        };
        [
            line.newest.last.map_or_else(|| "-".to_owned(), |last| age(last, now)),
            line.count.to_string(),
            line.newest.reason.clone(),
            format!("{}{more}", object(line.newest)),
            line.newest.message.clone(),
        ]
    }));
    aligned(&rows)
}

fn object(entry: &Entry) -> String {
    format!("{}/{}", entry.object_kind.to_lowercase(), entry.object_name)
}

/// How long ago, in its largest unit.
fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
