//! How messages are written and read: a frame's type, and its fields by their tags.

use super::{
    Admin, Answer, Ask, Done, Failure, Hello, Lease, Malformed, Message, ProxyContext,
    ProxyRequest, Rejected, SecretRequest, Served,
    field::{self, Writer, number, prefixed, text},
};
use crate::Secret;

const MAGIC: &[u8; 4] = b"KWA1";

const HELLO: u8 = 1;
const ASK: u8 = 2;
const DONE: u8 = 3;
const REJECTED: u8 = 4;
const ADMIN: u8 = 5;
const SECRET: u8 = 6;
const TAKE_OVER: u8 = 7;
const PROXY: u8 = 8;
const ANSWER: u8 = 16;
const FAILURE: u8 = 17;
const NOTE: u8 = 18;
const LEASE: u8 = 19;
const DIRECT: u8 = 20;
const SERVED: u8 = 21;

impl Message {
    /// Appends the frame of this message.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::begin(out, self.kind());
        match self {
            Self::Hello(hello) => {
                w.put(1, MAGIC);
                w.put(2, &hello.lowest.to_le_bytes());
                w.put(3, &hello.highest.to_le_bytes());
                w.put_some(4, hello.version.as_bytes());
            }
            Self::Ask(ask) => write_ask(ask, &mut w),
            Self::Done(done) => {
                w.put(1, &done.id.to_le_bytes());
                if let Some(code) = done.code {
                    w.put(2, &code.to_le_bytes());
                }
                w.put_some(3, done.stdout.expose_bytes());
                w.put_some(4, done.stderr.expose_bytes());
            }
            Self::Rejected(rejected) => {
                w.put(1, &rejected.serial.to_le_bytes());
                w.put(2, &[u8::from(rejected.was_accepted)]);
            }
            Self::Admin(admin) => write_admin(admin, &mut w),
            Self::Secret(request) => write_secret(request, &mut w),
            Self::TakeOver => {}
            Self::Proxy(request) => write_proxy(request, &mut w),
            Self::Answer(answer) => {
                w.put(1, answer.stdout.expose_bytes());
                w.put(2, &answer.serial.to_le_bytes());
            }
            Self::Failure(failure) => {
                w.put(1, &[failure.code]);
                w.put(2, failure.text.as_bytes());
                w.put(3, &failure.retry.to_le_bytes());
            }
            Self::Note(text) | Self::Direct(text) => w.put(1, text.as_bytes()),
            Self::Lease(lease) => {
                w.put(1, &lease.id.to_le_bytes());
                w.put(2, &lease.program);
                w.put(3, &lease.budget.to_le_bytes());
                w.put(4, &[u8::from(lease.attended)]);
            }
            Self::Served(served) => write_served(served, &mut w),
        }
        w.end();
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => HELLO,
            Self::Ask(_) => ASK,
            Self::Done(_) => DONE,
            Self::Rejected(_) => REJECTED,
            Self::Admin(_) => ADMIN,
            Self::Secret(_) => SECRET,
            Self::TakeOver => TAKE_OVER,
            Self::Proxy(_) => PROXY,
            Self::Answer(_) => ANSWER,
            Self::Failure(_) => FAILURE,
            Self::Note(_) => NOTE,
            Self::Lease(_) => LEASE,
            Self::Direct(_) => DIRECT,
            Self::Served(_) => SERVED,
        }
    }

    /// Reads a frame without its length.
    pub(super) fn read(frame: &[u8]) -> Result<Self, Malformed> {
        let (kind, body) = frame.split_first().ok_or(Malformed::Length)?;
        match *kind {
            HELLO => read_hello(body).map(Self::Hello),
            ASK => read_ask(body).map(Self::Ask),
            DONE => read_done(body).map(Self::Done),
            REJECTED => {
                let [serial, was_accepted] = fields(body)?;
                let serial = u64::from_le_bytes(required(serial, "serial")?);
                Ok(Self::Rejected(Rejected { serial, was_accepted: flag(was_accepted) }))
            }
            ADMIN => read_admin(body).map(Self::Admin),
            SECRET => read_secret(body).map(Self::Secret),
            TAKE_OVER => Ok(Self::TakeOver),
            PROXY => read_proxy(body).map(Self::Proxy),
            ANSWER => {
                let [stdout, serial] = fields(body)?;
                let stdout = Secret::from_bytes(some(stdout, "stdout")?.to_vec());
                let serial = u64::from_le_bytes(required(serial, "serial")?);
                Ok(Self::Answer(Answer { stdout, serial }))
            }
            FAILURE => {
                let [code, words, retry] = fields(body)?;
                let [code] = required(code, "code")?;
                let retry = retry.map_or(Ok([0; 8]), |retry| number(retry, "retry"))?;
                let retry = u64::from_le_bytes(retry);
                Ok(Self::Failure(Failure { code, text: text(words.unwrap_or_default()), retry }))
            }
            NOTE => fields(body).map(|[note]| Self::Note(text(note.unwrap_or_default()))),
            LEASE => {
                let [id, program, budget, attended] = fields(body)?;
                let id = u64::from_le_bytes(required(id, "id")?);
                let budget = u64::from_le_bytes(required(budget, "budget")?);
                let program = some(program, "program")?.to_vec();
                Ok(Self::Lease(Lease { id, program, budget, attended: flag(attended) }))
            }
            DIRECT => fields(body).map(|[why]| Self::Direct(text(why.unwrap_or_default()))),
            SERVED => read_served(body).map(Self::Served),
            other => Err(Malformed::Type(other)),
        }
    }
}

fn write_ask(ask: &Ask, w: &mut Writer<'_>) {
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
    if let Some(rejected) = ask.rejected {
        w.put(8, &rejected.serial.to_le_bytes());
        w.put(9, &[u8::from(rejected.was_accepted)]);
    }
}

fn read_ask(body: &[u8]) -> Result<Ask, Malformed> {
    let mut ask = Ask::default();
    let mut command = None;
    let (mut serial, mut was_accepted) = (None, false);
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
            8 => serial = Some(u64::from_le_bytes(number(bytes, "rejected")?)),
            9 => was_accepted = flag(Some(bytes)),
            _ => {}
        }
        Ok(())
    })?;
    ask.rejected = serial.map(|serial| Rejected { serial, was_accepted });
    ask.command = some(command, "command")?.to_vec();
    Ok(ask)
}

fn read_hello(body: &[u8]) -> Result<Hello, Malformed> {
    let [magic, lowest, highest, version] = fields(body)?;
    if magic != Some(MAGIC.as_slice()) {
        return Err(Malformed::Magic);
    }
    Ok(Hello {
        lowest: u16::from_le_bytes(required(lowest, "lowest")?),
        highest: u16::from_le_bytes(required(highest, "highest")?),
        version: text(version.unwrap_or_default()),
    })
}

fn read_done(body: &[u8]) -> Result<Done, Malformed> {
    let [id, code, stdout, stderr] = fields(body)?;
    let code = code.map(|code| number(code, "code")).transpose()?;
    Ok(Done {
        id: u64::from_le_bytes(required(id, "id")?),
        code: code.map(i32::from_le_bytes),
        stdout: Secret::from_bytes(stdout.unwrap_or_default().to_vec()),
        stderr: Secret::from_bytes(stderr.unwrap_or_default().to_vec()),
    })
}

fn write_admin(admin: &Admin, w: &mut Writer<'_>) {
    let (verb, name) = match admin {
        Admin::Status => (1, None),
        Admin::Stop => (2, None),
        Admin::Lock => (3, None),
        Admin::Unlock => (4, None),
        Admin::Forget(name) => (5, name.as_ref()),
        Admin::Metrics => (6, None),
    };
    w.put(1, &[verb]);
    if let Some(name) = name {
        w.put(2, name.as_bytes());
    }
}

fn read_admin(body: &[u8]) -> Result<Admin, Malformed> {
    let [verb, name] = fields(body)?;
    Ok(match some(verb, "verb")? {
        [1] => Admin::Status,
        [2] => Admin::Stop,
        [3] => Admin::Lock,
        [4] => Admin::Unlock,
        [5] => Admin::Forget(name.map(text)),
        [6] => Admin::Metrics,
        _ => return Err(Malformed::Missing("verb")),
    })
}

fn write_secret(request: &SecretRequest, w: &mut Writer<'_>) {
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

fn write_proxy(request: &ProxyRequest, w: &mut Writer<'_>) {
    let (verb, service, text) = match request {
        ProxyRequest::Certificate { service, context } => (1, service, context.as_str()),
        ProxyRequest::Start(service) => (2, service, ""),
        ProxyRequest::Stop(service) => (3, service, ""),
        ProxyRequest::Serving { service, .. } => (4, service, ""),
        ProxyRequest::Failed { service, why } => (5, service, why.as_str()),
        ProxyRequest::Idle(service) => (6, service, ""),
        ProxyRequest::Replaced(service) => (7, service, ""),
        ProxyRequest::Part { service, .. } => (8, service, ""),
        ProxyRequest::Draining(service) => (9, service, ""),
    };
    w.put(1, &[verb]);
    w.put(2, service.as_bytes());
    w.put_some(3, text.as_bytes());
    if let ProxyRequest::Serving { contexts, .. } | ProxyRequest::Part { contexts, .. } = request {
        for context in contexts {
            w.put(4, context.name.as_bytes());
            w.put_some(5, context.certificate.as_bytes());
            w.put_some(6, context.key.expose_bytes());
            w.put_some(7, context.fault.as_bytes());
        }
    }
}

fn read_proxy(body: &[u8]) -> Result<ProxyRequest, Malformed> {
    let (mut verb, mut service, mut words) = (None, None, String::new());
    let mut contexts: Vec<ProxyContext> = Vec::new();
    field::read(body, |tag, bytes| {
        let last = contexts.last_mut();
        match (tag, last) {
            (1, _) => verb = Some(bytes),
            (2, _) => service = Some(text(bytes)),
            (3, _) => words = text(bytes),
            // Each name begins a context; what follows belongs to it.
            (4, _) => contexts.push(ProxyContext { name: text(bytes), ..ProxyContext::default() }),
            (5, Some(context)) => context.certificate = text(bytes),
            (6, Some(context)) => context.key = Secret::from_bytes(bytes.to_vec()),
            (7, Some(context)) => context.fault = text(bytes),
            _ => {}
        }
        Ok(())
    })?;
    let service = service.ok_or(Malformed::Missing("service"))?;
    Ok(match some(verb, "verb")? {
        [1] => ProxyRequest::Certificate { service, context: words },
        [2] => ProxyRequest::Start(service),
        [3] => ProxyRequest::Stop(service),
        [4] => ProxyRequest::Serving { service, contexts },
        [5] => ProxyRequest::Failed { service, why: words },
        [6] => ProxyRequest::Idle(service),
        [7] => ProxyRequest::Replaced(service),
        [8] => ProxyRequest::Part { service, contexts },
        [9] => ProxyRequest::Draining(service),
        _ => return Err(Malformed::Missing("verb")),
    })
}

fn write_served(served: &Served, w: &mut Writer<'_>) {
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

/// A number that the frame cannot do without.
fn required<const N: usize>(
    field: Option<&[u8]>,
    name: &'static str,
) -> Result<[u8; N], Malformed> {
    number(some(field, name)?, name)
}

fn flag(field: Option<&[u8]>) -> bool {
    field.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}
