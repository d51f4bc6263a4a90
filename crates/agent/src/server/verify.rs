//! Asks the server about a credential that seems to have been rejected.

use std::{sync::Arc, time::Duration};

use keyward_host::Credential;
use keyward_process::runner;

use super::{Key, Server, connection::Id, desk::Event};
use crate::entry::Entry;

/// How long the server's acceptance of a credential counts.
const ACCEPTED: Duration = Duration::from_secs(30);

/// Asks a server whether it accepts a credential. The agent has no TLS; the program that hosts it
/// does.
pub trait Verify: Send + Sync + 'static {
    /// `None` if the server cannot be reached. Called on a thread that may block; it should give up
    /// after two seconds.
    fn is_accepted(&self, entry: &Entry, credential: &Credential) -> Option<bool>;
}

/// What is known about the acceptance of a slot's credential.
#[derive(Default)]
pub(super) struct Acceptance {
    /// The serial being checked, and the connections that wait for the result.
    pub(super) asking: Option<(u64, Vec<Id>)>,
    /// The serial that was accepted last, and when.
    accepted: Option<(u64, Duration)>,
}

impl Acceptance {
    /// Whether the server accepted this serial a moment ago.
    pub(super) fn is_fresh(&self, serial: u64, now: Duration) -> bool {
        self.accepted.is_some_and(|(known, when)| known == serial && now < when + ACCEPTED)
    }
}

impl Server {
    /// Asks the server in the background, if it is known. Returns whether it was asked.
    pub(super) fn verify(&mut self, id: Id, key: Key, credential: &Arc<Credential>) -> bool {
        let Some(verify) = self.settings.verify.clone() else { return false };
        let Some(slot) = self.slots.get_mut(&key) else { return false };
        let Some(entry) = slot.entry.clone().filter(|entry| !entry.server.is_empty()) else {
            return false;
        };
        let serial = credential.serial();
        match &mut slot.acceptance.asking {
            Some((asked, waiting)) if *asked == serial => waiting.push(id),
            Some(_) => return false,
            None => {
                slot.acceptance.asking = Some((serial, vec![id]));
                let (desk, credential) = (Arc::clone(&self.desk), Arc::clone(credential));
                runner::spawn(move || {
                    let accepted = verify.is_accepted(&entry, &credential);
                    desk.put(Event::Verified(key, credential, accepted));
                });
            }
        }
        true
    }

    /// The server has answered, or could not be reached.
    pub(super) fn verified(
        &mut self,
        key: Key,
        credential: &Arc<Credential>,
        accepted: Option<bool>,
    ) {
        let now = self.settings.clock.elapsed();
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let Some((_, waiting)) = slot.acceptance.asking.take() else { return };
        match accepted {
            Some(true) => slot.acceptance.accepted = Some((credential.serial(), now)),
            // A credential that was never accepted is replaced only within the backoff; otherwise a
            // server that rejects everything would cause a run for each request.
            _ => {
                let before = slot.acceptance.accepted.take();
                let before = before.is_some_and(|(known, _)| known == credential.serial());
                slot.source.refused(credential, before && accepted == Some(false), None);
            }
        }
        for id in waiting {
            self.answer_or_run(id, key);
        }
    }
}
