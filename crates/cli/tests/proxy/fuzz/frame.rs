//! The frames of HTTP/2 (RFC 9113, 4.1 and 6).

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Of DATA and HEADERS.
pub(crate) const END_STREAM: u8 = 1;
/// Of SETTINGS and PING.
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const WEIGHTED: u8 = 32;

/// What a client says before its first frame.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest frame that may be sent to somebody who did not ask for larger ones.
pub(crate) const LIMIT: usize = 16_384;

#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self { kind, flags, stream, payload: payload.to_vec() }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let size = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        out.extend_from_slice(&size[1..]);
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&self.payload);
    }

    /// The first frame, and what is behind it; `None` when more has to come.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_at_checked(9)?;
        let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (payload, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        // The first bit means nothing.
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        Some((Self::new(head[3], head[4], stream, payload), rest))
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload without padding and weight; `None` where there is more padding than payload.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        let mut content = &self.payload[..];
        let mut padding = 0;
        if self.has(PADDED) {
            let (first, rest) = content.split_first()?;
            (padding, content) = (usize::from(*first), rest);
        }
        if self.kind == HEADERS && self.has(WEIGHTED) {
            content = content.get(5..)?;
        }
        content.get(..content.len().checked_sub(padding)?)
    }
}
