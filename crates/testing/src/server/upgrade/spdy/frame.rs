//! Frames of SPDY/3.1, as much of them as the streams of pods need.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Set in the flags of the last frame of a direction.
pub(crate) const FIN: u8 = 1;

const CONTROL: u8 = 0x80;
const VERSION: u8 = 3;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;

/// A frame from a client.
#[derive(Debug)]
pub(crate) enum Frame {
    Data {
        stream: u32,
        end: bool,
        bytes: Bytes,
    },
    Open {
        stream: u32,
        end: bool,
        block: Bytes,
    },
    /// More headers; they matter only to the compression.
    Headers {
        stream: u32,
        end: bool,
        block: Bytes,
    },
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// Settings and windows, which nobody here uses.
    Other,
}

impl Frame {
    /// The next frame, or `None` at the end.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut head = [0; 8];
        match from.read_exact(&mut head).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [first, second, .., flags, high, middle, low] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let mut body = vec![0; length];
        from.read_exact(&mut body).await?;
        let body = Bytes::from(body);
        let end = flags & FIN != 0;
        if first & CONTROL == 0 {
            let stream = number(&head[..4])?;
            return Ok(Some(Self::Data { stream, end, bytes: body }));
        }
        if (first, second) != (CONTROL, VERSION) {
            return Err(broken());
        }
        let frame = match u16::from_be_bytes([head[2], head[3]]) {
            SYN_STREAM if body.len() >= 10 => {
                Self::Open { stream: number(&body)?, end, block: body.slice(10..) }
            }
            HEADERS if body.len() >= 4 => {
                Self::Headers { stream: number(&body)?, end, block: body.slice(4..) }
            }
            SYN_STREAM | HEADERS => return Err(broken()),
            RST_STREAM => Self::Reset { stream: number(&body)? },
            PING => Self::Ping { id: number(&body)? },
            GO_AWAY => Self::GoAway,
            _ => Self::Other,
        };
        Ok(Some(frame))
    }
}

/// A data frame's head.
pub(crate) fn data(stream: u32, end: bool, length: usize) -> [u8; 8] {
    let [.., high, middle, low] = length.to_be_bytes();
    let [a, b, c, d] = (stream & 0x7fff_ffff).to_be_bytes();
    [a, b, c, d, u8::from(end) * FIN, high, middle, low]
}

/// The answer to a new stream.
pub(crate) fn reply(stream: u32, block: &[u8]) -> Vec<u8> {
    let mut body = stream.to_be_bytes().to_vec();
    body.extend_from_slice(block);
    control(SYN_REPLY, &body)
}

/// The answer to a ping.
pub(crate) fn ping(id: u32) -> Vec<u8> {
    control(PING, &id.to_be_bytes())
}

/// No new streams, please.
pub(crate) fn go_away(last: u32) -> Vec<u8> {
    let mut body = last.to_be_bytes().to_vec();
    body.extend_from_slice(&[0; 4]);
    control(GO_AWAY, &body)
}

fn control(kind: u16, body: &[u8]) -> Vec<u8> {
    let [.., high, middle, low] = body.len().to_be_bytes();
    let [kind_high, kind_low] = kind.to_be_bytes();
    let mut frame = vec![CONTROL, VERSION, kind_high, kind_low, 0, high, middle, low];
    frame.extend_from_slice(body);
    frame
}

fn number(bytes: &[u8]) -> io::Result<u32> {
    let bytes = bytes.first_chunk().ok_or_else(broken)?;
    Ok(u32::from_be_bytes(*bytes) & 0x7fff_ffff)
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "broken SPDY frame")
}
