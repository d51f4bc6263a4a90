//! What is only wrong once a [`Target`] is used: versions, providers, certificates.

use std::{fmt::Write as _, path::Path};

use super::{
    Class, Exec, Problem, Target,
    load::{self, read},
    problem::report,
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
        let (provider, hint) = self.judge_provider().unzip();
        let problems = [self.judge_exec(), provider, self.judge_authority(), self.judge_pair()];
        outcome(problems, hint)
    }

    /// Whether the plugin's version and the auth-provider are known, and what a plugin is to be told
    /// of its cluster.
    pub fn check_user(&self) -> Result<(), Error> {
        if self.user.value.exec.as_ref().is_some_and(|exec| exec.provide_cluster_info) {
            let is_unreadable = |problem: &Problem| problem.class == Class::CaUnreadable;
            outcome([self.judge_authority().filter(is_unreadable)], None)?;
        }
        let (provider, hint) = self.judge_provider().unzip();
        outcome([self.judge_exec(), provider], hint)
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
        outcome([self.judge_authority()], None)
    }

    /// Whether the certificate authority, and a client certificate that stands in the kubeconfig
    /// itself, can be used. A pair in files is judged when it is used, and again as it changes.
    pub fn check_tls(&self) -> Result<(), Error> {
        outcome([self.judge_authority(), self.judge_pair()], None)
    }

    /// The version must be known even if something wins over the plugin, as in the reference.
    fn judge_exec(&self) -> Option<Problem> {
        let exec = self.user.value.exec.as_ref()?;
        if exec.api_version.known().is_some() {
            return None;
        }
        let what = format!("is `{}`, a version nobody speaks", inline(exec.api_version.text()));
        let entry = (&self.user.subject(), &exec.place);
        let (class, field) = (Class::ExecVersionUnsupported, "exec.apiVersion");
        Some(self.user.lines.problem(class, entry, field, what))
    }

    /// Also returns what to use in place of a provider that is gone.
    fn judge_provider(&self) -> Option<(Problem, &'static str)> {
        let provider = self.user.value.auth_provider.as_ref()?;
        let (class, message, hint) = match provider.name.as_str() {
            "oidc" | "externalSigner" => return None,
            "gcp" => (
                Class::ProviderRemoved,
                "`gcp` was removed from Kubernetes".to_owned(),
                "`keyward wrap --native` puts the plugin `keyward-gke` in its place; or install `gke-gcloud-auth-plugin`, and run `gcloud container clusters get-credentials`",
            ),
            "azure" => (
                Class::ProviderRemoved,
                "`azure` was removed from Kubernetes".to_owned(),
                "`keyward wrap --native` puts the plugin `keyward-entra` in its place; or install `kubelogin`, and run `kubelogin convert-kubeconfig`",
            ),
            other => (
                Class::ProviderUnknown,
                format!("`{}` is not known", inline(other)),
                "only `oidc` is left; everything else is a plugin (`exec`) today",
            ),
        };
        let problem = Problem::new(class, provider.place.clone(), message);
        Some((problem.about(self.user.subject()).field("auth-provider"), hint))
    }

    fn judge_authority(&self) -> Option<Problem> {
        let cluster = &self.cluster.value;
        let file = &cluster.certificate_authority;
        let data = &cluster.certificate_authority_data;
        if file.is_empty() && data.is_empty() {
            return None;
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
            return None;
        } else {
            (Class::CaInvalid, "holds no certificate in PEM".to_owned())
        };
        Some(self.cluster.problem(class, field, message))
    }

    fn judge_pair(&self) -> Option<Problem> {
        let user = &self.user.value;
        let in_files = user.client_certificate_data.is_empty() && user.client_key_data.is_empty();
        let has_key = !user.client_key.is_empty() || !user.client_key_data.is_empty();
        if !has_key {
            return None;
        }
        // Files are read now, and parsed at each handshake: they may be replaced in between.
        let read = if in_files { read_parts(user).map(drop) } else { read_pair(user).map(drop) };
        let what = match read.err()? {
            Unusable::Pair(why) => why,
            Unusable::File { file, error, .. } => format!("`{}`: {}", inline(&file), error.kind()),
        };
        let message = format!("and its key cannot be used: {what}");
        let field = if user.client_certificate_data.is_empty() {
            "client-certificate"
        } else {
            "client-certificate-data"
        };
        Some(self.user.problem(Class::PairInvalid, field, message))
    }
}

fn outcome<const N: usize>(
    problems: [Option<Problem>; N],
    hint: Option<&'static str>,
) -> Result<(), Error> {
    let problems: Vec<Problem> = problems.into_iter().flatten().collect();
    if problems.is_empty() { Ok(()) } else { Err(report(problems).with_hint_if(hint)) }
}
