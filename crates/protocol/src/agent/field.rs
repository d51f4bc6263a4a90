//! Fields of a frame: tag, length, bytes.

use super::Malformed;

/// Appends the fields of one frame and, at its end, writes the length of the frame.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>, kind: u8) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(kind);
        Self { out, start }
    }

    pub(super) fn put(&mut self, tag: u8, bytes: &[u8]) {
        self.out.push(tag);
        self.out.extend_from_slice(&length(bytes.len()));
        self.out.extend_from_slice(bytes);
    }

    /// Two byte strings in one field, the first with its length.
    pub(super) fn put_two(&mut self, tag: u8, first: &[u8], second: &[u8]) {
        self.out.push(tag);
        self.out.extend_from_slice(&length(4 + first.len() + second.len()));
        self.out.extend_from_slice(&length(first.len()));
        self.out.extend_from_slice(first);
        self.out.extend_from_slice(second);
    }

    pub(super) fn put_some(&mut self, tag: u8, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.put(tag, bytes);
        }
    }

    pub(super) fn end(self) {
        let size = length(self.out.len() - self.start - 4);
        self.out[self.start..self.start + 4].copy_from_slice(&size);
    }
}

/// Nothing that is written here comes near 4 GiB; a frame that did would be refused for its length.
fn length(size: usize) -> [u8; 4] {
    u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes()
}

/// Calls `each` with the tag and bytes of every field.
pub(super) fn read<'a>(
    mut body: &'a [u8],
    mut each: impl FnMut(u8, &'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while let Some((tag, rest)) = body.split_first() {
        let (field, rest) = prefixed(rest).ok_or(Malformed::Field)?;
        each(*tag, field)?;
        body = rest;
    }
    Ok(())
}

/// Splits off bytes that have their length before them.
pub(super) fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*size)).ok()?)
}

/// A number of exactly its size.
pub(super) fn number<const N: usize>(
    bytes: &[u8],
    name: &'static str,
) -> Result<[u8; N], Malformed> {
    bytes.try_into().map_err(|_| Malformed::Missing(name))
}

/// Text for people. What is no UTF-8 is replaced: it is shown, never compared.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
