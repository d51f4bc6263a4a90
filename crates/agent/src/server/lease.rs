//! Decides who runs a plugin: a client with a terminal, the agent, or any client. Runs that prompt at one terminal wait
//! for each other.

use std::{sync::mpsc::Sender, time::Duration};

use keyward_host::{CallStatus, Error, Kind, Observer as _};
use keyward_process::runner::{Output, Status};
use keyward_protocol::agent::{Done, Lease, Message};
use zeroize::Zeroizing;

use super::{
    Key, Server, TELL,
    connection::{Id, State},
    desk::Runner,
    slot,
};

/// How long a run with a person may take.
const ATTENDED: Duration = Duration::from_secs(600);
/// How long a run without a person may take.
const UNATTENDED: Duration = Duration::from_secs(60);

impl Server {
    pub(super) fn runner_wanted(&mut self, key: Key, reply: Sender<Runner>) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.wanted = Some(reply);
            self.assign(key);
        }
    }

    /// Finds a runner for the run that a slot wants, if it wants one.
    fn assign(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let Some(reply) = slot.wanted.take() else { return };
        let terminal = |id: &Id| match self.connections.get(id).map(|c| &c.state) {
            Some(State::Waiting { terminal, .. }) if !terminal.is_empty() => Some(terminal),
            _ => None,
        };
        let busy = |wanted: &Vec<u8>| {
            self.connections
                .values()
                .any(|c| matches!(&c.state, State::Leased { terminal, .. } if terminal == wanted))
        };
        let mut waiting = slot.waiting.iter().copied();
        let person = waiting.clone().find(|id| terminal(id).is_some());
        let free = waiting.find(|id| terminal(id).is_some_and(|terminal| !busy(terminal)));
        match (free, person) {
            (Some(id), _) => self.lease(key, id, true, reply),
            // Two prompts on one terminal would be indistinguishable, so this one waits.
            (None, Some(_)) => slot.wanted = Some(reply),
            (None, None) if slot.setup.runs_here => {
                slot.runs += 1;
                slot.attended = false;
                let _ = reply.send(Runner::Agent);
            }
            (None, None) => match slot.waiting.first().copied() {
                Some(id) => self.lease(key, id, false, reply),
                None => {
                    slot.abandoned = true;
                    let error = Error::new(Kind::Failed, "no client waits for the plugin any more");
                    let _ = reply.send(Runner::Nobody(error));
                }
            },
        }
    }

    fn lease(&mut self, key: Key, id: Id, attended: bool, reply: Sender<Runner>) {
        self.last_id += 1;
        let lease = self.last_id;
        let (Some(slot), Some(connection)) =
            (self.slots.get_mut(&key), self.connections.get_mut(&id))
        else {
            return;
        };
        slot.waiting.retain(|waiting| *waiting != id);
        slot.runs += 1;
        slot.attended = attended;
        let program = slot.setup.plan.plugin().and_then(|plugin| plugin.preview.program.as_ref());
        let program = program.map(|program| program.path.as_os_str().as_encoded_bytes().to_vec());
        let terminal = match std::mem::replace(&mut connection.state, State::Ending) {
            State::Waiting { terminal, .. } if attended => terminal,
            _ => Vec::new(),
        };
        let own = connection.own;
        let who = match connection.peer().and_then(|peer| self.peers.client_name(peer, own)) {
            Some((pid, name)) => format!("`{}` (pid {pid}{})", name, on(&terminal)),
            None => "another process".to_owned(),
        };
        connection.state = State::Leased { key, terminal };
        let budget = if attended { ATTENDED } else { UNATTENDED };
        connection.say(&Message::Lease(Lease {
            id: lease,
            program: program.unwrap_or_default(),
            budget: u64::try_from(budget.as_millis()).unwrap_or(u64::MAX),
            attended,
        }));
        let begun = self.settings.clock.elapsed();
        slot.lease = Some(slot::Lease { holder: id, id: lease, attended, begun, reply, who });
        self.flush(id);
    }

    /// A client has run the plugin.
    pub(super) fn done(&mut self, id: Id, done: &Done) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let State::Leased { key, .. } = connection.state else { return };
        let Some(slot) = self.slots.get_mut(&key) else { return self.close(id) };
        let Some(lease) = slot.lease.take_if(|lease| lease.holder == id && lease.id == done.id)
        else {
            return self.close(id);
        };
        // The client gets the same answer as everybody else.
        connection.state = State::Waiting { key, terminal: Vec::new(), noted: true };
        slot.waiting.push(id);
        let took = self.settings.clock.elapsed().saturating_sub(lease.begun);
        let runner = match done.code {
            Some(code) => Runner::Client(Output {
                status: Status::Code(code),
                stdout: Zeroizing::new(done.stdout.expose_bytes().to_vec()),
                stderr: Zeroizing::new(done.stderr.expose_bytes().to_vec()),
                took,
            }),
            None => {
                let name = String::from_utf8_lossy(&slot.setup.ask.command).into_owned();
                self.metrics.host.ran(&name, 1, CallStatus::ClientInternalError, took);
                self.metrics.host.refreshed(took, false);
                let what = format!("plugin `{name}` did not start, or did not end in time");
                Runner::Nobody(Error::new(Kind::Failed, what))
            }
        };
        let _ = lease.reply.send(runner);
        self.terminal_is_free();
    }

    /// The client that ran the plugin is gone: the next one takes over.
    pub(super) fn lease_lost(&mut self, key: Key, id: Id) {
        if let Some(slot) = self.slots.get_mut(&key)
            && let Some(lease) = slot.lease.take_if(|lease| lease.holder == id)
        {
            slot.wanted = Some(lease.reply);
            self.assign(key);
        }
        self.terminal_is_free();
    }

    fn terminal_is_free(&mut self) {
        let wanting = self.slots.iter().filter(|(_, slot)| slot.wanted.is_some());
        for key in wanting.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.assign(key);
        }
    }

    /// Tells clients that have waited for a while what they are waiting for.
    pub(super) fn tell_waiting(&mut self, now: Duration) {
        let mut told = Vec::new();
        for (id, connection) in &mut self.connections {
            let State::Waiting { key, noted, .. } = &mut connection.state else { continue };
            if *noted || now < connection.since + TELL {
                continue;
            }
            *noted = true;
            let lease = self.slots.get(key).and_then(|slot| slot.lease.as_ref());
            let Some(lease) = lease.filter(|lease| lease.attended) else { continue };
            let note = format!("waiting for the login of {}", lease.who);
            connection.say(&Message::Note(note));
            told.push(*id);
        }
        for id in told {
            self.flush(id);
        }
    }
}

/// ", pts/3"
fn on(terminal: &[u8]) -> String {
    let name = String::from_utf8_lossy(terminal);
    match name.strip_prefix("/dev/").unwrap_or(&name) {
        "" => String::new(),
        name => format!(", {name}"),
    }
}
