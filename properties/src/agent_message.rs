//! What is said between the agent and its clients.

use keyward_protocol::agent::{Inbox, Message};

use crate::{budget, mark};

pub(crate) fn check(input: &[u8]) {
    let read = |piece: usize| {
        let mut inbox = Inbox::default();
        let mut messages = Vec::new();
        for bytes in input.chunks(piece.max(1)) {
            inbox.push(bytes);
            loop {
                match inbox.next() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(error) => return (messages, Some(error)),
                }
            }
        }
        (messages, None)
    };
    let (messages, error) = budget::within(input, || read(input.len()));
    assert_eq!(read(1 + input.len() / 3), (messages.clone(), error), "the pieces do not matter");
    if let Some(error) = error {
        mark::hidden(&format!("{error} {error:?}"));
    }
    for message in messages {
        if holds_secret(&message) {
            mark::hidden(&format!("{message:?}"));
        }
        let mut wire = Vec::new();
        message.write(&mut wire);
        let mut inbox = Inbox::default();
        inbox.push(&wire);
        assert_eq!(inbox.next(), Ok(Some(message)), "what was written reads back the same");
    }
}

/// Whether what the message shows of itself is not its secret part: names, texts for people and the
/// command are shown.
fn holds_secret(message: &Message) -> bool {
    matches!(message, Message::Answer(_) | Message::Done(_))
}
