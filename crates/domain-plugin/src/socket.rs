//! The plugin's Unix sockets.

use std::io;
use std::path::Path;

use futures::StreamExt as _;
use http::{Request, Response};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::authority::tolerant;

/// Binds a socket. One that an earlier process left behind is replaced: who holds the lock of this node is alone.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    crate::files::remove(path)?;
    UnixListener::bind(path)
}

/// Serves until `stop` is cancelled, then ends the requests that are under way.
pub(crate) async fn serve(
    listener: UnixListener,
    router: Router,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let connections = UnixListenerStream::new(listener).map(|stream| stream.map(tolerant));
    router.serve_with_incoming_shutdown(connections, stop.cancelled()).await
}

/// A server with one service; more are added to it.
pub(crate) fn with<S>(service: S) -> Router
where
    S: tower::Service<Request<Body>, Response = Response<Body>, Error = std::convert::Infallible>
        + tonic::server::NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Server::builder().add_service(service)
}
