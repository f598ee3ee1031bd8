//! Serves an empty API on a port of its choice and writes a kubeconfig: `serve KUBECONFIG [ADDRESS]`.

use std::sync::Arc;

use coppice_apiserver::{ApiServer, Certificates, Tls};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name the file to write the kubeconfig to")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    let certificates = Certificates::generate(&[listener.local_addr()?.ip()])?;
    let serving = ApiServer::builder()
        .build()
        .serve(listener, Tls::On(Arc::new(certificates)))?;
    std::fs::write(&path, serving.kubeconfig())?;
    tokio::signal::ctrl_c().await?;
    serving.stop().await;
    Ok(())
}
