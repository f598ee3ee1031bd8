//! From HTTP to a call: who asks, for what, and which module answers.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::negotiate::negotiate;
use super::request::{ResourcePath, Target, Verb};
use super::{ApiBody, Call, Form, Options, Reply};
use crate::auth::{Action, User};
use crate::core::Core;
use crate::discovery;
use crate::kinds::Part;
use crate::status::ApiError;

/// Bodies longer than this are refused, as the real server does.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Answers one request.
pub(crate) async fn handle<B>(core: Arc<Core>, request: Request<B>) -> Response<ApiBody>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let reply = match answer(core, parts, body).await {
        Ok(reply) => reply,
        Err(error) => error.into(),
    };
    reply.into_response()
}

async fn answer<B>(core: Arc<Core>, parts: Parts, body: B) -> Result<Reply, ApiError>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let user = core
        .authenticator
        .authenticate(&parts)
        .ok_or_else(ApiError::unauthorized)?;
    match Target::parse(parts.uri.path()) {
        Target::Other(segments) => {
            if !matches!(parts.method, Method::GET | Method::HEAD) {
                return Err(ApiError::method_not_allowed());
            }
            discovery::answer(&core, &segments, &parts)
        }
        Target::Resource(path) => {
            let body = collect(body).await?;
            resource(core, path, parts, body, user).await
        }
    }
}

async fn collect<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(ApiError::too_large(BODY_LIMIT)),
        Err(error) => Err(ApiError::bad_request(format!("the body could not be read: {error}"))),
    }
}

async fn resource(
    core: Arc<Core>,
    path: ResourcePath,
    parts: Parts,
    body: Bytes,
    user: User,
) -> Result<Reply, ApiError> {
    let registry = core.registry();
    let Some(served) = registry.find(&path.group, &path.version, &path.resource).cloned() else {
        return not_served(&registry, &path.group);
    };
    let mut options = Options::parse(parts.uri.query().unwrap_or_default())?;
    options.watch |= path.watch;
    let answer = negotiate(&parts.headers)?;
    if answer.form == Form::AggregatedDiscovery {
        return Err(ApiError::not_acceptable(super::negotiate::SERVED));
    }
    let verb = Verb::of(&parts.method, &path, options.watch)?;
    if matches!(verb, Verb::List | Verb::Watch) {
        options.check_list(verb == Verb::Watch);
    }
    if !options.invalid.is_empty() {
        let about = crate::status::About {
            group: "meta.k8s.io",
            resource: options_kind(verb),
        };
        return Err(ApiError::invalid(about, "", &options.invalid));
    }
    if served.namespaced && path.namespace.is_empty() && (verb == Verb::Create || !path.name.is_empty()) {
        // All namespaces can be read together, but an object lives in one.
        if verb == Verb::Create {
            return Err(ApiError::method_not_allowed());
        }
        return Err(ApiError::unknown_path());
    }
    if !served.namespaced && !path.namespace.is_empty() {
        return Err(ApiError::unknown_path());
    }
    let call = Call {
        core,
        registry: registry.clone(),
        served,
        path,
        options,
        verb,
        answer,
        user,
        headers: parts.headers,
        body,
        warnings: parking_lot::Mutex::default(),
    };
    call.authorize()?;
    call.run().await
}

/// The answer for a resource that is not there: groups of built-in kinds say so in a Status, others leave it to the mux.
fn not_served(registry: &crate::registry::Registry, group: &str) -> Result<Reply, ApiError> {
    let builtin = registry.versions(group).into_iter().flatten().any(|version| {
        registry
            .resources(group, version)
            .is_some_and(|map| map.values().any(|served| !served.custom))
    });
    if builtin {
        Err(ApiError::unknown_path())
    } else {
        Ok(Reply::page_not_found())
    }
}

/// What the options of a verb are called.
fn options_kind(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "GetOptions",
        Verb::List | Verb::Watch | Verb::DeleteCollection => "ListOptions",
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        Verb::Delete => "DeleteOptions",
    }
}

impl Call {
    fn authorize(&self) -> Result<(), ApiError> {
        let resource = if self.path.subresource.is_empty() {
            self.path.resource.clone()
        } else {
            format!("{}/{}", self.path.resource, self.path.subresource)
        };
        let action = Action {
            verb: self.verb.as_str(),
            group: &self.path.group,
            resource: &resource,
            namespace: &self.path.namespace,
            name: &self.path.name,
        };
        self.core
            .authorizer
            .authorize(&self.user, &action)
            .map_err(|why| ApiError::forbidden(self.served.about(), &self.path.name, &why))
    }

    async fn run(self) -> Result<Reply, ApiError> {
        if self.verb == Verb::Watch {
            self.check_verb("watch")?;
            return self.watch();
        }
        let result = if self.path.subresource.is_empty() {
            self.run_whole().await
        } else {
            self.run_part().await
        };
        let warnings = self.warnings.lock().clone();
        Ok(result.unwrap_or_else(Reply::from).warnings(&warnings))
    }

    fn check_verb(&self, verb: &str) -> Result<(), ApiError> {
        if self.served.verbs.contains(&verb) {
            return Ok(());
        }
        Err(ApiError::method_not_supported(self.served.about(), verb))
    }

    async fn run_whole(&self) -> Result<Reply, ApiError> {
        self.check_verb(self.verb.as_str())?;
        if self.served.verbs == ["create"] {
            return crate::subresources::create_virtual(self).await;
        }
        match self.verb {
            Verb::Get => self.get(),
            Verb::List => self.list(),
            Verb::Create => self.create().await,
            Verb::Update => self.update(Part::Main).await,
            Verb::Patch => self.patch(Part::Main).await,
            Verb::Delete => self.delete().await,
            Verb::DeleteCollection => self.delete_collection().await,
            Verb::Watch => Err(ApiError::method_not_allowed()),
        }
    }

    async fn run_part(&self) -> Result<Reply, ApiError> {
        let Some(part) = self.served.subresource(&self.path.subresource) else {
            return Err(if self.served.custom {
                self.not_found()
            } else {
                ApiError::unknown_path()
            });
        };
        if !part.verbs.contains(&self.verb.as_str()) {
            return Err(ApiError::method_not_allowed());
        }
        match (part.name.as_str(), self.verb) {
            ("status", Verb::Get) => self.get(),
            ("status", Verb::Update) => self.update(Part::Status).await,
            ("status", Verb::Patch) => self.patch(Part::Status).await,
            _ => crate::subresources::run(self).await,
        }
    }
}
