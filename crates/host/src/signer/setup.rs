use std::{fmt, time::Duration};

use keyward_protocol::signer::{Configuration, REQUEST_VARIABLE, Request};

use super::{PATH, PROVIDER};
use keyward_process::runner;

use crate::{
    Error, Kind,
    kubeconfig::AuthProvider,
    plan::{Context, Variable, alone},
    rules::{Judgement, Program},
};

/// The external signer of a plan, as the kubeconfig has it and as it would run now.
pub struct Setup {
    command: String,
    configuration: Configuration,
    resident: bool,
    resumption: bool,
    now: Option<Now>,
}

/// What was found when the plan was made; found again for each run.
struct Now {
    judgement: Judgement,
    program: Option<Program>,
    attended: bool,
    budget: Duration,
}

/// Everything decided for one run but the program.
pub(super) struct Turn {
    pub(super) environment: Vec<Variable>,
    pub(super) attended: bool,
    /// It may have our stdin, to ask for a PIN.
    pub(super) stdin: bool,
    pub(super) budget: Duration,
    pub(super) stderr: runner::Stderr,
    pub(super) limits: runner::OutputLimits,
}

impl Setup {
    /// Reads the auth-provider's configuration. Fails without a program, and for a switch that is
    /// neither on nor off.
    pub(crate) fn new(provider: &AuthProvider) -> Result<Self, Error> {
        let wrong = |what: String| Error::new(Kind::BadConfig, what);
        let mut configuration = Configuration::default();
        for (name, value) in &provider.config {
            configuration.set(name, value.clone());
        }
        let command = configuration
            .get(PATH)
            .filter(|path| !path.is_empty())
            .ok_or_else(|| wrong(format!("the `{PROVIDER}` auth-provider needs `{PATH}`")))?
            .to_owned();
        let switch = |name: &str, usual: bool| match configuration.get(name) {
            None | Some("") => Ok(usual),
            Some("true" | "on") => Ok(true),
            Some("false" | "off") => Ok(false),
            Some(_) => {
                Err(wrong(format!("`{name}` of `{PROVIDER}` is neither `true` nor `false`")))
            }
        };
        Ok(Self {
            resident: switch("resident", false)?,
            resumption: switch("resumption", true)?,
            command,
            configuration,
            now: None,
        })
    }

    /// The program, as the kubeconfig says it.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// What the plugin is told. It may contain a PIN.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Whether the plugin stays for as long as the client lives.
    pub fn resident(&self) -> bool {
        self.resident
    }

    /// Whether connections may be resumed without a signature. `resumption: "off"` says no.
    pub fn resumption(&self) -> bool {
        self.resumption
    }

    /// What the policy says, and where the command leads.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.now.as_ref().map(|now| &now.judgement)
    }

    /// The program that would run.
    pub fn program(&self) -> Option<&Program> {
        self.now.as_ref().and_then(|now| now.program.as_ref())
    }

    /// Whether a person attends the run.
    pub fn attended(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.attended)
    }

    /// How long it may take.
    pub fn budget(&self) -> Option<Duration> {
        self.now.as_ref().map(|now| now.budget)
    }

    /// What a careful reader would want to know.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.program().map(|p| p.warnings.clone()).unwrap_or_default();
        if self.configuration.get("pin").is_some_and(|pin| !pin.is_empty()) {
            warnings.push(
                "the kubeconfig holds the token's `pin`: every program of this user can read it"
                    .into(),
            );
        }
        warnings
    }

    /// Looks at everything a run would look at.
    pub(crate) fn look(mut self, context: &Context<'_>) -> (Self, Option<Error>) {
        let judgement = context.rules.judge(&self.command, context.surroundings);
        let (program, fault) = match context.rules.admit(&self.command, context.surroundings) {
            Ok(program) => (Some(program), None),
            Err(fault) if fault.kind() == Kind::NotFound => {
                let hint = format!("install it, or correct `{PATH}` of the user's auth-provider");
                (None, Some(fault.with_hint(hint)))
            }
            Err(fault) => (None, Some(fault)),
        };
        let turn = self.turn(context, true, &Request::Session);
        let (attended, budget) = (turn.attended, turn.budget);
        self.now = Some(Now { judgement, program, attended, budget });
        (self, fault)
    }

    /// Decides for one run, as for other plugins. `waited_for` is false when nobody is there.
    pub(super) fn turn(&self, context: &Context<'_>, waited_for: bool, request: &Request) -> Turn {
        let Context { surroundings, settings, .. } = context;
        let attended = alone(settings, waited_for).is_none() && surroundings.has_terminal();
        let text = if self.resident { Request::Session.to_json() } else { request.to_json() };
        Turn {
            environment: settings.environment.compose(
                surroundings,
                &[],
                &settings.variables,
                (REQUEST_VARIABLE, text.expose()),
            ),
            attended,
            stdin: attended
                && settings.stdin_unavailable.is_none()
                && surroundings.stdin_is_terminal(),
            budget: settings.budget(attended),
            stderr: settings.stderr(attended, false),
            limits: settings.limits,
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("command", &self.command)
            .field("configuration", &self.configuration)
            .field("resident", &self.resident)
            .field("resumption", &self.resumption)
            .finish_non_exhaustive()
    }
}
