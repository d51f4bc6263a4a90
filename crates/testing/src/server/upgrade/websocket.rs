//! Streams of pods as WebSocket messages, each with the number of its channel in front.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, Role, frame::coding::CloseCode},
    },
};

use super::{
    super::{
        Shared,
        pod::{
            exec::{self, Ends, Order, Output, Size},
            forward, next_piece,
        },
    },
    Done,
};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Says that another channel is at its end; the fifth version of the protocol has it.
const CLOSE: u8 = 255;

/// Pieces that wait between the connection and a command or port.
const DEPTH: usize = 16;

/// How much of a tunnel waits on its way.
const TUNNEL: usize = 64 * 1024;

/// Runs a command, or attaches.
pub(super) async fn command<T>(shared: &Shared, order: &Order, io: T) -> Done
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    let (mut out, mut messages) = socket.split();
    let (stdin_sender, stdin) = mpsc::channel(DEPTH);
    let (resize_sender, resize) = mpsc::channel(DEPTH);
    let (output, mut pieces) = mpsc::channel(DEPTH);
    // Tells the client that the streams are there.
    send(&mut out, STDOUT, &[]).await?;
    let listening = async {
        let mut stdin = Some(stdin_sender);
        while let Some((channel, bytes)) = next(&mut messages).await {
            match channel {
                STDIN => {
                    if let Some(stdin) = &stdin {
                        // A command that does not read misses it.
                        let _ = stdin.send(bytes).await;
                    }
                }
                RESIZE => {
                    if let Some(size) = Size::read(&bytes) {
                        let _ = resize_sender.send(size).await;
                    }
                }
                CLOSE if bytes.first() == Some(&STDIN) => stdin = None,
                _ => {}
            }
        }
    };
    let running = exec::run(shared, order, Ends { stdin, resize, output });
    let telling = async {
        while let Some((kind, piece)) = pieces.recv().await {
            let channel = match kind {
                Output::Stdout => STDOUT,
                Output::Stderr => STDERR,
            };
            send(&mut out, channel, &piece).await?;
        }
        Ok::<_, io::Error>(())
    };
    let status = tokio::select! {
        (status, told) = async { tokio::join!(running, telling) } => {
            told?;
            status
        }
        () = listening => return Ok(()),
    };
    send(&mut out, STATUS, status.to_string().as_bytes()).await?;
    close(&mut out, &mut messages).await
}

/// Connects ports. Two channels each: data, and what went wrong.
pub(super) async fn forward<T>(shared: &Shared, ports: &[u16], io: T) -> Done
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    let (mut out, mut messages) = socket.split();
    let (words, mut spoken) = mpsc::channel::<(u8, Bytes)>(DEPTH);
    let mut inputs = Vec::new();
    let mut links = Vec::new();
    for (data, port) in (0_u8..=254).step_by(2).zip(ports.iter().copied()) {
        let error = data + 1;
        for channel in [data, error] {
            send(&mut out, channel, &port.to_le_bytes()).await?;
        }
        let (sender, input) = mpsc::channel(DEPTH);
        inputs.push(sender);
        let words = words.clone();
        links.push(async move {
            match shared.ports.connect(port).await {
                Ok(stream) => {
                    let (mut reader, writer) = stream.into_split();
                    let outward = async {
                        while let Some(piece) = next_piece(&mut reader).await {
                            if words.send((data, piece)).await.is_err() {
                                return;
                            }
                        }
                    };
                    let inward = async {
                        forward::write(input, writer).await;
                        // The port's end is the end: a channel cannot say that half is open.
                        std::future::pending::<()>().await;
                    };
                    tokio::select! {
                        () = outward => {}
                        () = inward => {}
                    }
                }
                Err(reason) => {
                    let message = format!("error forwarding port {port}: {reason}");
                    let _ = words.send((error, message.into())).await;
                }
            }
        });
    }
    drop(words);
    let listening = async {
        while let Some((channel, bytes)) = next(&mut messages).await {
            if channel % 2 == 0
                && let Some(input) = inputs.get(usize::from(channel / 2))
            {
                // A port that is gone misses it.
                let _ = input.send(bytes).await;
            }
        }
    };
    let telling = async {
        while let Some((channel, piece)) = spoken.recv().await {
            send(&mut out, channel, &piece).await?;
        }
        Ok::<_, io::Error>(())
    };
    let linked = futures_util::future::join_all(links);
    tokio::select! {
        (_, told) = async { tokio::join!(linked, telling) } => told?,
        () = listening => return Ok(()),
    }
    close(&mut out, &mut messages).await
}

/// A byte stream inside of messages: its inner end, and the work that keeps it going.
pub(super) fn tunnel<T>(io: T) -> (DuplexStream, impl Future<Output = ()>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (inner, outer) = tokio::io::duplex(TUNNEL);
    let work = async move {
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        let (mut out, mut messages) = socket.split();
        let (mut from, mut to) = tokio::io::split(outer);
        let inward = async {
            while let Some(Ok(message)) = messages.next().await {
                let Message::Binary(bytes) = message else { continue };
                if to.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            let _ = to.shutdown().await;
        };
        let outward = async {
            while let Some(piece) = next_piece(&mut from).await {
                if out.send(Message::Binary(piece)).await.is_err() {
                    break;
                }
            }
            // The client may be gone.
            let _ = out.send(farewell()).await;
        };
        tokio::join!(inward, outward);
    };
    (inner, work)
}

/// The next message with a channel, or `None` when the client is at its end.
async fn next(
    messages: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
) -> Option<(u8, Bytes)> {
    loop {
        match messages.next().await?.ok()? {
            Message::Binary(bytes) if !bytes.is_empty() => {
                return Some((bytes[0], bytes.slice(1..)));
            }
            Message::Close(_) => return None,
            // Pings are answered by the library.
            _ => {}
        }
    }
}

async fn send(
    out: &mut (impl Sink<Message, Error = Error> + Unpin),
    channel: u8,
    bytes: &[u8],
) -> Done {
    let mut message = BytesMut::with_capacity(bytes.len() + 1);
    message.put_u8(channel);
    message.put_slice(bytes);
    out.send(Message::Binary(message.freeze())).await.map_err(io::Error::other)
}

/// Says goodbye and waits for the client to do so.
async fn close(
    out: &mut (impl Sink<Message, Error = Error> + Unpin),
    messages: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
) -> Done {
    out.send(farewell()).await.map_err(io::Error::other)?;
    while next(messages).await.is_some() {}
    Ok(())
}

fn farewell() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}
