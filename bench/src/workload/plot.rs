//! The plot: for each workload that has a floor, which part of the pods was created and ready after how many seconds,
//! every round as a line. Plain SVG, written by hand. Pure.

use std::fmt::Write as _;

use crate::plane::Kind;
use crate::report::{Report, Workload};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 44.0;
const PLOT_WIDTH: f64 = WIDTH - LEFT - 18.0;
const PLOT_HEIGHT: f64 = HEIGHT - TOP - 40.0;
const COLUMNS: usize = 2;
const LEGEND: f64 = 34.0;

const OPERATOR: &str = "#1b6e3c";
const FLOOR: &str = "#b3541e";

/// The whole plot.
pub(crate) fn svg(report: &Report) -> String {
    let panels: Vec<&Workload> = report
        .workloads
        .iter()
        .filter(|workload| !workload.rounds.is_empty())
        .collect();
    let rows = panels.len().div_ceil(COLUMNS);
    let (width, height) = (WIDTH * COLUMNS as f64, LEGEND + HEIGHT * rows as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    legend(&mut text);
    for (number, workload) in panels.into_iter().enumerate() {
        let (column, row) = (number % COLUMNS, number / COLUMNS);
        let (x, y) = (WIDTH * column as f64, LEGEND + HEIGHT * row as f64);
        let _ = writeln!(text, "<g transform=\"translate({x} {y})\">");
        panel(&mut text, workload);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

fn legend(text: &mut String) {
    let entries = [
        ("operator: pods created", OPERATOR, ""),
        ("operator: pods ready", OPERATOR, "5 3"),
        ("floor client: pods created", FLOOR, ""),
        ("floor client: pods ready", FLOOR, "5 3"),
    ];
    for (number, (words, colour, dashes)) in entries.into_iter().enumerate() {
        let x = LEFT + 210.0 * number as f64;
        let _ = writeln!(
            text,
            "<line x1=\"{x}\" y1=\"18\" x2=\"{}\" y2=\"18\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{}\" y=\"22\">{words}</text>",
            x + 26.0,
            x + 32.0
        );
    }
}

fn panel(text: &mut String, workload: &Workload) {
    let plane = match workload.plane {
        Kind::Real => "real kube-apiserver",
        Kind::Embedded => "embedded API server",
    };
    let title = format!("{}: {} pods, {plane}", workload.name, workload.pods);
    let ratio = workload.created_ratio;
    let subtitle = ratio.map(|ratio| {
        format!(
            "all pods created: {ratio:.2} x the floor (median of {})",
            workload.rounds.len()
        )
    });
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"20\" font-weight=\"bold\">{title}</text>");
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"35\">{}</text>",
        subtitle.unwrap_or_default()
    );
    let mut lines: Vec<(&[f64], &str, &str)> = Vec::new();
    for round in &workload.rounds {
        for (measured, colour) in [(round.floor.as_ref(), FLOOR), (Some(&round.apply), OPERATOR)] {
            for (name, dashes) in [("created", ""), ("ready", "5 3")] {
                let curve = measured.and_then(|measured| measured.curves.get(name));
                lines.extend(curve.map(|curve| (curve.as_slice(), colour, dashes)));
            }
        }
    }
    let end = lines
        .iter()
        .filter_map(|(curve, _, _)| curve.last())
        .copied()
        .fold(0.1, f64::max);
    axes(text, end);
    for (curve, colour, dashes) in lines {
        let points: Vec<String> = curve
            .iter()
            .enumerate()
            .map(|(number, seconds)| {
                let part = number as f64 / (curve.len() - 1).max(1) as f64;
                format!(
                    "{:.1},{:.1}",
                    LEFT + seconds / end * PLOT_WIDTH,
                    TOP + (1.0 - part) * PLOT_HEIGHT
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\" stroke-opacity=\"0.8\" \
             stroke-dasharray=\"{dashes}\" points=\"{}\"/>",
            points.join(" ")
        );
    }
}

fn axes(text: &mut String, end: f64) {
    let (bottom, right) = (TOP + PLOT_HEIGHT, LEFT + PLOT_WIDTH);
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let y = TOP + (1.0 - part) * PLOT_HEIGHT;
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.0} %</text>",
            LEFT - 6.0,
            y + 4.0,
            part * 100.0
        );
    }
    let step = step(end);
    let mut tick = 0.0;
    while tick <= end {
        let x = LEFT + tick / end * PLOT_WIDTH;
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{}\" stroke=\"#888\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            bottom + 4.0,
            bottom + 16.0
        );
        tick += step;
    }
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">seconds since the set was applied</text>",
        LEFT + PLOT_WIDTH / 2.0,
        bottom + 32.0
    );
}

/// The distance of ticks: 1, 2 or 5 times a power of ten, for about six of them.
fn step(end: f64) -> f64 {
    let power = 10_f64.powf((end / 6.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    steps.into_iter().find(|step| end / step <= 7.0).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// COPPICE_BLESS=1 draws it anew.
    #[test]
    fn the_picture_in_the_repository_shows_the_results_in_the_repository() {
        let results = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/results/workload.json"));
        let report: Report = serde_json::from_str(&std::fs::read_to_string(results).unwrap()).unwrap();
        let (picture, drawn) = (results.with_extension("svg"), svg(&report));
        if std::env::var_os("COPPICE_BLESS").is_some() {
            std::fs::write(&picture, &drawn).unwrap();
        }
        assert!(
            std::fs::read_to_string(&picture).unwrap() == drawn,
            "{} is not drawn from {}: COPPICE_BLESS=1 draws it anew",
            picture.display(),
            results.display()
        );
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(step(6.3), 1.0);
        assert_eq!(step(14.2), 5.0);
        assert_eq!(step(120.0), 20.0);
        assert_eq!(step(0.6), 0.1);
    }
}
