//! Admission webhooks: what others have to say about a write before it is committed.
//!
//! Mutating webhooks run one after the other, each on what the last one left; validating ones all see the same final
//! object. Which webhook is asked is decided by [`matching`], what is sent and what an answer means by [`review`];
//! [`transport`] only carries reviews, over TLS or to a handler in this process.

mod config;
mod matching;
mod review;
mod transport;

use serde_json::Value;

pub use transport::{AdmissionHandler, Review, ServiceResolver};

pub(crate) use transport::Transport;

use crate::rest::{Call, DeleteOptions, carry_out};
use crate::status::ApiError;

use config::Webhook;
use matching::Subject;
use review::Verdict;

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new object.
    Create,
    /// A change.
    Update,
    /// A removal.
    Delete,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// Lets mutating webhooks change an object. What they add is pruned and defaulted like anything else.
pub(crate) async fn mutate(
    call: &Call,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let webhooks = webhooks(call, MUTATING);
    if webhooks.is_empty() {
        return Ok(());
    }
    let before = object.clone();
    let mut changed_after = vec![false; webhooks.len()];
    for (index, webhook) in webhooks.iter().enumerate() {
        if mutate_with(call, webhook, operation, object, old).await? {
            changed_after[..index].fill(true);
        }
    }
    for (webhook, _) in webhooks
        .iter()
        .zip(changed_after)
        .filter(|(webhook, changed)| webhook.reinvoke && *changed)
    {
        mutate_with(call, webhook, operation, object, old).await?;
    }
    if *object != before {
        call.served.rules.prune(object);
        call.served.rules.default(object);
    }
    Ok(())
}

/// Asks one mutating webhook; says whether it changed the object.
async fn mutate_with(
    call: &Call,
    webhook: &Webhook,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<bool, ApiError> {
    let Some(verdict) = ask(call, webhook, operation, Some(object), old).await? else {
        return Ok(false);
    };
    let Some(patch) = verdict.patch else { return Ok(false) };
    let before = object.clone();
    carry_out(object, &patch).map_err(|error| {
        ApiError::internal(format!(
            "failed calling webhook {:?}: the patch does not apply: {error}",
            webhook.name
        ))
    })?;
    Ok(*object != before)
}

/// Lets validating webhooks refuse a write.
pub(crate) async fn validate(
    call: &Call,
    operation: Operation,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    for webhook in webhooks(call, VALIDATING) {
        ask(call, &webhook, operation, object, old).await?;
    }
    Ok(())
}

/// Lets webhooks of both kinds refuse a deletion.
pub(crate) async fn validate_delete(call: &Call, old: &Value, _options: &DeleteOptions) -> Result<(), ApiError> {
    for webhook in webhooks(call, MUTATING).iter().chain(&webhooks(call, VALIDATING)) {
        ask(call, webhook, Operation::Delete, None, Some(old)).await?;
    }
    Ok(())
}

/// The webhooks of a kind in the order they are asked. Nobody is asked about webhook configurations themselves, so that a
/// broken one can be mended.
fn webhooks(call: &Call, id: &str) -> Vec<Webhook> {
    if matches!(&*call.served.id, MUTATING | VALIDATING) {
        return Vec::new();
    }
    let (_, configurations) = call.core.store.current(id);
    configurations
        .iter()
        .flat_map(|configuration| config::read(&configuration.value()))
        .collect()
}

/// Asks one webhook if it is concerned; `None` when it is not, or failed and may be ignored.
async fn ask(
    call: &Call,
    webhook: &Webhook,
    operation: Operation,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Option<Verdict>, ApiError> {
    let subject = Subject {
        call,
        operation,
        object,
        old,
    };
    match matching::concerns(webhook, &subject) {
        Ok(false) => return Ok(None),
        Ok(true) => {}
        Err(_) if webhook.ignores_failure => return Ok(None),
        Err(problem) => {
            return Err(ApiError::forbidden(call.served.about(), &call.path.name, &problem));
        }
    }
    if call.options.dry_run && !webhook.safe_for_dry_run {
        return Err(ApiError::bad_request(format!(
            "admission webhook {:?} does not support dry run",
            webhook.name
        )));
    }
    let request = review::request(&subject, &call.core.identities.uid());
    let answer = call.core.transport.send(webhook, &request).await;
    let verdict = answer.and_then(|answer| review::verdict(&answer, &request));
    match verdict {
        Ok(verdict) => {
            verdict.warnings.iter().for_each(|warning| call.warn(warning));
            match verdict.refusal {
                Some(refusal) => Err(review::refusal(&webhook.name, &refusal)),
                None => Ok(Some(verdict)),
            }
        }
        Err(problem) if webhook.ignores_failure => {
            tracing::debug!(webhook = webhook.name, problem, "failed and ignored");
            Ok(None)
        }
        Err(problem) => Err(ApiError::internal(format!(
            "failed calling webhook {:?}: {problem}",
            webhook.name
        ))),
    }
}
