//! What is only wrong once a [`Target`] is used: versions, providers, certificates.

use std::{fmt::Write as _, path::Path};

use super::{
    Class, Exec, Problem, Target,
    load::{self, read},
    problem::report,
    types::Entry,
};
use crate::{
    Error,
    error::inline,
    pair,
    static_credential::{StaticCredential, Unusable, read_pair, read_parts},
};

impl Target {
    /// The plugin of the user, unless something else in the configuration wins over it: a token, a
    /// token file, a user name, or a client certificate with its key (EX-15).
    pub fn plugin(&self) -> Option<&Exec> {
        let fixed = StaticCredential::of(&self.user.value);
        self.user.value.exec.as_ref().filter(|_| fixed.is_empty())
    }

    /// Whether a connection could be set up: [`Target::check_user`] and [`Target::check_tls`].
    /// Nothing is run; all problems are reported together.
    pub fn check(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        self.judge_exec(&mut problems);
        let hint = self.judge_provider(&mut problems);
        self.judge_authority(&mut problems);
        self.judge_pair(&mut problems);
        outcome(problems, hint)
    }

    /// Whether the plugin's version and the auth-provider are known, and what a plugin is to be told
    /// of its cluster.
    pub fn check_user(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        if self.user.value.exec.as_ref().is_some_and(|exec| exec.provide_cluster_info) {
            self.judge_authority(&mut problems);
            problems.retain(|problem| problem.class == Class::CaUnreadable);
            if !problems.is_empty() {
                return outcome(problems, None);
            }
        }
        self.judge_exec(&mut problems);
        let hint = self.judge_provider(&mut problems);
        outcome(problems, hint)
    }

    /// Where the certificate authority comes from, for messages: the field, its file, its place.
    pub fn authority_source(&self) -> String {
        let file = &self.cluster.value.certificate_authority;
        let field =
            if file.is_empty() { "certificate-authority-data" } else { "certificate-authority" };
        let mut source = format!("`{}`", self.cluster.lines.name(field));
        if !file.is_empty() {
            let _ = write!(source, " `{}`", inline(file));
        }
        let place = self.cluster.lines.place(field, &self.cluster.place);
        if !self.cluster.lines.is_flag(field) && (place.file.is_some() || place.line > 0) {
            let _ = write!(source, " ({place})");
        }
        source
    }

    /// Whether the certificate authority can be used. One that cannot be read, or is empty, does not
    /// give way to the system's.
    pub fn check_authority(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        self.judge_authority(&mut problems);
        outcome(problems, None)
    }

    /// Whether the certificate authority, and a client certificate that stands in the kubeconfig
    /// itself, can be used. A pair in files is judged when it is used, and again as it changes.
    pub fn check_tls(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        self.judge_authority(&mut problems);
        self.judge_pair(&mut problems);
        outcome(problems, None)
    }

    /// The version must be known even if something wins over the plugin, as in the reference.
    fn judge_exec(&self, problems: &mut Vec<Problem>) {
        let Some(exec) = &self.user.value.exec else { return };
        if exec.api_version.known().is_none() {
            let what = format!("is `{}`, a version nobody speaks", inline(exec.api_version.text()));
            let entry = (&self.user.subject(), &exec.place);
            let (class, field) = (Class::ExecVersionUnsupported, "exec.apiVersion");
            problems.push(self.user.lines.problem(class, entry, field, what));
        }
    }

    /// Returns what to use in place of a provider that is gone.
    fn judge_provider(&self, problems: &mut Vec<Problem>) -> Option<&'static str> {
        let provider = self.user.value.auth_provider.as_ref()?;
        let (class, message, hint) = match provider.name.as_str() {
            "oidc" | "externalSigner" => return None,
            "gcp" => (
                Class::ProviderRemoved,
                "`gcp` was removed from Kubernetes".to_owned(),
                Some(
                    "`keyward wrap --native` puts the plugin `keyward-gke` in its place; or install `gke-gcloud-auth-plugin`, and run `gcloud container clusters get-credentials`",
                ),
            ),
            "azure" => (
                Class::ProviderRemoved,
                "`azure` was removed from Kubernetes".to_owned(),
                Some(
                    "`keyward wrap --native` puts the plugin `keyward-entra` in its place; or install `kubelogin`, and run `kubelogin convert-kubeconfig`",
                ),
            ),
            other => (
                Class::ProviderUnknown,
                format!("`{}` is not known", inline(other)),
                Some("only `oidc` is left; everything else is a plugin (`exec`) today"),
            ),
        };
        problems.push(
            Problem::new(class, provider.place.clone(), message)
                .about(self.user.subject())
                .field("auth-provider"),
        );
        hint
    }

    fn judge_authority(&self, problems: &mut Vec<Problem>) {
        let cluster = &self.cluster.value;
        let file = &cluster.certificate_authority;
        let data = &cluster.certificate_authority_data;
        if file.is_empty() && data.is_empty() {
            return;
        }
        let field =
            if file.is_empty() { "certificate-authority-data" } else { "certificate-authority" };
        let (class, message) = if cluster.insecure_skip_tls_verify {
            // A flag for one of them clears what the file says of the other.
            let other = if self.cluster.lines.is_flag(field) { "--" } else { "" };
            let what = format!("and `{other}insecure-skip-tls-verify` are both set");
            (Class::CaWithInsecure, what)
        } else if data.is_empty() {
            match read(Path::new(file)) {
                // client-go uses the system's authorities then, and sends the credential to whoever
                // one of them vouches for. A file that is named is meant.
                Ok(_) => (
                    Class::CaInvalid,
                    format!(
                        "is empty: `{}`; put the certificate of the cluster's authority there, or \
                         remove the field to trust this machine's authorities",
                        inline(file)
                    ),
                ),
                Err(kind) => (Class::CaUnreadable, load::cannot_be_read(file, kind)),
            }
        } else if !pair::read_authorities(data).is_empty() {
            return;
        } else {
            (Class::CaInvalid, "holds no certificate in PEM".to_owned())
        };
        problems.push(self.cluster.problem(class, field, message));
    }

    fn judge_pair(&self, problems: &mut Vec<Problem>) {
        let user = &self.user.value;
        let in_files = user.client_certificate_data.is_empty() && user.client_key_data.is_empty();
        let has_key = !user.client_key.is_empty() || !user.client_key_data.is_empty();
        if !has_key {
            return;
        }
        // Files are read now, and parsed at each handshake: they may be replaced in between.
        let outcome = if in_files { read_parts(user).map(drop) } else { read_pair(user).map(drop) };
        if let Err(unusable) = outcome {
            let what = match unusable {
                Unusable::Pair(why) => why,
                Unusable::File { file, error, .. } => {
                    format!("`{}`: {}", inline(&file), error.kind())
                }
            };
            let message = format!("and its key cannot be used: {what}");
            let field = if user.client_certificate_data.is_empty() {
                "client-certificate"
            } else {
                "client-certificate-data"
            };
            problems.push(self.user.problem(Class::PairInvalid, field, message));
        }
    }
}

fn outcome(problems: Vec<Problem>, hint: Option<&'static str>) -> Result<(), Error> {
    if problems.is_empty() {
        return Ok(());
    }
    let error = report(problems);
    Err(match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    })
}
