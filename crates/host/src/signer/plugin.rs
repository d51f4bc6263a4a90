use std::fmt;

use keyward_protocol::{
    Secret,
    signer::{Configuration, REQUEST_VARIABLE, Request, pins},
    text::sounds_secret,
};

use super::PATH;
use crate::{
    Error, Kind,
    kubeconfig::AuthProvider,
    plugin::{Preview, Role, RunContext, RunSettings, Spec},
    redact::url_passwords,
};

/// An external signer, as the kubeconfig has it and as it would run now.
pub struct SignerPlugin {
    pub(super) config: Config,
    /// What was found out when the plan was made.
    pub preview: Preview,
}

/// The configuration of an external signer, read.
pub(crate) struct Config {
    pub(crate) command: String,
    configuration: Configuration,
    resident: bool,
    resumption: bool,
}

impl Config {
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
            .ok_or_else(|| wrong(format!("the `externalSigner` auth-provider needs `{PATH}`")))?
            .to_owned();
        let switch = |name: &str, usual: bool| match configuration.get(name) {
            None | Some("") => Ok(usual),
            Some("true" | "on") => Ok(true),
            Some("false" | "off") => Ok(false),
            Some(_) => {
                Err(wrong(format!("`{name}` of `externalSigner` is neither `true` nor `false`")))
            }
        };
        Ok(Self {
            resident: switch("resident", false)?,
            resumption: switch("resumption", true)?,
            command,
            configuration,
        })
    }

    fn spec(&self) -> Spec<'_> {
        Spec { role: Role::Signer, name: &self.command, args: &[], env: &[] }
    }

    /// Decides for one run. `waited_for` is false when nobody is there.
    pub(super) fn prepare(
        &self,
        context: &RunContext<'_>,
        waited_for: bool,
        request: &Request,
    ) -> RunSettings<'_> {
        let RunContext { surroundings, settings, .. } = context;
        let attended = settings.alone(waited_for).is_none() && surroundings.has_terminal();
        let stdin =
            attended && settings.stdin_unavailable.is_none() && surroundings.stdin_is_terminal();
        let text = if self.resident { Request::Session.to_json() } else { request.to_json() };
        let asked = (REQUEST_VARIABLE, text.expose());
        let mut run = self.spec().prepare(context, asked, attended, stdin, false);
        run.secrets = self.secrets();
        run
    }

    /// A PIN, and what sounds like a secret.
    fn secrets(&self) -> Vec<Secret> {
        let mut secrets = Vec::new();
        for (name, value) in self.configuration.iter() {
            if sounds_secret(name) {
                secrets.push(value.clone());
            }
            secrets.extend(url_passwords(value.expose()));
            secrets.extend(pins(name, value.expose()));
        }
        secrets
    }
}

impl SignerPlugin {
    /// The name of the auth-provider in a kubeconfig.
    pub const PROVIDER: &str = "externalSigner";

    /// Looks at everything a run would look at, and returns what is in its way.
    pub(crate) fn new(config: Config, context: &RunContext<'_>) -> (Self, Option<Error>) {
        let run = config.prepare(context, true, &Request::Session);
        let (preview, fault) = Preview::new(config.spec(), context, Some(&run));
        let fault = fault.map(|fault| match fault.kind() {
            Kind::NotFound => fault
                .with_hint(format!("install it, or correct `{PATH}` of the user's auth-provider")),
            _ => fault,
        });
        drop(run);
        (Self { config, preview }, fault)
    }

    /// The program, as the kubeconfig says it.
    pub fn command(&self) -> &str {
        &self.config.command
    }

    /// What the plugin is told. It may contain a PIN.
    pub fn configuration(&self) -> &Configuration {
        &self.config.configuration
    }

    /// Whether the plugin stays for as long as the client lives.
    pub fn resident(&self) -> bool {
        self.config.resident
    }

    /// Whether connections may be resumed without a signature. `resumption: "off"` says no.
    pub fn resumption(&self) -> bool {
        self.config.resumption
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.preview.warnings();
        if self.configuration().get("pin").is_some_and(|pin| !pin.is_empty()) {
            warnings.push(
                "the kubeconfig holds the token's `pin`: every program of this user can read it"
                    .into(),
            );
        }
        warnings
    }
}

impl fmt::Debug for SignerPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignerPlugin")
            .field("command", &self.config.command)
            .field("configuration", &self.config.configuration)
            .field("resident", &self.config.resident)
            .field("resumption", &self.config.resumption)
            .finish_non_exhaustive()
    }
}
