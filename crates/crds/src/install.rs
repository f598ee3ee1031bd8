//! Carries out an installation: looks, applies, waits. Every decision is in [`crate::decision`].

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use http::StatusCode;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use kube::core::Status;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::decision::{Change, Definition, Readiness, Refusal, change, may_apply, readiness};
use crate::legacy::{self, Legacy};

/// Conflicts with other installers are followed by another look; each conflict means that another one got further, so
/// this many in a row do not happen.
const ATTEMPTS: usize = 16;

/// How to install.
#[derive(Clone, Debug)]
pub struct InstallOptions {
    /// The field manager that owns what is applied.
    pub field_manager: String,
    /// How long the cluster may take to serve all kinds, once they are applied.
    pub timeout: Duration,
}

impl Default for InstallOptions {
    fn default() -> Self {
        Self {
            field_manager: "coppice-crds".to_owned(),
            timeout: Duration::from_secs(60),
        }
    }
}

/// What an installation reports while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The cluster had the definition of a kind that this API no longer has.
    Legacy {
        /// What became of it.
        outcome: Legacy,
    },
    /// A definition was applied.
    Applied {
        /// Its name.
        name: String,
        /// What that changed.
        change: Change,
    },
    /// The cluster serves a kind.
    Established {
        /// The name of its definition.
        name: String,
    },
}

/// Why an installation did not succeed. Whatever was applied before stays, and installing again goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Applying would do harm; nothing was changed for this definition.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The API server did not do what it was asked to.
    #[error("cannot {action} the CustomResourceDefinition {name}: {source}")]
    Api {
        /// `read` or `apply`.
        action: &'static str,
        /// The definition.
        name: String,
        /// What the API server or the connection said.
        source: Box<kube::Error>,
    },
    /// The cluster refuses to serve the kind.
    #[error("{name} was applied but is not served: {reason}")]
    Blocked {
        /// The definition.
        name: String,
        /// What is in the way.
        reason: String,
    },
    /// The cluster does not serve the kind in time.
    #[error("{name} was applied but is not Established after {limit:?}{}", last_error.as_ref().map(|error| format!(" (last error: {error})")).unwrap_or_default())]
    NotEstablished {
        /// The definition.
        name: String,
        /// How long it was waited for.
        limit: Duration,
        /// What went wrong last while watching, if anything did.
        last_error: Option<String>,
    },
}

/// Installs all CustomResourceDefinitions of Coppice and waits until the cluster serves them.
///
/// Every definition is looked at before the first one is applied, so a refusal leaves the cluster as it was.
pub async fn install(
    client: Client,
    options: &InstallOptions,
    progress: impl FnMut(Progress),
) -> Result<Vec<(String, Change)>, InstallError> {
    let definitions = coppice_api::crd::all();
    install_after_check(client, &definitions, options, true, progress).await
}

/// Like [`install`], for other definitions than those of this version.
pub async fn install_definitions(
    client: Client,
    definitions: &[Value],
    options: &InstallOptions,
    progress: impl FnMut(Progress),
) -> Result<Vec<(String, Change)>, InstallError> {
    install_after_check(client, definitions, options, false, progress).await
}

async fn install_after_check(
    client: Client,
    definitions: &[Value],
    options: &InstallOptions,
    removes_legacy: bool,
    mut progress: impl FnMut(Progress),
) -> Result<Vec<(String, Change)>, InstallError> {
    let installer = Installer {
        api: Api::all(client.clone()),
        client,
        options,
    };
    for definition in definitions {
        may_apply(installer.read(name_of(definition)).await?.as_ref(), definition)?;
    }
    // Before the others are applied, because it has a short name in common with one of them.
    if removes_legacy {
        let outcome = legacy::remove(&installer.client).await;
        if outcome != Legacy::Absent {
            progress(Progress::Legacy { outcome });
        }
    }
    let mut changes = Vec::with_capacity(definitions.len());
    for definition in definitions {
        let name = name_of(definition).to_owned();
        let change = installer.apply_until_settled(&name, definition).await?;
        progress(Progress::Applied {
            name: name.clone(),
            change,
        });
        changes.push((name, change));
    }
    let deadline = Instant::now() + options.timeout;
    for (name, _) in &changes {
        installer.wait_until_established(name, deadline).await?;
        progress(Progress::Established { name: name.clone() });
    }
    Ok(changes)
}

fn name_of(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

struct Installer<'a> {
    client: Client,
    api: Api<Definition>,
    options: &'a InstallOptions,
}

impl Installer<'_> {
    async fn read(&self, name: &str) -> Result<Option<Definition>, InstallError> {
        let found = self.api.get_opt(name).await;
        found.map_err(|source| InstallError::Api {
            action: "read",
            name: name.to_owned(),
            source: Box::new(source),
        })
    }

    /// Applies a definition; when somebody else wrote at the same moment, looks and applies again.
    async fn apply_until_settled(&self, name: &str, definition: &Value) -> Result<Change, InstallError> {
        let mut attempt = 1;
        loop {
            let before = self.read(name).await?;
            may_apply(before.as_ref(), definition)?;
            match self.apply(name, definition).await {
                Ok((after, created)) => return Ok(change(before.as_ref(), &after, created)),
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => attempt += 1,
                Err(source) => {
                    return Err(InstallError::Api {
                        action: "apply",
                        name: name.to_owned(),
                        source: Box::new(source),
                    });
                }
            }
        }
    }

    /// One server-side apply. The status code tells a creation apart, so the request is sent by hand.
    async fn apply(&self, name: &str, definition: &Value) -> Result<(Definition, bool), kube::Error> {
        let parameters = PatchParams::apply(&self.options.field_manager).force();
        let request = kube::core::Request::new(Definition::url_path(&(), None))
            .patch(name, &parameters, &Patch::Apply(definition))
            .map_err(kube::Error::BuildRequest)?;
        let response = self.client.send(request.map(Body::from)).await?;
        let code = response.status();
        let body = response.into_body().collect_bytes().await?;
        if code.is_success() {
            let after = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
            return Ok((after, code == StatusCode::CREATED));
        }
        let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&body).into_owned();
            Status::failure(&text, "the answer is not a Status").with_code(code.as_u16())
        });
        Err(kube::Error::Api(Box::new(status)))
    }

    /// Watches a definition until the cluster serves it. The watch repairs itself; errors only count when time is up.
    async fn wait_until_established(&self, name: &str, deadline: Instant) -> Result<(), InstallError> {
        let mut last_error = None;
        let waiting = async {
            let states = watcher::watch_object(self.api.clone(), name).default_backoff();
            pin_mut!(states);
            while let Some(state) = states.next().await {
                match state.map(|definition| readiness(definition.as_ref())) {
                    Ok(Readiness::Established) => return Ok(()),
                    Ok(Readiness::Pending) => {}
                    Ok(Readiness::Blocked(reason)) => return Err(reason),
                    Err(error) => last_error = Some(error.to_string()),
                }
            }
            Err("the watch ended; install again".to_owned())
        };
        match timeout_at(deadline, waiting).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(InstallError::Blocked {
                name: name.to_owned(),
                reason,
            }),
            Err(_) => Err(InstallError::NotEstablished {
                name: name.to_owned(),
                limit: self.options.timeout,
                last_error,
            }),
        }
    }
}
