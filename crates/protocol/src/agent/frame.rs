//! Frames in a stream of bytes.

use zeroize::Zeroizing;

use super::{Malformed, Message};

/// The longest frame, in bytes. Linux limits arguments and environment of a process to 2 MiB by
/// default, of which an [`Ask`](super::Ask) is a copy.
pub const MOST: usize = 4 << 20;

/// Collects what arrives until a frame is whole. What it held is wiped.
#[derive(Default)]
pub struct Inbox {
    bytes: Zeroizing<Vec<u8>>,
    /// Where the next frame begins.
    start: usize,
}

impl Inbox {
    /// Takes what was read from the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        let wanted = self.bytes.len() + bytes.len();
        if wanted > self.bytes.capacity() {
            self.grow(wanted);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, if it is whole. After an error the connection is of no more use.
    #[expect(clippy::should_implement_trait, reason = "an inbox can be asked again after `None`")]
    pub fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let Some(size) = self.size()? else { return Ok(None) };
        let from = self.start + 4;
        let Some(frame) = self.bytes.get(from..from + size) else { return Ok(None) };
        let message = Message::read(frame)?;
        self.start = from + size;
        if self.start == self.bytes.len() {
            // Wiped as it is dropped. Wiping goes byte by byte, so it is done once, not again at the end.
            self.bytes = Zeroizing::default();
            self.start = 0;
        }
        Ok(Some(message))
    }

    /// Whether a part of a frame has arrived.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// The length of the next frame, once it is known.
    fn size(&self) -> Result<Option<usize>, Malformed> {
        let Some(size) = self.bytes.get(self.start..).and_then(<[u8]>::first_chunk::<4>) else {
            return Ok(None);
        };
        match usize::try_from(u32::from_le_bytes(*size)) {
            Ok(size @ 1..=MOST) => Ok(Some(size)),
            _ => Err(Malformed::Length),
        }
    }

    /// Moves to more memory, without leaving an unwiped copy where the bytes were.
    fn grow(&mut self, wanted: usize) {
        let mut grown = Zeroizing::new(Vec::with_capacity(wanted.next_power_of_two()));
        grown.extend_from_slice(&self.bytes[self.start..]);
        self.bytes = grown;
        self.start = 0;
    }
}
