//! One talk with the plugin: run for a request, or kept.

use keyward_protocol::signer::{MAX_LINE, Reason, Request, Response};

use keyward_process::runner::{self, Cancel, Failure, Invocation, Status};

use super::Signer;
use crate::{
    Error,
    plugin::{RunSettings, counted},
};

/// The plugin that stays, if there is one.
#[derive(Default)]
pub(super) struct Session {
    #[cfg(unix)]
    resident: Option<runner::Resident>,
    /// The signer said that it does not support unlocking, so there is nothing to ask a person for ahead
    /// of a signature. Only such a plugin says so for good: a key may want its PIN for every signature.
    pub(super) lockless: bool,
}

impl Session {
    pub(super) fn ask(
        &mut self,
        signer: &Signer,
        request: &Request,
        waited_for: bool,
        cancel: &Cancel,
    ) -> Result<Response, Error> {
        let plan = &signer.plan;
        let run = signer.plugin.config.prepare(&plan.context(), waited_for, request);
        let prepare = || {
            let program = plan.rules().admit(signer.plugin.command(), plan.surroundings())?;
            let mut invocation = run.invocation(&program);
            invocation.limits.stdout = invocation.limits.stdout.min(MAX_LINE);
            Ok(invocation)
        };
        if signer.plugin.resident() {
            self.ask_resident(signer, request, &run, prepare, cancel)
        } else {
            ask_once(signer, &run, &prepare()?, cancel)
        }
    }

    /// Asks the plugin that stays; one that is gone is started once more, and unlocked before it
    /// is to sign.
    #[cfg(unix)]
    fn ask_resident(
        &mut self,
        signer: &Signer,
        request: &Request,
        run: &RunSettings<'_>,
        prepare: impl Fn() -> Result<Invocation, Error>,
        cancel: &Cancel,
    ) -> Result<Response, Error> {
        let mut again = true;
        loop {
            let fresh = self.resident.is_none();
            if fresh {
                self.lockless = false;
                let started = runner::stay(prepare()?, cancel);
                self.resident = Some(started.map_err(|failure| run.not_run(failure))?);
            }
            let unlocked = match request {
                Request::Sign(request) if fresh => {
                    let unlock = Request::Unlock(request.configuration.clone());
                    self.exchange(signer, &unlock, run, cancel).and_then(
                        |response| match response {
                            Response::Unlock => Ok(()),
                            other => Err(signer.mixed_up(&unlock, &other).into()),
                        },
                    )
                }
                _ => Ok(()),
            };
            match unlocked.and_then(|()| self.exchange(signer, request, run, cancel)) {
                Ok(response) => return Ok(response),
                Err(Trouble::Answer(error)) => return Err(error),
                Err(Trouble::Run(Failure::Gone(_))) if again => {
                    tracing::debug!("a resident signer is gone and is started again");
                    again = false;
                }
                Err(Trouble::Run(failure)) => return Err(run.not_run(failure)),
            }
        }
    }

    /// One question to the plugin that stays. It stays for the next one only if its answer could be
    /// read, or it was not asked.
    #[cfg(unix)]
    fn exchange(
        &mut self,
        signer: &Signer,
        request: &Request,
        run: &RunSettings<'_>,
        cancel: &Cancel,
    ) -> Result<Response, Trouble> {
        let gone = || Trouble::Run(Failure::Gone(runner::Left::default()));
        let mut resident = self.resident.take().ok_or_else(gone)?;
        tracing::debug!(request = request.kind(), "asking a resident signer");
        let line = match resident.ask(request.to_json().expose().as_bytes(), cancel) {
            Ok(line) => line,
            Err(failure) => {
                self.resident = Some(resident).filter(runner::Resident::is_whole);
                return Err(Trouble::Run(failure));
            }
        };
        let response = Response::read(&line).map_err(|wrong| signer.bad_answer(run, &[], wrong))?;
        self.resident = Some(resident);
        match (request, response) {
            // A plugin that knows nothing of unlocking has nothing to unlock, as far as we know.
            (Request::Unlock(_), Response::Error(error)) if error.reason == Reason::Unsupported => {
                self.lockless = true;
                Ok(Response::Unlock)
            }
            (_, Response::Error(error)) => Err(signer.refused(run, &error, &[]).into()),
            (_, response) => Ok(response),
        }
    }

    #[cfg(not(unix))]
    fn ask_resident(
        &mut self,
        signer: &Signer,
        _request: &Request,
        run: &RunSettings<'_>,
        _prepare: impl Fn() -> Result<Invocation, Error>,
        _cancel: &Cancel,
    ) -> Result<Response, Error> {
        Err(run.not_run(Failure::Start(std::io::ErrorKind::Unsupported.into())))
    }
}

/// Why a question to the plugin that stays came to nothing.
#[cfg(unix)]
enum Trouble {
    /// The plugin broke down, and may do better when it is started again.
    Run(Failure),
    /// The signer answered, and the answer is wrong in this way.
    Answer(Error),
}

#[cfg(unix)]
impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Answer(error)
    }
}

/// Runs the plugin for one request.
fn ask_once(
    signer: &Signer,
    run: &RunSettings<'_>,
    invocation: &Invocation,
    cancel: &Cancel,
) -> Result<Response, Error> {
    let result = run.run(invocation, cancel);
    let (code, status, took) = counted(result.as_ref());
    signer.observer.ran(signer.plugin.command(), code, status, took);
    let output = result.map_err(|failure| run.not_run(failure))?;
    match (output.status, Response::read(&output.stdout)) {
        // What it says of itself is better than any exit code.
        (_, Ok(Response::Error(error))) => Err(signer.refused(run, &error, &output.stderr)),
        (Status::Code(0), Ok(response)) => Ok(response),
        (Status::Code(0), Err(wrong)) => Err(signer.bad_answer(run, &output.stderr, wrong)),
        (status, _) => Err(run.ended(status, &output.stderr, &[])),
    }
}
