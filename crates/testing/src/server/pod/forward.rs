//! The ports of pods: real ones on this machine.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, tcp::OwnedWriteHalf},
    sync::mpsc,
};

/// Maps ports of the pods to addresses.
#[derive(Debug, Default)]
pub struct Ports {
    table: Mutex<HashMap<u16, SocketAddr>>,
}

impl Ports {
    /// Lets `address` stand for this port of every pod.
    pub fn map(&self, port: u16, address: SocketAddr) {
        self.table().insert(port, address);
    }

    /// Connects to what stands for the port.
    pub(crate) async fn connect(&self, port: u16) -> io::Result<TcpStream> {
        let address = self.table().get(&port).copied();
        let address = address.ok_or_else(|| {
            io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused")
        })?;
        TcpStream::connect(address).await
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u16, SocketAddr>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes pieces until there are no more, then ends this direction alone.
pub(crate) async fn write(mut from: mpsc::Receiver<Bytes>, mut to: OwnedWriteHalf) {
    while let Some(piece) = from.recv().await {
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
    // The other side may be gone; then it knows.
    let _ = to.shutdown().await;
}
