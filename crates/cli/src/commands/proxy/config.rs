//! The proxy's view of the kubeconfig, the plugin policy and the flags.

use std::path::PathBuf;

use keyward::client::{Builder, Opened};
use keyward_host::{Kubeconfig, Sources, Target, rules::Rules};
use keyward_process::surroundings::Surroundings;
use keyward_proxy::{Config, Contexts, Error, Kind};

use crate::{
    failure::{Code, Failure},
    flags::Flags,
    globals::Globals,
};

impl Config for Globals {
    fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut paths = Kubeconfig::paths(&self.surroundings, self.flags.kubeconfig());
        paths.extend(Rules::path(&self.surroundings, self.flags.kuberc()));
        paths
    }

    fn kubeconfig(&self) -> Result<Kubeconfig, Error> {
        Ok(Self::kubeconfig(self)?)
    }

    fn target(&self, kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<Target, Error> {
        let mut overrides = self.overrides();
        if let Some(context) = context {
            overrides.context = Some(context.to_owned());
        }
        Ok(self.resolve_with(kubeconfig, &overrides)?)
    }

    fn open(&self, target: Target, builder: Builder, sources: &Sources) -> Result<Opened, Error> {
        Ok(Self::open(self, target, builder, sources)?)
    }
}

/// The contexts that the flags name. Fails with a usage error if the flags contradict each other.
pub(crate) fn contexts(all: bool, flags: &Flags) -> Result<Contexts, Failure> {
    let mut names: Vec<String> = Vec::new();
    for name in flags.context.iter().filter(|name| !name.is_empty()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if all && !names.is_empty() {
        return Err(Failure::usage("`--all-contexts` and `--context` contradict each other"));
    }
    if (all || names.len() > 1) && is_for_one(flags) {
        return Err(Failure::usage(
            "`--cluster`, `--user`, `--server` and `--token` are for one context only",
        ));
    }
    Ok(match names {
        _ if all => Contexts::All,
        names if names.is_empty() => Contexts::Current,
        names => Contexts::Named(names),
    })
}

/// Whether flags describe one cluster or user.
fn is_for_one(flags: &Flags) -> bool {
    [&flags.cluster, &flags.user, &flags.server].into_iter().any(Option::is_some)
        || flags.token.is_some()
}

/// Whether flags replace parts of the current context, which then are not parts of others.
pub(crate) fn is_overridden(globals: &Globals) -> bool {
    let flags = &globals.flags;
    let texts = [
        &flags.tls_server_name,
        &flags.certificate_authority,
        &flags.proxy_url,
        &flags.username,
        &flags.client_certificate,
        &flags.client_key,
        &flags.as_user,
        &flags.as_uid,
    ];
    is_for_one(flags)
        || texts.into_iter().any(Option::is_some)
        || !flags.as_group.is_empty()
        || flags.insecure_skip_tls_verify.is_some()
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure.code() {
            Code::Usage => Kind::Usage,
            Code::NeedsTerminal => Kind::NeedsTerminal,
            Code::NotAllowed => Kind::NotAllowed,
            Code::Failed | Code::NotRun | Code::NotFound => Kind::Failed,
        };
        let mut error = Self::new(kind, failure.message());
        for (label, text) in failure.notes() {
            error = error.note(label.to_owned(), text);
        }
        match failure.advice() {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::Usage => Code::Usage,
            Kind::NeedsTerminal => Code::NeedsTerminal,
            Kind::NotAllowed => Code::NotAllowed,
            Kind::Failed => Code::Failed,
        };
        let mut failure = Self::new(code, error.message());
        for (label, text) in error.notes() {
            failure = failure.note(label.clone(), text);
        }
        match error.advice() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
