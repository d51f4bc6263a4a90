use std::{fmt, sync::Arc, time::Duration};

use keyward_protocol::{Secret, exec::Form};

use keyward_process::runner;

use crate::{broker::Broker, oidc::OidcExchange, plugin::Environment};

/// How plugins are run; the defaults are the design's.
#[derive(Clone)]
#[non_exhaustive]
pub struct PlanSettings {
    /// Budget of a run nobody attends: 60 seconds.
    pub unattended: Duration,
    /// Budget of a run with a person at the terminal: ten minutes.
    pub attended: Duration,
    /// Whether a person may be asked at all. Off, every run is unattended, as in a daemon.
    pub person: bool,
    /// Set when our stdin is needed for something else, with a text that says for what (IT-05,
    /// IT-06). No plugin gets it then.
    pub stdin_unavailable: Option<String>,
    /// Where a plugin's stderr goes.
    pub stderr: StderrMode,
    /// What a plugin sees of our environment.
    pub environment: Environment,
    /// Variables given to every plugin, over those of the kubeconfig.
    pub variables: Vec<(String, Secret)>,
    /// How much a plugin may print.
    pub limits: runner::OutputLimits,
    /// Whether what is otherwise a warning stops us: a certificate that is not valid now.
    pub strict: bool,
    /// The form of v1alpha1 that plugins are asked in.
    pub form: Form,
    /// Who shows what an external signer wants the person to be told before a signature. Where
    /// stderr goes to a sink, it goes there.
    pub prompts: Option<Arc<dyn runner::Sink>>,
    /// What the `oidc` auth-provider talks HTTP with. Without it an id-token cannot be refreshed.
    pub exchange: Option<Arc<dyn OidcExchange>>,
    /// Asked before an exec plugin runs: it may have the credential, or wait for another process that
    /// runs the plugin. `None`, the default: every plugin runs here.
    pub broker: Option<Arc<dyn Broker>>,
}

/// Where a plugin's stderr goes.
#[derive(Clone, Default)]
pub enum StderrMode {
    /// Attended runs write to our stderr, others are kept for the error.
    #[default]
    Auto,
    /// Always kept for the error.
    Kept,
    /// Always written to our stderr.
    Shown,
    /// Line by line to a program with a screen of its own. No run is attended then: a plugin must
    /// not write on that screen.
    Sink(Arc<dyn runner::Sink>),
    /// As kubectl does it: attended runs write to our stderr, others that somebody waits for line by
    /// line to this sink, which writes there. Runs ahead of time, and signers, are kept for the error.
    PassThrough(Arc<dyn runner::Sink>),
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self {
            unattended: Duration::from_secs(60),
            attended: Duration::from_secs(600),
            person: true,
            stdin_unavailable: None,
            stderr: StderrMode::Auto,
            environment: Environment::Inherit,
            variables: Vec::new(),
            limits: runner::OutputLimits::default(),
            strict: false,
            form: Form::ExecCredential,
            prompts: None,
            exchange: None,
            broker: None,
        }
    }
}

impl PlanSettings {
    /// Why no person can be asked, whatever the plugin wants.
    pub(crate) fn alone(&self, waited_for: bool) -> Option<&'static str> {
        if !waited_for {
            Some("this run is ahead of time, and nobody waits for it")
        } else if !self.person {
            Some("this program asks nobody")
        } else if matches!(self.stderr, StderrMode::Sink(_)) {
            Some("this program has a screen of its own")
        } else {
            None
        }
    }

    /// How long a run may take, with a person at the terminal or without.
    pub(crate) fn budget(&self, attended: bool) -> Duration {
        if attended { self.attended } else { self.unattended }
    }

    /// Where the stderr of such a run goes; `passed` is for those that may be passed through.
    pub(crate) fn stderr(&self, attended: bool, passed: bool) -> runner::Stderr {
        match &self.stderr {
            StderrMode::Auto | StderrMode::PassThrough(_) if attended => runner::Stderr::Shown,
            StderrMode::PassThrough(sink) if passed => runner::Stderr::Sink(sink.clone()),
            StderrMode::Auto | StderrMode::Kept | StderrMode::PassThrough(_) => {
                runner::Stderr::Kept
            }
            StderrMode::Shown => runner::Stderr::Shown,
            StderrMode::Sink(sink) => runner::Stderr::Sink(sink.clone()),
        }
    }
}

impl fmt::Debug for PlanSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanSettings")
            .field("unattended", &self.unattended)
            .field("attended", &self.attended)
            .field("person", &self.person)
            .field("stdin_unavailable", &self.stdin_unavailable)
            .field("stderr", &self.stderr)
            .field("environment", &self.environment)
            .field("variables", &self.variables)
            .field("limits", &self.limits)
            .field("strict", &self.strict)
            .field("form", &self.form)
            .field("prompts", &self.prompts.is_some())
            .field("exchange", &self.exchange.is_some())
            .field("broker", &self.broker.is_some())
            .finish()
    }
}

impl fmt::Debug for StderrMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "Auto",
            Self::Kept => "Kept",
            Self::Shown => "Shown",
            Self::Sink(_) => "Sink",
            Self::PassThrough(_) => "PassThrough",
        })
    }
}
