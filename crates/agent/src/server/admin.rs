//! Commands of the agent's owner, and secrets by name.

use std::fmt::Write as _;

use keyward_protocol::{
    Secret,
    agent::{Admin, Message, SecretRequest, Served},
    text,
};

use super::{
    End, Server,
    connection::{Id, State},
};

impl Server {
    pub(super) fn admin(&mut self, id: Id, admin: Admin) {
        let served = match admin {
            Admin::Status => Served::Done(Secret::new(self.status())),
            Admin::Metrics => Served::Done(Secret::new(self.metrics())),
            Admin::Stop => {
                self.end = Some(End::Stopped);
                Served::Done(Secret::default())
            }
            Admin::Lock => {
                self.lock();
                Served::Done(Secret::default())
            }
            Admin::Unlock => {
                self.locked = false;
                self.proxies.check_at(self.settings.clock.elapsed());
                Served::Done(Secret::default())
            }
            Admin::Forget(name) => self.forget(name.as_deref()),
            _ => Served::Not("this agent does not know the command".into()),
        };
        self.end_with(id, &Message::Served(served));
    }

    /// Forgets everything. Tokens are cheap to get again, so none is kept encrypted.
    fn lock(&mut self) {
        self.locked = true;
        self.stop_proxies();
        self.refuse_proxy_clients("the agent has been locked");
        self.secrets.forget_all();
        let slots = std::mem::take(&mut self.slots);
        let waiting = slots.into_values().flat_map(|slot| slot.waiting);
        for id in waiting.collect::<Vec<_>>() {
            self.fail(id, "the agent has been locked");
        }
    }

    /// Forgets credentials, and lets no background request log in again.
    fn forget(&mut self, name: Option<&str>) -> Served {
        // They have copies.
        self.stop_proxies();
        let mut said = String::new();
        let mut found = false;
        for slot in self.slots.values_mut() {
            if name.is_some_and(|name| !slot.is_called(name)) {
                continue;
            }
            found = true;
            if let Some(registration) = &slot.setup.registration {
                self.signed_out.insert(registration.digest());
            }
            let Some(credential) = slot.source.last() else { continue };
            let until = match credential.expires() {
                Some(end) if end <= self.settings.clock.now() => "have expired".to_owned(),
                Some(end) => format!("remain valid until {end}"),
                None => "remain valid: the plugin gave no expiry".to_owned(),
            };
            let _ = writeln!(
                said,
                "{}: credentials already issued {until}",
                text::inline(&slot.name())
            );
        }
        if name.is_none() {
            self.secrets.forget_all();
        }
        let forgotten = |slot: &super::slot::Slot| name.is_none_or(|name| slot.is_called(name));
        self.slots.retain(|_, slot| !forgotten(slot) || !slot.is_idle());
        for slot in self.slots.values().filter(|slot| forgotten(slot)) {
            if let Some(credential) = slot.source.last() {
                slot.source.rejected(&credential, true, None);
            }
        }
        // A registration without a credential can be signed out too.
        for registration in self.registrations.list() {
            if name.is_none_or(|name| registration.is_called(name)) {
                found = true;
                self.signed_out.insert(registration.digest());
            }
        }
        if found || name.is_none() { Served::Done(Secret::new(said)) } else { Served::Absent }
    }

    pub(super) fn secret(&mut self, id: Id, request: SecretRequest) {
        if self.locked {
            return self.served(id, Served::Not("the agent is locked".into()));
        }
        let now = self.settings.clock.wall_millis();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.state = State::Secrets { waits: None };
        }
        let served = match request {
            SecretRequest::Get(name) => self.secrets.get(&name, now),
            SecretRequest::Put(name, value, until) => {
                for (other, served) in self.secrets.put(name, value, until, now, id) {
                    self.served(other, served);
                }
                return;
            }
            SecretRequest::Lease(name) => match self.secrets.lease(&name, now, id) {
                Some(served) => served,
                None => {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.state = State::Secrets { waits: Some(name) };
                    }
                    return;
                }
            },
            SecretRequest::Forget(name) => self.secrets.forget(&name),
            SecretRequest::Pending => self.secrets.pending(),
            _ => Served::Not("this agent does not know the request".into()),
        };
        self.served(id, served);
    }

    pub(super) fn served(&mut self, id: Id, served: Served) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.state = State::Secrets { waits: None };
            connection.say(&Message::Served(served));
            self.flush(id);
        }
    }
}
