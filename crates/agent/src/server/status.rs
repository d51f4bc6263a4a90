//! The agent's status as JSON, without secrets.

use super::{Server, slot::Slot};
use crate::record::quoted;

/// The states of an identity.
pub(super) const STATES: [&str; 7] =
    ["good", "logging in", "running", "signed out", "login needed", "failed", "expired"];

impl Server {
    pub(super) fn status(&self) -> String {
        let program = self.settings.program.as_ref();
        let program =
            program.map(|path| format!(",\"program\":{}", quoted(&path.to_string_lossy())));
        let proxies: Vec<_> = self.proxies.serving().into_iter().map(quoted).collect();
        let mut slots: Vec<_> = self.slots.values().collect();
        slots.sort_by_cached_key(|slot| (slot.name(), slot.setup.ask.args.clone()));
        let slots: Vec<_> = slots.into_iter().map(|slot| self.slot_json(slot)).collect();
        format!(
            "{{\"version\":{},\"pid\":{},\"socket\":{}{},\"locked\":{},\"secrets\":{},\"proxies\":[{}],\
             \"credentials\":[{}]}}\n",
            quoted(env!("CARGO_PKG_VERSION")),
            std::process::id(),
            quoted(&self.place.address.socket.to_string_lossy()),
            program.unwrap_or_default(),
            self.locked,
            self.secrets.count(),
            proxies.join(","),
            slots.join(",")
        )
    }

    /// The state of an identity, one of [`STATES`].
    pub(super) fn state(&self, slot: &Slot) -> &'static str {
        let history = slot.source.history();
        let registration = slot.setup.registration.as_ref();
        let signed_out =
            registration.is_some_and(|known| self.signed_out.contains(&known.digest()));
        if history.came.is_some() {
            "good"
        } else if slot.lease.as_ref().is_some_and(|lease| lease.attended) {
            "logging in"
        } else if slot.pending.is_some() {
            "running"
        } else if signed_out {
            "signed out"
        } else if slot.login_needed.is_some() {
            "login needed"
        } else if history.error.is_some() {
            "failed"
        } else {
            "expired"
        }
    }

    fn slot_json(&self, slot: &Slot) -> String {
        let history = slot.source.history();
        let credential = slot.source.last().filter(|_| history.came.is_some());
        let now = self.settings.clock.now();
        let mut fields = Vec::new();
        let mut text = |name: &str, value: Option<&str>| {
            fields.extend(value.map(|value| format!("\"{name}\":{}", quoted(value))));
        };
        let command = String::from_utf8_lossy(&slot.setup.ask.command);
        let stamp = |time: Option<jiff::Timestamp>| time.map(|time| time.to_string());
        text("name", Some(&slot.name()));
        text("plugin", Some(&command));
        text("profile", Some(slot.setup.profile.name()));
        text("state", Some(self.state(slot)));
        text("subject", slot.subject.as_deref());
        text("expires", stamp(credential.as_ref().and_then(|c| c.expires())).as_deref());
        text("lastRun", stamp(history.ran).as_deref());
        text("lastError", history.error.map(|error| error.to_string()).as_deref());
        text("remark", slot.remark.as_deref().or(slot.login_needed.as_deref()));
        if let Some(registration) = &slot.setup.registration {
            text("kubeconfig", Some(&registration.kubeconfig.to_string_lossy()));
            text("contexts", Some(&registration.contexts.join(" ")));
        }
        text("clients", Some(&slot.clients.join(" ")));
        if let Some(came) = history.came {
            let age = now.duration_since(came).as_secs().max(0);
            fields.push(format!("\"ageSeconds\":{age}"));
        }
        fields.push(format!(
            "\"registered\":{},\"requests\":{},\"hits\":{},\"runs\":{}",
            slot.setup.registration.is_some(),
            slot.asks,
            slot.hits,
            slot.runs
        ));
        format!("{{{}}}", fields.join(","))
    }
}
