//! One run of a provider: locate, ask, run, read; retried after a pause if it failed quickly.

use std::{path::PathBuf, sync::Arc, time::Duration};

use keyward_host::{Environment, Error, Observer, RunSettings, redact, rules::Program};
use keyward_process::{
    clock::{Clock, SharedClock, SystemClock},
    runner::{Cancel, Failure, OutputLimits},
    surroundings::Surroundings,
};
use keyward_protocol::{
    Secret,
    image::{Request, Version},
};

use super::{
    answer::{self, Answer, Unusable},
    config::{Protocol, Provider},
    failure,
};

/// How providers are run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of the providers' programs; `None` means `PATH`.
    pub bin_dir: Option<PathBuf>,
    /// How long a provider may take, including pauses and retries.
    pub budget: Duration,
    /// The pauses before each retry of a failed provider, while the budget lasts.
    pub retries: Vec<Duration>,
    /// How much a provider may print.
    pub limits: OutputLimits,
    /// What a provider sees of our environment.
    pub environment: Environment,
    /// Programs that run although others could change them, by name or path.
    pub trusted: Vec<PathBuf>,
    /// How many answers are cached.
    pub most: usize,
}

impl Default for Settings {
    /// A minute, like the kubelet's limit, with two retries inside it.
    fn default() -> Self {
        Self {
            bin_dir: None,
            budget: Duration::from_secs(60),
            retries: vec![Duration::from_millis(500), Duration::from_secs(2)],
            limits: OutputLimits::default(),
            environment: Environment::Inherit,
            trusted: Vec::new(),
            most: 10_000,
        }
    }
}

/// What a provider is told about a pod's service account.
#[derive(Default)]
pub(super) struct Told {
    pub(super) token: Option<Secret>,
    pub(super) annotations: Vec<(String, String)>,
    /// Whether the answer will serve other tokens too, so that it must not contain this one.
    pub(super) shared: bool,
}

/// Runs providers.
#[derive(Clone)]
pub(super) struct Runner {
    pub(super) settings: Settings,
    pub(super) surroundings: Surroundings,
    pub(super) clock: SharedClock,
    pub(super) observer: Arc<dyn Observer>,
}

impl Runner {
    /// Asks a provider for the logins of an image. Blocks.
    pub(super) fn ask(
        &self,
        provider: &Provider,
        image: &str,
        told: &Told,
    ) -> Result<Answer, Error> {
        let program = self.locate_or_report(provider)?;
        self.ask_program(provider, &program, image, told, self.settings.budget)
    }

    /// Asks a provider whose program was found, within this time. Blocks.
    pub(super) fn ask_program(
        &self,
        provider: &Provider,
        program: &Program,
        image: &str,
        told: &Told,
        budget: Duration,
    ) -> Result<Answer, Error> {
        for warning in &program.warnings {
            tracing::debug!(provider = provider.name, warning);
        }
        let start = SystemClock.elapsed();
        let mut pauses = self.settings.retries.iter();
        let mut number = 1_usize;
        loop {
            let spent = SystemClock.elapsed().saturating_sub(start);
            let rest = budget.saturating_sub(spent);
            let (error, again) = match self.run(provider, image, told, program, rest) {
                Ok(answer) => return Ok(Answer { runs: number, ..answer }),
                Err(failed) => failed,
            };
            let error = error.needed_by(failure::needed_by(provider));
            let spent = SystemClock.elapsed().saturating_sub(start);
            let pause = pauses.next().filter(|pause| spent + **pause < budget);
            let (true, Some(pause)) = (again, pause) else {
                return Err(match number {
                    1 => error,
                    _ => error.note("tried", format!("{number} times")),
                });
            };
            tracing::debug!(provider = provider.name, ?pause, "a provider is run again");
            if Cancel::default().pause(*pause) {
                return Err(error);
            }
            number += 1;
        }
    }

    /// The program of a provider that is about to run. A missing one counts as a failed run, as in the kubelet.
    pub(super) fn locate_or_report(&self, provider: &Provider) -> Result<Program, Error> {
        self.locate(provider).map_err(|error| {
            self.observer.provided(&provider.name, Duration::ZERO, true);
            error.needed_by(failure::needed_by(provider))
        })
    }

    /// The program of a provider.
    pub(super) fn locate(&self, provider: &Provider) -> Result<Program, Error> {
        let settings = &self.settings;
        let folder = settings.bin_dir.as_deref();
        Program::locate(&provider.name, folder, &settings.trusted, &self.surroundings)
    }

    /// Runs the provider once. An error says whether a retry may help.
    fn run(
        &self,
        provider: &Provider,
        image: &str,
        told: &Told,
        program: &Program,
        budget: Duration,
    ) -> Result<Answer, (Error, bool)> {
        let run = self.settings(provider, image, told);
        let mut invocation = run.invocation(program);
        invocation.name = program.path.clone().into();
        invocation.budget = budget;
        let output = match run.run(&invocation, &Cancel::default()) {
            Ok(output) => output,
            Err(failure) => {
                let took = failure.left().map_or(Duration::ZERO, |left| left.took);
                self.observer.provided(&provider.name, took, true);
                let again = matches!(failure, Failure::Busy);
                let error = run.not_run(failure);
                return Err((failure::after(error, took), again));
            }
        };
        self.observer.provided(&provider.name, output.took, !output.status.success());
        if !output.status.success() {
            let error = run.ended(output.status, &output.stderr, &output.stdout);
            return Err((failure::after(error, output.took), true));
        }
        let read = answer::read(provider, image, &output.stdout, self.clock.now());
        let echoed = |answer: &Answer| {
            told.shared && told.token.as_ref().is_some_and(|token| answer.echoes(token.expose()))
        };
        let read = match read {
            Ok(answer) if echoed(&answer) => Err(Unusable::Echo),
            other => other,
        };
        let mut answer = read.map_err(|wrong| {
            let error = failure::bad_answer(&run, &output, wrong);
            (failure::after(error, output.took), false)
        })?;
        for (_, login) in &answer.auth {
            redact::remember(&login.password, answer.kept_for.or(Some(Duration::ZERO)));
        }
        answer.took = output.took;
        answer.stderr = run.redacted(&output.stderr, &output.stdout);
        Ok(answer)
    }

    fn settings<'a>(&self, provider: &'a Provider, image: &str, told: &Told) -> RunSettings<'a> {
        let version = match provider.protocol {
            Protocol::Kubelet(version) => Some(version),
            Protocol::Proposal => None,
        };
        let says = version == Some(Version::V1);
        let request = Request {
            version,
            image: image.to_owned(),
            token: told.token.clone().filter(|_| says),
            annotations: if says { told.annotations.clone() } else { Vec::new() },
        };
        let request = request.to_json();
        let Provider { name, args, env, .. } = provider;
        let Settings { environment, budget, limits, .. } = &self.settings;
        RunSettings::image_provider(
            (name, args, env),
            (environment, &self.surroundings),
            &request,
            (*budget, *limits),
            told.token.iter().cloned().collect(),
        )
    }
}
