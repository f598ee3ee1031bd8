//! What a manifest would change.

use coppice_view::plan::changes::FieldLine;
use coppice_view::plan::{Action, PlanView, Rehearsal};
use maud::{Markup, html};
use serde_json::Value;

use super::words::count;
use crate::model::address::Page;

/// Lines of changed fields that are shown of a clique.
const FIELDS: usize = 60;
/// Steps that are shown.
const STEPS: usize = 200;

/// What became of a manifest.
#[derive(Debug)]
pub enum Answer {
    /// What it would do.
    Plans(Vec<PlanView>),
    /// Why that cannot be said.
    Failed(String),
}

/// The page: a form with the manifest, and the answer if there is one.
pub fn plan(manifest: &str, namespace: &str, answer: Option<&Answer>) -> Markup {
    html! {
        div.head { h1 { "Plan" } }
        p.dim { "What applying a manifest would change, which pods it would replace, and in which steps. Nothing is written to the cluster." }
        form.plan method="post" action=(Page::Plan) {
            label for="manifest" { "Manifest of PodCliqueSets (YAML or JSON)" }
            textarea #manifest name="manifest" rows="16" spellcheck="false" autocomplete="off" required { (manifest) }
            div.row {
                label for="namespace" { "Namespace of manifests that name none" }
                input #namespace name="namespace" value=(namespace) autocomplete="off";
                label.check { input type="checkbox" name="rehearse" value="yes" checked; "rehearse the update" }
                button type="submit" { "Show the plan" }
            }
        }
        div #answer aria-live="polite" {
            @match answer {
                None => {}
                Some(Answer::Failed(why)) => { p.notice.warn role="alert" { @for line in why.lines() { (line) br; } } }
                Some(Answer::Plans(plans)) => { @for plan in plans { (one(plan)) } }
            }
        }
    }
}

fn one(plan: &PlanView) -> Markup {
    let (class, verdict) = match plan.action {
        Action::Create => (
            "good",
            format!(
                "is created: {}, {} pods",
                coppice_view::words::count(plan.replicas, "replica"),
                plan.pods
            ),
        ),
        Action::None => (
            "good",
            format!("means the same as now: none of {} pods is touched", plan.pods),
        ),
        Action::Refused => ("bad", "would be refused".to_owned()),
        Action::Update if plan.replaced_pods == 0 => {
            ("good", format!("changes without touching any of {} pods", plan.pods))
        }
        Action::Update if plan.on_delete => (
            "busy",
            format!(
                "changes; {} of {} pods get the new template when they are deleted (OnDelete)",
                plan.replaced_pods, plan.pods
            ),
        ),
        Action::Update => ("busy", format!("replaces {} of {} pods", plan.replaced_pods, plan.pods)),
    };
    let untouched: Vec<&str> = plan
        .cliques
        .iter()
        .filter(|clique| !clique.rolls)
        .map(|clique| clique.name.as_str())
        .collect();
    html! {
        section.verdict {
            h2 { span class={ "state " (class) } { (plan.namespace) "/" (plan.name) } " " (verdict) }
            @for error in &plan.errors { p.notice.warn role="alert" { (error) } }
            @for warning in &plan.warnings { p.notice role="note" { (warning) } }
            @for clique in plan.cliques.iter().filter(|clique| clique.rolls) {
                h3 { "clique " (clique.name) span.dim { " " (clique.pods) " pods" } }
                (fields(&clique.fields))
            }
            @if !plan.settings.is_empty() {
                h3 { "Without restarting pods" }
                (fields(&plan.settings))
            }
            @if plan.action == Action::Update && plan.replaced_pods > 0 && !untouched.is_empty() {
                p { span.dim { "Untouched: " } (untouched.join(", ")) }
            }
            @if let Some(rehearsal) = &plan.rehearsal { (steps(plan, rehearsal)) }
        }
    }
}

fn fields(fields: &[FieldLine]) -> Markup {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "(none)".to_owned(), Value::to_string);
    html! {
        div.scroll { table {
            thead { tr { th { "Field" } th { "Before" } th { "After" } } }
            tbody { @for field in fields.iter().take(FIELDS) {
                tr { td { code { (field.path) } } td.before { (value(&field.before)) } td.after { (value(&field.after)) } }
            } }
        } }
        (super::words::more(fields.len().saturating_sub(FIELDS), "field"))
    }
}

fn steps(plan: &PlanView, rehearsal: &Rehearsal) -> Markup {
    html! {
        h3 {
            "Steps"
            @if plan.replicas > 1 { span.dim { " in each of " (plan.replicas) " replicas, one after another" } }
            span.dim { " as the operator rehearsed them on an embedded cluster" }
        }
        ol.steps { @for step in rehearsal.steps.iter().take(STEPS) {
            li {
                @if step.group { "group " (step.of) ", copy " (step.index) ": " (count(usize::try_from(step.pods).unwrap_or(0), "pod")) }
                @else { "clique " (step.of) ", pod " (step.index) }
            }
        } }
        (super::words::more(rehearsal.steps.len().saturating_sub(STEPS), "step"))
        h3 { "Fewest ready on the way" }
        div.scroll { table {
            thead { tr { th { "Part" } th.n { "Fewest" } th.n { "Of" } th.n { "Minimum" } } }
            tbody { @for floor in &rehearsal.floors {
                tr {
                    td { @if floor.group { "group " } @else { "clique " } (floor.of) }
                    td.n { (floor.lowest) } td.n { (floor.desired) } td.n { (floor.min_available) }
                }
            } }
        } }
    }
}
