//! Percent-encoding with the character sets of Go's `net/url`.
//!
//! The `percent-encoding` crate does the coding. Go differs from it in two ways: a `%` without two
//! hex digits is an error, and a host accepts few escapes and few bare characters.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use super::UrlError;

/// What every part escapes but what RFC 3986 calls unreserved.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

const PATH: AsciiSet = USER.remove(b'/').remove(b':').remove(b'@');

const USER: AsciiSet =
    RESERVED.remove(b'$').remove(b'&').remove(b'+').remove(b',').remove(b';').remove(b'=');

const FRAGMENT: AsciiSet = PATH.remove(b'?').remove(b'!').remove(b'(').remove(b')').remove(b'*');

const HOST: AsciiSet = USER
    .remove(b'!')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b':')
    .remove(b'[')
    .remove(b']')
    .remove(b'<')
    .remove(b'>')
    .remove(b'"');

/// The part of a URL that an escape stands in: each has its own rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

impl Part {
    const fn set(self) -> &'static AsciiSet {
        match self {
            Self::Path => &PATH,
            Self::Host | Self::Zone => &HOST,
            Self::User => &USER,
            Self::Fragment => &FRAGMENT,
        }
    }

    /// Whether this part spells a byte as an escape.
    fn escapes(self, byte: u8) -> bool {
        percent_encode(&[byte], self.set()).next().is_some_and(|spelling| spelling.len() > 1)
    }
}

/// The bytes that a percent-encoded text spells; `None` if a `%` is not followed by two hex digits.
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    escapes(text).all(|value| value.is_some()).then(|| percent_decode_str(text).collect())
}

/// The value of each escape in a text; `None` for a `%` that is not followed by two hex digits.
fn escapes(text: &str) -> impl Iterator<Item = Option<u8>> {
    text.split('%').skip(1).map(|after| {
        let digits = after.get(..2)?;
        let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        hex.then(|| u8::from_str_radix(digits, 16).ok())?
    })
}

/// Resolves the escapes of a part, refusing what may not stand there.
pub(super) fn unescape(text: &str, part: Part) -> Result<Vec<u8>, UrlError> {
    let fits = |value: u8| match part {
        _ if value == b'%' => true,
        // A host escapes only what is not ASCII.
        Part::Host => value >= 0x80,
        Part::Zone => value == b' ' || !part.escapes(value),
        _ => true,
    };
    if !escapes(text).all(|value| value.is_some_and(fits)) {
        return Err(UrlError("a `%` that is not an escape"));
    }
    let bare = |byte: u8| byte == b'%' || byte >= 0x80 || !part.escapes(byte);
    if matches!(part, Part::Host | Part::Zone) && !text.bytes().all(bare) {
        return Err(UrlError("a character that a host cannot have"));
    }
    Ok(percent_decode_str(text).collect())
}

/// The part as it is printed: as it was written if that is a valid spelling, else escaped afresh.
/// The text was accepted by [`unescape`] before.
pub(super) fn canonical(text: &str, part: Part) -> String {
    let valid = text.bytes().all(|b| b"!$&'()*+,;=:@[]%".contains(&b) || !part.escapes(b));
    if valid || text == "*" {
        return text.to_owned();
    }
    percent_encode(&unescape(text, part).unwrap_or_default(), part.set()).to_string()
}

/// Adds bytes, escaped where the part needs it.
pub(super) fn push_escaped(out: &mut String, bytes: &[u8], part: Part) {
    out.extend(percent_encode(bytes, part.set()));
}
