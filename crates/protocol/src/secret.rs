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
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes over a text; the memory it is in is wiped with the secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself. Every caller of this is a place to review.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}
