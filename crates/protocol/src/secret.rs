use std::fmt;

use zeroize::Zeroizing;

/// A text that must not be seen: a token, a password, a private key in PEM.
///
/// It has no `Display`, its `Debug` says `[hidden]`, it is wiped when dropped, and the one way to
/// its content is [`Secret::expose`], a word that can be searched for.
///
/// ```
/// # use keyward_protocol::Secret;
/// let token = Secret::new("s3cr3t");
/// assert_eq!(format!("{token:?}"), "[hidden]");
/// assert_eq!(token.expose(), "s3cr3t");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret {
    text: Zeroizing<String>,
    /// The bytes it came as, where they are no text: they are to be written as they were read.
    bytes: Option<Zeroizing<Vec<u8>>>,
}

impl Secret {
    /// Takes over a text; the memory it is in is wiped with the secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: Zeroizing::new(text.into()), bytes: None }
    }

    /// Takes bytes that should be text. Bytes that are not UTF-8 are kept unchanged, and
    /// [`Secret::expose`] has replacement characters in it.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::new(text),
            Err(error) => {
                let bytes = Zeroizing::new(error.into_bytes());
                let text = Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned());
                Self { text, bytes: Some(bytes) }
            }
        }
    }

    /// The text itself. Every caller of this is a place to review.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The bytes of the secret, as they came.
    pub fn expose_bytes(&self) -> &[u8] {
        self.bytes.as_deref().map_or(self.text.as_bytes(), Vec::as_slice)
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}
