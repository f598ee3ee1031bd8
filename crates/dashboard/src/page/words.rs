//! Small pieces of markup that several pages use.

use jiff::Timestamp;
use maud::{Markup, html};

use coppice_view::SetState;
use coppice_view::pod_state::PodState;

/// A time, which the script shows as an age.
pub(super) fn age(time: Option<Timestamp>) -> Markup {
    html! {
        @match time {
            Some(time) => { time datetime=(time) title=(time) data-age { (time.strftime("%Y-%m-%d %H:%M:%S")) } }
            None => { span.dim { "–" } }
        }
    }
}

/// A message; times in it that lie ahead are counted down by the script.
pub(super) fn message(text: &str) -> Markup {
    html! {
        @for (position, word) in text.split(' ').enumerate() {
            @if position > 0 { " " }
            @let bare = word.trim_end_matches([',', ';', '.', ')']);
            @match bare.parse::<Timestamp>() {
                Ok(time) if bare.len() >= 20 => {
                    time datetime=(time) data-countdown { (bare) } (&word[bare.len()..])
                }
                _ => { (word) }
            }
        }
    }
}

/// The state of a set.
pub(super) fn set_state(state: SetState) -> Markup {
    let (class, word) = match state {
        SetState::Ready => ("good", "Ready"),
        SetState::Progressing => ("busy", "Progressing"),
        SetState::Updating => ("busy", "Updating"),
        SetState::Degraded => ("bad", "Degraded"),
        SetState::Deleting => ("busy", "Deleting"),
    };
    html! { span class={ "state " (class) } { (word) } }
}

/// The state of a pod.
pub(super) fn pod_state(state: PodState) -> Markup {
    let class = match state {
        PodState::Ready => "good",
        PodState::Failing | PodState::Ended => "bad",
        PodState::Starting | PodState::Waiting | PodState::Unscheduled | PodState::Gated | PodState::Terminating => {
            "busy"
        }
    };
    html! { span class={ "state " (class) } { (state.word()) } }
}

/// `3 of 4`, and whether that is all.
pub(super) fn of(have: i64, want: i64) -> Markup {
    html! { span.short[have < want] { (have) span.dim { "/" (want) } } }
}

/// A share of a whole as a bar: classes and amounts, drawn in this order.
pub(super) fn bar(parts: &[(&str, i64)], label: &str) -> Markup {
    let all: i64 = parts
        .iter()
        .fold(0, |sum, (_, amount)| sum.saturating_add((*amount).max(0)));
    let mut at = 0.0;
    // A hundredth of a percent is less than what can be seen.
    #[allow(clippy::cast_precision_loss, reason = "a width in percent")]
    let widths = parts.iter().map(|(class, amount)| {
        let width = if all > 0 {
            (*amount).max(0) as f64 * 100.0 / all as f64
        } else {
            0.0
        };
        let from = at;
        at += width;
        (*class, from, width)
    });
    let widths: Vec<(&str, f64, f64)> = widths.filter(|(_, _, width)| *width > 0.0).collect();
    html! {
        svg.share viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (class, from, width) in widths {
                rect class=(class) x=(format!("{from:.2}")) width=(format!("{width:.2}")) y="0" height="6" {}
            }
        }
    }
}

/// A number of things: `1 pod`, `2 pods`.
pub(super) fn count(number: usize, noun: &str) -> String {
    coppice_view::words::count(i64::try_from(number).unwrap_or(i64::MAX), noun)
}

/// What a list leaves out.
pub(super) fn more(hidden: usize, noun: &str) -> Markup {
    html! { @if hidden > 0 { p.dim { "and " (count(hidden, &format!("more {noun}"))) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_are_counted_down() {
        let text = message("is terminated at 2026-01-01T00:00:00Z, <b>unless</b> a pod is ready").into_string();
        assert_eq!(
            text,
            "is terminated at <time datetime=\"2026-01-01T00:00:00Z\" data-countdown>2026-01-01T00:00:00Z</time>, \
             &lt;b&gt;unless&lt;/b&gt; a pod is ready"
        );
    }
}
