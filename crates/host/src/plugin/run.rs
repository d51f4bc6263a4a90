//! Runs a plugin, whatever protocol it speaks.

use std::{io::Write as _, sync::Arc, time::Duration};

use keyward_process::{
    runner::{
        self, Cancel, Failure, Invocation, Output, OutputLimits, Sink, Status, Stderr, Stdin,
    },
    surroundings::Surroundings,
};
use keyward_protocol::Secret;
use zeroize::Zeroizing;

use super::{Environment, Role, Spec, Variable};
use crate::{error::inline, observer::CallStatus, redact::Redactor, rules::Program};

/// Everything decided for one run of a plugin but the program.
pub struct RunSettings<'a> {
    pub(crate) spec: Spec<'a>,
    pub(crate) environment: Vec<Variable>,
    pub(crate) stdin: Stdin,
    pub(crate) stderr: Stderr,
    pub(crate) attended: bool,
    pub(crate) budget: Duration,
    pub(crate) limits: OutputLimits,
    /// What the plugin is told in secret, besides its environment and arguments.
    pub(crate) secrets: Vec<Secret>,
}

impl<'a> RunSettings<'a> {
    /// A run of an image credential provider: unattended, with the request on its stdin, its stderr
    /// kept for the error, and our environment below its own (LE-04). `secrets` are redacted in what
    /// it writes.
    pub fn image_provider(
        (name, args, env): (&'a str, &'a [String], &'a [(String, Secret)]),
        (environment, surroundings): (&Environment, &Surroundings),
        request: &Secret,
        (budget, limits): (Duration, OutputLimits),
        secrets: Vec<Secret>,
    ) -> Self {
        Self {
            spec: Spec { role: Role::Image, name, args, env },
            environment: environment.compose(surroundings, env, &[], None),
            stdin: Stdin::Request(Zeroizing::new(request.expose().as_bytes().to_vec())),
            stderr: Stderr::Kept,
            attended: false,
            budget,
            limits,
            secrets,
        }
    }
    /// The program to run, with everything it is given.
    pub fn invocation(&self, program: &Program) -> Invocation {
        let mut invocation = Invocation::new(&program.path);
        invocation.file_id = Some(program.file_id);
        invocation.name = self.spec.name.into();
        invocation.args = self.spec.args.iter().map(Into::into).collect();
        let variables = self.environment.iter();
        invocation.env = variables.map(|v| (v.name.clone(), v.value.clone())).collect();
        invocation.stdin = self.stdin.clone();
        invocation.stderr = match &self.stderr {
            Stderr::Sink(sink) => Stderr::Sink(Arc::new(RedactedSink {
                redactor: self.redactor(),
                sink: sink.clone(),
            })),
            other => other.clone(),
        };
        invocation.budget = self.budget;
        invocation.limits = self.limits;
        invocation.attended = self.attended;
        invocation
    }

    /// Tells the person who waits for the plugin something, as the plugin itself would.
    pub(crate) fn note(&self, text: &str) {
        match &self.stderr {
            Stderr::Sink(sink) => sink.line(self.spec.name, text),
            Stderr::Shown => {
                let line = format!("{}: {}\n", inline(self.spec.name), inline(text));
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            Stderr::Kept => tracing::info!(plugin = self.spec.name, "{}", inline(text)),
        }
    }

    /// Runs the plugin. Blocks.
    pub fn run(&self, invocation: &Invocation, cancel: &Cancel) -> Result<Output, Failure> {
        let (role, plugin) = (self.spec.role.name(), self.spec.name);
        let program = invocation.program.display();
        tracing::debug!(plugin, %program, attended = self.attended, "running a {role}");
        let result = runner::run(invocation, cancel);
        match &result {
            Ok(output) => {
                let (status, took) = (output.status, output.took);
                tracing::debug!(plugin, ?status, ?took, "a {role} ended");
            }
            Err(failure) => tracing::debug!(plugin, %failure, "a {role} did not end by itself"),
        }
        result
    }
}

/// How a run is counted (ME-01, D8): exit code, status and duration.
pub(crate) fn counted(result: Result<&Output, &Failure>) -> (i32, CallStatus, Duration) {
    match result {
        Ok(output) => match output.status {
            Status::Code(0) => (0, CallStatus::NoError, output.took),
            Status::Code(code) => (code, CallStatus::PluginExecutionError, output.took),
            Status::Signal(_) => (-1, CallStatus::PluginExecutionError, output.took),
        },
        Err(Failure::NotFound) => (1, CallStatus::PluginNotFoundError, Duration::ZERO),
        Err(failure) => match failure.left() {
            Some(left) => (-1, CallStatus::PluginExecutionError, left.took),
            None => (1, CallStatus::ClientInternalError, Duration::ZERO),
        },
    }
}

/// Passes on what a plugin writes as it comes, without the secrets of its run. Those of the answer are
/// not known yet.
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
