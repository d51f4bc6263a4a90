//! The agent: one loop on one thread, which never waits for anything but the next event.
//!
//! Plugins run on the threads of `keyward-host`, or in a client that holds a lease. The loop hears
//! from them through the [`Desk`].

mod admin;
mod ask;
mod connection;
mod desk;
mod handover;
mod lease;
mod life;
mod metrics;
mod peer;
mod proxy;
mod secrets;
mod serve;
mod service_manager;
mod slot;
mod status;
mod subject;
mod verify;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    io,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use keyward_host::Sources;
use keyward_process::clock::SharedClock;
use keyward_protocol::agent::{Admin, Message};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::SocketFlags,
};

use self::{
    connection::{Connection, Id, Incoming, State},
    desk::{Desk, Event},
    life::Place,
    metrics::{Metrics, Outcome},
    peer::Peers,
    proxy::Proxies,
    secrets::Secrets,
    slot::Slot,
};
pub use self::{
    life::CannotStart,
    serve::{ServeOptions, ready, serve},
};
use crate::{Address, client::timespec, identity::Files, registration::Registrations};

/// The key of a slot: the digest of an identity.
pub(crate) type Key = [u8; 32];

/// How long a client may take to send its question.
const QUESTION: Duration = Duration::from_secs(2);
/// After how long a waiting client is told what it waits for.
const TELL: Duration = Duration::from_secs(3);
/// How often the agent does its housekeeping when nothing happens.
const LOOK: Duration = Duration::from_secs(60);
/// How many clients are accepted before others have their turn.
const BATCH: usize = 64;
/// How long clients that wait for an answer at a handover are still served.
const DRAIN: Duration = Duration::from_secs(60);
/// How much is read from a connection at once: most questions, whole.
const SPACE: usize = 16 << 10;
/// How many clients may be connected.
const MOST: usize = 1024;
/// A credential that nobody has asked for in this time is forgotten.
const UNUSED: Duration = Duration::from_secs(2 * 3600);

/// The agent's settings.
#[non_exhaustive]
pub struct Settings {
    /// Where the agent listens.
    pub address: Address,
    /// The directory of the registrations.
    pub registrations: PathBuf,
    /// The clock.
    pub clock: SharedClock,
    /// How long the agent stays without anything to keep.
    pub idle: Duration,
    /// The `BROWSER` of plugins that no person attends.
    pub browser: Option<String>,
    /// The program `keyward`, which asks a server whether it accepts a credential that a client asks
    /// for again. The agent itself speaks no TLS.
    pub verifier: Option<PathBuf>,
    /// The program `keyward`, which serves proxies.
    pub proxy_program: Option<PathBuf>,
    /// The directory with a directory for each proxy. One that has grants is always to run, because
    /// the consumers of grants cannot start it.
    pub proxies: Option<PathBuf>,
    /// The agent's program file, to notice an upgrade.
    pub program: Option<PathBuf>,
    /// The socket of the service manager that started the agent, which is told of a handover.
    pub service_manager: Option<OsString>,
    /// This is the node's agent: it keeps secrets by name for root, and runs nothing.
    pub system: bool,
}

impl Settings {
    /// The default settings.
    pub fn new(address: Address, registrations: PathBuf, clock: SharedClock) -> Self {
        let idle = Duration::from_secs(600);
        Self {
            address,
            registrations,
            clock,
            idle,
            browser: None,
            verifier: None,
            proxy_program: None,
            proxies: None,
            program: None,
            service_manager: None,
            system: false,
        }
    }
}

/// Why the agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// There was nothing to keep for a while.
    Idle,
    /// A person or a signal stopped the agent.
    Stopped,
    /// The agent's socket was removed or replaced.
    Displaced,
    /// A newer agent took over the socket.
    HandedOver,
    /// The program was replaced; the service manager, which keeps the socket, starts the new one.
    Upgraded,
}

/// The agent.
pub struct Server {
    settings: Settings,
    place: Place,
    peers: Peers,
    /// Where connections are read to, wiped after each.
    space: Box<[u8]>,
    desk: Arc<Desk>,
    connections: HashMap<Id, Connection>,
    slots: HashMap<Key, Slot>,
    /// Runs plugins; the metrics count what happens.
    sources: Sources,
    metrics: Metrics,
    registrations: Registrations,
    files: Files,
    secrets: Secrets,
    proxies: Proxies,
    locked: bool,
    /// Registrations whose owner has logged out.
    signed_out: HashSet<[u8; 32]>,
    last_id: Id,
    /// When something last happened.
    active: Duration,
    looked: Duration,
    upgrade: handover::Upgrade,
    /// When a newer agent took over the socket.
    handed_over: Option<Duration>,
    end: Option<End>,
}

/// Stops a server from a signal handler or another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Desk>);

impl Stopper {
    /// Stops the server.
    pub fn stop(&self) {
        self.0.put(Event::Stop);
    }
}

impl Server {
    /// Starts to listen. Fails if another agent already does.
    pub fn bind(settings: Settings) -> Result<Self, CannotStart> {
        let take = if settings.system { Place::take_system } else { Place::take };
        let place = take(settings.address.clone())?;
        Self::at(place, settings)
    }

    fn at(place: Place, settings: Settings) -> Result<Self, CannotStart> {
        let now = settings.clock.elapsed();
        let metrics = Metrics::default();
        Ok(Self {
            place,
            peers: Peers::new()?,
            space: vec![0; SPACE].into(),
            desk: Desk::new()?,
            connections: HashMap::new(),
            slots: HashMap::new(),
            sources: Sources::new(Arc::clone(&settings.clock), metrics.host.clone()),
            metrics,
            registrations: Registrations::new(settings.registrations.clone()),
            files: Files::default(),
            secrets: Secrets::new(settings.system),
            proxies: Proxies::new(now),
            locked: false,
            signed_out: HashSet::new(),
            last_id: 0,
            active: now,
            looked: now,
            upgrade: handover::Upgrade::new(settings.program.as_deref(), now),
            handed_over: None,
            end: None,
            settings,
        })
    }

    /// A handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.desk))
    }

    /// Serves until there is a reason to end.
    pub fn run(mut self) -> io::Result<End> {
        loop {
            let rung = self.wait()?;
            let events = if rung { self.desk.take() } else { Vec::new() };
            let mut stopped = false;
            for event in events {
                match event {
                    Event::RunnerWanted(key, reply) => self.runner_wanted(key, reply),
                    Event::Ready(key) => self.ready(key),
                    Event::Verified(key, credential, accepted) => {
                        self.verified(key, &credential, accepted);
                    }
                    Event::ProxyEnded(name, process) => self.proxy_ended(&name, process),
                    Event::Stop => stopped = true,
                }
            }
            self.look();
            if stopped {
                self.end = Some(End::Stopped);
            }
            if let Some(since) = self.handed_over {
                let late = self.settings.clock.elapsed() >= since + DRAIN;
                if self.connections.is_empty() || late {
                    self.end = Some(End::HandedOver);
                }
            }
            if let Some(end) = self.end {
                self.place.leave();
                if end == End::Stopped {
                    self.stop_proxies();
                }
                self.flush_all();
                return Ok(end);
            }
        }
    }

    /// Waits for the next event and handles what connections bring. Returns whether another thread
    /// has something to tell.
    fn wait(&mut self) -> io::Result<bool> {
        let mut ids = Vec::with_capacity(self.connections.len());
        let mut fds = vec![PollFd::from_borrowed_fd(self.desk.bell(), PollFlags::IN)];
        for (id, connection) in &self.connections {
            let out = if connection.wants_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(&connection.stream, PollFlags::IN | out));
            ids.push(*id);
        }
        if let Some(held) = &self.place.held {
            fds.push(PollFd::new(&held.listener, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timespec(self.patience()))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let rung = ready.next().unwrap_or(false);
        ids.retain(|_| ready.next().unwrap_or(false));
        let new = ready.next().unwrap_or(false);
        drop(fds);
        for id in ids {
            self.serve(id);
        }
        if new {
            self.accept();
        }
        Ok(rung)
    }

    /// How long the loop may sleep.
    fn patience(&self) -> Duration {
        let now = self.settings.clock.elapsed();
        let due = self.connections.values().filter_map(|connection| match &connection.state {
            State::New | State::Ending => Some(connection.since + QUESTION),
            State::Waiting { noted: false, .. } => Some(connection.since + TELL),
            _ => None,
        });
        let drained = self.handed_over.map(|since| since + DRAIN);
        let others = drained.into_iter().chain(self.proxies.due());
        let due = due.chain([self.looked + self.pace()]).chain(others).min().unwrap_or(now + LOOK);
        due.saturating_sub(now).max(Duration::from_millis(1))
    }

    fn accept(&mut self) {
        for _ in 0..BATCH {
            // The client that was accepted last may have taken it over.
            let Some(held) = &self.place.held else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let stream = match rustix::net::accept_with(&held.listener, flags) {
                Ok(stream) => stream,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                // Out of descriptors: connected clients will free some.
                Err(_) => return,
            };
            if self.connections.len() >= MOST {
                self.make_room();
            }
            self.last_id += 1;
            let id = self.last_id;
            let now = self.settings.clock.elapsed();
            self.connections.insert(id, Connection::new(stream.into(), now));
            // Clients send their question at once, so usually it has arrived already.
            self.serve(id);
        }
    }

    /// Closes the oldest connection that has not sent a question.
    fn make_room(&mut self) {
        let new = self.connections.iter().filter(|(_, c)| matches!(c.state, State::New));
        if let Some(oldest) = new.map(|(id, _)| *id).min() {
            self.close(oldest);
        }
    }

    /// Handles what a connection sent, and sends what is queued for it.
    fn serve(&mut self, id: Id) {
        if let Some(connection) = self.connections.get_mut(&id) {
            // Before it is greeted: a client that keeps its memory private does so again from then on.
            if connection.peer.is_none() {
                connection.peer = Some(self.peers.admit(&connection.stream));
            }
        }
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            match connection.read(&mut self.space) {
                Incoming::Message(message) => self.hear(id, message),
                Incoming::Nothing => break,
                Incoming::End => return self.close(id),
            }
        }
        self.flush(id);
    }

    fn flush(&mut self, id: Id) {
        if self.connections.get_mut(&id).is_some_and(|connection| !connection.flush()) {
            self.close(id);
        }
    }

    fn flush_all(&mut self) {
        for connection in self.connections.values_mut() {
            connection.flush();
        }
    }

    fn hear(&mut self, id: Id, message: Message) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(Err(why)) = connection.peer {
            if matches!(message, Message::Ask(_)) {
                self.metrics.count(Outcome::Direct, 1);
            }
            return connection.end_with(&Message::Direct(why.into()));
        }
        // Who only scrapes does not keep the agent running.
        if message != Message::Admin(Admin::Metrics) {
            self.active = self.settings.clock.elapsed();
        }
        match (&connection.state, message) {
            (State::New, Message::Ask(_)) if self.settings.system => {
                connection.end_with(&Message::Direct("the node's agent runs no plugins".into()));
            }
            (State::New, Message::Ask(ask)) => self.ask(id, ask),
            (State::Leased { .. }, Message::Done(done)) => self.done(id, &done),
            (State::New, Message::Rejected(rejected)) => self.rejected(id, rejected),
            (State::New, Message::Admin(admin)) => self.admin(id, admin),
            (State::New | State::Secrets { waits: None }, Message::Secret(request)) => {
                self.secret(id, request);
            }
            (State::New | State::Proxy { .. }, Message::Proxy(request))
                if !self.settings.system =>
            {
                self.proxy(id, request);
            }
            (State::New, Message::TakeOver) if !self.settings.system => self.hand_over(id),
            _ => self.close(id),
        }
    }

    /// A connection has ended: what it waited for or held goes to others.
    fn close(&mut self, id: Id) {
        let Some(connection) = self.connections.remove(&id) else { return };
        match connection.state {
            State::Waiting { key, .. } => {
                if let Some(slot) = self.slots.get_mut(&key) {
                    slot.waiting.retain(|waiting| *waiting != id);
                    if let Some((_, waiting)) = &mut slot.acceptance.asking {
                        waiting.retain(|waiting| *waiting != id);
                    }
                }
            }
            State::Leased { key, .. } => self.lease_lost(key, id),
            State::Secrets { .. } => {
                for (other, served) in self.secrets.gone(id) {
                    self.served(other, served);
                }
            }
            State::Proxied { service } => self.proxy_client_gone(id, &service),
            State::Proxy { service } => self.proxy_gone(id, &service),
            State::New | State::Draining { .. } | State::Ending => {}
        }
    }

    /// Housekeeping by the clock: late questions, notes for waiting clients, the agent's own end.
    fn look(&mut self) {
        let now = self.settings.clock.elapsed();
        let late: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, c)| matches!(c.state, State::New | State::Ending))
            .filter(|(_, c)| now >= c.since + QUESTION)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.close(id);
        }
        let housekeeping = now >= self.looked + self.pace();
        if housekeeping {
            self.looked = now;
            // Before the proxies' turn, or the loop would wake up again for them alone. An agent that
            // has handed over starts none.
            if self.handed_over.is_none() {
                self.proxies.check_at(now);
            }
        }
        self.tell_waiting(now);
        self.late_proxies(now);
        self.consider_upgrade(now);
        if !housekeeping {
            return;
        }
        self.peers.forget();
        self.secrets.sweep(self.settings.clock.wall_millis());
        for slot in self.slots.values().filter(|slot| slot.is_kept_warm(now)) {
            // Past its refresh time this starts a run in the background, as a request would.
            let _ = slot.source.current();
        }
        self.slots.retain(|_, slot| !slot.is_idle() || now < slot.last_ask + UNUSED);
        if self.end.is_some() || self.handed_over.is_some() {
            return;
        }
        if !self.place.is_ours() {
            self.end = Some(End::Displaced);
        } else if self.is_idle() && now.saturating_sub(self.active) >= self.settings.idle {
            self.end = Some(End::Idle);
        }
    }

    /// How often the agent does its housekeeping.
    fn pace(&self) -> Duration {
        LOOK.min(self.settings.idle)
    }

    /// Whether the agent keeps nothing and does nothing.
    fn is_idle(&self) -> bool {
        self.secrets.is_empty()
            && self.proxies.is_idle()
            && !self.locked
            && self.connections.is_empty()
            && self
                .slots
                .values()
                .all(|slot| slot.is_idle() && slot.source.history().came.is_none())
    }
}
