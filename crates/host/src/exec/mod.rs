//! From an exec plan to a credential: ask, run, read.
//!
//! ```text
//! Plan ──► Invocation ──► Output ──► Answer ──► Fresh<Credential>
//!     ask            run        read       keep
//! ```
//!
//! Expiry and credential come together, after everything is checked (D3). Expiry is what the plugin
//! says, never what a certificate or a token says.

mod failure;
mod hints;
mod once;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use keyward_protocol::exec::Answer;

use self::hints::Hints;
pub use self::once::PluginRunner;
use keyward_process::{
    clock::SharedClock,
    runner::{self, Cancel, Invocation, Output, Sink, Status, Stderr, Stdin},
};

use crate::{
    Credential, Error, Kind, Plan,
    cell::{Fetch, Fresh, Occasion},
    credential::{Header, Unsendable},
    error::inline,
    given::keep_known,
    observer::{CallStatus, Ends, Observer},
    pair::Pair,
    plan::{Context, Plugin, Turn},
    redact::Redactor,
    rules::Program,
};

/// Who is told about runs.
#[derive(Clone)]
pub(crate) struct Watch {
    /// The source's number, under which the end of its certificate is kept.
    pub(crate) id: u64,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) ends: Arc<Ends>,
}

/// Runs the plugin of a plan whenever a credential is needed.
pub(crate) struct Runner {
    plan: Plan,
    clock: SharedClock,
    watch: Watch,
    hints: Hints,
    /// The last pair, so that one that did not change keeps its connections.
    pair: Mutex<Option<Arc<Pair>>>,
}

impl Runner {
    pub(crate) fn new(plan: Plan, clock: SharedClock, watch: Watch) -> Self {
        Self { plan, clock, watch, hints: Hints::default(), pair: Mutex::new(None) }
    }

    fn attempt(&self, plugin: &Plugin, occasion: &Occasion) -> Result<Fresh<Credential>, Error> {
        let (turn, program) = self.decide(plugin, occasion)?;
        let invocation = ask(plugin, &turn, program);
        let output = self.run(plugin, &turn, &invocation)?;
        self.read(plugin, &turn, &output)
    }

    /// What a run that ended well has brought.
    fn read(
        &self,
        plugin: &Plugin,
        turn: &Turn,
        output: &Output,
    ) -> Result<Fresh<Credential>, Error> {
        let answer = Answer::read(&output.stdout, turn.request.version)
            .map_err(|wrong| failure::bad_answer(plugin, turn, output, wrong))?;
        self.keep(plugin, turn, output, answer)
    }

    /// Everything that is decided afresh for a run: a person, the policy, the program.
    fn decide(&self, plugin: &Plugin, occasion: &Occasion) -> Result<(Turn, Program), Error> {
        let context = Context {
            rules: self.plan.rules(),
            surroundings: self.plan.surroundings(),
            settings: self.plan.settings(),
        };
        let response = match occasion {
            Occasion::Refused(response) => response.as_deref(),
            _ => None,
        };
        let waited_for = !matches!(occasion, Occasion::Ahead);
        let turn = plugin.turn(&context, waited_for, response)?;
        let admitted = context.rules.admit(plugin.command(), context.surroundings);
        let denied = |error: &Error| matches!(error.kind(), Kind::NotAllowed | Kind::BadConfig);
        self.watch.observer.judged(!admitted.as_ref().is_err_and(denied));
        match admitted {
            Ok(program) => Ok((turn, program)),
            Err(error) if denied(&error) => Err(error),
            Err(error) => {
                let status = match error.kind() {
                    Kind::NotFound => CallStatus::PluginNotFoundError,
                    _ => CallStatus::ClientInternalError,
                };
                self.watch.observer.ran(plugin.command(), 1, status, Duration::ZERO);
                Err(error)
            }
        }
    }

    fn run(&self, plugin: &Plugin, turn: &Turn, invocation: &Invocation) -> Result<Output, Error> {
        tracing::debug!(
            plugin = plugin.command(),
            program = %invocation.program.display(),
            interactive = turn.request.interactive,
            attended = turn.attended,
            "running a plugin"
        );
        let observer = &self.watch.observer;
        match runner::run(invocation, &Cancel::default()) {
            Err(failure) => {
                let (code, status, took) = failure::counted(&failure);
                observer.ran(plugin.command(), code, status, took);
                tracing::debug!(plugin = plugin.command(), %failure, "a plugin did not end by itself");
                Err(failure::not_run(plugin, turn, failure))
            }
            Ok(output) => {
                let (code, status) = match output.status {
                    Status::Code(0) => (0, CallStatus::NoError),
                    Status::Code(code) => (code, CallStatus::PluginExecutionError),
                    Status::Signal(_) => (-1, CallStatus::PluginExecutionError),
                };
                observer.ran(plugin.command(), code, status, output.took);
                tracing::debug!(plugin = plugin.command(), code, took = ?output.took, "a plugin ended");
                match output.status {
                    Status::Code(0) => Ok(output),
                    _ => Err(failure::ended(plugin, turn, &output)),
                }
            }
        }
    }

    fn keep(
        &self,
        plugin: &Plugin,
        turn: &Turn,
        output: &Output,
        answer: Answer,
    ) -> Result<Fresh<Credential>, Error> {
        let wrong = |what: &str| failure::wrong_answer(plugin, turn, output, what);
        let now = self.clock.now();
        let mut last = self.pair.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = match &answer.pair {
            None => None,
            Some(pem) => {
                let pair = Pair::parse(&pem.certificate, &pem.key).map_err(|why| {
                    wrong("answered a certificate and a key that are not a pair")
                        .note("because", why.0)
                })?;
                self.check_validity(plugin, &pair, now).map_err(|what| wrong(&what))?;
                Some(keep_known(pair, last.as_ref()))
            }
        };
        let header = answer.token.map_or(Header::None, Header::Bearer);
        let credential =
            Credential::new(header, pair.clone(), answer.expires).map_err(|Unsendable| {
                wrong("answered a token with a character that no header can carry")
            })?;
        self.tell(last.as_ref(), pair.as_ref(), answer.expires, now);
        *last = pair;
        Ok(Fresh { value: credential, expires: answer.expires })
    }

    /// The proposal wants a certificate to be valid when it comes; the reference does not look.
    fn check_validity(&self, plugin: &Plugin, pair: &Pair, now: Timestamp) -> Result<(), String> {
        let what = if now > pair.not_after {
            format!("answered a certificate that expired at {}", pair.not_after)
        } else if now < pair.not_before {
            format!("answered a certificate that is not valid before {}", pair.not_before)
        } else {
            return Ok(());
        };
        self.watch.observer.invalid_certificate(plugin.command());
        if self.plan.settings().strict {
            return Err(what);
        }
        tracing::warn!("plugin `{}` {what}", inline(plugin.command()));
        Ok(())
    }

    fn tell(
        &self,
        old: Option<&Arc<Pair>>,
        new: Option<&Arc<Pair>>,
        expires: Option<Timestamp>,
        now: Timestamp,
    ) {
        let observer = &self.watch.observer;
        observer.expires(expires, now);
        if let Some(old) = old
            && !new.is_some_and(|new| Arc::ptr_eq(old, new))
        {
            let age = now.duration_since(old.not_before);
            observer.rotated(Duration::try_from(age).unwrap_or_default());
        }
        self.watch.ends.set(self.watch.id, new.map(|pair| pair.not_after), now);
    }
}

impl Fetch<Credential> for Runner {
    fn name(&self) -> Cow<'_, str> {
        let plugin = self.plan.plugin().map_or("", Plugin::command);
        format!("plugin `{plugin}` of {}", self.plan.needed_by()).into()
    }

    fn fetch(&self, occasion: &Occasion) -> Result<Fresh<Credential>, Error> {
        let Some(plugin) = self.plan.plugin() else {
            return Err(Error::new(Kind::BadConfig, "the plan has no plugin"));
        };
        let start = self.clock.elapsed();
        let result = self.attempt(plugin, occasion);
        let took = self.clock.elapsed().saturating_sub(start);
        self.watch.observer.refreshed(took, result.is_ok());
        result.map_err(|error| {
            let error = error.note_first("needed by", self.plan.needed_by());
            match error.kind() {
                Kind::NotFound if self.hints.allow(self.clock.elapsed()) => plugin.hinted(error),
                _ => error,
            }
        })
    }
}

/// What a plugin is asked, as a program to run.
fn ask(plugin: &Plugin, turn: &Turn, program: Program) -> Invocation {
    let mut invocation = Invocation::new(program.path);
    invocation.identity = Some(program.identity);
    invocation.name = plugin.command().into();
    invocation.args = plugin.args().iter().map(Into::into).collect();
    invocation.env = turn.environment.iter().map(|v| (v.name.clone(), v.value.clone())).collect();
    invocation.stdin = if turn.request.interactive { Stdin::Terminal } else { Stdin::Closed };
    invocation.stderr = match &turn.stderr {
        Stderr::Sink(sink) => Stderr::Sink(Arc::new(RedactedSink {
            redactor: failure::redactor(plugin, turn),
            sink: sink.clone(),
        })),
        other => other.clone(),
    };
    invocation.budget = turn.budget;
    invocation.limits = turn.limits;
    invocation.attended = turn.attended;
    invocation
}

/// Passes on what a plugin writes as it comes, without the secrets of its run. Those of the answer are not
/// known yet.
struct RedactedSink {
    redactor: Redactor,
    sink: Arc<dyn Sink>,
}

impl Sink for RedactedSink {
    fn line(&self, plugin: &str, line: &str) {
        self.sink.line(plugin, &self.redactor.apply(line.as_bytes()));
    }

    fn prompt(&self, plugin: &str, text: &str) {
        self.sink.prompt(plugin, &self.redactor.apply(text.as_bytes()));
    }

    fn rest(&self, plugin: &str, text: &str) {
        self.sink.rest(plugin, &self.redactor.apply(text.as_bytes()));
    }
}
