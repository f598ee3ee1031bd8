//! The webhooks inside the process of an embedded API server: the same answers, without sockets and certificates.
//!
//! The API server is there before the operator, so its handlers are made first and bound to an operator's admission
//! later; a restarted operator binds its own. Until then they fail as a webhook that does not listen yet.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kube::Client;
use parking_lot::RwLock;
use serde_json::Value;

use super::configurations::Address;
use super::{Admission, Endpoint, install};

/// The address in the configurations: nobody listens there, because the API server has handlers by name.
pub const ADDRESS: &str = "https://in-process.invalid";

/// The future of an answer; an error is a failure to answer.
pub type Review = Pin<Box<dyn Future<Output = Result<Value, String>> + Send>>;

/// Where the admission of the running operator is kept. Clones share.
#[derive(Clone, Default)]
pub struct Slot {
    admission: Arc<RwLock<Option<Admission>>>,
}

impl Slot {
    /// From now on this one answers.
    pub fn bind(&self, admission: Admission) {
        *self.admission.write() = Some(admission);
    }

    /// From now on nobody answers.
    pub fn clear(&self) {
        *self.admission.write() = None;
    }

    /// A handler of each question, by the name of its webhook.
    pub fn handlers(&self) -> impl Iterator<Item = (&'static str, impl Fn(Value) -> Review + Send + Sync + 'static)> {
        Endpoint::ALL
            .map(|endpoint| (endpoint.webhook(), self.handler(endpoint)))
            .into_iter()
    }

    /// A handler of one question, for the API server's list of handlers by webhook name.
    pub fn handler(&self, endpoint: Endpoint) -> impl Fn(Value) -> Review + Send + Sync + 'static {
        let slot = self.clone();
        move |review| {
            let admission = slot.admission.read().clone();
            Box::pin(async move {
                let admission = admission.ok_or_else(|| "the operator is not running".to_owned())?;
                let answer = admission.review(endpoint, &review).await;
                answer.map_err(|error| error.to_string())
            })
        }
    }
}

/// Installs the configurations of the questions about users' own objects, under an [`ADDRESS`] that is never called.
///
/// # Errors
/// When the API server refuses one.
pub async fn install(client: &Client) -> Result<(), kube::Error> {
    let endpoints = Endpoint::ALL
        .into_iter()
        .filter(|endpoint| *endpoint != Endpoint::Authorize);
    let address = Address::Url(ADDRESS.to_owned());
    install::install(client, &endpoints.collect::<Vec<_>>(), &address).await
}
