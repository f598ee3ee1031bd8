//! Plans as people read them.

use std::fmt::Write as _;

use serde_json::Value;

use super::changes::FieldLine;
use super::{Action, PlanView, Rehearsal};
use crate::words::count;

/// All plans, one after another.
pub fn draw(plans: &[PlanView]) -> String {
    plans.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(plan: &PlanView) -> String {
    let verdict = match plan.action {
        Action::Create => format!(
            "is created: {}, {}",
            count(plan.replicas, "replica"),
            count(plan.pods, "pod")
        ),
        Action::None => format!("means the same as now: none of {} pods is touched", plan.pods),
        Action::Refused => "would be refused".to_owned(),
        Action::Update if plan.replaced_pods == 0 => format!("changes without touching any of {} pods", plan.pods),
        Action::Update if plan.on_delete => format!(
            "changes; {} of {} pods get the new template when they are deleted (OnDelete)",
            plan.replaced_pods, plan.pods
        ),
        Action::Update => format!("replaces {} of {} pods", plan.replaced_pods, plan.pods),
    };
    let mut text = format!("PodCliqueSet {}/{} {verdict}\n", plan.namespace, plan.name);
    for error in &plan.errors {
        let _ = writeln!(text, "  error: {error}");
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    for clique in plan.cliques.iter().filter(|clique| clique.rolls) {
        let _ = writeln!(text, "~ clique {}: {} pods", clique.name, clique.pods);
        fields(&mut text, &clique.fields);
    }
    if !plan.settings.is_empty() {
        text.push_str("~ without restarting pods:\n");
        fields(&mut text, &plan.settings);
    }
    let untouched: Vec<&str> = plan
        .cliques
        .iter()
        .filter(|clique| !clique.rolls)
        .map(|clique| clique.name.as_str())
        .collect();
    if plan.action == Action::Update && plan.replaced_pods > 0 && !untouched.is_empty() {
        let _ = writeln!(text, "= untouched: {}", untouched.join(", "));
    }
    if let Some(rehearsal) = &plan.rehearsal {
        steps(&mut text, plan, rehearsal);
    }
    text
}

/// A line for each field, before and after.
pub fn fields(text: &mut String, fields: &[FieldLine]) {
    let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "(none)".to_owned(), Value::to_string);
    for field in fields {
        let _ = writeln!(
            text,
            "    {}: {} -> {}",
            field.path,
            show(&field.before),
            show(&field.after)
        );
    }
}

fn steps(text: &mut String, plan: &PlanView, rehearsal: &Rehearsal) {
    let replicas = match plan.replicas {
        1 => String::new(),
        several => format!(", in each of {several} replicas, one after another"),
    };
    let _ = writeln!(
        text,
        "steps{replicas} (rehearsed by the operator on an embedded cluster):"
    );
    for (position, step) in rehearsal.steps.iter().enumerate() {
        let what = if step.group {
            format!("group {}, copy {}: {} pods", step.of, step.index, step.pods)
        } else {
            format!("clique {}, pod {}", step.of, step.index)
        };
        let _ = writeln!(text, "{:4}  {what}", position + 1);
    }
    text.push_str("fewest ready on the way:\n");
    for floor in &rehearsal.floors {
        let kind = if floor.group { "group" } else { "clique" };
        let _ = writeln!(
            text,
            "      {kind} {}: {} of {} (min {})",
            floor.of, floor.lowest, floor.desired, floor.min_available
        );
    }
}
