//! From an exec plan to a credential: ask, run, read.
//!
//! ```text
//! Plan ──► Invocation ──► Output ──► Answer ──► Fetched<Credential>
//!     ask            run        read       keep
//! ```
//!
//! Expiry and credential come together, after everything is checked (D3). Expiry is what the plugin
//! says, never what a certificate or a token says.

mod hints;
mod interactive;
mod plugin;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use keyward_process::{
    clock::SharedClock,
    lock,
    runner::{Cancel, Failure, Output, Part},
};
use keyward_protocol::exec::{Answer, AnswerError, REQUEST_VARIABLE, Request};

use self::hints::Hints;
use self::interactive::interactive;
pub use self::plugin::ExecPlugin;
use crate::{
    Credential, Error, Kind, Plan,
    broker::{Broker, BrokerHandle, BrokerQuestion, Brokered},
    cell::{Fetch, Fetched, Occasion},
    credential::{Header, Unsendable},
    error::inline,
    observer::{CallStatus, Ends},
    pair::{Pair, outside_validity},
    plugin::{RunSettings, counted},
    rules::Program,
    static_credential::keep_known,
};

/// Runs the plugin of a plan whenever a credential is needed.
///
/// A [`Source`](crate::Source) has one. Programs that decide themselves who runs the plugin, and keep
/// what it brings, use it directly: [`Fetch::fetch`] runs it here; [`PluginRunner::accept`] takes what
/// another process got by running it.
pub struct PluginRunner {
    plugin: Arc<ExecPlugin>,
    plan: Plan,
    clock: SharedClock,
    /// The number in `ends` under which the end of the certificate is kept.
    id: u64,
    ends: Arc<Ends>,
    hints: Hints,
    /// The last pair, so that one that did not change keeps its connections.
    pair: Mutex<Option<Arc<Pair>>>,
    /// The current credential, where the broker gave it to us or keeps it.
    handle: Mutex<Option<BrokerHandle>>,
}

impl PluginRunner {
    pub(crate) fn new(
        plugin: Arc<ExecPlugin>,
        plan: Plan,
        clock: SharedClock,
        (id, ends): (u64, Arc<Ends>),
    ) -> Self {
        let (pair, handle) = (Mutex::default(), Mutex::default());
        Self { plugin, plan, clock, id, ends, hints: Hints::default(), pair, handle }
    }

    fn attempt(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        let (response, rejected) = match occasion {
            Occasion::Rejected { response, was_accepted } => {
                (response.as_deref(), Some(*was_accepted))
            }
            _ => (None, None),
        };
        let waited_for = !matches!(occasion, Occasion::Ahead);
        let (run, request) =
            self.plugin.config.prepare(&self.plan.context(), waited_for, response)?;
        let program = self.admit()?;
        if let Some(broker) = &self.plan.settings().broker
            && let Some(result) = self.ask(&**broker, &run, &request, &program, rejected)
        {
            return result;
        }
        let output = explain(&run, &request, self.run(&run, &program))?;
        self.read(&run, &request, &output, None)
    }

    /// Asks the broker, and runs the plugin if the broker wants that; `None` to run it without.
    /// `rejected` says that a server rejected the last credential, and whether it had accepted it.
    fn ask(
        &self,
        broker: &dyn Broker,
        run: &RunSettings<'_>,
        request: &Request,
        program: &Program,
        rejected: Option<bool>,
    ) -> Option<Result<Fetched<Credential>, Error>> {
        let handle = *lock(&self.handle);
        let variables = run.environment.iter();
        let environment: Vec<_> = variables.map(|v| (v.name.clone(), v.value.clone())).collect();
        let question = BrokerQuestion {
            command: run.spec.name,
            args: run.spec.args,
            environment: &environment,
            surroundings: self.plan.surroundings(),
            wrapped: self.plan.wrapper().is_some(),
            interactive: request.interactive,
            budget: run.budget,
            rejected: handle.filter(|_| rejected.is_some()),
            was_accepted: rejected == Some(true),
            note: &|text| run.note(text),
        };
        match broker.obtain(&question, &mut || self.run(run, program)) {
            Brokered::Direct => None,
            Brokered::Failed(error) => Some(Err(error)),
            Brokered::Ran(result, handle) => {
                let output = explain(run, request, result);
                Some(output.and_then(|output| self.read(run, request, &output, handle)))
            }
            Brokered::Answer(output, handle) => {
                match self.read(run, request, &output, Some(handle)) {
                    Ok(fresh) => Some(Ok(fresh)),
                    Err(error) => {
                        tracing::debug!(%error, "the agent's answer is of no use");
                        None
                    }
                }
            }
        }
    }

    /// What a run that ended well has brought.
    fn read(
        &self,
        run: &RunSettings<'_>,
        request: &Request,
        output: &Output,
        handle: Option<BrokerHandle>,
    ) -> Result<Fetched<Credential>, Error> {
        let answer = Answer::read(&output.stdout, request.version)
            .map_err(|wrong| bad_answer(run, output, wrong))?;
        let fresh = self.keep(run, output, answer)?;
        *lock(&self.handle) = handle;
        Ok(fresh)
    }

    /// The credential in the output of a run that another process made, checked and counted as one of
    /// our own runs is.
    pub fn accept(&self, output: &Output) -> Result<Fetched<Credential>, Error> {
        let (code, status, took) = counted(Ok(output));
        self.ends.observer.ran(self.plugin.command(), code, status, took);
        let result = self.read_foreign(output);
        self.ends.observer.refreshed(took, result.is_ok());
        result
    }

    fn read_foreign(&self, output: &Output) -> Result<Fetched<Credential>, Error> {
        let (run, request) = self.plugin.config.prepare(&self.plan.context(), true, None)?;
        if output.status.success() {
            self.read(&run, &request, output, None)
        } else {
            Err(run.ended(output.status, &output.stderr, &output.stdout))
        }
        .map_err(|error| error.needed_by(self.plan.needed_by()))
    }

    /// Finds the program afresh for each run, and asks the policy.
    fn admit(&self) -> Result<Program, Error> {
        let command = self.plugin.command();
        let admitted = self.plan.rules().admit(command, self.plan.surroundings());
        let kind = admitted.as_ref().err().map(Error::kind);
        let denied = matches!(kind, Some(Kind::NotAllowed | Kind::BadConfig));
        let observer = &self.ends.observer;
        observer.judged(!denied);
        let status = match kind {
            Some(Kind::NotFound) => CallStatus::PluginNotFoundError,
            _ => CallStatus::ClientInternalError,
        };
        if kind.is_some() && !denied {
            observer.ran(command, 1, status, Duration::ZERO);
        }
        admitted
    }

    fn run(&self, run: &RunSettings<'_>, program: &Program) -> Result<Output, Failure> {
        let result = run.run(&run.invocation(program), &Cancel::default());
        let (code, status, took) = counted(result.as_ref());
        self.ends.observer.ran(self.plugin.command(), code, status, took);
        result
    }

    fn keep(
        &self,
        run: &RunSettings<'_>,
        output: &Output,
        answer: Answer,
    ) -> Result<Fetched<Credential>, Error> {
        let wrong = |what: &str| run.bad_answer(what, output);
        let now = self.clock.now();
        let mut last = lock(&self.pair);
        let pair = match &answer.pair {
            None => None,
            Some(pem) => {
                let pair = Pair::parse(&pem.certificate, &pem.key).map_err(|why| {
                    wrong("answered a certificate and a key that are not a pair")
                        .note("because", why.to_string())
                })?;
                self.check_validity(&pair, now).map_err(|what| wrong(&what))?;
                Some(keep_known(pair, last.as_ref()))
            }
        };
        let header = answer.token.map_or(Header::None, Header::Bearer);
        let credential =
            Credential::new(header, pair.clone(), answer.expires).map_err(|Unsendable| {
                wrong("answered a token with a character that no header can contain")
            })?;
        self.tell(last.as_ref(), pair.as_ref(), answer.expires, now);
        *last = pair;
        Ok(Fetched { value: credential, expires: answer.expires })
    }

    /// The proposal wants a certificate to be valid when it comes; the reference does not look.
    fn check_validity(&self, pair: &Pair, now: Timestamp) -> Result<(), String> {
        let Some(what) = outside_validity(pair.not_before, pair.not_after, now) else {
            return Ok(());
        };
        let command = self.plugin.command();
        self.ends.observer.invalid_certificate(command);
        if self.plan.settings().strict {
            return Err(what);
        }
        tracing::warn!("plugin `{}` {what}", inline(command));
        Ok(())
    }

    fn tell(
        &self,
        old: Option<&Arc<Pair>>,
        new: Option<&Arc<Pair>>,
        expires: Option<Timestamp>,
        now: Timestamp,
    ) {
        let observer = &self.ends.observer;
        observer.expires(expires, now);
        if let Some(old) = old
            && !new.is_some_and(|new| Arc::ptr_eq(old, new))
        {
            let age = now.duration_since(old.not_before);
            observer.rotated(Duration::try_from(age).unwrap_or_default());
        }
        self.ends.set(self.id, new.map(|pair| pair.not_after), now);
    }
}

/// The certificate of a runner that is gone counts no longer.
impl Drop for PluginRunner {
    fn drop(&mut self) {
        self.ends.set(self.id, None, self.clock.now());
    }
}

impl Fetch<Credential> for PluginRunner {
    fn name(&self) -> Cow<'_, str> {
        format!("plugin `{}` of {}", self.plugin.command(), self.plan.needed_by()).into()
    }

    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        let start = self.clock.elapsed();
        let result = self.attempt(occasion);
        let took = self.clock.elapsed().saturating_sub(start);
        self.ends.observer.refreshed(took, result.is_ok());
        result.map_err(|error| {
            let error = error.needed_by(self.plan.needed_by());
            match error.kind() {
                Kind::NotFound if self.hints.allow(self.clock.elapsed()) => {
                    self.plugin.hinted(error)
                }
                _ => error,
            }
        })
    }
}

/// Says of a run that brought nothing why.
fn explain(
    run: &RunSettings<'_>,
    request: &Request,
    result: Result<Output, Failure>,
) -> Result<Output, Error> {
    match result {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => Err(run.ended(output.status, &output.stderr, &output.stdout)),
        Err(Failure::TooBig { part, size, limit }) => {
            let largest = largest_field(&part, request);
            let error = run.not_run(Failure::TooBig { part, size, limit });
            Err(match largest {
                Some(largest) => error.note("largest field", largest).with_hint(
                    "the request has it because of `provideClusterInfo`; most plugins work without",
                ),
                None => error,
            })
        }
        Err(failure) => Err(run.not_run(failure)),
    }
}

/// The answer is not one. The cause has the details.
fn bad_answer(run: &RunSettings<'_>, output: &Output, wrong: AnswerError) -> Error {
    let what = match &wrong {
        AnswerError::Empty => "answered nothing",
        AnswerError::Decode { .. } => "answered something that is not an `ExecCredential`",
        AnswerError::VersionMismatch { .. } => "answered in another version than it was asked in",
        _ => "answered without a credential",
    };
    let mismatch = matches!(wrong, AnswerError::VersionMismatch { .. });
    let error = run.bad_answer(what, output).because(wrong);
    if mismatch {
        error.with_hint("set `apiVersion` of the user's `exec` to what the plugin speaks")
    } else {
        error
    }
}

/// The field that makes the request too big for the environment.
fn largest_field(part: &Part, request: &Request) -> Option<String> {
    let asked = matches!(part, Part::Variable(name) if name == REQUEST_VARIABLE);
    let cluster = request.cluster.as_ref().filter(|_| asked || *part == Part::Everything)?;
    let authority = cluster.certificate_authority_data.len();
    let config = cluster.config.as_ref().map_or(0, |config| config.to_json().len());
    let (field, size) = if authority >= config {
        ("certificate-authority-data", authority)
    } else {
        ("the extension `client.authentication.k8s.io/exec`", config)
    };
    Some(format!("{field} of the cluster, {size} bytes"))
}
