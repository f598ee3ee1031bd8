//! The REST surface: from an HTTP request to an answer.
//!
//! [`handle`] reads path, query and headers, finds the resource and hands a [`Call`] to the verb's module. Everything
//! a verb decides about objects is in pure functions next to it; only `write` and `delete` commit to the store.

mod body;
mod create;
mod delete;
mod deletion;
mod dispatch;
mod json_patch_operations;
mod list;
mod metadata;
mod negotiate;
mod patch;
mod query;
mod reply;
mod request;
mod update;
mod view;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;

pub(crate) use deletion::{DeleteOptions, Deletion, decide as decide_deletion, read_options};
pub(crate) use dispatch::handle;
pub(crate) use json_patch_operations::carry_out;
pub(crate) use metadata::validate_name;
pub(crate) use negotiate::{Answer, Form, negotiate};
pub(crate) use query::Options;
pub use reply::ApiBody;
pub(crate) use reply::Reply;
pub(crate) use request::{ResourcePath, Verb};

use crate::auth::User;
use crate::core::Core;
use crate::kinds::World;
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::store::Key;

/// One request on one resource.
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) served: Arc<Served>,
    pub(crate) path: ResourcePath,
    pub(crate) options: Options,
    pub(crate) verb: Verb,
    pub(crate) answer: Answer,
    pub(crate) user: User,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Call {
    /// The key of the object the path names.
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.path.namespace, &self.path.name)
    }

    /// The object is not there.
    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(self.served.about(), &self.path.name)
    }

    /// Adds a warning to the answer.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// What rules may look at.
    pub(crate) fn world(&self) -> World<'_> {
        World {
            store: &self.core.store,
            now: self.core.clock.now(),
        }
    }

    /// The name under which this client's fields are kept: as given, or the product in its user agent.
    pub(crate) fn field_manager(&self) -> String {
        if !self.options.field_manager.is_empty() {
            return self.options.field_manager.clone();
        }
        let agent = self
            .headers
            .get(http::header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let product = agent.unwrap_or_default().split('/').next().unwrap_or_default();
        if product.is_empty() {
            "unknown".to_owned()
        } else {
            product.chars().take(128).collect()
        }
    }
}
