//! Listens on this machine for the browser's return.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{Arc, mpsc::Sender},
    thread::JoinHandle,
    time::Duration,
};

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;
use rustix::event::{PollFd, PollFlags, poll};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{code::Event, page::Page};
use crate::http::Pair;

/// How long a browser may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most of a request that is read.
const LONGEST: usize = 16 << 10;
/// How many connections are open at a time. Browsers open a few ahead of their requests.
const MOST: usize = 32;

/// A listener. It stops when it is dropped.
pub(super) struct Loopback {
    /// The port that the browser has to return to.
    pub(super) port: u16,
    thread: Option<JoinHandle<()>>,
    stop: Option<UnixStream>,
}

/// A request of the browser, which waits for its answer.
pub(super) struct Visit {
    /// Path and query.
    pub(super) target: String,
    stream: Box<dyn Stream>,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Loopback {
    /// Listens at the first of these addresses that is free, and passes requests on.
    pub(super) fn listen(
        addresses: &[String],
        identity: Option<&Pair>,
        visits: Sender<Event>,
    ) -> Result<Self, Refusal> {
        let tls = identity.map(server_config).transpose()?;
        let listeners = first_free(addresses)?;
        let port = listeners[0].local_addr()?.port();
        let (stop, stopped) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("loopback".into())
            .spawn(move || accept(&listeners, &stopped, tls.as_ref(), &visits))?;
        Ok(Self { port, thread: Some(thread), stop: Some(stop) })
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Visit {
    /// Answers the browser.
    pub(super) fn reply(mut self, page: &Page<'_>) {
        // The person may have closed the window.
        let _ =
            self.stream.write_all(page.response().as_bytes()).and_then(|()| self.stream.flush());
    }
}

/// Accepts connections until the other end of `stopped` is closed.
fn accept(
    listeners: &[TcpListener],
    stopped: &UnixStream,
    tls: Option<&Arc<ServerConfig>>,
    visits: &Sender<Event>,
) {
    let open = Arc::new(());
    loop {
        let mut fds: Vec<_> =
            listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        fds.push(PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready.last() == Some(&true) {
            return;
        }
        for (listener, _) in listeners.iter().zip(&ready).filter(|(_, ready)| **ready) {
            let Ok((stream, _)) = listener.accept() else { continue };
            if Arc::strong_count(&open) > MOST {
                continue;
            }
            let (open, tls, visits) = (Arc::clone(&open), tls.cloned(), visits.clone());
            let _ = std::thread::Builder::new().name("browser".into()).spawn(move || {
                if let Ok(Some(visit)) = read(stream, tls) {
                    let _ = visits.send(Event::Visit(visit));
                }
                drop(open);
            });
        }
    }
}

/// Reads a request; `None` if the browser only connected, or sent something else.
fn read(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Option<Visit>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut stream: Box<dyn Stream> = match tls {
        Some(config) => {
            let connection = ServerConnection::new(config).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(connection, stream))
        }
        None => Box::new(stream),
    };
    let mut head = Vec::new();
    let mut bytes = [0; 2048];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut bytes)?;
        if count == 0 || head.len() + count > LONGEST {
            return Ok(None);
        }
        head.extend_from_slice(&bytes[..count]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            Ok(Some(Visit { target: target.to_owned(), stream }))
        }
        _ => Ok(None),
    }
}

/// Listeners at the first address whose port is free.
fn first_free(addresses: &[String]) -> Result<Vec<TcpListener>, Refusal> {
    let mut reasons = Vec::new();
    for address in addresses {
        match bind(address) {
            Ok(listeners) => return Ok(listeners),
            Err(error) => reasons.push(format!("`{}`: {error}", inline(address))),
        }
    }
    Err(Refusal::Failed(format!(
        "no address is free to listen at for the browser's return: {}\n\n\
         hint: end the other login, or name another address with `--listen-address`; the provider has to \
         know it as a redirect URL",
        reasons.join("; ")
    )))
}

/// Listens at an address. Browsers take `localhost` for 127.0.0.1 or `::1`, so one means both, with one port.
fn bind(address: &str) -> io::Result<Vec<TcpListener>> {
    let (host, port) = address.rsplit_once(':').ok_or_else(|| bad("it has no port"))?;
    let port: u16 = port.parse().map_err(|_| bad("its port is no number up to 65535"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if !matches!(host, "127.0.0.1" | "::1" | "localhost") {
        let all: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
        return Ok(vec![listener(all.as_slice())?]);
    }
    // A port that is free on one of them may be taken on the other.
    let attempts = if port == 0 { 8 } else { 1 };
    let mut last = None;
    for _ in 0..attempts {
        let four = listener(&[(Ipv4Addr::LOCALHOST, port).into()])?;
        let both = four.local_addr()?.port();
        match listener(&[(Ipv6Addr::LOCALHOST, both).into()]) {
            Ok(six) => return Ok(vec![four, six]),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
            // This machine has no IPv6.
            Err(_) => return Ok(vec![four]),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

fn listener(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addresses)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn server_config((chain, key): &Pair) -> Result<Arc<ServerConfig>, Refusal> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_no_client_auth().with_single_cert(chain.clone(), key.clone_key())
        })
        .map_err(|error| Refusal::BadConfig(format!("`--local-server-cert`: {error}")))?;
    Ok(Arc::new(config))
}
