//! SPDY/3.1: many streams on one connection, opened by the client.

mod frame;
mod header;

use std::{collections::HashMap, io, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use self::{
    frame::Frame,
    header::{Headers, Packer, Unpacker},
};

/// Pieces that wait between a stream and its reader. There is no flow control by stream here, as
/// in the clients: a reader that does not read stops the whole connection.
const DEPTH: usize = 16;

/// How long the client gets to close the connection itself.
const LINGER: Duration = Duration::from_secs(2);

/// A stream that the client opened.
#[derive(Debug)]
pub(crate) struct Stream {
    headers: Headers,
    /// What the client sends; closed at its end.
    pub(crate) input: mpsc::Receiver<Bytes>,
    /// The end to write with.
    pub(crate) sink: Sink,
}

impl Stream {
    /// The value of a header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|header| header.0 == name);
        found.map_or("", |header| &header.1)
    }
}

/// Writes to a stream.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    id: u32,
    writer: mpsc::Sender<Word>,
}

impl Sink {
    /// Whether it could be written.
    pub(crate) async fn send(&self, bytes: Bytes) -> bool {
        self.writer.send(Word::Data(self.id, bytes)).await.is_ok()
    }

    /// Ends this direction of the stream.
    pub(crate) async fn end(&self) {
        // A connection that is gone needs no end.
        let _ = self.writer.send(Word::End(self.id)).await;
    }
}

#[derive(Debug)]
enum Word {
    Data(u32, Bytes),
    End(u32),
    Reply(u32),
    Pong(u32),
}

/// Speaks SPDY on `io` and hands every new stream to `opened`, until the client ends the connection
/// or everybody who holds a stream or `opened`'s receiver is gone.
pub(crate) async fn speak<T>(io: T, opened: mpsc::Sender<Stream>) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let (mut reader, mut writer) = tokio::io::split(io);
    let (words, spoken) = mpsc::channel(DEPTH);
    let writing = write(&mut writer, spoken);
    let reading = read(&mut reader, words, opened);
    let (read, written) = tokio::join!(reading, writing);
    // The client closes first: kubectl drops frames that it has not handled when it reads a GOAWAY or the end. And a
    // socket closed with something unread is reset, so that what was written last may be lost.
    let rest = &mut tokio::io::sink();
    let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut reader, rest)).await;
    writer.write_all(&frame::go_away(written?)).await?;
    writer.shutdown().await?;
    read
}

async fn read(
    mut from: impl AsyncRead + Unpin,
    words: mpsc::Sender<Word>,
    opened: mpsc::Sender<Stream>,
) -> io::Result<()> {
    let mut unpacker = Unpacker::new();
    let mut inputs: HashMap<u32, mpsc::Sender<Bytes>> = HashMap::new();
    loop {
        let next = tokio::select! {
            next = Frame::read(&mut from) => next?,
            // Nobody wants streams any more: the work is done.
            () = opened.closed() => return Ok(()),
        };
        let Some(frame) = next else { return Ok(()) };
        match frame {
            Frame::Open { stream, end, block } => {
                let headers = unpacker.read(&block).ok_or(io::ErrorKind::InvalidData)?;
                let (sender, input) = mpsc::channel(DEPTH);
                if !end {
                    inputs.insert(stream, sender);
                }
                let sink = Sink { id: stream, writer: words.clone() };
                if words.send(Word::Reply(stream)).await.is_err() {
                    return Ok(());
                }
                // Without a taker the loop ends above.
                let _ = opened.send(Stream { headers, input, sink }).await;
            }
            Frame::Data { stream, end, bytes } => {
                if let Some(input) = inputs.get(&stream)
                    && !bytes.is_empty()
                {
                    // Who does not listen misses it.
                    let _ = input.send(bytes).await;
                }
                if end {
                    inputs.remove(&stream);
                }
            }
            Frame::Headers { stream, end, block } => {
                unpacker.read(&block).ok_or(io::ErrorKind::InvalidData)?;
                if end {
                    inputs.remove(&stream);
                }
            }
            Frame::Reset { stream } => {
                inputs.remove(&stream);
            }
            Frame::Ping { id } => {
                if words.send(Word::Pong(id)).await.is_err() {
                    return Ok(());
                }
            }
            Frame::GoAway | Frame::Other => {}
        }
    }
}

/// Writes until nobody has anything to say, and returns the last stream that was accepted.
async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut words: mpsc::Receiver<Word>,
) -> io::Result<u32> {
    let mut packer = Packer::new();
    let mut last = 0;
    while let Some(word) = words.recv().await {
        match word {
            Word::Data(stream, bytes) => {
                to.write_all(&frame::data(stream, false, bytes.len())).await?;
                to.write_all(&bytes).await?;
            }
            Word::End(stream) => to.write_all(&frame::data(stream, true, 0)).await?,
            Word::Reply(stream) => {
                last = stream;
                let block = packer.write(&[]).ok_or(io::ErrorKind::InvalidData)?;
                to.write_all(&frame::reply(stream, &block)).await?;
            }
            Word::Pong(id) => to.write_all(&frame::ping(id)).await?,
        }
        if words.is_empty() {
            to.flush().await?;
        }
    }
    Ok(last)
}
