//! What is said: one type for each frame.

use std::fmt;

use zeroize::Zeroize;

use super::{
    Malformed, VERSIONS,
    field::{self, Writer, number, prefixed, text},
};
use crate::Secret;

const MAGIC: &[u8; 4] = b"KWA1";

/// A frame. Who sends it, and when, is in `docs/protocols/agent.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is documented at its type")]
pub enum Message {
    Hello(Hello),
    Ask(Ask),
    Done(Done),
    Refused(Refused),
    Admin(Admin),
    Secret(SecretRequest),
    /// A newer agent wants the listening socket of the older one.
    TakeOver,
    Answer(Answer),
    Failure(Failure),
    /// A line for the person at the client, such as whose login is waited for.
    Note(String),
    Lease(Lease),
    /// The agent does not serve this client; it should run its plugin itself. Says why.
    Direct(String),
    Served(Served),
}

/// First frame of each end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version of the protocol that this end speaks.
    pub lowest: u16,
    /// The highest one.
    pub highest: u16,
    /// Version of the program, for people.
    pub version: String,
}

impl Hello {
    /// The greeting of a program that is built with this crate.
    pub fn ours(version: &str) -> Self {
        Self { lowest: VERSIONS.0, highest: VERSIONS.1, version: version.into() }
    }

    /// The highest version that both ends speak.
    pub fn common(&self) -> Option<u16> {
        let highest = self.highest.min(VERSIONS.1);
        (highest >= self.lowest.max(VERSIONS.0)).then_some(highest)
    }
}

/// Asks for the credential that a plugin would print, with everything that selects it.
///
/// A client sees one environment, not which of its variables the kubeconfig set.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Ask {
    /// The plugin's command, as the kubeconfig has it.
    pub command: Vec<u8>,
    /// The plugin's arguments.
    pub args: Vec<Vec<u8>>,
    /// The environment of the client, in order, each name once. Wiped when dropped.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The working directory.
    pub directory: Vec<u8>,
    /// The terminal that a plugin could talk to a person on, such as `/dev/pts/3`; empty for none.
    pub terminal: Vec<u8>,
    /// The person wants to log in now, whatever the agent has.
    pub login: bool,
    /// The client itself uses the credential and says when a server refuses it. Otherwise the client is
    /// the process that started whoever asks, and one that asks again is taken for one that was refused.
    pub own: bool,
    /// The credential that a server refused, which is why the client asks.
    pub refused: Option<Refused>,
}

impl Drop for Ask {
    fn drop(&mut self) {
        for (_, value) in &mut self.environment {
            value.zeroize();
        }
    }
}

impl Ask {
    /// The value of a variable.
    pub fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.environment.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_slice())
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("command", &text(&self.command))
            .field("args", &self.args.len())
            .field("environment", &self.environment.len())
            .field("terminal", &text(&self.terminal))
            .field("login", &self.login)
            .field("own", &self.own)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

/// What a plugin printed, as the agent would have printed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One `ExecCredential`, in the version that was asked for.
    pub stdout: Secret,
    /// Tells the credentials of one agent apart, for [`Refused`].
    pub serial: u64,
}

/// Why there is no credential.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// Exit code for the client.
    pub code: u8,
    /// The message, without secrets.
    pub text: String,
    /// After how many milliseconds asking again may help; zero if nobody knows.
    pub retry: u64,
}

/// The client is to run the plugin, and nobody else does meanwhile. It lasts as long as the
/// connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The lease, to be repeated in [`Done`].
    pub id: u64,
    /// The program that the command leads to and that the policy allows.
    pub program: Vec<u8>,
    /// For how many milliseconds it may run.
    pub budget: u64,
    /// A person is to be asked: the plugin gets the terminal.
    pub attended: bool,
}

/// How a run under a [`Lease`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The lease.
    pub id: u64,
    /// Exit code; a signal is 128 and its number, as in shells. `None`: the plugin did not start or
    /// did not end in time.
    pub code: Option<i32>,
    /// All that it printed.
    pub stdout: Secret,
    /// The last lines of its stderr, where they were not shown.
    pub stderr: Secret,
}

/// A server answered 401 to a credential of this agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The serial of the credential's [`Answer`].
    pub serial: u64,
    /// The server had accepted it before.
    pub accepted: bool,
}

/// A command of the person who owns the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admin {
    /// What the agent keeps, as JSON.
    Status,
    /// Forget everything and end.
    Stop,
    /// Forget everything, and refuse until [`Admin::Unlock`].
    Lock,
    /// Serve again.
    Unlock,
    /// Forget the credentials of this context or user, or with `None` all, and let no background
    /// request log in again.
    Forget(Option<String>),
}

/// Keeps secrets by name, for providers that share a token between processes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretRequest {
    /// The secret of this name.
    Get(String),
    /// Keeps a secret until a wall-clock time in milliseconds since 1970; zero: twelve hours. Ends a
    /// lease that this connection holds.
    Put(String, Secret, i64),
    /// The secret, or the right and duty to bring it; waits while another connection has that.
    Lease(String),
    /// Removes it.
    Forget(String),
    /// The names that somebody holds a lease for, one in a line.
    Pending,
}

/// The answer to [`Admin`] and [`SecretRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Served {
    /// Done; what was asked for, if anything.
    Done(Secret),
    /// No secret has this name.
    Absent,
    /// The connection holds the lease and has to put the secret.
    Leased,
    /// Not done, and why.
    Not(String),
}

const HELLO: u8 = 1;
const ASK: u8 = 2;
const DONE: u8 = 3;
const REFUSED: u8 = 4;
const ADMIN: u8 = 5;
const SECRET: u8 = 6;
const TAKE_OVER: u8 = 7;
const ANSWER: u8 = 16;
const FAILURE: u8 = 17;
const NOTE: u8 = 18;
const LEASE: u8 = 19;
const DIRECT: u8 = 20;
const SERVED: u8 = 21;

impl Message {
    /// Appends the frame of this message.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => {
                let mut w = Writer::begin(out, HELLO);
                w.put(1, MAGIC);
                w.put(2, &hello.lowest.to_le_bytes());
                w.put(3, &hello.highest.to_le_bytes());
                w.put_some(4, hello.version.as_bytes());
                w.end();
            }
            Self::Ask(ask) => write_ask(ask, out),
            Self::Done(done) => {
                let mut w = Writer::begin(out, DONE);
                w.put(1, &done.id.to_le_bytes());
                if let Some(code) = done.code {
                    w.put(2, &code.to_le_bytes());
                }
                w.put_some(3, done.stdout.expose_bytes());
                w.put_some(4, done.stderr.expose_bytes());
                w.end();
            }
            Self::Refused(refused) => {
                let mut w = Writer::begin(out, REFUSED);
                w.put(1, &refused.serial.to_le_bytes());
                w.put(2, &[u8::from(refused.accepted)]);
                w.end();
            }
            Self::Admin(admin) => write_admin(admin, out),
            Self::Secret(request) => write_secret(request, out),
            Self::TakeOver => Writer::begin(out, TAKE_OVER).end(),
            Self::Answer(answer) => {
                let mut w = Writer::begin(out, ANSWER);
                w.put(1, answer.stdout.expose_bytes());
                w.put(2, &answer.serial.to_le_bytes());
                w.end();
            }
            Self::Failure(failure) => {
                let mut w = Writer::begin(out, FAILURE);
                w.put(1, &[failure.code]);
                w.put(2, failure.text.as_bytes());
                w.put(3, &failure.retry.to_le_bytes());
                w.end();
            }
            Self::Note(note) => {
                let mut w = Writer::begin(out, NOTE);
                w.put(1, note.as_bytes());
                w.end();
            }
            Self::Lease(lease) => {
                let mut w = Writer::begin(out, LEASE);
                w.put(1, &lease.id.to_le_bytes());
                w.put(2, &lease.program);
                w.put(3, &lease.budget.to_le_bytes());
                w.put(4, &[u8::from(lease.attended)]);
                w.end();
            }
            Self::Direct(why) => {
                let mut w = Writer::begin(out, DIRECT);
                w.put(1, why.as_bytes());
                w.end();
            }
            Self::Served(served) => write_served(served, out),
        }
    }

    /// Reads a frame without its length.
    pub(super) fn read(frame: &[u8]) -> Result<Self, Malformed> {
        let (kind, body) = frame.split_first().ok_or(Malformed::Length)?;
        match *kind {
            HELLO => read_hello(body).map(Self::Hello),
            ASK => read_ask(body).map(Self::Ask),
            DONE => read_done(body).map(Self::Done),
            REFUSED => {
                let [serial, accepted] = fields(body)?;
                let serial = u64::from_le_bytes(number(some(serial, "serial")?, "serial")?);
                Ok(Self::Refused(Refused { serial, accepted: flag(accepted) }))
            }
            ADMIN => read_admin(body).map(Self::Admin),
            SECRET => read_secret(body).map(Self::Secret),
            TAKE_OVER => Ok(Self::TakeOver),
            ANSWER => {
                let [stdout, serial] = fields(body)?;
                let stdout = Secret::from_bytes(some(stdout, "stdout")?.to_vec());
                let serial = u64::from_le_bytes(number(some(serial, "serial")?, "serial")?);
                Ok(Self::Answer(Answer { stdout, serial }))
            }
            FAILURE => {
                let [code, words, retry] = fields(body)?;
                let [code] = number(some(code, "code")?, "code")?;
                let retry = retry.map_or(Ok([0; 8]), |retry| number(retry, "retry"))?;
                let retry = u64::from_le_bytes(retry);
                Ok(Self::Failure(Failure { code, text: text(words.unwrap_or_default()), retry }))
            }
            NOTE => fields(body).map(|[note]| Self::Note(text(note.unwrap_or_default()))),
            LEASE => {
                let [id, program, budget, attended] = fields(body)?;
                let id = u64::from_le_bytes(number(some(id, "id")?, "id")?);
                let budget = u64::from_le_bytes(number(some(budget, "budget")?, "budget")?);
                let program = some(program, "program")?.to_vec();
                Ok(Self::Lease(Lease { id, program, budget, attended: flag(attended) }))
            }
            DIRECT => fields(body).map(|[why]| Self::Direct(text(why.unwrap_or_default()))),
            SERVED => read_served(body).map(Self::Served),
            other => Err(Malformed::Type(other)),
        }
    }
}

fn write_ask(ask: &Ask, out: &mut Vec<u8>) {
    let mut w = Writer::begin(out, ASK);
    w.put(1, &ask.command);
    for arg in &ask.args {
        w.put(2, arg);
    }
    for (name, value) in &ask.environment {
        w.put_two(3, name, value);
    }
    w.put(4, &ask.directory);
    w.put_some(5, &ask.terminal);
    if ask.login {
        w.put(6, &[1]);
    }
    if ask.own {
        w.put(7, &[1]);
    }
    if let Some(refused) = ask.refused {
        w.put(8, &refused.serial.to_le_bytes());
        w.put(9, &[u8::from(refused.accepted)]);
    }
    w.end();
}

fn read_ask(body: &[u8]) -> Result<Ask, Malformed> {
    let mut ask = Ask::default();
    let mut command = None;
    let (mut serial, mut accepted) = (None, false);
    field::read(body, |tag, bytes| {
        match tag {
            1 => command = Some(bytes),
            2 => ask.args.push(bytes.to_vec()),
            3 => {
                let (name, value) = prefixed(bytes).ok_or(Malformed::Field)?;
                ask.environment.push((name.to_vec(), value.to_vec()));
            }
            4 => ask.directory = bytes.to_vec(),
            5 => ask.terminal = bytes.to_vec(),
            6 => ask.login = flag(Some(bytes)),
            7 => ask.own = flag(Some(bytes)),
            8 => serial = Some(u64::from_le_bytes(number(bytes, "refused")?)),
            9 => accepted = flag(Some(bytes)),
            _ => {}
        }
        Ok(())
    })?;
    ask.refused = serial.map(|serial| Refused { serial, accepted });
    ask.command = some(command, "command")?.to_vec();
    Ok(ask)
}

fn read_hello(body: &[u8]) -> Result<Hello, Malformed> {
    let [magic, lowest, highest, version] = fields(body)?;
    if magic != Some(MAGIC.as_slice()) {
        return Err(Malformed::Magic);
    }
    Ok(Hello {
        lowest: u16::from_le_bytes(number(some(lowest, "lowest")?, "lowest")?),
        highest: u16::from_le_bytes(number(some(highest, "highest")?, "highest")?),
        version: text(version.unwrap_or_default()),
    })
}

fn read_done(body: &[u8]) -> Result<Done, Malformed> {
    let [id, code, stdout, stderr] = fields(body)?;
    let code = code.map(|code| number(code, "code")).transpose()?;
    Ok(Done {
        id: u64::from_le_bytes(number(some(id, "id")?, "id")?),
        code: code.map(i32::from_le_bytes),
        stdout: Secret::from_bytes(stdout.unwrap_or_default().to_vec()),
        stderr: Secret::from_bytes(stderr.unwrap_or_default().to_vec()),
    })
}

fn write_admin(admin: &Admin, out: &mut Vec<u8>) {
    let mut w = Writer::begin(out, ADMIN);
    let (verb, name) = match admin {
        Admin::Status => (1, None),
        Admin::Stop => (2, None),
        Admin::Lock => (3, None),
        Admin::Unlock => (4, None),
        Admin::Forget(name) => (5, name.as_ref()),
    };
    w.put(1, &[verb]);
    if let Some(name) = name {
        w.put(2, name.as_bytes());
    }
    w.end();
}

fn read_admin(body: &[u8]) -> Result<Admin, Malformed> {
    let [verb, name] = fields(body)?;
    Ok(match some(verb, "verb")? {
        [1] => Admin::Status,
        [2] => Admin::Stop,
        [3] => Admin::Lock,
        [4] => Admin::Unlock,
        [5] => Admin::Forget(name.map(text)),
        _ => return Err(Malformed::Missing("verb")),
    })
}

fn write_secret(request: &SecretRequest, out: &mut Vec<u8>) {
    let mut w = Writer::begin(out, SECRET);
    let (verb, name) = match request {
        SecretRequest::Get(name) => (1, name.as_str()),
        SecretRequest::Put(name, ..) => (2, name.as_str()),
        SecretRequest::Lease(name) => (3, name.as_str()),
        SecretRequest::Forget(name) => (4, name.as_str()),
        SecretRequest::Pending => (5, ""),
    };
    w.put(1, &[verb]);
    w.put(2, name.as_bytes());
    if let SecretRequest::Put(_, value, until) = request {
        w.put(3, value.expose_bytes());
        w.put(4, &until.to_le_bytes());
    }
    w.end();
}

fn read_secret(body: &[u8]) -> Result<SecretRequest, Malformed> {
    let [verb, name, value, until] = fields(body)?;
    let name = || some(name, "name").map(text);
    Ok(match some(verb, "verb")? {
        [1] => SecretRequest::Get(name()?),
        [2] => {
            let value = Secret::from_bytes(some(value, "value")?.to_vec());
            let until = until.map_or(Ok([0; 8]), |until| number(until, "until"))?;
            SecretRequest::Put(name()?, value, i64::from_le_bytes(until))
        }
        [3] => SecretRequest::Lease(name()?),
        [4] => SecretRequest::Forget(name()?),
        [5] => SecretRequest::Pending,
        _ => return Err(Malformed::Missing("verb")),
    })
}

fn write_served(served: &Served, out: &mut Vec<u8>) {
    let mut w = Writer::begin(out, SERVED);
    match served {
        Served::Done(value) => {
            w.put(1, &[1]);
            w.put_some(2, value.expose_bytes());
        }
        Served::Absent => w.put(1, &[2]),
        Served::Leased => w.put(1, &[3]),
        Served::Not(why) => {
            w.put(1, &[4]);
            w.put(2, why.as_bytes());
        }
    }
    w.end();
}

fn read_served(body: &[u8]) -> Result<Served, Malformed> {
    let [how, value] = fields(body)?;
    let value = value.unwrap_or_default();
    Ok(match some(how, "how")? {
        [1] => Served::Done(Secret::from_bytes(value.to_vec())),
        [2] => Served::Absent,
        [3] => Served::Leased,
        [4] => Served::Not(text(value)),
        _ => return Err(Malformed::Missing("how")),
    })
}

/// The fields with the tags 1 to `N`; the last of each counts.
fn fields<const N: usize>(body: &[u8]) -> Result<[Option<&[u8]>; N], Malformed> {
    let mut found = [None; N];
    field::read(body, |tag, bytes| {
        let place = usize::from(tag).checked_sub(1).and_then(|index| found.get_mut(index));
        if let Some(place) = place {
            *place = Some(bytes);
        }
        Ok(())
    })?;
    Ok(found)
}

fn some<'a>(field: Option<&'a [u8]>, name: &'static str) -> Result<&'a [u8], Malformed> {
    field.ok_or(Malformed::Missing(name))
}

fn flag(field: Option<&[u8]>) -> bool {
    field.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}
