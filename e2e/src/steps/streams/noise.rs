//! Bytes that look like chance and are the same every time.

/// How much is compared at once.
pub const PIECE: usize = 1_000_000;

/// Marsaglia's xorshift: nothing that lies in one buffer repeats in the next.
pub struct Noise(u64);

impl Noise {
    /// From its beginning.
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// The next bytes, in eights.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        for eight in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            eight.copy_from_slice(&self.0.to_le_bytes()[..eight.len()]);
        }
        bytes
    }
}
