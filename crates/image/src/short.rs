//! Comparisons of texts of a few bytes, where a call costs more than the comparison.

/// Whether both are the same.
#[inline]
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && match one.len() {
            0..4 => one.iter().zip(other).all(|(a, b)| a == b),
            4..8 => ends_agree::<4>(one, other),
            8..=16 => ends_agree::<8>(one, other),
            _ => one == other,
        }
}

/// The part of `text` after `start`.
#[inline]
pub(super) fn after<'t>(start: &[u8], text: &'t [u8]) -> Option<&'t [u8]> {
    let (head, rest) = text.split_at_checked(start.len())?;
    same(head, start).then_some(rest)
}

/// The part of `text` before `end`.
#[inline]
pub(super) fn before<'t>(end: &[u8], text: &'t [u8]) -> Option<&'t [u8]> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(end.len())?)?;
    same(tail, end).then_some(rest)
}

/// The position of the last dot in `text`.
#[inline]
pub(super) fn last_dot(text: &[u8]) -> Option<usize> {
    let Some(first) = text.first_chunk() else {
        return text.iter().rposition(|byte| *byte == b'.');
    };
    let mut left = text;
    while let Some((rest, word)) = left.split_last_chunk() {
        if let Some(at) = last_dot_of(*word) {
            return Some(rest.len() + at);
        }
        left = rest;
    }
    // The remaining bytes are the start of the first word; the rest of that has no dot.
    last_dot_of(*first)
}

/// The last dot among eight bytes.
#[inline]
fn last_dot_of(word: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    const LOW: u64 = ONES * 0x7f;
    // Sets the highest bit of each byte that is a dot.
    let others = u64::from_le_bytes(word) ^ (ONES * 0x2e);
    let dots = !(((others & LOW) + LOW) | others | LOW);
    dots.checked_ilog2().map(|bit| bit as usize / 8)
}

/// Whether the first and the last N bytes are equal: these are all bytes if there are at most 2N.
#[inline]
fn ends_agree<const N: usize>(one: &[u8], other: &[u8]) -> bool {
    one.first_chunk::<N>() == other.first_chunk() && one.last_chunk::<N>() == other.last_chunk()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_told_apart_by_every_byte() {
        for length in 0..40 {
            let text: Vec<u8> = (0..length).collect();
            assert!(same(&text, &text));
            assert!(!same(&text, &[&text[..], b"x"].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 0x80;
                assert!(!same(&text, &other), "{length} {at}");
            }
        }
    }

    #[test]
    fn the_last_dot_is_found_at_every_place() {
        assert_eq!(last_dot(b""), None);
        for length in 1..40 {
            for filler in [b'-', b'/', b'.' ^ 0x80, b'.' ^ 1, 0, 0xff] {
                let mut text = vec![filler; length];
                assert_eq!(last_dot(&text), None, "{length} {filler}");
                for at in 0..length {
                    text[at] = b'.';
                    assert_eq!(last_dot(&text), Some(at), "{length} {filler}");
                }
            }
        }
    }

    #[test]
    fn what_begins_or_ends_a_text_is_taken_off_it() {
        assert_eq!(after(b"/team", b"/team/app"), Some(&b"/app"[..]));
        assert_eq!(after(b"/team", b"/tea"), None);
        assert_eq!(after(b"", b""), Some(&b""[..]));
        assert_eq!(before(b".io", b"registry.io"), Some(&b"registry"[..]));
        assert_eq!(before(b".io", b"io"), None);
    }
}
