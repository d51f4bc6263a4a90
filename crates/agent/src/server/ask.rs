//! From a question to an answer: finds the identity and its slot, and runs the plugin if needed.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use keyward_host::{
    Credential, Error, Kind, Observer as _, Plan, PlanSettings, PluginRunner, StderrMode, Target,
    kubeconfig::{ApiVersion, Cluster, Exec, InteractiveMode, Place},
    rules::{Rules, Verdict},
};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_protocol::{
    Secret,
    agent::{Ask, Failure, Message, Rejected, Served},
    exec::{REQUEST_VARIABLE, Request, Version},
    text,
};

use super::{
    Key, Server,
    connection::{Id, State},
    metrics::Outcome,
    proxy,
    slot::{Policy, Setup, Slot},
};
use crate::{
    identity::{Asker, Files, Selected},
    registration::Registration,
};

/// Requests of one process for one credential within this time belong to the program's start; they
/// are not a reaction to a 401.
const AT_ONCE: Duration = Duration::from_millis(15);
/// How many plugins may run at once.
const RUNS: usize = 64;
/// How many answered processes a slot remembers.
const REMEMBERED: usize = 256;

/// How many client names a slot remembers.
const NAMED: usize = 4;

/// Exit code for "a person has to log in".
pub(super) const LOGIN: u8 = 3;

impl Server {
    pub(super) fn ask(&mut self, id: Id, ask: Ask) {
        if self.locked {
            self.metrics.count(Outcome::Locked, 1);
            return self.fail(id, "the agent is locked: unlock it with `keyward agent unlock`");
        }
        match self.find(ask) {
            Err(Refusal::Direct(why)) => {
                self.metrics.count(Outcome::Direct, 1);
                self.end_with(id, &Message::Direct(why.to_owned()));
            }
            Err(Refusal::Error(error)) => {
                self.metrics.count(Outcome::Failure, 1);
                if error.kind() == Kind::NotAllowed {
                    self.metrics.host.judged(false);
                }
                let failure = failure(&error);
                self.end_with(id, &Message::Failure(failure));
            }
            Ok((key, asked)) => self.answer_or_wait(id, key, asked),
        }
    }

    /// Finds the slot of an asker, or creates it.
    fn find(&mut self, mut ask: Ask) -> Result<(Key, Asked), Refusal> {
        proxy::refuse_client(&ask).map_err(Refusal::Direct)?;
        let info = ask.variable(REQUEST_VARIABLE.as_bytes()).unwrap_or_default();
        let request = Request::read(info)
            .map_err(|_| Refusal::Direct("`KUBERNETES_EXEC_INFO` has no request"))?
            .request;
        let key = self.select(&ask, &request, Selected::key_of).1;
        let policy = Policy::of(&policy_surroundings(&ask));
        let interactive = request.interactive || ask.login;
        let terminal = std::mem::take(&mut ask.terminal);
        let asked = Asked {
            terminal: if interactive { terminal } else { Vec::new() },
            login: ask.login,
            own: ask.own,
            rejected: ask.rejected.take(),
        };
        if self.has_slot(key, &policy) {
            return Ok((key, asked));
        }
        // A file may have changed since the first look, and the key with it.
        let selected = self.select(&ask, &request, Selected::of);
        let key = selected.1.key;
        if self.has_slot(key, &policy) {
            return Ok((key, asked));
        }
        let made = self.make(ask, &request, selected, policy)?;
        self.slots.insert(key, Slot::new(key, made, &self.desk, &self.settings.clock));
        Ok((key, asked))
    }

    /// Whether a slot can be used under this policy. One that is busy is used in any case.
    fn has_slot(&self, key: Key, policy: &Policy) -> bool {
        self.slots.get(&key).is_some_and(|slot| slot.setup.policy == *policy || !slot.is_idle())
    }

    /// The registration of what is asked for, and what `compute` makes of the asker.
    fn select<T>(
        &mut self,
        ask: &Ask,
        request: &Request,
        compute: impl FnOnce(Option<&Registration>, &Asker<'_>, &mut Files) -> T,
    ) -> (Option<Arc<Registration>>, T) {
        let told = cluster(request);
        let asker = Asker {
            command: &ask.command,
            args: &ask.args,
            environment: &ask.environment,
            directory: Path::new(OsStr::from_bytes(&ask.directory)),
            api_version: request.version.api_version(),
            cluster: told.as_deref().map(str::as_bytes),
        };
        let registration = self.registrations.find(&asker);
        let selected = compute(registration.as_deref(), &asker, &mut self.files);
        (registration, selected)
    }

    /// Collects what a slot needs; fails if the plugin may not run or does not exist.
    fn make(
        &self,
        ask: Ask,
        request: &Request,
        (registration, selected): (Option<Arc<Registration>>, Selected),
        policy: Policy,
    ) -> Result<(PluginRunner, Setup), Refusal> {
        let not_text = |_| Refusal::Direct("the command or an argument is not UTF-8");
        let command = String::from_utf8(ask.command.clone()).map_err(not_text)?;
        let args: Result<Vec<_>, _> = ask.args.iter().cloned().map(String::from_utf8).collect();
        let exec = Exec {
            api_version: ApiVersion::Known(request.version),
            command: command.clone(),
            args: args.map_err(not_text)?,
            provide_cluster_info: request.cluster.is_some(),
            interactive_mode: InteractiveMode::Never,
            ..Exec::default()
        };
        let mut target = Target::default();
        if let Some(known) = &registration {
            target.user.name.clone_from(&known.user);
            target.user.place = Place { file: Some(known.kubeconfig.as_path().into()), line: 0 };
        }
        target.user.value.exec = Some(exec);
        if let Some(told) = &request.cluster {
            target.cluster.value = Cluster {
                server: told.server.clone(),
                tls_server_name: told.tls_server_name.clone(),
                insecure_skip_tls_verify: told.insecure_skip_tls_verify,
                certificate_authority_data: told.certificate_authority_data.clone(),
                proxy_url: told.proxy_url.clone(),
                disable_compression: told.disable_compression,
                ..Cluster::default()
            };
            target.exec_config.clone_from(&told.config);
        }
        let runs_here = registration.is_some() && selected.lease_only.is_none();
        let theirs = surroundings(&ask, pairs(&ask.environment));
        let surroundings =
            if runs_here { surroundings(&ask, selected.variables) } else { theirs.clone() };
        let rules = Rules::load(&theirs, None)?;
        let mut settings = PlanSettings::default();
        settings.person = false;
        settings.stderr = StderrMode::Kept;
        settings.form = request.form;
        settings.variables = self.settings.browser.iter().map(|command| browser(command)).collect();
        let (verdict, _) = rules.judge(&command, &surroundings);
        let plan = match Plan::new(target, &rules, &surroundings, settings) {
            Ok(plan) => plan,
            // The policy allows it, but the agent cannot run it: the program is missing, or others
            // could change it. Without an agent the client would try it.
            Err(_) if matches!(verdict, Verdict::Allowed | Verdict::Listed(_)) => {
                return Err(Refusal::Direct("the agent cannot run the plugin"));
            }
            Err(error) => return Err(error.into()),
        };
        let runner = self.sources.plugin_runner(plan.clone());
        let runner = runner.ok_or(Refusal::Direct("the command is not a plugin"))?;
        let (profile, version, form) = (selected.profile, request.version, request.form);
        let setup = Setup { plan, ask, registration, profile, runs_here, policy, version, form };
        Ok((runner, setup))
    }

    fn answer_or_wait(&mut self, id: Id, key: Key, asked: Asked) {
        let now = self.settings.clock.elapsed();
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.asks += 1;
        slot.last_ask = now;
        if asked.login {
            // Whatever is cached: the person wants a new one.
            if let Some(credential) = slot.source.last() {
                slot.source.rejected(&credential, true, None);
            }
            slot.source.reset();
        }
        if let Some(rejected) = asked.rejected {
            self.metrics.host.rejected();
            slot.rejected(rejected);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.own = asked.own;
        connection.state = State::Waiting { key, terminal: asked.terminal, noted: false };
        connection.since = now;
        // A program that says what is rejected may ask as often as it likes.
        let peer = connection.peer().filter(|_| !asked.own);
        connection.client = peer.and_then(|peer| self.peers.client(peer));
        let client = connection.client;
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if let Some(credential) = slot.source.current() {
            let given = client.and_then(|client| slot.given.get(&client)).copied();
            let again = given.is_some_and(|(serial, when)| {
                serial == credential.serial() && now >= when + AT_ONCE
            });
            if again && !slot.acceptance.is_fresh(credential.serial(), now) {
                if self.verify(id, key, &credential) {
                    return;
                }
                if let Some(slot) = self.slots.get_mut(&key) {
                    slot.source.rejected(&credential, false, None);
                }
            }
        }
        self.answer_or_run(id, key);
    }

    /// Answers from the cache, or lets the connection wait for a run.
    pub(super) fn answer_or_run(&mut self, id: Id, key: Key) {
        let Some(slot) = self.slots.get_mut(&key) else { return self.close(id) };
        if let Some(credential) = slot.source.current() {
            slot.hits += 1;
            self.metrics.count(Outcome::Cached, 1);
            return self.give(&[id], key, &credential);
        }
        let attended = match self.connections.get(&id).map(|connection| &connection.state) {
            Some(State::Waiting { terminal, .. }) => !terminal.is_empty(),
            _ => return,
        };
        let digest = slot.setup.registration.as_ref().map(|known| known.digest());
        let signed_out = digest.is_some_and(|digest| self.signed_out.contains(&digest));
        if let Some(why) = slot.login_needed.clone().or(signed_out.then(|| signed_out_text(slot))) {
            if !attended {
                self.metrics.count(Outcome::LoginNeeded, 1);
                let failure = Failure { code: LOGIN, text: why, retry: 0 };
                return self.end_with(id, &Message::Failure(failure));
            }
            slot.login_needed = None;
            slot.source.reset();
            self.signed_out.retain(|known| Some(*known) != digest);
        }
        let idle = slot.pending.is_none();
        if idle && self.slots.values().filter(|slot| slot.pending.is_some()).count() >= RUNS {
            self.metrics.count(Outcome::Direct, 1);
            return self.end_with(id, &Message::Direct("too many plugins are running".into()));
        }
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.waiting.push(id);
        if idle {
            self.begin(key);
        }
    }

    /// Begins to wait for a credential.
    fn begin(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let source = slot.source.clone();
        slot.pending = Some(Box::pin(async move { source.credential().await }));
        self.ready(key);
    }

    /// A slot's pending run or renewal may have finished.
    pub(super) fn ready(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let Some(pending) = &mut slot.pending else {
            // A renewal has ended.
            if slot.is_idle() && !self.is_same(key) {
                self.slots.remove(&key);
            }
            return;
        };
        let waker = self.desk.waker(key);
        match pending.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(result) => {
                slot.pending = None;
                self.finish(key, result);
            }
        }
    }

    /// A run has ended: answers everybody who waits.
    fn finish(&mut self, key: Key, result: Result<Arc<Credential>, Error>) {
        let same = self.is_same(key);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let waiting = std::mem::take(&mut slot.waiting);
        match result {
            Ok(credential) => {
                slot.login_needed = None;
                self.metrics.count(Outcome::Run, waiting.len());
                self.give(&waiting, key, &credential);
                // The account was switched during the run, so we cannot know whose credential it
                // is.
                if !same {
                    self.slots.remove(&key);
                }
            }
            // Whoever comes after a client that went away does not answer for it.
            Err(_) if std::mem::take(&mut slot.abandoned) => {
                slot.source.reset();
                if !waiting.is_empty() {
                    slot.waiting = waiting;
                    self.begin(key);
                }
            }
            Err(error) => {
                if needs_login(slot, &error) {
                    slot.login_needed = Some(login_text(slot));
                }
                let mut failure = failure(&error);
                if let Some(why) = &slot.login_needed {
                    failure.code = LOGIN;
                    failure.text = format!("{}\n{why}", failure.text);
                }
                let login = failure.code == LOGIN;
                let outcome = if login { Outcome::LoginNeeded } else { Outcome::Failure };
                self.metrics.count(outcome, waiting.len());
                let message = Message::Failure(failure);
                for id in waiting {
                    self.end_with(id, &message);
                }
            }
        }
    }

    /// Whether the first asker would still get the same identity.
    fn is_same(&mut self, key: Key) -> bool {
        let Some(slot) = self.slots.get_mut(&key) else { return false };
        let ask = std::mem::take(&mut slot.setup.ask);
        let info = ask.variable(REQUEST_VARIABLE.as_bytes()).unwrap_or_default();
        let same = Request::read(info)
            .is_ok_and(|reading| self.select(&ask, &reading.request, Selected::key_of).1 == key);
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.setup.ask = ask;
        }
        same
    }

    fn give(&mut self, ids: &[Id], key: Key, credential: &Credential) {
        let now = self.settings.clock.elapsed();
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let Some(frame) = slot.frame(credential, self.settings.clock.now()) else {
            for id in ids {
                self.fail(*id, "the plugin returned neither a token nor a certificate");
            }
            return;
        };
        for id in ids {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            connection.say_bytes(&frame);
            connection.end();
            if let Some(slot) = self.slots.get_mut(&key) {
                let known = connection.client.is_some_and(|client| {
                    if slot.given.len() >= REMEMBERED {
                        slot.given.clear();
                    }
                    slot.given.insert(client, (credential.serial(), now)).is_some()
                });
                if !known
                    && slot.clients.len() < NAMED
                    && let Some(peer) = connection.peer()
                    && let Some((_, name)) = self.peers.client_name(peer, connection.own)
                    && !slot.clients.contains(&name)
                {
                    slot.clients.push(name);
                }
            }
            self.flush(*id);
        }
    }

    /// A server rejected one of our credentials with a 401.
    pub(super) fn rejected(&mut self, id: Id, rejected: Rejected) {
        self.metrics.host.rejected();
        for slot in self.slots.values_mut() {
            slot.rejected(rejected);
        }
        self.confirm(id);
    }

    /// Tells a client why it gets nothing.
    pub(super) fn fail(&mut self, id: Id, why: &str) {
        let failure = Failure { code: 1, text: why.to_owned(), retry: 0 };
        self.end_with(id, &Message::Failure(failure));
    }

    /// Tells a client that what it wanted is done.
    pub(super) fn confirm(&mut self, id: Id) {
        self.end_with(id, &Message::Served(Served::Done(Secret::default())));
    }

    pub(super) fn end_with(&mut self, id: Id, message: &Message) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.end_with(message);
            self.flush(id);
        }
    }
}

struct Asked {
    terminal: Vec<u8>,
    login: bool,
    own: bool,
    rejected: Option<Rejected>,
}

enum Refusal {
    Direct(&'static str),
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// What the plugin would be told about the cluster, in a canonical form.
fn cluster(request: &Request) -> Option<String> {
    request.cluster.as_ref().filter(|_| request.version != Version::V1Alpha1)?;
    let plain = Request { interactive: false, response: None, ..request.clone() };
    Some(plain.to_json())
}

fn pairs(environment: &[(Vec<u8>, Vec<u8>)]) -> Vec<(OsString, OsString)> {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    environment.iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn surroundings(ask: &Ask, vars: Vec<(OsString, OsString)>) -> Surroundings {
    let cwd = Path::new(OsStr::from_bytes(&ask.directory)).to_owned();
    Surroundings::fixed(Fixed { vars, cwd, stdin_is_terminal: false, has_terminal: false })
}

/// The variables that determine where the kuberc is.
fn policy_surroundings(ask: &Ask) -> Surroundings {
    let matter = |name: &[u8]| name == b"HOME" || name.starts_with(b"KUBE");
    let vars: Vec<_> = ask.environment.iter().filter(|(name, _)| matter(name)).cloned().collect();
    surroundings(ask, pairs(&vars))
}

fn browser(command: &str) -> (String, Secret) {
    ("BROWSER".into(), Secret::new(command))
}

pub(super) fn failure(error: &Error) -> Failure {
    let code = match error.kind() {
        Kind::NeedsTerminal => LOGIN,
        Kind::NotAllowed => 4,
        _ => 1,
    };
    Failure { code, text: format!("{error:?}"), retry: 0 }
}

/// Whether a person has to help: an unattended run of a plugin that may want a browser failed.
fn needs_login(slot: &Slot, error: &Error) -> bool {
    if slot.attended || !matches!(error.kind(), Kind::Failed | Kind::TimedOut) {
        return false;
    }
    slot.setup.profile.may_open_browser()
        || error.stderr().is_some_and(|said| said.contains("https://") || said.contains(WANTED))
}

/// What `keyward-exec --no-browser` prints; plugins get it as their browser.
const WANTED: &str = "keyward-exec: the plugin wants a browser";

fn login_text(slot: &Slot) -> String {
    format!("login needed for `{}`: {}", text::inline(&slot.name()), how(slot))
}

fn signed_out_text(slot: &Slot) -> String {
    format!("`{}` is signed out: {}", text::inline(&slot.name()), how(slot))
}

fn how(slot: &Slot) -> String {
    match slot.setup.registration.as_ref().and_then(|known| known.contexts.first()) {
        Some(context) => format!("run `keyward login --context {}`", text::inline(context)),
        None => "run the command in a terminal".to_owned(),
    }
}
