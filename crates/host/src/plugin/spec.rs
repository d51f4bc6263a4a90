//! A plugin as it is configured, and what a run of it would look like.

use std::{path::PathBuf, time::Duration};

use keyward_process::{
    runner::{Stderr, Stdin},
    surroundings::Surroundings,
};
use keyward_protocol::Secret;

use super::{RunSettings, Variable, VariableOrigin};
use crate::{
    Error,
    plan::PlanSettings,
    rules::{Missing, Program, Rules, Verdict},
};

/// What a run depends on besides the plugin's own configuration.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) settings: &'a PlanSettings,
}

/// The protocol that a plugin speaks, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Exec,
    Signer,
    Image,
}

/// A plugin, as its configuration describes it.
#[derive(Clone, Copy)]
pub(crate) struct Spec<'a> {
    pub(crate) role: Role,
    /// The command, or the name of an image credential provider.
    pub(crate) name: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(String, Secret)],
}

/// What was found out about a plugin when the plan was made. A run looks again (EX-03).
#[derive(Debug)]
pub struct Preview {
    /// What the policy says.
    pub verdict: Verdict,
    /// Where the command leads, as the text that was compared.
    pub found: Result<PathBuf, Missing>,
    /// The program that would run; `None` when none may.
    pub program: Option<Program>,
    /// How it would run; `None` when a person is needed and cannot be asked.
    pub run: Option<PreviewedRun>,
}

/// How a plugin would run.
#[derive(Debug)]
pub struct PreviewedRun {
    /// Whether it would get our stdin, to ask a person.
    pub stdin: bool,
    /// Whether a person attends the run.
    pub attended: bool,
    /// How long it may take.
    pub budget: Duration,
    /// Whether its stderr is ours, with nothing in between.
    pub shown: bool,
    /// The names of its environment, and where each comes from.
    pub environment: Vec<(String, VariableOrigin)>,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exec | Self::Image => "plugin",
            Self::Signer => "signer",
        }
    }
}

impl<'a> Spec<'a> {
    /// Decides how the plugin runs now. `request` is the variable it is asked by and its value;
    /// `passed` is whether its stderr may be passed through to the person who waits.
    pub(crate) fn prepare(
        self,
        context: &RunContext<'_>,
        request: (&str, &str),
        attended: bool,
        stdin: bool,
        passed: bool,
    ) -> RunSettings<'a> {
        let RunContext { surroundings, settings, .. } = context;
        let PlanSettings { environment, variables, .. } = settings;
        RunSettings {
            spec: self,
            environment: environment.compose(surroundings, self.env, variables, Some(request)),
            stdin: if stdin { Stdin::Terminal } else { Stdin::Closed },
            stderr: settings.stderr(attended, passed),
            attended,
            budget: settings.budget(attended),
            limits: settings.limits,
            secrets: Vec::new(),
        }
    }
}

impl Preview {
    /// Looks for the program, and describes the run. Also returns why no program may run.
    pub(crate) fn new(
        spec: Spec<'_>,
        context: &RunContext<'_>,
        run: Option<&RunSettings<'_>>,
    ) -> (Self, Option<Error>) {
        let RunContext { rules, surroundings, .. } = context;
        let (verdict, found) = rules.judge(spec.name, surroundings);
        let (program, fault) = match rules.admit_judged(spec.name, &verdict, &found, surroundings) {
            Ok(program) => (Some(program), None),
            Err(fault) => (None, Some(fault)),
        };
        let named = |v: &Variable| (v.name.to_string_lossy().into_owned(), v.origin);
        let run = run.map(|run| PreviewedRun {
            stdin: matches!(run.stdin, Stdin::Terminal),
            attended: run.attended,
            budget: run.budget,
            shown: matches!(run.stderr, Stderr::Shown),
            environment: run.environment.iter().map(named).collect(),
        });
        (Self { verdict, found, program, run }, fault)
    }

    /// Whether a person would attend the run.
    pub fn attended(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.attended)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.program.iter().flat_map(|program| program.warnings.clone()).collect()
    }
}
