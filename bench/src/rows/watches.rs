//! Ten thousand watches that say nothing, through a proxy that serves a thousand contexts: what they cost in memory and
//! files, and what they cost everybody else.

use std::{
    cell::{OnceCell, RefCell},
    fs,
    process::{Command, Stdio},
    rc::Rc,
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use http_body_util::Empty;
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyward_testing::server::{Server, User};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
};

use super::startup::keyward;
use crate::{
    load::{self, Peer, Stream},
    measure::{Bar, Row, Variant},
    scene::{self, Running},
};

const WATCHES: usize = 10_000;
/// Clients, each at a context of its own, and connections of clients that speak HTTP/2.
const CLIENTS: usize = 64;
const CONTEXTS: usize = 1_000;
const WATCH: &str = "/api/v1/namespaces/default/pods?watch=1";
const OTHER: &str = "/api/v1/namespaces/default";
const ROUND: Duration = Duration::from_millis(800);
/// For all watches to open.
const PATIENCE: Duration = Duration::from_secs(120);

const NONE: &str = "ours, no watches";
const HTTP2: &str = "ours, over 64 connections (HTTP/2)";
const HTTP1: &str = "ours, a connection each (HTTP/1.1)";
const NGINX: &str = "nginx, over 64 connections (HTTP/2)";

/// A proxy and what it has open.
struct Watched {
    peers: Vec<Peer>,
    /// Megabytes before the watches, with them, and files open with them.
    before: f64,
    with: f64,
    files: f64,
    /// What keeps the watches open.
    _open: Option<(Vec<Held>, Runtime)>,
    _proxy: Running,
}

/// An open watch, or the connection that it shares.
#[expect(dead_code, reason = "held, not used")]
enum Held {
    Alone(Box<dyn Stream>),
    Shared(http2::SendRequest<Empty<&'static [u8]>>, Vec<http::Response<Incoming>>),
}

/// Over what the watches go.
#[derive(Clone, Copy, PartialEq)]
enum Over {
    Nothing,
    Http2,
    Http1,
}

type Kept = OnceCell<Result<Rc<Watched>, String>>;

thread_local! {
    /// The proxies stand for all rows, which are measured on one thread.
    static OURS: RefCell<[Kept; 3]> = RefCell::default();
}

/// The cluster that all contexts lead to.
static CLUSTER: LazyLock<(Server, tempfile::TempDir)> = LazyLock::new(|| {
    let server = Server::setup().records(0).workers(1).start().expect("a server");
    server.users().token("good", User::new("bench"));
    (server, tempfile::tempdir().expect("a temporary directory"))
});

/// Ends the proxies: what is static is never dropped.
pub fn close() {
    OURS.take();
}

/// Resident memory with the watches.
pub fn memory() -> Row {
    Row {
        unit: "MB",
        variants: vec![
            Variant { label: NONE, run: Box::new(|| Ok(ours(Over::Nothing)?.with)) },
            Variant { label: HTTP2, run: Box::new(|| Ok(ours(Over::Http2)?.with)) },
            Variant { label: HTTP1, run: Box::new(|| Ok(ours(Over::Http1)?.with)) },
            Variant { label: NGINX, run: Box::new(|| Ok(nginx()?.1)) },
        ],
        bars: vec![
            Bar {
                promise: "10,000 idle watches over 64 HTTP/2 connections in at most 300 MB",
                judge: |r| (r.median(HTTP2), 300.0),
            },
            Bar {
                promise: "10,000 idle watches over HTTP/1.1 in at most 300 MB",
                judge: |r| (r.median(HTTP1), 300.0),
            },
        ],
    }
}

/// Memory of one watch.
pub fn each() -> Row {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let per_watch = |before: f64, with: f64| (with - before) * 1024.0 / WATCHES as f64;
    let of = move |over| move || ours(over).map(|it| per_watch(it.before, it.with));
    Row {
        unit: "KB/watch",
        variants: vec![
            Variant { label: HTTP2, run: Box::new(of(Over::Http2)) },
            Variant { label: HTTP1, run: Box::new(of(Over::Http1)) },
            Variant {
                label: NGINX,
                run: Box::new(move || nginx().map(|(before, with, _)| per_watch(before, with))),
            },
        ],
        bars: Vec::new(),
    }
}

/// Open files with the watches.
pub fn files() -> Row {
    Row {
        unit: "files",
        variants: vec![
            Variant { label: NONE, run: Box::new(|| Ok(ours(Over::Nothing)?.files)) },
            Variant { label: HTTP2, run: Box::new(|| Ok(ours(Over::Http2)?.files)) },
            Variant { label: HTTP1, run: Box::new(|| Ok(ours(Over::Http1)?.files)) },
            Variant { label: NGINX, run: Box::new(|| Ok(nginx()?.2)) },
        ],
        bars: Vec::new(),
    }
}

/// Other requests meanwhile.
pub fn others() -> Row {
    let of = |over| {
        move || {
            let watched = ours(over)?;
            Ok(1e6 / load::run(&watched.peers[0], OTHER, 32, ROUND)?.rate)
        }
    };
    Row {
        unit: "us/req",
        variants: vec![
            Variant { label: NONE, run: Box::new(of(Over::Nothing)) },
            Variant { label: HTTP2, run: Box::new(of(Over::Http2)) },
            Variant { label: HTTP1, run: Box::new(of(Over::Http1)) },
        ],
        bars: vec![
            Bar {
                promise: "with 10,000 idle watches over HTTP/2, other requests take at most 1.2 times as long",
                judge: |r| (r.ratio(HTTP2, NONE), 1.2),
            },
            Bar {
                promise: "with 10,000 idle watches over HTTP/1.1, other requests take at most 1.2 times as long",
                judge: |r| (r.ratio(HTTP1, NONE), 1.2),
            },
        ],
    }
}

/// Our proxy with watches; started once.
fn ours(over: Over) -> Result<Rc<Watched>, String> {
    OURS.with_borrow(|kept| kept[over as usize].get_or_init(|| open(over).map(Rc::new)).clone())
}

fn open(over: Over) -> Result<Watched, String> {
    let (server, dir) = &*CLUSTER;
    let place = dir.path().join(format!("{}", over as usize));
    fs::create_dir_all(place.join("run")).map_err(|e| e.to_string())?;
    let config = place.join("config");
    fs::write(&config, contexts(server)?).map_err(|e| e.to_string())?;
    let mut command = Command::new(keyward());
    command.args(["proxy", "--all-contexts", "--kubeconfig"]).arg(config);
    command.env("HOME", &place).env("XDG_RUNTIME_DIR", place.join("run"));
    command.env_remove("XDG_STATE_HOME").env("KEYWARD_AGENT", "off").stdout(Stdio::null());
    let (proxy, config) = scene::start_proxy(&mut command)?;
    let pid = proxy.pid();
    let peers: Vec<Peer> = (0..CLIENTS)
        .map(|client| scene::context(&config, client * (CONTEXTS / CLIENTS), pid))
        .collect::<Result<_, _>>()?;
    // Each context has a connection before it is measured.
    for peer in &peers {
        load::first(peer, OTHER)?;
    }
    let before = load::memory(pid, "VmRSS:")?;
    let open = match over {
        Over::Nothing => None,
        Over::Http2 => Some(watch(&peers, true)?),
        Over::Http1 => Some(watch(&peers, false)?),
    };
    let (with, files) = (load::memory(pid, "VmRSS:")?, open_files(pid)?);
    Ok(Watched { peers, before, with, files, _open: open, _proxy: proxy })
}

/// Megabytes of nginx before the watches and with them, and its open files. Not kept open: there would be too many files
/// in this process, which is also the server.
fn nginx() -> Result<(f64, f64, f64), String> {
    static FOUND: OnceLock<Result<(f64, f64, f64), String>> = OnceLock::new();
    let measure = || {
        let (server, dir) = &*CLUSTER;
        let port = server.url().rsplit(':').next().and_then(|port| port.parse().ok());
        let place = dir.path().join("nginx");
        fs::create_dir_all(&place).map_err(|e| e.to_string())?;
        let (running, peer) =
            scene::reverse_proxy(&place, server.authority(), "localhost", port.ok_or("no port")?)?;
        load::first(&peer, OTHER).map_err(|error| {
            let log = fs::read_to_string(place.join("front.log")).unwrap_or_default();
            format!("{error}: {}", log.lines().last().unwrap_or_default())
        })?;
        let before = load::memory(running.pid(), "VmRSS:")?;
        let _open = watch(&[peer], true)?;
        Ok((before, load::memory(running.pid(), "VmRSS:")?, open_files(running.pid())?))
    };
    FOUND.get_or_init(measure).clone()
}

/// A kubeconfig in which many contexts lead to one server.
fn contexts(server: &Server) -> Result<String, String> {
    let text = server.kubeconfig(&json!({ "token": "good" }));
    let mut config: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let one = config["contexts"][0].clone();
    let many = (0..CONTEXTS).map(|number| {
        let mut context = one.clone();
        context["name"] = format!("context-{number:04}").into();
        context
    });
    config["contexts"] = many.collect();
    config["current-context"] = "context-0000".into();
    Ok(config.to_string())
}

/// Opens the watches at these peers in turn, a few at a time.
fn watch(peers: &[Peer], http2: bool) -> Result<(Vec<Held>, Runtime), String> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().map_err(|e| e.to_string())?;
    let connections = if http2 { CLIENTS } else { WATCHES };
    let opened = stream::iter(0..connections)
        .map(|number| {
            let peer = &peers[number % peers.len()];
            async move {
                let each = WATCHES / connections + usize::from(number < WATCHES % connections);
                if http2 { shared(peer, each).await } else { alone(peer).await }
            }
        })
        .buffer_unordered(CLIENTS)
        .try_collect::<Vec<Held>>();
    let limited = runtime.block_on(async { tokio::time::timeout(PATIENCE, opened).await });
    let held = limited.map_err(|_| "the watches take too long to open")?;
    let held = held.map_err(|error| format!("watches: {error}"))?;
    Ok((held, runtime))
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// A watch on a connection of its own.
async fn alone(peer: &Peer) -> Result<Held, Failed> {
    let mut stream = peer.connect().await?;
    stream.write_all(&peer.request(WATCH)).await?;
    stream.flush().await?;
    let (mut seen, mut piece) = (Vec::new(), [0; 1024]);
    while !seen.windows(4).any(|part| part == b"\r\n\r\n") {
        match stream.read(&mut piece).await? {
            0 => return Err("a watch ended".into()),
            size => seen.extend_from_slice(&piece[..size]),
        }
    }
    if !seen.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&seen).into());
    }
    Ok(Held::Alone(stream))
}

/// Several watches on one connection.
async fn shared(peer: &Peer, count: usize) -> Result<Held, Failed> {
    let tls = peer.tls.as_ref().map(|(settings, name)| {
        let mut settings = (**settings).clone();
        settings.alpn_protocols = vec![b"h2".to_vec()];
        (Arc::new(settings), name.clone())
    });
    let peer = Peer { tls, ..*peer };
    let stream = TokioIo::new(peer.connect().await?);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    tokio::spawn(connection);
    let mut answers = Vec::with_capacity(count);
    for _ in 0..count {
        let request = Request::get(format!("https://{}{WATCH}", peer.address));
        sender.ready().await?;
        let answer = sender.send_request(request.body(Empty::new())?).await?;
        if !answer.status().is_success() {
            return Err(answer.status().to_string().into());
        }
        answers.push(answer);
    }
    Ok(Held::Shared(sender, answers))
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn open_files(pid: u32) -> Result<f64, String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|e| e.to_string())?;
    Ok(files.count() as f64)
}
