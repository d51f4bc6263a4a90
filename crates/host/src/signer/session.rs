//! One talk with the plugin: run for a request, or kept.

use keyward_protocol::signer::{MAX_LINE, Reason, Request, Response};

use super::{
    Signer,
    setup::{Setup, Turn},
};
use crate::{
    Error,
    observer::CallStatus,
    plan::Context,
    process::{self, Abandoned, Failure, Invocation, Status, Stdin, Stop},
};

/// The plugin that stays, if there is one.
#[derive(Default)]
pub(super) struct Session {
    #[cfg(unix)]
    resident: Option<process::Resident>,
    unlocked: bool,
}

impl Session {
    /// Whether a signature needs no person any more.
    pub(super) fn is_unlocked(&self) -> bool {
        self.unlocked
    }

    pub(super) fn ask(
        &mut self,
        signer: &Signer,
        request: &Request,
        waited_for: bool,
        stop: &Stop,
    ) -> Result<Response, Error> {
        let setup = signer.setup()?;
        let plan = &signer.plan;
        let context = Context {
            rules: plan.rules(),
            surroundings: plan.surroundings(),
            settings: plan.settings(),
        };
        let turn = setup.turn(&context, waited_for, request);
        let prepare = || {
            let program = context.rules.admit(setup.command(), context.surroundings)?;
            let mut invocation = Invocation::new(program.path);
            invocation.identity = Some(program.identity);
            invocation.name = setup.command().into();
            invocation.env =
                turn.environment.iter().map(|v| (v.name.clone(), v.value.clone())).collect();
            invocation.stdin = if turn.stdin { Stdin::Terminal } else { Stdin::Closed };
            invocation.stderr = turn.stderr.clone();
            invocation.budget = turn.budget;
            invocation.limits = turn.limits;
            invocation.limits.stdout = invocation.limits.stdout.min(MAX_LINE);
            invocation.attended = turn.attended;
            invocation.abandoned = Abandoned::Kill;
            Ok(invocation)
        };
        if setup.resident() {
            self.ask_resident(signer, request, &turn, prepare, stop)
        } else {
            ask_once(signer, setup, request, &turn, &prepare()?, stop)
        }
    }

    /// Asks the plugin that stays; one that is gone is started once more.
    #[cfg(unix)]
    fn ask_resident(
        &mut self,
        signer: &Signer,
        request: &Request,
        turn: &Turn,
        prepare: impl Fn() -> Result<Invocation, Error>,
        stop: &Stop,
    ) -> Result<Response, Error> {
        let mut again = true;
        loop {
            let mut resident = match self.resident.take() {
                Some(resident) => resident,
                None => {
                    self.unlocked = false;
                    process::stay(prepare()?, stop)
                        .map_err(|failure| signer.not_run(turn, failure))?
                }
            };
            tracing::debug!(request = request.kind(), "asking a resident signer");
            match resident.ask(request.to_json().expose().as_bytes(), stop) {
                Ok(line) => {
                    let response = Response::read(&line)
                        .map_err(|wrong| signer.bad_answer(turn, &[], wrong))?;
                    self.resident = Some(resident);
                    return self.judge(signer, request, turn, response);
                }
                Err(Failure::Gone(_)) if again => {
                    tracing::debug!("a resident signer is gone and is started again");
                    again = false;
                }
                Err(failure) => {
                    self.unlocked = false;
                    return Err(signer.not_run(turn, failure));
                }
            }
        }
    }

    #[cfg(unix)]
    fn judge(
        &mut self,
        signer: &Signer,
        request: &Request,
        turn: &Turn,
        response: Response,
    ) -> Result<Response, Error> {
        match (request, response) {
            (Request::Unlock(_), Response::Unlock) => {
                self.unlocked = true;
                Ok(Response::Unlock)
            }
            // A plugin that knows nothing of unlocking has nothing to unlock, as far as we know.
            (Request::Unlock(_), Response::Error(error)) if error.reason == Reason::Unsupported => {
                self.unlocked = true;
                Ok(Response::Unlock)
            }
            (_, Response::Error(error)) => Err(signer.refused(turn, &error, &[])),
            (_, response) => Ok(response),
        }
    }

    #[cfg(not(unix))]
    fn ask_resident(
        &mut self,
        signer: &Signer,
        _request: &Request,
        turn: &Turn,
        _prepare: impl Fn() -> Result<Invocation, Error>,
        _stop: &Stop,
    ) -> Result<Response, Error> {
        self.unlocked = false;
        Err(signer.not_run(turn, Failure::Start(std::io::ErrorKind::Unsupported.into())))
    }
}

/// Runs the plugin for one request.
fn ask_once(
    signer: &Signer,
    setup: &Setup,
    request: &Request,
    turn: &Turn,
    invocation: &Invocation,
    stop: &Stop,
) -> Result<Response, Error> {
    tracing::debug!(request = request.kind(), program = %invocation.program.display(), "running a signer");
    let output = process::run(invocation, stop).map_err(|failure| signer.not_run(turn, failure))?;
    let (code, status) = match output.status {
        Status::Code(0) => (0, CallStatus::NoError),
        Status::Code(code) => (code, CallStatus::PluginExecutionError),
        Status::Signal(_) => (-1, CallStatus::PluginExecutionError),
    };
    signer.observer.ran(setup.command(), code, status, output.took);
    match (output.status, Response::read(&output.stdout)) {
        // What it says of itself is better than any exit code.
        (_, Ok(Response::Error(error))) => Err(signer.refused(turn, &error, &output.stderr)),
        (Status::Code(0), Ok(response)) => Ok(response),
        (Status::Code(0), Err(wrong)) => Err(signer.bad_answer(turn, &output.stderr, wrong)),
        (status, _) => Err(signer.ended(turn, status, &output.stderr)),
    }
}
