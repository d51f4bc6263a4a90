//! The plugin of a plan: what is known about it now, and what is decided for each run.

use std::{fmt, time::Duration};

use keyward_protocol::exec::{self, Request, Response, Version};

use super::{Complaints, Origin, Settings, Variable, interactive};
use keyward_process::{runner, surroundings::Surroundings};

use crate::{
    Error, Kind,
    error::inline,
    kubeconfig::{self, Exec, Target},
    rules::{Judgement, Program, Rules},
};

/// A plugin, as the kubeconfig has it and as it would run now.
pub struct Plugin {
    exec: Exec,
    cluster: Option<exec::Cluster>,
    now: Option<Now>,
}

/// What was found when the plan was made; found again for each run.
struct Now {
    judgement: Judgement,
    program: Option<Program>,
    interactive: Option<bool>,
    attended: bool,
    budget: Duration,
    environment: Vec<(String, Origin)>,
    request: Option<Request>,
    shown: bool,
}

/// What a run depends on besides the kubeconfig.
pub(crate) struct Context<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) settings: &'a Settings,
}

/// Everything decided for one run but the program.
pub(crate) struct Turn {
    pub(crate) request: Request,
    pub(crate) environment: Vec<Variable>,
    pub(crate) attended: bool,
    pub(crate) budget: Duration,
    pub(crate) stderr: runner::Stderr,
    pub(crate) limits: runner::OutputLimits,
}

impl Plugin {
    pub(super) fn new(exec: Exec, target: &Target) -> Self {
        let cluster = exec.provide_cluster_info.then(|| cluster(target));
        Self { exec, cluster, now: None }
    }

    /// The command, as the kubeconfig says it.
    pub fn command(&self) -> &str {
        &self.exec.command
    }

    /// Its arguments. They may be secret.
    pub fn args(&self) -> &[String] {
        &self.exec.args
    }

    /// The whole `exec` block.
    pub fn exec(&self) -> &Exec {
        &self.exec
    }

    /// The version of the protocol. Fails for one that nobody speaks (EV-02).
    pub fn version(&self) -> Result<Version, Error> {
        Version::parse(&self.exec.api_version).ok_or_else(|| {
            Error::new(
                Kind::BadConfig,
                format!(
                    "`{}` is no version of the plugin protocol",
                    inline(&self.exec.api_version)
                ),
            )
            .note("known are", Version::ALL.map(Version::api_version).join(", "))
        })
    }

    /// What the policy says, and where the command leads.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.now.as_ref().map(|now| &now.judgement)
    }

    /// The program that would run.
    pub fn program(&self) -> Option<&Program> {
        self.now.as_ref().and_then(|now| now.program.as_ref())
    }

    /// Whether it would get our stdin, to talk to a person; `None` when that is a fault.
    pub fn interactive(&self) -> Option<bool> {
        self.now.as_ref().and_then(|now| now.interactive)
    }

    /// Whether a person attends the run.
    pub fn attended(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.attended)
    }

    /// Whether its stderr is ours, with nobody in between.
    pub fn shown(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.shown)
    }

    /// How long it may take.
    pub fn budget(&self) -> Option<Duration> {
        self.now.as_ref().map(|now| now.budget)
    }

    /// The names of its environment, and who gave them.
    pub fn environment(&self) -> &[(String, Origin)] {
        self.now.as_ref().map_or(&[], |now| &now.environment)
    }

    /// What it would be told.
    pub fn request(&self) -> Option<&Request> {
        self.now.as_ref().and_then(|now| now.request.as_ref())
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.program().map(|p| p.warnings.clone()).unwrap_or_default();
        if self.exec.provide_cluster_info && self.version().is_ok_and(|v| v == Version::V1Alpha1) {
            warnings.push("`provideClusterInfo` says nothing under v1alpha1".into());
        }
        warnings
    }

    /// Looks at everything a run would look at.
    pub(super) fn look(mut self, context: &Context<'_>) -> (Self, Vec<Error>) {
        let mut faults = Vec::new();
        let judgement = context.rules.judge(self.command(), context.surroundings);
        let program = match context.rules.admit(self.command(), context.surroundings) {
            Ok(program) => Some(program),
            Err(fault) => {
                faults.push(self.hinted(fault));
                None
            }
        };
        let turn = match self.turn(context, true, None) {
            Ok(turn) => Some(turn),
            // Nothing runs without a terminal, whatever becomes of the program (IT-04).
            Err(fault) => {
                faults.insert(0, fault);
                None
            }
        };
        let environment = |turn: &Turn| {
            let named = |v: &Variable| (v.name.to_string_lossy().into_owned(), v.origin);
            turn.environment.iter().map(named).collect()
        };
        self.now = Some(Now {
            judgement,
            program,
            interactive: turn.as_ref().map(|turn| turn.request.interactive),
            attended: turn.as_ref().is_some_and(|turn| turn.attended),
            budget: turn.as_ref().map_or(context.settings.unattended, |turn| turn.budget),
            environment: turn.as_ref().map(environment).unwrap_or_default(),
            shown: turn.as_ref().is_some_and(|turn| matches!(turn.stderr, runner::Stderr::Shown)),
            request: turn.map(|turn| turn.request),
        });
        (self, faults)
    }

    /// Decides for one run. `waited_for` is false for a refresh ahead of time, which must disturb
    /// nobody; a plugin that always talks to a person is not run for it at all.
    pub(crate) fn turn(
        &self,
        context: &Context<'_>,
        waited_for: bool,
        response: Option<&Response>,
    ) -> Result<Turn, Error> {
        let Context { surroundings, settings, .. } = context;
        let version = self.version()?;
        let alone = alone(settings, waited_for);
        let interactive = interactive(
            &self.exec.interactive_mode,
            surroundings.stdin_is_terminal(),
            settings.stdin_unavailable.as_deref().or(alone),
        )
        .map_err(|error| error.note("plugin", format!("`{}`", inline(self.command()))))?;
        let attended = interactive
            || (alone.is_none()
                && self.exec.interactive_mode != "Never"
                && surroundings.has_terminal());
        let request = Request {
            version,
            interactive,
            cluster: self.cluster.clone().filter(|_| version != Version::V1Alpha1),
            response: response.filter(|_| version == Version::V1Alpha1).cloned(),
            form: settings.form,
        };
        let environment = settings.environment.compose(
            surroundings,
            &self.exec.env,
            &settings.variables,
            (exec::REQUEST_VARIABLE, &request.to_json()),
        );
        Ok(Turn {
            environment,
            attended,
            budget: settings.budget(attended),
            stderr: settings.stderr(attended, waited_for),
            limits: settings.limits,
            request,
        })
    }

    /// Adds how to get a plugin that is not there: for every way of not being there (D5), and some
    /// general help where the kubeconfig says nothing (IH-04).
    pub(crate) fn hinted(&self, error: Error) -> Error {
        if error.kind() != Kind::NotFound {
            return error;
        }
        let hint = keyward_protocol::text::clean(self.exec.install_hint.trim());
        if hint.is_empty() {
            error.with_hint(
                "the kubeconfig needs this program to log in: install it, or put its folder on `PATH`",
            )
        } else {
            error.with_hint(format!("{hint}   (installHint of the kubeconfig)"))
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("command", &self.exec.command)
            .field("args", &self.exec.args.len())
            .field("program", &self.program())
            .finish_non_exhaustive()
    }
}

/// Why nobody attends a run, whatever the plugin wants.
pub(crate) fn alone(settings: &Settings, waited_for: bool) -> Option<&'static str> {
    if !waited_for {
        Some("this run is ahead of time, and nobody waits for it")
    } else if !settings.person {
        Some("this program asks nobody")
    } else if matches!(settings.complaints, Complaints::Sink(_)) {
        Some("this program has a screen of its own")
    } else {
        None
    }
}

/// The cluster as a plugin sees it (IN-05): every field of the kubeconfig's, but for the path of the
/// authority, whose content it gets, and the extensions, of which it gets its own.
fn cluster(target: &Target) -> exec::Cluster {
    let kubeconfig::Cluster {
        server,
        tls_server_name,
        insecure_skip_tls_verify,
        certificate_authority: _,
        certificate_authority_data,
        proxy_url,
        disable_compression,
        extensions: _,
    } = &target.cluster;
    exec::Cluster {
        server: server.clone(),
        tls_server_name: tls_server_name.clone(),
        insecure_skip_tls_verify: *insecure_skip_tls_verify,
        certificate_authority_data: certificate_authority_data.clone(),
        proxy_url: proxy_url.clone(),
        disable_compression: *disable_compression,
        config: target.exec_config.clone(),
    }
}
