//! What every command stands on: the flags, the surroundings, and the way from them to a target.

use keyward_host::{
    Kubeconfig, Overrides, Surroundings, Target, kubeconfig::Impersonate, rules::Rules,
};

use crate::{failure::Failure, flags::Flags, mask::Mask};

/// The flags and surroundings of this run.
pub(crate) struct Globals {
    /// What was said on the command line.
    pub(crate) flags: Flags,
    /// Where we run.
    pub(crate) surroundings: Surroundings,
    /// The secrets that no message may show.
    pub(crate) mask: Mask,
}

impl Globals {
    /// Those of this process.
    pub(crate) fn new(flags: Flags) -> Self {
        let mask = Mask::default();
        for secret in [&flags.token, &flags.password].into_iter().flatten() {
            mask.learn(secret);
        }
        Self { flags, surroundings: Surroundings::process(), mask }
    }

    /// The kubeconfig that kubectl would read.
    pub(crate) fn kubeconfig(&self) -> Result<Kubeconfig, Failure> {
        let explicit = self.flags.kubeconfig.as_deref().filter(|p| !p.as_os_str().is_empty());
        Ok(Kubeconfig::load(&self.surroundings, explicit)?)
    }

    /// The cluster and user that files and flags lead to.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        let target = self.kubeconfig()?.resolve(&self.overrides(), &self.surroundings)?;
        self.learn(&target);
        Ok(target)
    }

    /// Which plugins may run.
    pub(crate) fn rules(&self) -> Result<Rules, Failure> {
        let explicit = self.flags.kuberc.as_deref().filter(|p| !p.as_os_str().is_empty());
        let mut rules = Rules::load(&self.surroundings, explicit)?;
        rules.trusted.clone_from(&self.flags.trust_plugin);
        Ok(rules)
    }

    /// What the flags say over the files. An empty text is no override, as with kubectl.
    pub(crate) fn overrides(&self) -> Overrides {
        let flags = &self.flags;
        let text = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        Overrides {
            context: text(&flags.context),
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

    /// Whether colours are welcome where there is a terminal.
    pub(crate) fn colour(&self) -> bool {
        true
    }

    /// Takes note of every secret of a user, so that no message shows it.
    pub(crate) fn learn(&self, target: &Target) {
        let user = &target.user;
        for secret in [&user.token, &user.password, &user.client_key_data] {
            self.mask.learn(secret);
        }
        let exec = user.exec.iter().flat_map(|exec| &exec.env);
        let provider = user.auth_provider.iter().flat_map(|provider| &provider.config);
        for (_, secret) in exec.chain(provider) {
            self.mask.learn(secret);
        }
    }
}
