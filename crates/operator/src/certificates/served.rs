//! What the server presents: replaced at any time, seen by the next handshake.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::material::Material;

/// The certificate that is served. Clones share.
#[derive(Clone)]
pub struct Served {
    resolver: Arc<Resolver>,
    loaded: watch::Sender<u64>,
}

#[derive(Default)]
struct Resolver {
    current: ArcSwapOption<CertifiedKey>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resolver")
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

impl Default for Served {
    fn default() -> Self {
        Self {
            resolver: Arc::default(),
            loaded: watch::Sender::new(0),
        }
    }
}

impl Served {
    /// Presents this certificate from the next handshake on.
    pub fn replace(&self, material: &Material) {
        self.resolver.current.store(Some(material.certified.clone()));
        self.loaded.send_modify(|count| *count += 1);
    }

    /// Waits until there is a certificate.
    pub async fn wait_loaded(&self) {
        // The sender is in `self`, so the channel cannot be closed.
        let _ = self.subscribe().wait_for(|count| *count > 0).await;
    }

    /// How often a certificate was loaded, as it changes.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.loaded.subscribe()
    }

    /// The certificate that is served, as DER.
    #[must_use]
    pub fn leaf(&self) -> Option<Vec<u8>> {
        let current = self.resolver.current.load_full()?;
        current.cert.first().map(|leaf| leaf.to_vec())
    }

    /// A TLS configuration that presents whatever is current.
    ///
    /// # Errors
    /// When the protocol versions are not supported, which is a mistake of the build.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.resolver.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
