//! The set's own name, its copies and the other plain fields of the set.

use crate::duration::Duration;
use crate::names::limits::{check_set, dns_1035_label};
use crate::types::UpdateStrategyType;

use super::subject::Subject;
use super::{FieldError, FieldPath, Outcome};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    name(subject, found);
    let spec = &subject.set.spec;
    let path = FieldPath::root("spec");
    if spec.replicas < 0 {
        let detail = "must be 0 or more; 0 runs nothing";
        found
            .errors
            .push(FieldError::invalid(path.field("replicas"), spec.replicas, detail));
    }
    if let Some(strategy) = &spec.update_strategy
        && !strategy.strategy.is_known()
    {
        let at = path.field("updateStrategy").field("type");
        let known = UpdateStrategyType::KNOWN.iter().copied();
        found
            .errors
            .push(FieldError::not_supported(at, strategy.strategy.as_str(), known));
    }
    termination_delay(subject, found);
}

fn name(subject: &Subject<'_>, found: &mut Outcome) {
    let metadata = FieldPath::root("metadata");
    let name = subject.name();
    let generated = subject.set.metadata.name.as_deref().unwrap_or("").is_empty();
    let at = metadata.field(if generated && !name.is_empty() {
        "generateName"
    } else {
        "name"
    });
    if name.is_empty() {
        found
            .errors
            .push(FieldError::required(at, "give the set a name, or a generateName"));
    } else if let Some(overrun) = check_set(&name, subject.set.spec.replicas) {
        found.errors.push(FieldError::too_long(at, &name, overrun.to_string()));
    } else if let Err(detail) = dns_1035_label(&name) {
        found.errors.push(FieldError::invalid(at, name.as_ref(), detail));
    }
}

fn termination_delay(subject: &Subject<'_>, found: &mut Outcome) {
    let at = Subject::template_path().field("terminationDelay");
    let Some(text) = &subject.template.termination_delay else {
        found.errors.push(FieldError::required(
            at,
            "say how long too few pods are tolerated, such as \"4h\"",
        ));
        return;
    };
    match text.parse::<Duration>() {
        Err(error) => found
            .errors
            .push(FieldError::invalid(at, text.as_str(), error.to_string())),
        Ok(delay) if !delay.is_positive() => {
            found
                .errors
                .push(FieldError::invalid(at, text.as_str(), "must be more than 0"));
        }
        Ok(_) => {}
    }
}
