//! One client connection: its state, and the bytes read and to be sent.

use std::{os::unix::net::UnixStream, sync::LazyLock, time::Duration};

use keyward_protocol::agent::{Hello, Inbox, Message};
use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags},
};
use zeroize::{Zeroize as _, Zeroizing};

use super::{
    Key,
    peer::{Client, Peer},
};

/// What every connection begins with.
static GREETING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut frame = Vec::new();
    Message::Hello(Hello::ours(env!("CARGO_PKG_VERSION"))).write(&mut frame);
    frame
});

/// A connection, by a number that is never used again.
pub(super) type Id = u64;

/// What a connection is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The client has not sent its request yet.
    New,
    /// The client waits for a credential.
    Waiting { key: Key, terminal: Vec<u8>, noted: bool },
    /// The client runs the plugin on behalf of everyone who waits.
    Leased { key: Key, terminal: Vec<u8> },
    /// The client uses named secrets; `waits` names the one whose lease it waits for.
    Secrets { waits: Option<String> },
    /// The client waits for a proxy.
    Proxied { service: String },
    /// The client is a proxy.
    Proxy { service: String },
    /// The client is a proxy that no longer listens.
    Draining { service: String },
    /// The answer is complete; the connection is closed once the client has read it.
    Ending,
}

pub(super) struct Connection {
    pub(super) stream: UnixStream,
    pub(super) state: State,
    /// The process at the other end, or why it is not served; `None` until it has said something.
    pub(super) peer: Option<Result<Peer, &'static str>>,
    /// The process that started the client.
    pub(super) client: Option<Client>,
    /// The peer itself is the client, and reports what servers reject.
    pub(super) own: bool,
    /// When the client connected, or started to wait.
    pub(super) since: Duration,
    inbox: Inbox,
    out: Zeroizing<Vec<u8>>,
    sent: usize,
    greeted: bool,
}

/// The result of a read.
pub(super) enum Incoming {
    Message(Message),
    Nothing,
    /// The client is gone, or does not speak the protocol.
    End,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, since: Duration) -> Self {
        Self {
            stream,
            state: State::New,
            peer: None,
            client: None,
            own: false,
            since,
            inbox: Inbox::default(),
            out: Zeroizing::default(),
            sent: 0,
            greeted: false,
        }
    }

    /// The process that asks.
    pub(super) fn peer(&self) -> Option<Peer> {
        self.peer.and_then(Result::ok)
    }

    /// The next message; reads what has arrived.
    pub(super) fn read(&mut self, space: &mut [u8]) -> Incoming {
        loop {
            match self.inbox.next() {
                Ok(Some(Message::Hello(hello))) if !self.greeted => {
                    self.greeted = true;
                    self.say_bytes(&GREETING);
                    if hello.common().is_none() {
                        self.end();
                        return Incoming::Nothing;
                    }
                    continue;
                }
                Ok(Some(message)) if self.greeted => return Incoming::Message(message),
                Ok(Some(_)) | Err(_) => return Incoming::End,
                Ok(None) => {}
            }
            match rustix::net::recv(&self.stream, &mut *space, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Incoming::End,
                Ok((count, _)) => {
                    self.inbox.push(&space[..count]);
                    space[..count].zeroize();
                }
                Err(Errno::AGAIN) => return Incoming::Nothing,
                Err(Errno::INTR) => {}
                Err(_) => return Incoming::End,
            }
        }
    }

    /// Sends a message, now or as soon as the client reads.
    pub(super) fn say(&mut self, message: &Message) {
        // Grown by hand, so that no copy of a secret stays in freed memory.
        let mut more = Zeroizing::new(Vec::with_capacity(8 << 10));
        message.write(&mut more);
        self.say_bytes(&more);
    }

    /// Sends an encoded frame.
    pub(super) fn say_bytes(&mut self, frame: &[u8]) {
        let rest = &self.out[self.sent..];
        let mut out = Zeroizing::new(Vec::with_capacity(rest.len() + frame.len()));
        out.extend_from_slice(rest);
        out.extend_from_slice(frame);
        self.out = out;
        self.sent = 0;
    }

    /// Sends the last message.
    pub(super) fn end_with(&mut self, message: &Message) {
        self.say(message);
        self.end();
    }

    /// Closes the connection once everything is sent.
    pub(super) fn end(&mut self) {
        self.state = State::Ending;
    }

    /// Sends what can be sent. Returns whether the connection is still usable.
    pub(super) fn flush(&mut self) -> bool {
        while self.sent < self.out.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.stream, &self.out[self.sent..], flags) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        self.state != State::Ending
    }

    pub(super) fn wants_to_send(&self) -> bool {
        self.sent < self.out.len()
    }
}
