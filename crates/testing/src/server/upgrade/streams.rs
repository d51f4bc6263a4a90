//! Streams of pods over SPDY: every stream says in its headers what it is.

use std::collections::HashMap;

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    super::{
        Shared,
        pod::{
            exec::{self, Ends, Order, Output, Size},
            forward, next_piece,
        },
    },
    Done, Job,
    spdy::{self, Sink, Stream},
};

/// Streams and pieces that wait.
const DEPTH: usize = 16;

/// Does the job on a connection that speaks SPDY.
pub(super) async fn serve<T>(shared: &Shared, job: Job, io: T) -> Done
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let (opened, streams) = mpsc::channel(DEPTH);
    let speaking = spdy::speak(io, opened);
    let working = async {
        match job {
            Job::Command(order) => command(shared, &order, streams).await,
            Job::Forward(_) => forward(shared, streams).await,
        }
    };
    let mut speaking = std::pin::pin!(speaking);
    tokio::select! {
        done = speaking.as_mut() => return done,
        _ = working => {}
    }
    // The work is done; let what is written leave.
    speaking.await
}

/// Runs a command, or attaches, when all of its streams are there. `None` when the client left.
async fn command(
    shared: &Shared,
    order: &Order,
    mut streams: mpsc::Receiver<Stream>,
) -> Option<()> {
    let wanted: Vec<&str> = [
        ("error", true),
        ("stdin", order.stdin),
        ("stdout", order.stdout),
        ("stderr", order.stderr),
        ("resize", order.tty),
    ]
    .iter()
    .filter(|(_, wanted)| *wanted)
    .map(|(kind, _)| *kind)
    .collect();
    let mut present: HashMap<String, Stream> = HashMap::new();
    while !wanted.iter().all(|kind| present.contains_key(*kind)) {
        let stream = streams.recv().await?;
        present.insert(stream.header("streamtype").to_owned(), stream);
    }
    let sink = |kind: &str| present.get(kind).map(|stream| stream.sink.clone());
    let (stdout, stderr, error) = (sink("stdout"), sink("stderr"), sink("error")?);
    let stdin = present.remove("stdin").map_or_else(closed, |stream| stream.input);
    let sizes = present.remove("resize").map_or_else(closed, |stream| stream.input);
    let (resize_sender, resize) = mpsc::channel(DEPTH);
    let (output, pieces) = mpsc::channel(DEPTH);
    let running = exec::run(shared, order, Ends { stdin, resize, output });
    let telling = tell(pieces, stdout.as_ref(), stderr.as_ref());
    let status = tokio::select! {
        (status, ()) = async { tokio::join!(running, telling) } => status,
        () = size(sizes, resize_sender) => return None,
    };
    error.send(status.to_string().into()).await;
    for sink in [Some(error), stdout, stderr].into_iter().flatten() {
        sink.end().await;
    }
    Some(())
}

async fn tell(
    mut pieces: mpsc::Receiver<(Output, Bytes)>,
    stdout: Option<&Sink>,
    stderr: Option<&Sink>,
) {
    while let Some((kind, piece)) = pieces.recv().await {
        let sink = match kind {
            Output::Stdout => stdout,
            Output::Stderr => stderr,
        };
        if let Some(sink) = sink
            && !sink.send(piece).await
        {
            return;
        }
    }
}

/// Hands sizes on; never returns, since no more sizes is no end.
async fn size(mut from: mpsc::Receiver<Bytes>, to: mpsc::Sender<Size>) {
    while let Some(piece) = from.recv().await {
        // One write of the client is one size, with a line end behind it.
        if let Some(size) = Size::read(piece.trim_ascii()) {
            let _ = to.send(size).await;
        }
    }
    std::future::pending::<()>().await;
}

/// Connects ports as the client opens pairs of streams, until it leaves.
async fn forward(shared: &Shared, mut streams: mpsc::Receiver<Stream>) -> Option<()> {
    let mut waiting: HashMap<String, Stream> = HashMap::new();
    let mut links = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = streams.recv() => stream?,
            // Only clears away what has ended.
            _ = links.join_next(), if !links.is_empty() => continue,
        };
        let request = stream.header("requestid").to_owned();
        let Some(other) = waiting.remove(&request) else {
            waiting.insert(request, stream);
            continue;
        };
        let (data, error) =
            if stream.header("streamtype") == "data" { (stream, other) } else { (other, stream) };
        let port = data.header("port").to_owned();
        let connected = match port.parse() {
            Ok(number) => shared.ports.connect(number).await,
            Err(_) => Err(std::io::Error::other("no such port")),
        };
        links.spawn(async move {
            let failed = error.sink;
            match connected {
                Ok(tcp) => {
                    let (sink, (mut reader, writer)) = (data.sink, tcp.into_split());
                    let outward = async {
                        while let Some(piece) = next_piece(&mut reader).await {
                            if !sink.send(piece).await {
                                return;
                            }
                        }
                        sink.end().await;
                    };
                    tokio::join!(outward, forward::write(data.input, writer));
                }
                Err(reason) => {
                    let message = format!("error forwarding port {port}: {reason}");
                    failed.send(message.into()).await;
                    data.sink.end().await;
                }
            }
            failed.end().await;
        });
    }
}

fn closed() -> mpsc::Receiver<Bytes> {
    mpsc::channel(1).1
}
