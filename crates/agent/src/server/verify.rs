//! Asks the server about a credential that seems to have been rejected.

use std::{path::Path, sync::Arc, time::Duration};

use keyward_host::{Credential, Observer as _};
use keyward_process::{
    runner::{self, Cancel, Invocation, Stdin},
    surroundings::Surroundings,
};
use keyward_protocol::exec::{Answer, Form, Version};
use zeroize::Zeroizing;

use super::{Key, Server, connection::Id, desk::Event};
use crate::registration::Registration;

/// How long the server's acceptance of a credential counts.
const ACCEPTED: Duration = Duration::from_secs(30);
/// How long the program that asks may take. It gives up on the server sooner.
const BUDGET: Duration = Duration::from_secs(5);

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
        let Some(verifier) = self.settings.verifier.clone() else { return false };
        let Some(slot) = self.slots.get_mut(&key) else { return false };
        let registration = slot.setup.registration.clone();
        let Some(registration) = registration.filter(|known| !known.server.is_empty()) else {
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
                    let accepted = is_accepted(&verifier, &registration, &credential);
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
        if accepted == Some(false) {
            self.metrics.host.rejected();
        }
        match accepted {
            Some(true) => slot.acceptance.accepted = Some((credential.serial(), now)),
            // A credential that was never accepted is replaced only within the backoff; otherwise a
            // server that rejects everything would cause a run for each request.
            _ => {
                let before = slot.acceptance.accepted.take();
                let before = before.is_some_and(|(known, _)| known == credential.serial());
                slot.source.rejected(credential, before && accepted == Some(false), None);
            }
        }
        for id in waiting {
            self.answer_or_run(id, key);
        }
    }
}

/// Lets `keyward` ask the server that the kubeconfig named at registration; `None` if it cannot be
/// asked. The agent has no TLS of its own: it would double its memory. The credential goes through a
/// pipe, because arguments and environment can be read by others.
fn is_accepted(
    program: &Path,
    registration: &Registration,
    credential: &Credential,
) -> Option<bool> {
    let answer = Answer {
        version: Version::V1,
        token: credential.token().cloned(),
        pair: credential.pair().map(|pair| pair.pem.clone()),
        expires: None,
    };
    let answer = answer.to_json(Form::ExecCredential);
    let mut invocation = Invocation::new(program);
    let context = registration.contexts.first()?;
    invocation.args = vec![
        "verify-credential".into(),
        "--kubeconfig".into(),
        registration.kubeconfig.clone().into_os_string(),
        // In one word, because the kubeconfig may call it anything.
        format!("--context={context}").into(),
        format!("--registered-server={}", registration.server).into(),
    ];
    invocation.env = Surroundings::process().vars();
    invocation.stdin = Stdin::Request(Zeroizing::new(answer.expose_bytes().to_vec()));
    invocation.budget = BUDGET;
    let output = runner::run(&invocation, &Cancel::default()).ok()?;
    match (output.status.success(), output.stdout.trim_ascii()) {
        (true, b"accepted") => Some(true),
        (true, b"rejected") => Some(false),
        _ => None,
    }
}
