//! Memory for what a program prints: wiped when dropped, and when it moves.

use zeroize::Zeroizing;

/// Bytes that are wiped when dropped. Growing wipes the place they leave, which a plain `Vec` in
/// `Zeroizing` does not.
#[derive(Default)]
pub(super) struct Buffer(Zeroizing<Vec<u8>>);

impl Buffer {
    const LEAST: usize = 4 << 10;

    /// Room for at least some more bytes, to read into.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        if self.0.len() == self.0.capacity() {
            self.grow();
        }
        &mut self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops the oldest bytes so that at most `limit` are left.
    pub(super) fn keep_last(&mut self, limit: usize) {
        let excess = self.0.len().saturating_sub(limit);
        if excess > 0 {
            self.0.copy_within(excess.., 0);
            self.0.truncate(limit);
        }
    }

    /// Drops the newest bytes so that at most `limit` are left.
    pub(super) fn keep_first(&mut self, limit: usize) {
        self.0.truncate(limit);
    }

    pub(super) fn bytes_from(&self, start: usize) -> &[u8] {
        self.0.get(start..).unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.0
    }

    fn grow(&mut self) {
        let capacity = (self.0.capacity() * 2).max(Self::LEAST);
        let mut larger = Zeroizing::new(Vec::with_capacity(capacity));
        larger.extend_from_slice(&self.0);
        self.0 = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_and_keeps_its_order() {
        let mut buffer = Buffer::default();
        for byte in 0..20_000_u32 {
            buffer.room().push(byte.to_le_bytes()[0]);
        }
        assert_eq!(buffer.len(), 20_000);
        assert_eq!(buffer.bytes_from(19_999), [19_999_u32.to_le_bytes()[0]]);
    }

    #[test]
    fn only_the_last_bytes_are_kept() {
        let mut buffer = Buffer::default();
        buffer.room().extend_from_slice(b"abcdef");
        buffer.keep_last(2);
        assert_eq!(&**buffer.into_bytes(), b"ef");
    }
}
