//! What is only wrong once a [`Target`] is used: versions, providers, certificates.

use keyward_protocol::{exec::Version, text};

use super::{Class, Exec, Problem, Subject, Target};
use crate::Error;

impl Target {
    /// The plugin of the user, unless something else in the configuration wins over it: a token, a
    /// token file, a user name, or a client certificate with its key (EX-15).
    pub fn plugin(&self) -> Option<&Exec> {
        let user = &self.user;
        let token = !user.token.is_empty() || !user.token_file.is_empty();
        let certificate =
            !user.client_certificate.is_empty() || !user.client_certificate_data.is_empty();
        let key = !user.client_key.is_empty() || !user.client_key_data.is_empty();
        let fixed = token || !user.username.is_empty() || (certificate && key);
        user.exec.as_ref().filter(|_| !fixed)
    }

    /// Whether a connection could be set up: the plugin's version and the auth-provider are known,
    /// certificates and keys parse. Nothing is run; all problems are reported together.
    pub fn check(&self) -> Result<(), Error> {
        let mut problems = Vec::new();
        self.check_exec(&mut problems);
        let hint = self.check_provider(&mut problems);
        self.check_authority(&mut problems);
        if problems.is_empty() {
            return Ok(());
        }
        let error = super::problem::report(problems);
        Err(match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    }

    /// The version must be known even if something wins over the plugin, as in the reference.
    fn check_exec(&self, problems: &mut Vec<Problem>) {
        let Some(exec) = &self.user.exec else { return };
        if Version::parse(&exec.api_version).is_none() {
            problems.push(
                Problem::new(
                    Class::ExecVersionUnsupported,
                    exec.place.clone(),
                    format!("is `{}`, a version nobody speaks", text::clean(&exec.api_version)),
                )
                .about(Subject::User(self.user_name.clone()))
                .field("exec.apiVersion"),
            );
        }
    }

    /// Returns what to use in place of a provider that is gone.
    fn check_provider(&self, problems: &mut Vec<Problem>) -> Option<&'static str> {
        let provider = self.user.auth_provider.as_ref()?;
        let (class, message, hint) = match provider.name.as_str() {
            "oidc" | "externalSigner" => return None,
            "gcp" => (
                Class::ProviderRemoved,
                "`gcp` was removed from Kubernetes".to_owned(),
                Some(
                    "use the exec plugin `gke-gcloud-auth-plugin`: install it, then run `gcloud container clusters get-credentials`",
                ),
            ),
            "azure" => (
                Class::ProviderRemoved,
                "`azure` was removed from Kubernetes".to_owned(),
                Some(
                    "use the exec plugin `kubelogin`: install it, then run `kubelogin convert-kubeconfig`",
                ),
            ),
            other => {
                (Class::ProviderUnknown, format!("`{}` is not known", text::clean(other)), None)
            }
        };
        problems.push(
            Problem::new(class, provider.place.clone(), message)
                .about(Subject::User(self.user_name.clone()))
                .field("auth-provider"),
        );
        hint
    }

    fn check_authority(&self, problems: &mut Vec<Problem>) {
        let cluster = &self.cluster;
        let file = &cluster.certificate_authority;
        let data = &cluster.certificate_authority_data;
        if file.is_empty() && data.is_empty() {
            return;
        }
        let field =
            if file.is_empty() { "certificate-authority-data" } else { "certificate-authority" };
        let (class, message) = if cluster.insecure_skip_tls_verify {
            (Class::CaWithInsecure, "and `insecure-skip-tls-verify` are both set")
        } else if !data.is_empty() && !holds_certificate(data) {
            (Class::CaInvalid, "holds no certificate in PEM")
        } else {
            return;
        };
        problems.push(
            Problem::new(class, self.cluster_place.clone(), message)
                .about(Subject::Cluster(self.cluster_name.clone()))
                .field(field),
        );
    }
}

/// Whether there is at least one certificate among the blocks of a PEM text.
fn holds_certificate(pem: &[u8]) -> bool {
    pem.windows(10).any(|w| w == b"-----BEGIN")
}
