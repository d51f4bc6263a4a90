//! The proxy's admin interface: a socket in the private directory, and an optional port for
//! scrapers.

use std::{
    fs::{self, Permissions},
    future::ready,
    io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
};

use tokio::{net::UnixListener, task::JoinSet};

use crate::{
    Error,
    dashboard::Dashboard,
    metrics_server::{Channel, MetricsServer, Server},
    report::Report,
};

/// Listeners that do not answer yet.
pub(crate) struct Admin {
    socket: UnixListener,
    port: Option<MetricsServer>,
}

impl Admin {
    pub(crate) async fn bind(
        socket: &Path,
        port: Option<SocketAddr>,
        remote: Option<&[String]>,
    ) -> Result<Self, Error> {
        let socket = listen(socket).map_err(|error| {
            let long = error.kind() == io::ErrorKind::InvalidInput;
            let error = Error::caused(format!("cannot listen on `{}`", socket.display()), &error);
            if long {
                error.hint("set `XDG_RUNTIME_DIR` to one of your directories with a shorter path")
            } else {
                error
            }
        })?;
        let port = match port {
            Some(address) => Some(MetricsServer::bind(address, remote).await?),
            None => None,
        };
        Ok(Self { socket, port })
    }

    /// The URL to scrape, if there is a port.
    pub(crate) fn metrics_url(&self) -> Option<String> {
        self.port.as_ref().map(MetricsServer::url)
    }

    /// Answers until the returned tasks are dropped.
    pub(crate) fn serve(self, report: Arc<Report>, dashboard: Arc<Dashboard>) -> JoinSet<()> {
        let Self { socket, port } = self;
        let mut tasks = JoinSet::new();
        let server = Server::new(Channel::Socket(report.clone(), dashboard));
        tasks.spawn(async move {
            loop {
                server.accept(socket.accept().await.map(|(stream, _)| stream)).await;
            }
        });
        if let Some(port) = port {
            tasks.spawn(port.serve(move || ready(Ok(report.metrics()))));
        }
        tasks
    }
}

/// Listens on a socket that its owner can use, whatever the umask. Others cannot enter its
/// directory.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}
