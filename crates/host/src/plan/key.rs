//! What makes two plans the same identity: every field that a run or a credential depends on.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use keyward_protocol::{Node, Secret, exec::Version};
use zeroize::Zeroizing;

use super::{Draft, StderrMode};
use crate::{plugin::Environment, rules::Policy};

/// The fields of a plan in a row, each with its length, so that no two plans can be mistaken for one
/// another. It contains secrets: it is wiped when dropped and has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PlanKey(Arc<Zeroizing<Vec<u8>>>);

impl Hash for PlanKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PlanKey {
    /// The key of a plan. Names of users and contexts are not in it: two entries that say the same
    /// are one identity (EX-14).
    pub(crate) fn of(draft: &Draft) -> Self {
        let mut row = Row::default();
        row.user(draft);
        row.cluster(draft);
        row.rules(draft);
        row.settings(draft);
        Self(Arc::new(row.0))
    }
}

#[derive(Default)]
struct Row(Zeroizing<Vec<u8>>);

impl Row {
    fn put(&mut self, part: impl AsRef<[u8]>) {
        let part = part.as_ref();
        self.0.extend_from_slice(&part.len().to_le_bytes());
        self.0.extend_from_slice(part);
    }

    fn number(&mut self, number: usize) {
        self.put(number.to_le_bytes());
    }

    fn list<P: AsRef<[u8]>>(&mut self, parts: impl ExactSizeIterator<Item = P>) {
        self.number(parts.len());
        parts.for_each(|part| self.put(part));
    }

    fn pairs(&mut self, pairs: &[(String, Secret)]) {
        self.number(pairs.len());
        for (name, value) in pairs {
            self.put(name);
            self.put(value.expose());
        }
    }

    /// Something that has no fields to compare: only itself is the same.
    fn object<T: ?Sized>(&mut self, object: Option<&Arc<T>>) {
        self.number(object.map_or(0, |object| Arc::as_ptr(object).cast::<()>().addr()));
    }

    fn user(&mut self, draft: &Draft) {
        let user = &draft.target().user.value;
        for part in [
            user.token.expose(),
            &user.token_file,
            &user.username,
            user.password.expose(),
            &user.client_certificate,
            &user.client_key,
            user.client_key_data.expose(),
        ] {
            self.put(part);
        }
        self.put(&user.client_certificate_data);
        self.number(user.exec.iter().len());
        if let Some(exec) = &user.exec {
            let (version, mode) = (exec.api_version.text(), exec.interactive_mode.text());
            for part in [version, &exec.command, &exec.install_hint, mode] {
                self.put(part);
            }
            self.number(usize::from(exec.provide_cluster_info));
            self.list(exec.args.iter());
            self.pairs(&exec.env);
        }
        self.number(user.auth_provider.iter().len());
        if let Some(provider) = &user.auth_provider {
            self.put(&provider.name);
            self.pairs(&provider.config);
        }
    }

    /// A plugin that is told about the cluster may answer another credential for each; one that is
    /// not answers the same, and runs once for all of them.
    fn cluster(&mut self, draft: &Draft) {
        let cluster = &draft.target().cluster.value;
        let told = draft.target().user.value.exec.as_ref().is_some_and(|exec| {
            exec.provide_cluster_info && exec.api_version.known() != Some(Version::V1Alpha1)
        });
        self.number(usize::from(told));
        if told {
            self.put(&cluster.server);
            self.put(&cluster.tls_server_name);
            self.number(usize::from(cluster.insecure_skip_tls_verify));
            self.put(&cluster.certificate_authority_data);
            self.put(&cluster.proxy_url);
            self.number(usize::from(cluster.disable_compression));
            let config = draft.target().exec_config.as_ref();
            self.put(config.map(Node::to_json).unwrap_or_default());
        }
    }

    fn rules(&mut self, draft: &Draft) {
        let rules = draft.rules();
        self.put(rules.policy.name());
        if let Policy::Allowlist(list) = &rules.policy {
            self.list(list.iter());
        }
        self.number(usize::from(rules.fault.is_some()));
        for paths in [&rules.trusted, &rules.folders] {
            self.list(paths.iter().map(|path| path.as_os_str().as_encoded_bytes()));
        }
        self.surroundings(draft);
    }

    fn surroundings(&mut self, draft: &Draft) {
        let Some(fixed) = draft.surroundings().made_up() else { return self.put("process") };
        self.put("fixed");
        self.put(fixed.cwd.as_os_str().as_encoded_bytes());
        self.put([u8::from(fixed.stdin_is_terminal), u8::from(fixed.has_terminal)]);
        for (name, value) in &fixed.vars {
            self.put(name.as_encoded_bytes());
            self.put(value.as_encoded_bytes());
        }
    }

    fn settings(&mut self, draft: &Draft) {
        let settings = draft.settings();
        for budget in [settings.unattended, settings.attended] {
            self.put(budget.as_nanos().to_le_bytes());
        }
        self.number(usize::from(settings.person));
        self.put(settings.stdin_unavailable.as_deref().unwrap_or_default());
        self.number(usize::from(settings.stdin_unavailable.is_some()));
        match &settings.stderr {
            StderrMode::Auto => self.put("auto"),
            StderrMode::Kept => self.put("kept"),
            StderrMode::Shown => self.put("shown"),
            StderrMode::Sink(sink) => self.object(Some(sink)),
            StderrMode::PassThrough(sink) => {
                self.put("pass through");
                self.object(Some(sink));
            }
        }
        match &settings.environment {
            Environment::Inherit => self.put("inherit"),
            Environment::Clean => self.put("clean"),
            Environment::Only(names) => self.list(names.iter()),
        }
        self.pairs(&settings.variables);
        self.number(settings.limits.stdout);
        self.number(settings.limits.stderr);
        self.number(usize::from(settings.strict));
        self.put(format!("{:?}", settings.form));
        self.object(settings.prompts.as_ref());
        self.object(settings.exchange.as_ref());
        self.object(settings.broker.as_ref());
    }
}
