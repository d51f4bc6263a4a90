//! The socket in a consumer's directory: carries bytes to the address of the context.
//!
//! TLS stays between the consumer and the listener, so a socket admits nobody whom the address would
//! not admit.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{fs::PermissionsExt as _, net::UnixListener as StdListener},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UnixListener},
    sync::Semaphore,
    task::AbortHandle,
};

use super::live::MOST_CONNECTIONS;

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

/// Listens until the task is aborted. Needs the proxy's runtime.
///
/// The consumer can write into the directory of its socket, and could put a link there whose target gets
/// the mode. So the socket is made at a path beside that directory first.
pub(super) fn listen(private: &Path, socket: &Path, address: String) -> io::Result<AbortHandle> {
    // Of a proxy that has ended. Only one proxy of a service runs.
    match fs::remove_file(private) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = StdListener::bind(private)?;
    let moved = fs::set_permissions(private, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(private, socket));
    if let Err(error) = moved {
        let _ = fs::remove_file(private);
        return Err(error);
    }
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS as usize));
    let task = tokio::spawn(async move {
        // Others wait until a connection has closed.
        while let Ok(place) = places.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((mut client, _)) => {
                    let address = address.clone();
                    tokio::spawn(async move {
                        let _place = place;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::FileTypeExt as _;

    use super::*;

    #[tokio::test]
    async fn a_socket_takes_the_place_of_a_link_and_leaves_its_target_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("consumer")).unwrap();
        let (private, socket, target) = (path(".one.sock"), path("consumer/proxy.sock"), path("x"));
        fs::write(&target, "").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&target, &socket).unwrap();
        // Left by a proxy that was killed.
        drop(StdListener::bind(&private).unwrap());
        let task = listen(&private, &socket, "127.0.0.1:1".to_owned()).unwrap();
        let found = fs::symlink_metadata(&socket).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(!private.exists());
        std::os::unix::net::UnixStream::connect(&socket).unwrap();
        task.abort();
        // A directory in its way is the consumer's own loss.
        fs::remove_file(&socket).unwrap();
        fs::create_dir(&socket).unwrap();
        assert!(listen(&private, &socket, "127.0.0.1:1".to_owned()).is_err());
        assert!(!private.exists());
    }
}
