//! A reader of HTTP/2 that takes what the rules allow and nothing else (RFC 9113). A request that may
//! rightly have been passed on before its fault was seen is one: its body came up to its length.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    frame::{self, Frame},
    hpack::{Field, Table, Wrong},
};
use crate::strict::Message;

/// The header under which a request says which stream it came on.
pub(super) const STREAM: &str = ":stream";

/// All requests up to the first fault of the connection; `None` when that cannot be told.
pub(super) fn all(bytes: &[u8]) -> Option<Vec<Message>> {
    let mut reader = Reader::default();
    let Some(mut bytes) = bytes.strip_prefix(frame::PREFACE) else { return Some(Vec::new()) };
    while let Some((frame, rest)) = Frame::read(bytes) {
        if frame.payload.len() > frame::LIMIT {
            break;
        }
        match reader.take(&frame) {
            Ok(()) => bytes = rest,
            Err(Wrong::Broken) => break,
            Err(Wrong::Unclear) => return None,
        }
    }
    Some(reader.found)
}

#[derive(Default)]
struct Reader {
    table: Table,
    /// A header block that goes on: its stream, whether it is the last of it, and what is there.
    block: Option<(u32, bool, Vec<u8>)>,
    /// The requests that are not at their end, with the length they said.
    open: BTreeMap<u32, (Message, Option<usize>)>,
    last: u32,
    found: Vec<Message>,
}

impl Reader {
    /// An error ends the connection: nobody can tell what comes after it. After other faults the
    /// connection should end too, but a request that is one by itself does no harm behind them.
    fn take(&mut self, frame: &Frame) -> Result<(), Wrong> {
        let going = self.block.as_ref().map(|(stream, ..)| *stream);
        let goes_on = (frame.kind == frame::CONTINUATION).then_some(frame.stream);
        if going != goes_on {
            // h2 stops waiting for the rest of a block in which it found a fault, and knows its fields.
            let block = self.block.take().filter(|_| goes_on.is_none());
            let (.., block) = block.ok_or(Wrong::Broken)?;
            if let Err(Wrong::Unclear) = self.table.read(&block) {
                return Err(Wrong::Unclear);
            }
        }
        let end = frame.has(frame::END_STREAM);
        match frame.kind {
            frame::DATA => {
                let content = frame.content().ok_or(Wrong::Broken)?;
                self.data(frame.stream, end, content);
            }
            frame::HEADERS => {
                let content = frame.content().ok_or(Wrong::Broken)?;
                self.block = Some((frame.stream, end, content.to_vec()));
            }
            frame::CONTINUATION => {
                if let Some((.., block)) = &mut self.block {
                    block.extend_from_slice(&frame.payload);
                }
            }
            frame::RESET => _ = self.open.remove(&frame.stream),
            _ => {}
        }
        let over = matches!(frame.kind, frame::HEADERS | frame::CONTINUATION);
        if over
            && frame.has(frame::END_HEADERS)
            && let Some((stream, end, block)) = self.block.take()
        {
            let mut fields = self.table.read(&block)?;
            if frame.kind == frame::CONTINUATION {
                forgive(&mut fields);
            }
            self.fields(stream, end, &fields);
        }
        Ok(())
    }

    fn fields(&mut self, stream: u32, end: bool, fields: &[Field]) {
        if stream.is_multiple_of(2) {
            return;
        }
        if stream <= self.last {
            // Trailers, or nothing that anybody waits for.
            let good = end && fields.iter().all(|field| !field.0.starts_with(b":"));
            if let Some((message, None)) = self.open.remove(&stream)
                && good
            {
                self.found.push(message);
            }
            return;
        }
        self.last = stream;
        let Some(message) = request(stream, fields) else { return };
        let Ok(length) = length(&message) else { return };
        if length == Some(0) {
            self.found.push(message);
        } else if !end {
            self.open.insert(stream, (message, length));
        } else if length.is_none() {
            self.found.push(message);
        }
    }

    fn data(&mut self, stream: u32, end: bool, content: &[u8]) {
        let Some((mut message, length)) = self.open.remove(&stream) else { return };
        message.body.extend_from_slice(content);
        let whole = length.map_or(end, |length| message.body.len() == length);
        if whole {
            self.found.push(message);
        } else if !end && length.is_none_or(|length| message.body.len() < length) {
            self.open.insert(stream, (message, length));
        }
    }
}

/// Takes out the fields that h2 takes out, and forgets that it should refuse the request for them, when
/// the block goes on in another frame (hyperium/h2#37). What is left is passed on without them.
fn forgive(fields: &mut Vec<Field>) {
    let (mut seen, mut plain) = (BTreeSet::new(), false);
    fields.retain(|(name, value)| {
        if name.starts_with(b":") {
            return !plain && seen.insert(name.clone());
        }
        let dropped = CONNECTION.iter().any(|known| known.as_bytes() == name)
            || (name == b"te" && value != b"trailers");
        plain |= !dropped;
        !dropped
    });
}

/// The request that these fields are, if they are one that a proxy of this kind may pass on.
fn request(stream: u32, fields: &[Field]) -> Option<Message> {
    // Bytes beyond ASCII may stand in a value, and are nobody's business on the way.
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    let count = fields.iter().take_while(|field| field.0.starts_with(b":")).count();
    let (pseudo, plain) = fields.split_at(count);
    let one = |name: &str| {
        let mut values = pseudo.iter().filter(|field| field.0 == name.as_bytes());
        let value = values.next().map(|field| text(&field.1));
        if values.next().is_some() { None } else { Some(value) }
    };
    let (method, scheme) = (one(":method")??, one(":scheme")??);
    let (target, authority) = (one(":path")??, one(":authority")?);
    if pseudo.len() != 3 + usize::from(authority.is_some()) {
        return None;
    }
    let begins = target.starts_with('/') || (target == "*" && method == "OPTIONS");
    if method == "CONNECT" || !is_token(&method) || scheme != "https" || !begins {
        return None;
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut headers = vec![(STREAM.to_owned(), stream.to_string())];
    headers.extend(authority.map(|value| (":authority".to_owned(), value)));
    for (name, value) in plain {
        let (name, value) = (text(name), text(value));
        let good = is_token(&name)
            && !name.bytes().any(|byte| byte.is_ascii_uppercase())
            && !value.bytes().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
            && !CONNECTION.contains(&&name[..])
            && (name != "te" || value == "trailers");
        if !good {
            return None;
        }
        // What stands around a value is no part of it for the server.
        headers.push((name, value.trim_matches([' ', '\t']).to_owned()));
    }
    Some(Message { method, target, headers, body: Vec::new(), trailers: Vec::new() })
}

/// Headers that are about a connection, of which HTTP/2 has others.
const CONNECTION: [&str; 5] =
    ["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"];

/// How long it says its body is, if it does; an error where that is no length.
fn length(message: &Message) -> Result<Option<usize>, ()> {
    let mut lengths = message.values("content-length");
    let Some(first) = lengths.next() else { return Ok(None) };
    let digits = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let one = digits && lengths.all(|other| other == first);
    if one { first.parse().map(Some).map_err(|_| ()) } else { Err(()) }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
