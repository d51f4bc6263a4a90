//! The socket in a consumer's directory: carries bytes to the address of the context.
//!
//! TLS stays between the consumer and the listener, so a socket admits nobody whom the address would
//! not admit.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{fs::PermissionsExt as _, net::UnixListener as StdListener},
    path::Path,
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UnixListener},
    task::AbortHandle,
};

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

/// Listens until the task is aborted. Needs the proxy's runtime.
pub(super) fn listen(socket: &Path, address: String) -> io::Result<AbortHandle> {
    // Of a proxy that has ended. Only one proxy of a service runs.
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = StdListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let task = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((mut client, _)) => {
                    let address = address.clone();
                    tokio::spawn(async move {
                        let Ok(mut proxy) = TcpStream::connect(&address).await else { return };
                        let _ = proxy.set_nodelay(true);
                        let _ = copy_bidirectional(&mut client, &mut proxy).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection on a grant's socket");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    });
    Ok(task.abort_handle())
}
