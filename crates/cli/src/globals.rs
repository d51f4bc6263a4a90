//! What every command needs: the flags, the surroundings, and the target that follows from them.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use keyward::{
    agent::Agent,
    client::{Builder, Opened},
    oidc::Https,
};
use keyward_agent::identity::Profile;
use keyward_host::{
    Broker, Draft, Environment, Kubeconfig, Overrides, Plan, PlanSettings, Sources, StderrMode,
    Target, kubeconfig::Impersonate, redact, rules::Rules,
};
use keyward_process::{runner::Sink, surroundings::Surroundings};
use keyward_protocol::{Node, Secret, exec::Request, signer::pins, url};

use crate::{failure::Failure, flags::Flags, loop_guard, output, plugin_stderr::PluginStderr};

/// One for the process, so that equal settings stay equal.
static PROMPTS: LazyLock<Arc<dyn Sink>> = LazyLock::new(|| Arc::new(Prompter));

/// The agent, which is started for kubeconfigs that `keyward wrap` has changed. One for the process, so
/// that equal settings stay equal.
static AGENT: LazyLock<Arc<Agent>> = LazyLock::new(|| {
    let agent = Agent::new().allow_inspection();
    Arc::new(match std::env::current_exe() {
        Ok(own) => agent.start_with(own),
        Err(_) => agent,
    })
});

/// Shows what a signer wants to tell the person before it signs.
struct Prompter;

impl Sink for Prompter {
    fn line(&self, signer: &str, line: &str) {
        output::tell(&format!("{}: {}\n", output::inline(signer), output::inline(line)));
    }
}

/// The flags and surroundings of this run.
#[derive(Clone)]
pub(crate) struct Globals {
    pub(crate) flags: Flags,
    pub(crate) surroundings: Surroundings,
    /// The request of a client that runs this program as its plugin.
    pub(crate) asked: Option<Request>,
    /// Forwards what plugins write to stderr. One for all, so that equal settings stay equal.
    plugin_stderr: Arc<dyn Sink>,
    /// Asked before a plugin runs.
    broker: Arc<dyn Broker>,
    /// The warnings given so far: several contexts of one kubeconfig share some.
    warned: Arc<Mutex<HashSet<String>>>,
}

impl Globals {
    /// The globals of this process.
    pub(crate) fn new(flags: Flags) -> Self {
        for secret in [&flags.token, &flags.password].into_iter().flatten() {
            redact::remember(secret, None);
        }
        let plugin_stderr = Arc::new(PluginStderr::new(flags.log_format));
        Self {
            flags,
            surroundings: Surroundings::process(),
            asked: None,
            plugin_stderr,
            broker: AGENT.clone(),
            warned: Arc::default(),
        }
    }

    /// Sends the stderr of plugins to `stderr`, and asks what `watch` makes of the agent.
    pub(crate) fn watched(
        mut self,
        stderr: Arc<dyn Sink>,
        watch: impl FnOnce(Arc<dyn Broker>) -> Arc<dyn Broker>,
    ) -> Self {
        self.plugin_stderr = stderr;
        self.broker = watch(self.broker);
        self
    }

    /// The kubeconfig that kubectl would read.
    pub(crate) fn kubeconfig(&self) -> Result<Kubeconfig, Failure> {
        Ok(Kubeconfig::load(&self.surroundings, self.flags.kubeconfig())?)
    }

    /// The cluster and user that this kubeconfig and the flags select.
    pub(crate) fn resolve(&self, config: &Kubeconfig) -> Result<Target, Failure> {
        self.resolve_with(config, &self.overrides())
    }

    /// Resolves with these overrides instead of the flags.
    pub(crate) fn resolve_with(
        &self,
        config: &Kubeconfig,
        overrides: &Overrides,
    ) -> Result<Target, Failure> {
        for (path, found) in &config.files {
            tracing::info!(path = %path.display(), found, "looked for a kubeconfig");
        }
        let target = config.resolve(overrides, &self.surroundings)?;
        remember(&target);
        tracing::info!(
            context = target.context,
            cluster = target.cluster.name,
            user = target.user.name,
            server = url::mask(&target.cluster.value.server),
            "chose a context"
        );
        Ok(target)
    }

    /// The cluster and user that files and flags select.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        self.resolve(&self.kubeconfig()?)
    }

    /// The policy for plugins.
    pub(crate) fn rules(&self) -> Result<Rules, Failure> {
        let mut rules = Rules::load(&self.surroundings, self.flags.kuberc())?;
        rules.trusted.clone_from(&self.flags.trust_plugin);
        Ok(rules)
    }

    /// How to get credentials for a target, including faults.
    ///
    /// Fails with a usage error for a kubeconfig that leads back to itself.
    pub(crate) fn draft(&self, target: Target, rules: &Rules) -> Result<Draft, Failure> {
        let mut settings = self.settings();
        if let Some(chain) = loop_guard::extend(&self.surroundings, &target)? {
            settings.variables.push((loop_guard::VARIABLE.to_owned(), Secret::new(chain)));
        }
        Ok(Draft::new(target, rules, &self.surroundings, settings))
    }

    /// How to get credentials for a target. Runs nothing, and warns of likely mistakes, such as a
    /// credential that would not be sent.
    pub(crate) fn plan(&self, target: Target) -> Result<Plan, Failure> {
        let draft = self.draft(target, &self.rules()?)?;
        self.warn(draft.warnings());
        tracing::info!(methods = ?draft.methods(), "decided how to get a credential");
        Ok(draft.finish()?)
    }

    /// A client for a target's server, as its user. Runs no plugin and opens no connection.
    pub(crate) fn open(
        &self,
        target: Target,
        mut builder: Builder,
        sources: &Sources,
    ) -> Result<Opened, Failure> {
        let plan = self.plan(target)?;
        // Those of a background proxy are not the process's.
        builder = builder.surroundings(self.surroundings.clone());
        if let Some(limit) = self.request_timeout() {
            builder = builder.response_timeout(limit);
        }
        Ok(builder.open_plan(plan, sources)?)
    }

    /// How long one request may take; `None` for no limit.
    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        self.flags.request_timeout.filter(|limit| !limit.is_zero())
    }

    /// Prints each warning once.
    fn warn(&self, warnings: &[String]) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if warned.insert(warning.clone()) {
                tracing::warn!("{warning}");
            }
        }
    }

    /// How plugins are run.
    fn settings(&self) -> PlanSettings {
        let mut settings = PlanSettings::default();
        if let Some(budget) = self.flags.plugin_timeout {
            settings.unattended = budget;
            settings.attended = budget;
        }
        settings.environment = self.environment();
        settings.strict = self.flags.strict;
        settings.form = self.flags.form();
        settings.prompts = Some(Arc::clone(&PROMPTS));
        settings.exchange = Some(Https::shared());
        settings.broker = Some(self.broker.clone());
        settings.stderr = StderrMode::PassThrough(Arc::clone(&self.plugin_stderr));
        if let Some(asked) = &self.asked {
            // Our stderr belongs to the program that runs us, as the plugin's does under kubectl.
            settings.stderr = StderrMode::Shown;
            if !asked.interactive {
                settings.stdin_unavailable =
                    Some("the request to keyward says not to prompt".to_owned());
            }
        }
        settings
    }

    /// What plugins see of our environment.
    pub(crate) fn environment(&self) -> Environment {
        self.flags.plugin_env.clone().unwrap_or_default()
    }

    /// The flags' overrides of the files. An empty value is no override, as with kubectl.
    pub(crate) fn overrides(&self) -> Overrides {
        let flags = &self.flags;
        let text = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        Overrides {
            context: text(&flags.context().map(str::to_owned)),
            cluster: text(&flags.cluster),
            user: text(&flags.user),
            namespace: text(&flags.namespace),
            server: text(&flags.server),
            tls_server_name: text(&flags.tls_server_name),
            certificate_authority: text(&flags.certificate_authority),
            insecure_skip_tls_verify: flags.insecure_skip_tls_verify,
            proxy_url: text(&flags.proxy_url),
            disable_compression: flags.disable_compression,
            token: flags.token.clone().filter(|t| !t.is_empty()),
            username: text(&flags.username),
            password: flags.password.clone().filter(|p| !p.is_empty()),
            client_certificate: text(&flags.client_certificate),
            client_key: text(&flags.client_key),
            impersonate: Impersonate {
                user: flags.as_user.clone().unwrap_or_default(),
                uid: flags.as_uid.clone().unwrap_or_default(),
                groups: flags.as_group.clone(),
                extra: Vec::new(),
            },
            strict: flags.strict,
        }
    }

    /// Whether to use colours on a terminal.
    pub(crate) fn colour(&self) -> bool {
        let set = |name: &str| self.surroundings.var(name).filter(|value| !value.is_empty());
        set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
    }
}

/// Whether a plugin's variable names an account or a configuration, which people need to see.
fn names_account(variable: &str) -> bool {
    Profile::ALL.iter().any(|profile| profile.pinnable().contains(&variable))
}

/// Redacts every secret of a target in all later output of this process.
fn remember(target: &Target) {
    let user = &target.user.value;
    for secret in [&user.token, &user.password, &user.client_key_data] {
        redact::remember(secret, None);
    }
    for (name, value) in user.exec.iter().flat_map(|exec| &exec.env) {
        if !names_account(name) {
            redact::remember_value(value);
        }
    }
    for secret in target.exec_config.iter().flat_map(Node::secrets) {
        redact::remember_value(&secret);
    }
    for (name, value) in user.auth_provider.iter().flat_map(|provider| &provider.config) {
        if ["token", "secret"].iter().any(|word| name.contains(word)) {
            redact::remember(value, None);
        }
        for pin in pins(name, value.expose()) {
            redact::remember(&pin, None);
        }
    }
    for address in [&target.cluster.value.server, &target.cluster.value.proxy_url] {
        for password in url::passwords(address) {
            redact::remember(&password, None);
        }
    }
}
