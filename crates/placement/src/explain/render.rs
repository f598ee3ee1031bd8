//! An explanation as text.

use std::fmt::{Display, Formatter, Result};

use super::{Explanation, LevelReport, Verdict};

impl Display for Explanation {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let verdict = match self.verdict {
            Verdict::Fits => "fits now",
            Verdict::Waiting => "waits",
            Verdict::DoesNotFit => "does not fit",
            Verdict::Unknown => "could not be decided",
        };
        writeln!(out, "{} {verdict}", self.gang)?;
        for reason in &self.reasons {
            writeln!(out, "  {}: {}", reason.code.as_str(), reason.message)?;
        }
        section(out, "best domain by level", &self.levels)?;
        if !self.ruled_out.is_empty() {
            writeln!(out, "nodes ruled out:")?;
        }
        for report in &self.ruled_out {
            let detail = if report.detail.is_empty() {
                String::new()
            } else {
                format!(" {}", report.detail)
            };
            writeln!(
                out,
                "  {}: {} by {}{detail}",
                report.group,
                report.nodes,
                report.code.as_str()
            )?;
        }
        if !self.remedies.is_empty() {
            writeln!(out, "any of these would do:")?;
        }
        for remedy in &self.remedies {
            writeln!(out, "  {}", remedy.text)?;
        }
        Ok(())
    }
}

fn section<T: Display>(out: &mut Formatter<'_>, title: &str, entries: &[T]) -> Result {
    if !entries.is_empty() {
        writeln!(out, "{title}:")?;
    }
    entries.iter().try_for_each(|entry| writeln!(out, "  {entry}"))
}

impl Display for LevelReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let level = if self.key.is_empty() { "cluster" } else { &self.key };
        let must = if self.required { ", required" } else { "" };
        let copies = if self.copies > 1 {
            format!(" (one of {})", self.copies)
        } else {
            String::new()
        };
        write!(out, "{}{copies}, {level}{must}: {}", self.part, self.domain)?;
        for slots in &self.slots {
            let more = if slots.groups.len() > 1 {
                format!(" and {} more", slots.groups.len() - 1)
            } else {
                String::new()
            };
            let name = slots.groups.first().map_or("", String::as_str);
            write!(out, "; {} of {} slots for {name}{more}", slots.have, slots.need)?;
        }
        for (resource, amount) in &self.lacks {
            write!(out, "; short {amount} of {resource}")?;
        }
        Ok(())
    }
}
