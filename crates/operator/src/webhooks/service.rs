//! The webhooks as a whole: the server, and whoever provides its certificates.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use coppice_runtime::metrics::Metrics;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use super::Admission;
use super::server::Server;
use crate::certificates::{Keeper, Served, files, keeper};

/// Where certificates come from.
pub enum Certificates {
    /// Made and kept in a Secret.
    Kept(Box<keeper::Options>),
    /// Read from a directory.
    Files(PathBuf),
}

/// Running webhooks. They stop when told to, not when dropped.
pub struct Service {
    address: SocketAddr,
    served: Served,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Service {
    /// Starts serving. Handshakes fail until there is a certificate.
    ///
    /// # Errors
    /// When the server's own address is not known, or TLS cannot be set up.
    pub fn start(
        client: &Client,
        server: Server,
        admission: Admission,
        certificates: Certificates,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        let served = Served::default();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let address = server.address()?;
        let tls = served.server_config().map_err(io::Error::other)?;
        tasks.spawn(server.run(admission, tls, metrics.clone(), stop.clone()));
        match certificates {
            Certificates::Kept(options) => {
                tasks.spawn(Keeper::new(client.clone(), *options, served.clone()).run(stop.clone()));
            }
            Certificates::Files(directory) => {
                let (served, stop) = (served.clone(), stop.clone());
                tasks.spawn(async move {
                    if let Err(problem) = files::follow(directory, served, stop).await {
                        error!(%problem, "there is no webhook certificate");
                    }
                });
            }
        }
        tasks.close();
        Ok(Self {
            address,
            served,
            tasks,
            stop,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is served.
    #[must_use]
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Lets running requests end, and stops.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}
