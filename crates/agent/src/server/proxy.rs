//! Proxies that run as services of the agent: who wants one, and where each stands.
//!
//! A proxy is a process of its own, `keyward proxy serve NAME`, because the agent speaks no TLS. It
//! connects to the agent like any client, says what its clients need, and stays connected. So a
//! proxy outlives an agent that crashes or is replaced: it connects to the next one.

mod stop;

use std::{
    collections::HashMap, ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path, sync::Arc,
    time::Duration,
};

use keyward_host::kubeconfig::Exec;
use keyward_protocol::{
    agent::{Answer, Ask, Message, ProxyContext, ProxyRequest, Served},
    exec::{self, Form, PemPair, Version},
    text::inline,
};

use super::{
    Server,
    connection::{Id, State},
    desk::Event,
};

/// How long a client may use a certificate before it asks again: after a restart of the proxy, a
/// program that runs for days has the new one this soon.
const CERTIFICATE: Duration = Duration::from_secs(20);
/// How long a client may take to connect after its certificate was still good.
const MARGIN: Duration = Duration::from_secs(5);
/// How long the reason why a proxy did not start is repeated. kubectl asks five times in a row.
const FAILED: Duration = Duration::from_secs(2);
/// How long a proxy may take until it serves.
const START: Duration = Duration::from_secs(30);
/// How long a proxy that was told to stop may still listen.
const STOP: Duration = Duration::from_secs(20);
/// The longest name of a service.
const NAME: usize = 64;
/// How long a proxy may take to find an agent that has just started.
const FIND: Duration = Duration::from_secs(2);
/// How soon a proxy that crashed is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// What clients of a locked agent are told.
const LOCKED: &str = "the agent is locked; run `keyward agent unlock`";

/// The proxies that are running or wanted.
pub(super) struct Proxies {
    /// By name.
    all: HashMap<String, Service>,
    /// When to start those that have grants and do not run.
    check: Option<Duration>,
}

#[derive(Default)]
struct Service {
    state: Progress,
    waiting: Waiting,
    /// When a client was last sent to the proxy.
    asked: Option<Duration>,
    /// Start it again when it has ended.
    restart: bool,
    /// Somebody wants it not to run.
    stopped: bool,
    failed: Option<(Duration, String)>,
    /// The contexts that a connection has named so far, before it serves them.
    parts: Option<(Id, Vec<ProxyContext>)>,
}

/// Where a proxy stands.
#[derive(Default)]
enum Progress {
    #[default]
    Absent,
    Starting {
        process: u32,
        since: Duration,
    },
    Serving {
        connection: Id,
        contexts: Vec<ProxyContext>,
    },
    /// Was told to stop.
    Stopping {
        connection: Id,
        since: Duration,
    },
}

/// Clients, and what they wait for.
type Waiting = Vec<(Id, Wish)>;

/// What a client waits for.
enum Wish {
    Certificate(String),
    Start,
    Stop,
}

impl Proxies {
    pub(super) fn new(now: Duration) -> Self {
        Self { all: HashMap::new(), check: Some(now + FIND) }
    }

    /// Starts those that have grants and do not run, at this time or before.
    pub(super) fn check_at(&mut self, when: Duration) {
        self.check = Some(self.check.map_or(when, |check| check.min(when)));
    }

    /// Whether no proxy is starting, serving or stopping.
    pub(super) fn is_idle(&self) -> bool {
        self.all.values().all(|service| matches!(service.state, Progress::Absent))
    }

    /// When the first of the proxies that are starting or stopping is late, or one has to be started.
    pub(super) fn due(&self) -> Option<Duration> {
        let due = |service: &Service| match service.state {
            Progress::Starting { since, .. } => Some(since + START),
            Progress::Stopping { since, .. } => Some(since + STOP),
            Progress::Absent | Progress::Serving { .. } => None,
        };
        self.all.values().filter_map(due).chain(self.check).min()
    }

    /// Forgets all of them: another agent has taken over.
    pub(super) fn dismiss(&mut self) {
        self.all.clear();
        self.check = None;
    }

    /// The names of the proxies that serve, in order.
    pub(super) fn serving(&self) -> Vec<&str> {
        let serving = self
            .all
            .iter()
            .filter(|(_, service)| matches!(service.state, Progress::Serving { .. }));
        let mut names: Vec<_> = serving.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }
}

impl Server {
    pub(super) fn proxy(&mut self, id: Id, request: ProxyRequest) {
        match request {
            ProxyRequest::Certificate { service, context } => {
                self.wish(id, service, Wish::Certificate(context));
            }
            ProxyRequest::Start(service) => self.wish(id, service, Wish::Start),
            ProxyRequest::Stop(service) => self.stop_wanted(id, &service),
            ProxyRequest::Part { service, contexts } => self.part(id, &service, contexts),
            ProxyRequest::Serving { service, contexts } => self.serving(id, &service, contexts),
            ProxyRequest::Failed { service, why } => {
                self.failed(&service, &why);
                self.confirm(id);
            }
            ProxyRequest::Idle(service) => self.idle(id, &service),
            ProxyRequest::Replaced(service) => {
                let since = self.settings.clock.elapsed();
                if let Some(service) = self.own_service(id, &service) {
                    service.restart = true;
                    service.state = Progress::Stopping { connection: id, since };
                }
            }
            ProxyRequest::Draining(service) => self.draining(id, &service),
            _ => self.close(id),
        }
    }

    /// A client wants the proxy to serve.
    fn wish(&mut self, id: Id, name: String, wish: Wish) {
        if self.locked {
            return self.fail(id, LOCKED);
        }
        if !is_name(&name) {
            return self.fail(id, "no proxy has such a name");
        }
        let now = self.settings.clock.elapsed();
        let service = self.proxies.all.entry(name.clone()).or_default();
        match &service.state {
            Progress::Serving { .. } => return self.grant(id, &name, &wish),
            Progress::Starting { .. } | Progress::Stopping { .. } => {}
            Progress::Absent => {
                if let Some((when, why)) = &service.failed
                    && now < *when + FAILED
                {
                    let why = why.clone();
                    return self.fail(id, &why);
                }
                if let Err(why) = self.start_proxy(&name) {
                    return self.fail(id, &why);
                }
            }
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.state = State::Proxied { service: name.clone() };
            self.proxies.all.entry(name).or_default().waiting.push((id, wish));
        }
    }

    /// Answers a client of a proxy that serves.
    fn grant(&mut self, id: Id, name: &str, wish: &Wish) {
        let now = self.settings.clock.elapsed();
        let Some(service) = self.proxies.all.get_mut(name) else { return };
        let Progress::Serving { contexts, .. } = &service.state else { return };
        let wanted = match wish {
            Wish::Certificate(wanted) => wanted,
            Wish::Start | Wish::Stop => return self.confirm(id),
        };
        let Some(context) = contexts.iter().find(|context| context.name == *wanted) else {
            let why = format!(
                "context `{}` is no longer in the kubeconfig that the proxy serves; \
                 `kubectl config get-contexts` lists the others",
                inline(wanted)
            );
            return self.fail(id, &why);
        };
        if !context.fault.is_empty() {
            let why = context.fault.clone();
            return self.fail(id, &why);
        }
        service.asked = Some(now);
        let expires = self.settings.clock.now().checked_add(CERTIFICATE).ok();
        let certificate = context.certificate.clone();
        let answer = exec::Answer {
            version: Version::V1,
            token: None,
            pair: Some(PemPair { certificate, key: context.key.clone() }),
            expires,
        };
        let stdout = answer.to_json(Form::ExecCredential);
        self.end_with(id, &Message::Answer(Answer { stdout, serial: 0 }));
    }

    /// Runs the proxy's program. The agent runs nothing that a client names: the name only selects one
    /// of the user's own directories.
    fn start_proxy(&mut self, name: &str) -> Result<(), String> {
        let Some(program) = self.settings.proxy_program.clone() else {
            return Err("this agent cannot start proxies".to_owned());
        };
        let desk = Arc::clone(&self.desk);
        let ended = {
            let name = name.to_owned();
            move |process| desk.put(Event::ProxyEnded(name, process))
        };
        let process = crate::start::spawn_proxy(&program, name, ended)
            .map_err(|error| format!("cannot run `{}`: {error}", program.display()))?;
        let since = self.settings.clock.elapsed();
        let service = self.proxies.all.entry(name.to_owned()).or_default();
        service.state = Progress::Starting { process, since };
        service.restart = false;
        service.stopped = false;
        service.failed = None;
        Ok(())
    }

    /// A proxy says what some of its clients need, before it says the rest.
    fn part(&mut self, id: Id, name: &str, contexts: Vec<ProxyContext>) {
        if !is_name(name) {
            return self.close(id);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.state = State::Proxy { service: name.to_owned() };
        let service = self.proxies.all.entry(name.to_owned()).or_default();
        match &mut service.parts {
            Some((other, parts)) if *other == id => parts.extend(contexts),
            parts => *parts = Some((id, contexts)),
        }
    }

    /// A proxy says what its clients need.
    fn serving(&mut self, id: Id, name: &str, contexts: Vec<ProxyContext>) {
        if !is_name(name) {
            return self.close(id);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.state = State::Proxy { service: name.to_owned() };
        let service = self.proxies.all.entry(name.to_owned()).or_default();
        let parts = service.parts.take_if(|(other, _)| *other == id);
        // Told to stop while it had news: that stays true.
        if matches!(service.state, Progress::Stopping { connection, .. } if connection == id) {
            return;
        }
        let mut all = parts.map_or_else(Vec::new, |(_, parts)| parts);
        all.extend(contexts);
        service.state = Progress::Serving { connection: id, contexts: all };
        service.failed = None;
        let (stops, others) = apart(std::mem::take(&mut service.waiting));
        if self.locked || !stops.is_empty() {
            // Those who want it to serve wait for the next start.
            service.waiting = stops.into_iter().chain(others).collect();
            if self.locked {
                self.refuse_proxy_clients(LOCKED);
            }
            return self.stop_proxy(name, id);
        }
        for (client, wish) in others {
            self.grant(client, name, &wish);
        }
    }

    /// A proxy no longer listens, so another one can. It is still told to stop.
    fn draining(&mut self, id: Id, name: &str) {
        if !is_name(name) {
            return self.close(id);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.state = State::Draining { service: name.to_owned() };
        self.proxy_gone(id, name);
        if self.locked {
            self.say_stop(name, id);
        }
    }

    fn idle(&mut self, id: Id, name: &str) {
        let now = self.settings.clock.elapsed();
        let Some(service) = self.own_service(id, name) else { return };
        // A client that was sent there may not have arrived yet.
        let awaited = service.asked.is_some_and(|asked| now < asked + CERTIFICATE + MARGIN);
        if !awaited && matches!(service.state, Progress::Serving { .. }) {
            self.stop_proxy(name, id);
        }
    }

    /// The service that this connection serves.
    fn own_service(&mut self, id: Id, name: &str) -> Option<&mut Service> {
        let service = self.proxies.all.get_mut(name)?;
        let (Progress::Serving { connection: own, .. }
        | Progress::Stopping { connection: own, .. }) = service.state
        else {
            return None;
        };
        (own == id).then_some(service)
    }

    /// A proxy's connection has ended, so nothing listens any more.
    pub(super) fn proxy_gone(&mut self, id: Id, name: &str) {
        if let Some(service) = self.proxies.all.get_mut(name) {
            service.parts.take_if(|(other, _)| *other == id);
        }
        if self.own_service(id, name).is_none() {
            return;
        }
        let now = self.settings.clock.elapsed();
        let Some(service) = self.proxies.all.get_mut(name) else { return };
        if matches!(service.state, Progress::Serving { .. }) {
            // Nobody has told it to end.
            self.proxies.check = Some(now + AGAIN);
        }
        service.state = Progress::Absent;
        let (stops, others) = apart(std::mem::take(&mut service.waiting));
        let again = !others.is_empty() || service.restart;
        service.waiting = others;
        for (client, _) in stops {
            self.confirm(client);
        }
        if self.locked {
            return self.refuse_proxy_clients(LOCKED);
        }
        if again && let Err(why) = self.start_proxy(name) {
            self.failed(name, &why);
        }
    }

    /// The process of a proxy has ended.
    pub(super) fn proxy_ended(&mut self, name: &str, process: u32) {
        let starting = self.proxies.all.get(name).is_some_and(|service| {
            matches!(service.state, Progress::Starting { process: own, .. } if own == process)
        });
        if starting {
            let why = "the proxy ended before it could serve; `keyward proxy start` says more";
            self.failed(name, why);
        }
    }

    /// Gives up on proxies that do not come up or do not stop, and starts those whose consumers cannot.
    pub(super) fn late_proxies(&mut self, now: Duration) {
        if self.proxies.check.take_if(|check| now >= *check).is_some() && !self.locked {
            self.start_granted();
        }
        let stuck = self.proxies.all.values().filter_map(|service| match service.state {
            Progress::Stopping { connection, since } if now >= since + STOP => Some(connection),
            _ => None,
        });
        for connection in stuck.collect::<Vec<_>>() {
            self.close(connection);
        }
        let late = self.proxies.all.iter().filter(|(_, service)| {
            matches!(service.state, Progress::Starting { since, .. } if now >= since + START)
        });
        for name in late.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let why = format!("the proxy did not start within {} s", START.as_secs());
            self.failed(&name, &why);
        }
    }

    fn start_granted(&mut self) {
        let directories = self.settings.proxies.iter().flat_map(fs::read_dir).flatten().flatten();
        let granted: Vec<_> = directories
            .filter(|entry| {
                let grants = fs::read_dir(entry.path().join("grants"));
                grants.is_ok_and(|mut grants| grants.next().is_some())
            })
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_name(name))
            .collect();
        for name in granted {
            let rests = self.proxies.all.get(&name).is_none_or(|service| {
                matches!(service.state, Progress::Absent) && !service.stopped
            });
            if rests && let Err(why) = self.start_proxy(&name) {
                self.failed(&name, &why);
            }
        }
    }

    fn failed(&mut self, name: &str, why: &str) {
        let now = self.settings.clock.elapsed();
        let Some(service) = self.proxies.all.get_mut(name) else { return };
        if !matches!(service.state, Progress::Starting { .. } | Progress::Absent) {
            return;
        }
        service.state = Progress::Absent;
        service.failed = Some((now, why.to_owned()));
        for (client, wish) in std::mem::take(&mut service.waiting) {
            match wish {
                Wish::Stop => self.end_with(client, &Message::Served(Served::Absent)),
                _ => self.fail(client, why),
            }
        }
    }

    /// A client that waited for a proxy has left.
    pub(super) fn proxy_client_gone(&mut self, id: Id, name: &str) {
        if let Some(service) = self.proxies.all.get_mut(name) {
            service.waiting.retain(|(waiting, _)| *waiting != id);
        }
    }
}

/// Those who want a proxy to stop, and the others.
fn apart(waiting: Waiting) -> (Waiting, Waiting) {
    waiting.into_iter().partition(|(_, wish)| matches!(wish, Wish::Stop))
}

/// Whether this can be the name of a service, which is the name of a directory and a word on a command line.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=NAME).contains(&name.len()) && !name.starts_with(['.', '-']) && name.chars().all(plain)
}

/// Refuses to keep answers of `keyward-exec proxy`, which are certificates of the proxy that runs now: the next proxy has
/// others.
pub(super) fn refuse_client(ask: &Ask) -> Result<(), &'static str> {
    let program = Path::new(OsStr::from_bytes(&ask.command)).file_name();
    let is_ours = program == Some(Exec::WRAPPER.as_ref());
    if is_ours && ask.args.first().is_some_and(|arg| arg == b"proxy") {
        return Err("a certificate for a proxy is not kept");
    }
    Ok(())
}
