//! A domain that is not being deleted: finalizer, daemon template, DaemonSet, workload template, in this order.
//!
//! The pod template of a DaemonSet is kept current only while the domain has no daemon pods. Daemons of one IMEX domain must
//! agree on names and gates, so a formed domain keeps what it was formed with, and nothing restarts it.

use super::command::{Command, Existing, ObjectKind};
use crate::api::ComputeDomain;
use crate::decide::render::{RenderSettings, TEMPLATE_HASH, daemon_set, daemon_template, workload_template};
use crate::decide::status::Reason;

/// What exists for a domain, in any managed namespace.
#[derive(Clone, Debug, Default)]
pub struct LiveFacts {
    /// The DaemonSet that is labelled for the domain.
    pub daemon_set: Option<Existing>,
    /// The daemon template that is labelled for the domain.
    pub daemon_template: Option<Existing>,
    /// The ResourceClaimTemplate of the wanted name in the domain's namespace, whomever it belongs to.
    pub workload_template: Option<Existing>,
    /// Whether the domain has the finalizer.
    pub has_finalizer: bool,
    /// Daemon pods of the domain.
    pub daemon_pods: usize,
    /// Nodes labelled for the domain.
    pub labelled_nodes: usize,
}

/// What to do, and what to report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LivePlan {
    /// The steps.
    pub commands: Vec<Command>,
    /// Why the objects of the domain do not all exist; none when they do.
    pub objects: Option<(Reason, String)>,
}

/// Plans a domain that is not being deleted.
pub fn plan_live(domain: &ComputeDomain, facts: &LiveFacts, settings: &RenderSettings) -> LivePlan {
    let mut plan = LivePlan::default();
    if !facts.has_finalizer {
        // Nothing is created that a deletion would not clean up.
        plan.commands.push(Command::AddDomainFinalizer);
        plan.objects = Some((Reason::Creating, "the finalizer is being added".into()));
        return plan;
    }
    release_deleted(facts, domain.uid(), &mut plan);
    if !settings.host_managed {
        if facts.daemon_template.is_none() {
            plan.commands
                .push(Command::Create(Box::new(daemon_template(domain, settings))));
        }
        let rendered = daemon_set(domain, settings);
        match &facts.daemon_set {
            None => plan.commands.push(Command::Create(Box::new(rendered))),
            Some(set) => {
                let wanted = rendered["metadata"]["annotations"][TEMPLATE_HASH]
                    .as_str()
                    .map(str::to_owned);
                let idle = facts.daemon_pods == 0 && facts.labelled_nodes == 0;
                if set.template_hash != wanted && idle && !set.deleting && set.namespace == settings.namespace {
                    plan.commands.push(Command::ReplacePodTemplate {
                        uid: set.uid.clone(),
                        rendered: Box::new(rendered),
                    });
                }
            }
        }
    }
    let name = &domain.spec.channel.resource_claim_template.name;
    match &facts.workload_template {
        None => plan
            .commands
            .push(Command::Create(Box::new(workload_template(domain, settings)))),
        Some(template) if template.domain_uid.as_deref() == Some(domain.uid()) => {}
        Some(template) => {
            let of = template
                .domain_uid
                .as_deref()
                .map(|uid| format!(" of ComputeDomain {uid}"))
                .unwrap_or_default();
            let message = format!("ResourceClaimTemplate {name}{of} exists and does not belong to this domain");
            plan.objects = Some((Reason::TemplateNameTaken, message));
        }
    }
    let creates = plan
        .commands
        .iter()
        .any(|command| matches!(command, Command::Create(_) | Command::RemoveFinalizer(..)));
    if creates && plan.objects.is_none() {
        plan.objects = Some((Reason::Creating, "the objects of the domain are being created".into()));
    }
    plan
}

/// An object that was deleted under its domain is let go: it is created again when it is gone.
fn release_deleted(facts: &LiveFacts, uid: &str, plan: &mut LivePlan) {
    let objects = [
        (ObjectKind::DaemonSet, &facts.daemon_set),
        (ObjectKind::ClaimTemplate, &facts.daemon_template),
        (ObjectKind::ClaimTemplate, &facts.workload_template),
    ];
    for (kind, object) in objects {
        if let Some(object) = object
            && object.deleting
            && object.has_finalizer
            && object.domain_uid.as_deref() == Some(uid)
        {
            plan.commands.push(Command::RemoveFinalizer(kind, object.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn domain() -> ComputeDomain {
        serde_json::from_value(json!({
            "metadata": {"name": "imex", "namespace": "team", "uid": "d"},
            "spec": {"channel": {"resourceClaimTemplate": {"name": "chan"}}},
        }))
        .unwrap()
    }

    fn existing(uid: &str, domain_uid: Option<&str>) -> Existing {
        Existing {
            uid: uid.into(),
            namespace: RenderSettings::default().namespace,
            domain_uid: domain_uid.map(Into::into),
            ..Existing::default()
        }
    }

    fn complete(settings: &RenderSettings) -> LiveFacts {
        let hash = daemon_set(&domain(), settings)["metadata"]["annotations"][TEMPLATE_HASH]
            .as_str()
            .map(Into::into);
        LiveFacts {
            daemon_set: Some(Existing {
                template_hash: hash,
                ..existing("s", Some("d"))
            }),
            daemon_template: Some(existing("t", Some("d"))),
            workload_template: Some(existing("w", Some("d"))),
            has_finalizer: true,
            ..LiveFacts::default()
        }
    }

    fn kinds(plan: &LivePlan) -> Vec<String> {
        let kind = |command: &Command| match command {
            Command::Create(object) => format!("{} {}", object["kind"], object["metadata"]["namespace"]),
            other => format!("{other:?}")
                .split(['(', ' '])
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        plan.commands.iter().map(kind).collect()
    }

    #[test]
    fn the_finalizer_comes_first_and_the_workload_template_last() {
        let settings = RenderSettings {
            namespace: "driver".into(),
            ..RenderSettings::default()
        };
        let plan = plan_live(&domain(), &LiveFacts::default(), &settings);
        assert_eq!(plan.commands, [Command::AddDomainFinalizer]);
        let facts = LiveFacts {
            has_finalizer: true,
            ..LiveFacts::default()
        };
        let plan = plan_live(&domain(), &facts, &settings);
        let expected = [
            r#""ResourceClaimTemplate" "driver""#,
            r#""DaemonSet" "driver""#,
            r#""ResourceClaimTemplate" "team""#,
        ];
        assert_eq!(kinds(&plan), expected);
        assert_eq!(plan.objects.map(|(reason, _)| reason), Some(Reason::Creating));
    }

    #[test]
    fn a_complete_domain_costs_no_write() {
        let settings = RenderSettings::default();
        assert_eq!(
            plan_live(&domain(), &complete(&settings), &settings),
            LivePlan::default()
        );
    }

    /// §9.11: visible to the user, and no loop.
    #[test]
    fn a_taken_template_name_is_reported() {
        let settings = RenderSettings::default();
        let facts = LiveFacts {
            workload_template: Some(existing("x", None)),
            ..complete(&settings)
        };
        let plan = plan_live(&domain(), &facts, &settings);
        assert!(plan.commands.is_empty());
        let (reason, message) = plan.objects.unwrap();
        assert_eq!(reason, Reason::TemplateNameTaken);
        assert_eq!(
            message,
            "ResourceClaimTemplate chan exists and does not belong to this domain"
        );
    }

    /// §9.13: current for the next formation, and no restart of a formed domain.
    #[test]
    fn the_pod_template_is_kept_current_while_there_are_no_daemons() {
        let settings = RenderSettings::default();
        let newer = RenderSettings {
            image: "newer".into(),
            ..RenderSettings::default()
        };
        let mut facts = complete(&settings);
        assert_eq!(kinds(&plan_live(&domain(), &facts, &newer)), ["ReplacePodTemplate"]);
        facts.daemon_pods = 1;
        assert!(plan_live(&domain(), &facts, &newer).commands.is_empty());
        facts = LiveFacts {
            labelled_nodes: 1,
            daemon_pods: 0,
            ..facts
        };
        assert!(plan_live(&domain(), &facts, &newer).commands.is_empty());
    }

    #[test]
    fn a_host_managed_domain_has_a_workload_template_only() {
        let settings = RenderSettings {
            host_managed: true,
            ..RenderSettings::default()
        };
        let facts = LiveFacts {
            has_finalizer: true,
            ..LiveFacts::default()
        };
        assert_eq!(
            kinds(&plan_live(&domain(), &facts, &settings)),
            [r#""ResourceClaimTemplate" "team""#]
        );
    }
}
