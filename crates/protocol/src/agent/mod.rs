//! The protocol between Keyward's agent and its clients.
//!
//! A connection carries frames in both directions: `u32` length (little endian), `u8` type, then
//! fields of `u8` tag, `u32` length and bytes. A field with an unknown tag is skipped, so that either
//! end may learn new ones; a frame of an unknown type ends the connection. Each end begins with
//! [`Hello`]. Environments and arguments are bytes, not text, which is why the frames are not JSON.
//!
//! ```
//! use keyward_protocol::agent::{Hello, Inbox, Message};
//!
//! let mut wire = Vec::new();
//! Message::Hello(Hello::ours("1.0.0")).write(&mut wire);
//! let mut inbox = Inbox::default();
//! inbox.push(&wire);
//! let Some(Message::Hello(hello)) = inbox.next().unwrap() else { panic!("a greeting") };
//! assert_eq!(hello.common(), Some(1));
//! ```

mod codec;
mod field;
mod frame;
mod message;
#[cfg(test)]
mod tests;

pub use self::{
    frame::{Inbox, MOST},
    message::{
        Admin, Answer, Ask, Done, Failure, Hello, Lease, Message, ProxyContext, ProxyRequest,
        Rejected, SecretRequest, Served,
    },
};

use std::fmt;

/// The versions of the protocol that this crate speaks, lowest and highest.
pub const VERSIONS: (u16, u16) = (1, 1);

/// Bytes that are no message of this protocol. Says where the fault is, never what stood there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// A frame is longer than [`MOST`] or has no type.
    Length,
    /// No frame has this type.
    Type(u8),
    /// A field ends after its frame.
    Field,
    /// A field that the frame cannot do without is missing or has the wrong length.
    Missing(&'static str),
    /// A [`Hello`] without the protocol's name.
    Magic,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("a frame is empty or too long"),
            Self::Type(found) => write!(f, "no frame has the type {found}"),
            Self::Field => f.write_str("a field is longer than its frame"),
            Self::Missing(name) => write!(f, "the field `{name}` is missing or has a wrong length"),
            Self::Magic => f.write_str("the peer does not speak the protocol of keyward's agent"),
        }
    }
}

impl std::error::Error for Malformed {}
