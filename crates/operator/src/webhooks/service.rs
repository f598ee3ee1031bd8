//! The webhooks as a whole: the server, and whoever provides its certificates.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use coppice_runtime::metrics::Metrics;
use coppice_runtime::supervise::{Group, Supervisor};
use kube::Client;

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

/// Running webhooks. They stop when [`Service::stop`] is called, not when dropped.
pub struct Service {
    address: SocketAddr,
    served: Served,
    group: Group,
}

/// How long running requests have to end.
const GRACE: Duration = Duration::from_secs(30);

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
        Self::start_in(&Supervisor::default(), client, server, admission, certificates, metrics)
    }

    /// The same, in a process whose supervisor is to know when the server or the keeper of its certificate ends.
    ///
    /// # Errors
    /// As for [`Service::start`].
    pub fn start_in(
        supervisor: &Supervisor,
        client: &Client,
        server: Server,
        admission: Admission,
        certificates: Certificates,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        let served = Served::default();
        let group = supervisor.group("webhooks");
        let address = server.address()?;
        let tls = served.server_config().map_err(io::Error::other)?;
        group.spawn("server", server.run(admission, tls, metrics.clone(), group.stopping()));
        match certificates {
            Certificates::Kept(options) => {
                let keeper = Keeper::new(client.clone(), *options, served.clone());
                group.spawn("webhook certificate", keeper.run(group.stopping()));
            }
            Certificates::Files(directory) => {
                let following = files::follow(directory, served.clone(), group.stopping());
                group.spawn_fallible("webhook certificate", following);
            }
        }
        Ok(Self { address, served, group })
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
        self.group.stop(GRACE).await;
    }
}
