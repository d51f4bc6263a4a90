//! One identity: its credential, the clients that wait for it, and the run of its plugin.

use std::{
    collections::HashMap,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, mpsc},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use keyward_host::{
    Credential, Error, Fetch, Fetched, Kind, Occasion, Plan, PluginRunner, Source, rules::Rules,
};
use keyward_process::{FileId, clock::SharedClock, surroundings::Surroundings};
use keyward_protocol::{
    agent::{self, Ask, Message},
    exec::{Answer, Form, Version},
};
use zeroize::Zeroizing;

use super::{
    Key,
    connection::Id,
    desk::{Desk, Event, Runner},
    peer, subject,
    verify::Acceptance,
};
use crate::{identity::Profile, registration::Registration};

/// No credential is kept longer than this, whatever its expiry.
pub(super) const LONGEST: Duration = Duration::from_secs(12 * 3600);
/// For how long after the last request a plugin that never prompts is run ahead of expiry.
const WARM: Duration = Duration::from_secs(3600);

/// A run that clients wait for.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Arc<Credential>, Error>> + Send>>;

pub(super) struct Slot {
    pub(super) source: Source,
    pub(super) setup: Setup,
    pub(super) pending: Option<Pending>,
    pub(super) waiting: Vec<Id>,
    pub(super) lease: Option<Lease>,
    /// Whether a person attended the last run.
    pub(super) attended: bool,
    /// Whether the last run ended because its client went away and no other one waited.
    pub(super) abandoned: bool,
    /// A run that waits for a runner.
    pub(super) wanted: Option<mpsc::Sender<Runner>>,
    /// The message for unattended requests while a person has to log in.
    pub(super) login_needed: Option<String>,
    pub(super) acceptance: Acceptance,
    pub(super) subject: Option<String>,
    /// A note for the user, shown in the status.
    pub(super) remark: Option<String>,
    pub(super) asks: u64,
    pub(super) hits: u64,
    pub(super) runs: u64,
    pub(super) last_ask: Duration,
    pub(super) clients: Vec<String>,
    /// The clients that got a credential: which one, and when.
    pub(super) given: HashMap<peer::Client, (u64, Duration)>,
    frame: Option<(u64, Arc<Zeroizing<Vec<u8>>>)>,
}

/// The right of one client to run the plugin on behalf of all.
pub(super) struct Lease {
    pub(super) holder: Id,
    pub(super) id: u64,
    pub(super) attended: bool,
    pub(super) begun: Duration,
    pub(super) reply: mpsc::Sender<Runner>,
    /// The holder's name, for those who wait.
    pub(super) who: String,
}

/// What a slot is created from.
pub(super) struct Setup {
    pub(super) plan: Plan,
    /// The first question, to check after a run whether the identity is still the same.
    pub(super) ask: Ask,
    pub(super) registration: Option<Arc<Registration>>,
    pub(super) profile: Profile,
    /// Whether the agent may run the plugin itself.
    pub(super) runs_here: bool,
    /// The policy that the plan was made under.
    pub(super) policy: Policy,
    pub(super) version: Version,
    pub(super) form: Form,
}

/// The kuberc in force, and the version of the file.
#[derive(PartialEq, Eq)]
pub(super) struct Policy {
    path: Option<PathBuf>,
    file_id: Option<FileId>,
}

impl Policy {
    /// The kuberc for these surroundings.
    pub(super) fn of(surroundings: &Surroundings) -> Self {
        let path = Rules::path(surroundings, None);
        let file_id = path.as_deref().and_then(|path| FileId::read(path).ok());
        Self { path, file_id }
    }
}

impl Slot {
    pub(super) fn new(
        key: Key,
        (runner, setup): (PluginRunner, Setup),
        desk: &Arc<Desk>,
        clock: &SharedClock,
    ) -> Self {
        let (runs_here, desk) = (setup.runs_here, Arc::clone(desk));
        let fetch = SlotFetch { key, runner, runs_here, desk, clock: Arc::clone(clock) };
        Self {
            source: Source::from_fetch(fetch, Arc::clone(clock)),
            setup,
            pending: None,
            waiting: Vec::new(),
            lease: None,
            attended: false,
            abandoned: false,
            wanted: None,
            login_needed: None,
            acceptance: Acceptance::default(),
            subject: None,
            remark: None,
            asks: 0,
            hits: 0,
            runs: 0,
            last_ask: Duration::ZERO,
            clients: Vec::new(),
            given: HashMap::new(),
            frame: None,
        }
    }

    /// The slot's name for people: the user of the kubeconfig, or the command.
    pub(super) fn name(&self) -> String {
        match &self.setup.registration {
            Some(registration) => registration.user.clone(),
            None => String::from_utf8_lossy(&self.setup.ask.command).into_owned(),
        }
    }

    /// Whether a context or user name refers to this slot.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.setup.registration.as_ref().is_some_and(|known| known.is_called(name))
    }

    /// The frame of the answer, encoded once for each credential. `None` if the credential cannot
    /// be expressed as an answer.
    pub(super) fn frame(
        &mut self,
        credential: &Credential,
        now: Timestamp,
    ) -> Option<Arc<Zeroizing<Vec<u8>>>> {
        let serial = credential.serial();
        if let Some((known, frame)) = &self.frame
            && *known == serial
        {
            return Some(Arc::clone(frame));
        }
        let pair = credential.pair().map(|pair| pair.pem.clone());
        if credential.token().is_none() && pair.is_none() {
            return None;
        }
        let expires = credential.expires().map(|end| told_end(end, now));
        let (version, token) = (self.setup.version, credential.token().cloned());
        let stdout = Answer { version, token, pair, expires }.to_json(self.setup.form);
        let size = stdout.expose_bytes().len() + 64;
        let mut frame = Zeroizing::new(Vec::with_capacity(size));
        Message::Answer(agent::Answer { stdout, serial }).write(&mut frame);
        let frame = Arc::new(frame);
        self.frame = Some((serial, Arc::clone(&frame)));
        self.note_subject(credential);
        Some(frame)
    }

    fn note_subject(&mut self, credential: &Credential) {
        let new = subject::of(credential);
        if let (Some(old), Some(new)) = (&self.subject, &new)
            && old != new
        {
            self.remark = Some(format!(
                "the plugin now returns credentials for `{new}`, no longer for `{old}`"
            ));
        }
        self.subject = new.or(self.subject.take());
    }

    /// A server answered 401 to a credential, which is forgotten if it is still the current one.
    pub(super) fn rejected(&self, rejected: agent::Rejected) {
        if let Some(credential) = self.source.last().filter(|c| c.serial() == rejected.serial) {
            self.source.rejected(&credential, rejected.was_accepted, None);
        }
    }

    /// Whether the credential is renewed though nobody asks at the moment: the plugin never prompts,
    /// its last run did not fail, and somebody asked within [`WARM`].
    pub(super) fn is_kept_warm(&self, now: Duration) -> bool {
        self.setup.runs_here
            && self.setup.profile.keep_warm()
            && now < self.last_ask + WARM
            && self.is_idle()
            && self.source.history().error.is_none()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_none()
            && self.waiting.is_empty()
            && self.lease.is_none()
            && self.acceptance.asking.is_none()
    }
}

/// The expiry that clients are told: client-go asks again only after it, which is too late for a
/// request that is under way then.
fn told_end(end: Timestamp, now: Timestamp) -> Timestamp {
    let rest = end.duration_since(now).max(SignedDuration::ZERO);
    let early = (rest / 20).min(SignedDuration::from_secs(10));
    end.checked_sub(early).unwrap_or(end)
}

/// Gets a credential from a run here or in a client.
struct SlotFetch {
    key: Key,
    runner: PluginRunner,
    runs_here: bool,
    desk: Arc<Desk>,
    clock: SharedClock,
}

impl Fetch<Credential> for SlotFetch {
    fn name(&self) -> std::borrow::Cow<'_, str> {
        self.runner.name()
    }

    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        let fresh = if matches!(occasion, Occasion::Ahead) {
            if !self.runs_here {
                return Err(Error::new(Kind::NeedsTerminal, "only a client may run this plugin"));
            }
            let fresh = self.runner.fetch(occasion);
            // The loop checks whether the identity is still the same.
            self.desk.put(Event::Ready(self.key));
            fresh
        } else {
            let (reply, word) = mpsc::channel();
            self.desk.put(Event::RunnerWanted(self.key, reply));
            match word.recv() {
                Ok(Runner::Agent) => self.runner.fetch(occasion),
                Ok(Runner::Client(output)) => self.runner.accept(&output),
                Ok(Runner::Nobody(error)) => Err(error),
                Err(_) => Err(Error::new(Kind::Failed, "the agent has ended")),
            }
        }?;
        let most = self.clock.now().checked_add(LONGEST).ok();
        let expires = match (fresh.expires, most) {
            (Some(end), Some(most)) => Some(end.min(most)),
            (end, most) => end.or(most),
        };
        Ok(Fetched { value: fresh.value, expires })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_an_end_a_little_before_the_end() {
        let now = Timestamp::UNIX_EPOCH;
        let told = |seconds: i64| {
            told_end(Timestamp::from_second(seconds).expect("near"), now).as_second()
        };
        assert_eq!(told(900), 890);
        assert_eq!(told(100), 95);
        assert_eq!(told(0), 0);
        assert_eq!(told(-5), -5);
    }
}
