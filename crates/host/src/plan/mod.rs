//! What would be done for a target, and why, before anything runs.
//!
//! A [`Draft`] is everything that can be said about a target, faults included: it is what
//! `keyward plan` shows. A [`Plan`] is a draft without faults: what cannot be run cannot be built.

mod environment;
mod interactive;
mod key;
mod plugin;
mod settings;

use std::{fmt, ops::Deref, path::PathBuf, sync::Arc};

pub(crate) use environment::Variable;
pub use environment::{Environment, Origin};
pub use interactive::interactive;
pub(crate) use key::Key;
pub use plugin::Plugin;
pub(crate) use plugin::{Context, Turn, alone};
pub use settings::{Complaints, Settings};

use keyward_process::surroundings::Surroundings;

use crate::{
    Error, Kind,
    error::inline,
    kubeconfig::{AuthProvider, Class, Exec, Place, Target, User},
    oidc::Oidc,
    rules::Rules,
    signer::{self, Setup},
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
    settings: Settings,
    methods: Vec<Method>,
    passed_over: Option<String>,
    plugin: Option<Plugin>,
    oidc: Option<Oidc>,
    signer: Option<Setup>,
    warnings: Vec<String>,
    faults: Vec<Error>,
}

/// A way to be somebody. A user can have two: a certificate for the handshake, and something for the
/// `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// A token, in the kubeconfig or a flag.
    Token,
    /// A token in a file, read again as it changes.
    TokenFile(PathBuf),
    /// A user name with a password.
    Basic,
    /// A client certificate with its key, in the kubeconfig.
    Certificate,
    /// A client certificate with its key, at least one of them in a file, read again as it changes.
    CertificateFiles,
    /// A plugin.
    Exec,
    /// The `oidc` auth-provider.
    Oidc,
    /// An external signer, the `externalSigner` auth-provider: a client certificate whose key stays
    /// where it is.
    Signer,
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
        settings: Settings,
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
        settings: Settings,
    ) -> Self {
        target.user.exec = target.user.exec.map(Exec::without_wrapper);
        let mut draft = Self {
            warnings: target.warnings.clone(),
            methods: fixed_methods(&target.user),
            target,
            rules: rules.clone(),
            surroundings: surroundings.clone(),
            settings,
            passed_over: None,
            plugin: None,
            oidc: None,
            signer: None,
            faults: Vec::new(),
        };
        draft.choose_exec();
        draft.choose_provider();
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

    /// Which programs may run.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How programs are run.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where we stand.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// What is used; nothing for an anonymous client.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Why a plugin or auth-provider that the user has is not used.
    pub fn passed_over(&self) -> Option<&str> {
        self.passed_over.as_deref()
    }

    /// The plugin, where one is used.
    pub fn plugin(&self) -> Option<&Plugin> {
        self.plugin.as_ref()
    }

    /// The external signer, where one is used.
    pub fn signer(&self) -> Option<&Setup> {
        self.signer.as_ref()
    }

    /// What a careful reader would want to know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What is in the way of a [`Plan`].
    pub fn faults(&self) -> &[Error] {
        &self.faults
    }

    pub(crate) fn oidc(&self) -> Option<&Oidc> {
        self.oidc.as_ref()
    }

    /// `user `prod` in `config`, line 14`.
    pub(crate) fn needed_by(&self) -> String {
        let user = match self.target.user_name.as_str() {
            "" => "the flags".to_owned(),
            name => format!("user `{}`", inline(name)),
        };
        match &self.target.user_place {
            Place { file: None, .. } => user,
            Place { file: Some(file), line: 0 } => format!("{user} in `{}`", file.display()),
            Place { file: Some(file), line } => {
                format!("{user} in `{}`, line {line}", file.display())
            }
        }
    }

    fn choose_exec(&mut self) {
        let Some(exec) = self.target.user.exec.clone() else {
            return;
        };
        let plugin = Plugin::new(exec, &self.target);
        // The reference looks at the version before it looks at who wins (EV-02).
        if let Err(fault) = plugin.version() {
            self.fault(fault);
            return;
        }
        if !self.methods.is_empty() {
            self.passed_over = Some(format!(
                "plugin `{}` does not run, because the user has {}",
                inline(plugin.command()),
                self.methods.iter().map(Method::name).collect::<Vec<_>>().join(" and ")
            ));
            return;
        }
        self.methods.push(Method::Exec);
        let context = Context {
            rules: &self.rules,
            surroundings: &self.surroundings,
            settings: &self.settings,
        };
        let (plugin, faults) = plugin.look(&context);
        self.warnings.extend(plugin.warnings());
        self.plugin = Some(plugin);
        for fault in faults {
            self.fault(fault);
        }
    }

    fn choose_provider(&mut self) {
        let Some(provider) = self.target.user.auth_provider.clone() else {
            return;
        };
        if self.plugin.is_some() {
            self.fault(Error::new(
                Kind::BadConfig,
                "a user cannot have both `exec` and `auth-provider`",
            ));
            return;
        }
        if provider.name == signer::PROVIDER {
            self.choose_signer(&provider);
            return;
        }
        if provider.name != "oidc" {
            self.fault(self.target.check_user().err().unwrap_or_else(|| unready(&provider)));
            return;
        }
        match Oidc::new(&provider, &self.surroundings) {
            Err(fault) => self.fault(fault),
            Ok(_) if self.methods.iter().any(Method::is_header) => {
                self.passed_over =
                    Some("the `oidc` auth-provider is not used: the user has a header".into());
            }
            Ok(oidc) => {
                self.methods.push(Method::Oidc);
                self.oidc = Some(oidc);
            }
        }
    }

    fn choose_signer(&mut self, provider: &AuthProvider) {
        let setup = match Setup::new(provider) {
            Ok(setup) => setup,
            Err(fault) => return self.fault(fault),
        };
        if self.methods.iter().any(Method::is_certificate) {
            self.passed_over = Some(format!(
                "signer `{}` does not run, because the user has a client certificate with its key",
                inline(setup.command())
            ));
            return;
        }
        if self.methods.iter().any(|method| matches!(method, Method::TokenFile(_))) {
            // The certificate is kept for long, a token file is read every minute.
            let what = "a user cannot have both `tokenFile` and an external signer";
            return self.fault(Error::new(Kind::BadConfig, what));
        }
        self.methods.push(Method::Signer);
        let context = Context {
            rules: &self.rules,
            surroundings: &self.surroundings,
            settings: &self.settings,
        };
        let (setup, fault) = setup.look(&context);
        self.warnings.extend(setup.warnings());
        self.signer = Some(setup);
        if let Some(fault) = fault {
            self.fault(fault);
        }
    }

    fn fault(&mut self, error: Error) {
        let needed_by = self.needed_by();
        self.faults.push(error.note_first("needed by", needed_by));
    }
}

impl Method {
    /// What it is, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Token => "a token",
            Self::TokenFile(_) => "a token file",
            Self::Basic => "a user name with password",
            Self::Certificate | Self::CertificateFiles => "a client certificate",
            Self::Exec => "a plugin",
            Self::Oidc => "the `oidc` auth-provider",
            Self::Signer => "an external signer",
        }
    }

    fn is_certificate(&self) -> bool {
        matches!(self, Self::Certificate | Self::CertificateFiles)
    }

    /// Whether it is said in the `Authorization` header.
    fn is_header(&self) -> bool {
        matches!(self, Self::Token | Self::TokenFile(_) | Self::Basic)
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("user", &self.target.user_name)
            .field("methods", &self.methods)
            .field("plugin", &self.plugin)
            .field("faults", &self.faults.len())
            .finish_non_exhaustive()
    }
}

/// What the user has without running anything. Any of it keeps a plugin from running (EX-15): a
/// password alone, or half of a pair, does not.
fn fixed_methods(user: &User) -> Vec<Method> {
    let mut methods = Vec::new();
    let has_key = !user.client_key.is_empty() || !user.client_key_data.is_empty();
    if !user.client_certificate_data.is_empty() && !user.client_key_data.is_empty() {
        methods.push(Method::Certificate);
    } else if has_key
        && (!user.client_certificate.is_empty() || !user.client_certificate_data.is_empty())
    {
        methods.push(Method::CertificateFiles);
    }
    if !user.token_file.is_empty() {
        methods.push(Method::TokenFile(PathBuf::from(&user.token_file)));
    } else if !user.token.is_empty() {
        methods.push(Method::Token);
    } else if !user.username.is_empty() {
        methods.push(Method::Basic);
    }
    methods
}

/// A provider that kubeconfigs may name, but that no plan can be made of.
fn unready(provider: &AuthProvider) -> Error {
    Error::new(
        Kind::BadConfig,
        format!("the auth-provider `{}` cannot be used here", inline(&provider.name)),
    )
}
