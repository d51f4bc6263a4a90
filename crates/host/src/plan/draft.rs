//! Decides how a target's user gets credentials.

use std::{fmt, ops::Deref, sync::Arc};

use keyward_process::surroundings::Surroundings;

use super::{Choice, Method, PlanSettings};
use crate::{
    Error, Kind,
    error::inline,
    exec::ExecPlugin,
    kubeconfig::{AuthProvider, Class, Exec, Place, Target},
    oidc::Oidc,
    plugin::RunContext,
    rules::Rules,
    signer::{self, SignerPlugin},
    static_credential::{HeaderSource, StaticCredential},
};

/// A decided way to get credentials for a [`Target`]. Cheap to clone.
///
/// What was decided can be read through [`Draft`]. Programs, environment and terminal are looked at
/// again for each run (EX-03, EN-01), so a plan stays good when a plugin is updated.
#[derive(Debug, Clone)]
pub struct Plan(Arc<Draft>);

/// Everything that can be said about how to get credentials for a [`Target`].
pub struct Draft {
    target: Target,
    rules: Rules,
    surroundings: Surroundings,
    settings: PlanSettings,
    pub(crate) choice: Choice,
    wrapper: Option<String>,
    passed_over: Option<String>,
    warnings: Vec<String>,
    faults: Vec<Error>,
}

impl Plan {
    /// Decides: which method wins (EX-15), which program, interactive or not (IT), what it is told.
    /// Runs nothing.
    ///
    /// Fails with the first of [`Draft::faults`].
    pub fn new(
        target: Target,
        rules: &Rules,
        surroundings: &Surroundings,
        settings: PlanSettings,
    ) -> Result<Self, Error> {
        Draft::new(target, rules, surroundings, settings).finish()
    }
}

impl Deref for Plan {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0
    }
}

impl Draft {
    /// Decides what can be decided, and collects what is in the way.
    ///
    /// `keyward-exec --` in front of a plugin's command is taken away: the policy judges what would
    /// run.
    pub fn new(
        mut target: Target,
        rules: &Rules,
        surroundings: &Surroundings,
        settings: PlanSettings,
    ) -> Self {
        let exec = target.user.value.exec.as_ref();
        let wrapper = exec.filter(|exec| exec.wrapped().is_some()).map(|exec| exec.command.clone());
        target.user.value.exec = target.user.value.exec.map(Exec::without_wrapper);
        let mut draft = Self {
            warnings: target.warnings.clone(),
            choice: Choice::Static(StaticCredential::of(&target.user.value)),
            target,
            rules: rules.clone(),
            surroundings: surroundings.clone(),
            settings,
            wrapper,
            passed_over: None,
            faults: Vec::new(),
        };
        draft.choose();
        // What is in the kubeconfig itself is judged when a connection needs it.
        if let Err(fault) = draft.target.check_authority()
            && fault.problems().iter().any(|problem| problem.class == Class::CaUnreadable)
        {
            draft.fault(fault);
        }
        draft
    }

    /// The plan, if there is nothing in the way.
    pub fn finish(self) -> Result<Plan, Error> {
        match self.faults.first() {
            None => Ok(Plan(Arc::new(self))),
            Some(fault) => Err(fault.clone()),
        }
    }

    /// For whom and for which cluster.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The policy for plugins.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How programs are run.
    pub fn settings(&self) -> &PlanSettings {
        &self.settings
    }

    /// Where we stand.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// What the user's credentials come from: nothing for an anonymous client, or a client certificate
    /// beside what goes into the header.
    pub fn methods(&self) -> Vec<Method> {
        self.choice.methods()
    }

    /// Whether the user's credentials are used as they are, so that nothing is run or asked for them.
    pub fn is_static(&self) -> bool {
        matches!(self.choice, Choice::Static(_))
    }

    /// The program that the kubeconfig has in front of the plugin's command, as `keyward wrap` puts it
    /// there.
    pub fn wrapper(&self) -> Option<&str> {
        self.wrapper.as_deref()
    }

    /// Why a plugin or auth-provider that the user has is not used.
    pub fn passed_over(&self) -> Option<&str> {
        self.passed_over.as_deref()
    }

    /// The plugin, where one is used.
    pub fn plugin(&self) -> Option<&ExecPlugin> {
        match &self.choice {
            Choice::Exec(plugin) => Some(plugin),
            _ => None,
        }
    }

    /// The external signer, where one is used.
    pub fn signer(&self) -> Option<&SignerPlugin> {
        match &self.choice {
            Choice::Signer(plugin, _) => Some(plugin),
            _ => None,
        }
    }

    /// What a careful reader would want to know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What is in the way of a [`Plan`].
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    pub(crate) fn context(&self) -> RunContext<'_> {
        let Self { rules, surroundings, settings, .. } = self;
        RunContext { rules, surroundings, settings }
    }

    /// `user `prod` in `config`, line 14`.
    pub(crate) fn needed_by(&self) -> String {
        let user = match self.target.user.name.as_str() {
            "" => "the flags".to_owned(),
            name => format!("user `{}`", inline(name)),
        };
        match &self.target.user.place {
            Place { file: None, .. } => user,
            Place { file: Some(file), line: 0 } => format!("{user} in `{}`", file.display()),
            Place { file: Some(file), line } => {
                format!("{user} in `{}`, line {line}", file.display())
            }
        }
    }

    fn choose(&mut self) {
        let fixed = StaticCredential::of(&self.target.user.value);
        let exec =
            self.target.user.value.exec.clone().and_then(|exec| self.choose_exec(exec, &fixed));
        self.choice = match (exec, self.target.user.value.auth_provider.clone()) {
            (None, None) => Choice::Static(fixed),
            (Some(plugin), None) => Choice::Exec(plugin),
            (Some(plugin), Some(_)) => {
                let what = "a user cannot have both `exec` and `auth-provider`";
                self.fault(Error::new(Kind::BadConfig, what));
                Choice::Exec(plugin)
            }
            (None, Some(provider)) => match provider.name.as_str() {
                SignerPlugin::PROVIDER => self.choose_signer(&provider, fixed),
                "oidc" => self.choose_oidc(&provider, fixed),
                _ => {
                    let known = self.target.check_user().err();
                    self.fault(known.unwrap_or_else(|| unready(&provider)));
                    Choice::Static(fixed)
                }
            },
        };
    }

    fn choose_exec(&mut self, exec: Exec, fixed: &StaticCredential) -> Option<Arc<ExecPlugin>> {
        // The reference looks at the version before it looks at who wins (EV-02).
        let version = match ExecPlugin::version_of(&exec) {
            Ok(version) => version,
            Err(fault) => {
                self.fault(fault);
                return None;
            }
        };
        if !fixed.is_empty() {
            self.passed_over = Some(format!(
                "plugin `{}` does not run, because the user has {}",
                inline(&exec.command),
                fixed.methods().into_iter().map(Method::name).collect::<Vec<_>>().join(" and ")
            ));
            return None;
        }
        let (plugin, faults) = ExecPlugin::new(exec, version, &self.target, &self.context());
        self.warnings.extend(plugin.warnings());
        for fault in faults {
            self.fault(fault);
        }
        Some(Arc::new(plugin))
    }

    fn choose_oidc(&mut self, provider: &AuthProvider, fixed: StaticCredential) -> Choice {
        match Oidc::new(provider, &self.surroundings) {
            Err(fault) => self.fault(fault),
            Ok(_) if fixed.header.is_some() => {
                self.passed_over =
                    Some("the `oidc` auth-provider is not used: the user has a header".into());
            }
            Ok(oidc) => return Choice::Oidc(Arc::new(oidc), fixed),
        }
        Choice::Static(fixed)
    }

    fn choose_signer(&mut self, provider: &AuthProvider, fixed: StaticCredential) -> Choice {
        let config = match signer::Config::new(provider) {
            Ok(config) => config,
            Err(fault) => {
                self.fault(fault);
                return Choice::Static(fixed);
            }
        };
        if fixed.certificate.is_some() {
            self.passed_over = Some(format!(
                "signer `{}` does not run, because the user has a client certificate with its key",
                inline(&config.command)
            ));
            return Choice::Static(fixed);
        }
        if matches!(fixed.header, Some(HeaderSource::TokenFile(_))) {
            // The certificate is kept for long, a token file is read every minute.
            let what = "a user cannot have both `tokenFile` and an external signer";
            self.fault(Error::new(Kind::BadConfig, what));
            return Choice::Static(fixed);
        }
        let (plugin, fault) = SignerPlugin::new(config, &self.context());
        self.warnings.extend(plugin.warnings());
        if let Some(fault) = fault {
            self.fault(fault);
        }
        Choice::Signer(Arc::new(plugin), fixed)
    }

    fn fault(&mut self, error: Error) {
        let needed_by = self.needed_by();
        self.faults.push(error.needed_by(needed_by));
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("user", &self.target.user.name)
            .field("methods", &self.methods())
            .field("faults", &self.faults.len())
            .finish_non_exhaustive()
    }
}

/// A provider that kubeconfigs may name, but that no plan can be made of.
fn unready(provider: &AuthProvider) -> Error {
    Error::new(
        Kind::BadConfig,
        format!("the auth-provider `{}` cannot be used here", inline(&provider.name)),
    )
}
