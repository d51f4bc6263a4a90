//! A load of requests, the same for everybody: one thread for all connections, as `wrk` does it, so
//! that little of the machine goes to asking; one request at a time on each.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    runtime::Builder,
};
use tokio_rustls::TlsConnector;

/// Somebody to ask, and who it is.
pub struct Peer {
    pub address: SocketAddr,
    /// With TLS under this name, or without.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// What the server wants to see; a proxy has its own.
    pub token: Option<&'static str>,
    pub pid: u32,
}

/// What was seen under a load.
pub struct Load {
    /// Requests per second.
    pub rate: f64,
    /// Seconds that the slowest of a hundred took.
    pub p99: f64,
}

/// Of any answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Peer {
    /// Opens a connection.
    pub async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some((settings, name)) => {
                let connector = TlsConnector::from(settings.clone());
                Box::new(connector.connect(name.clone(), stream).await?)
            }
        })
    }

    /// The most memory that was resident, in MB.
    pub fn memory(&self) -> Result<f64, String> {
        memory(self.pid, "VmHWM:")
    }

    /// A request for this path.
    pub fn request(&self, path: &str) -> Vec<u8> {
        let token = self.token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{token}\r\n", self.address).into_bytes()
    }
}

/// Memory of a process in MB, by its name in the kernel's list.
pub fn memory(pid: u32, which: &str) -> Result<f64, String> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(number.ok_or("the kernel tells no memory")? / 1024.0)
}

/// Asks on so many connections for so long, once all of them stand.
pub fn run(peer: &Peer, path: &str, connections: usize, time: Duration) -> Result<Load, String> {
    let request = peer.request(path);
    let (times, took) = alone(time + PATIENCE, async {
        let streams = try_join_all((0..connections).map(|_| peer.connect())).await?;
        let begin = Instant::now();
        let end = begin + time;
        let asked = streams.into_iter().map(|stream| ask(stream, &request, end));
        let times = try_join_all(asked).await?;
        Ok((times, begin.elapsed().as_secs_f64()))
    })?;
    let mut sorted = times.concat();
    sorted.sort_unstable();
    let place = (sorted.len() * 99 / 100).min(sorted.len().saturating_sub(1));
    let p99 = sorted.get(place).ok_or("nothing was answered")?.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a count of requests is small")]
    let rate = sorted.len() as f64 / took;
    Ok(Load { rate, p99 })
}

/// On a thread of its own, and not forever.
fn alone<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let limited = runtime.block_on(async { tokio::time::timeout(limit, work).await });
    limited.map_err(|_| "no answer")?.map_err(|e| e.to_string())
}

async fn ask(
    mut stream: Box<dyn Stream>,
    request: &[u8],
    end: Instant,
) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let begin = Instant::now();
        if begin >= end {
            return Ok(times);
        }
        stream.write_all(request).await?;
        stream.flush().await?;
        read_answer(&mut *stream, &mut buffer, |_| {}).await?;
        times.push(begin.elapsed());
    }
}

/// Seconds for one answer, with those for its connection.
pub fn first(peer: &Peer, path: &str) -> Result<f64, String> {
    let request = peer.request(path);
    alone(PATIENCE, async {
        let begin = Instant::now();
        let mut stream = peer.connect().await?;
        stream.write_all(&request).await?;
        stream.flush().await?;
        read_answer(&mut *stream, &mut vec![0; 256 * 1024], |_| {}).await?;
        Ok(begin.elapsed().as_secs_f64())
    })
}

/// Seconds for one long response.
pub fn stream(peer: &Peer, path: &str) -> Result<f64, String> {
    alone(PATIENCE, async {
        let mut stream = peer.connect().await?;
        let begin = Instant::now();
        stream.write_all(&peer.request(path)).await?;
        stream.flush().await?;
        let mut seen = 0;
        read_answer(&mut *stream, &mut vec![0; 256 * 1024], |size| seen += size).await?;
        if seen < 1 << 30 {
            return Err(io::Error::other(format!("only {seen} bytes came")));
        }
        Ok(begin.elapsed().as_secs_f64())
    })
}

/// Reads one response with a length.
async fn read_answer(
    stream: &mut dyn Stream,
    buffer: &mut [u8],
    mut seen: impl FnMut(usize),
) -> io::Result<()> {
    let mut filled = 0;
    let (head, length) = loop {
        let size = stream.read(&mut buffer[filled..]).await?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += size;
        if let Some(end) = find(&buffer[..filled], b"\r\n\r\n") {
            break (end + 4, length(&buffer[..end])?);
        }
    };
    let mut left = length.saturating_sub(filled - head);
    seen(filled - head);
    while left > 0 {
        let size = stream.read(buffer).await?;
        if size == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(size);
        seen(size);
    }
    Ok(())
}

/// Without a copy of the head: the load shares two processors with those it measures.
fn length(head: &[u8]) -> io::Result<usize> {
    const NAME: &[u8] = b"content-length:";
    if !head.starts_with(b"HTTP/1.1 200") {
        return Err(io::Error::other(String::from_utf8_lossy(head)));
    }
    head.split(|byte| *byte == b'\n')
        .find_map(|line| {
            let (name, value) = line.split_at_checked(NAME.len())?;
            let value = name.eq_ignore_ascii_case(NAME).then_some(value)?;
            str::from_utf8(value).ok()?.trim().parse().ok()
        })
        .ok_or_else(|| io::Error::other("the response has no length"))
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
