//! What must hold before a cluster and a user are used. All problems are reported together (EV-10).

use std::path::Path;

use super::{Class, Cluster, Exec, Place, Problem, Subject, User, server};
use crate::{Surroundings, error::inline, file};

/// An entry under judgement: its name, its place and where problems go.
pub(super) struct Judge<'a> {
    pub(super) subject: Subject,
    pub(super) place: Place,
    pub(super) surroundings: &'a Surroundings,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Judge<'_> {
    /// Judges a cluster that says something (an empty one is no cluster, see `resolve`).
    pub(super) fn cluster(&mut self, cluster: &Cluster) {
        if cluster.server.is_empty() {
            self.fault(Class::NoServer, "server", "is missing");
        }
        if !cluster.proxy_url.is_empty()
            && let Err(what) = server::proxy(&cluster.proxy_url)
        {
            self.fault(Class::ProxyUrlInvalid, "proxy-url", &what);
        }
        let file = &cluster.certificate_authority;
        if !file.is_empty() && !cluster.certificate_authority_data.is_empty() {
            self.fault(
                Class::CaBoth,
                "certificate-authority",
                "and `certificate-authority-data` are both set",
            );
        }
        self.open(file, "certificate-authority", Class::CaUnreadable);
    }

    /// Judges a user.
    pub(super) fn user(&mut self, user: &User) {
        if !user.client_certificate.is_empty() || !user.client_certificate_data.is_empty() {
            self.pair(user);
        }
        if let Some(exec) = &user.exec {
            if user.auth_provider.is_some() {
                self.fault(Class::ExecWithProvider, "exec", "and `auth-provider` are both set");
            }
            self.exec(exec);
        }
        let basic = !user.username.is_empty() || !user.password.is_empty();
        if basic && !user.token.is_empty() {
            self.fault(
                Class::MultipleMethods,
                "token",
                "and `username` or `password` are both set: only one is allowed",
            );
        }
        let who = &user.impersonate;
        let more = !who.uid.is_empty() || !who.groups.is_empty() || !who.extra.is_empty();
        if more && who.user.is_empty() {
            self.fault(
                Class::ImpersonationWithoutUser,
                "as",
                "is missing, but `as-uid`, `as-groups` or `as-user-extra` is set",
            );
        }
    }

    fn pair(&mut self, user: &User) {
        if !user.client_certificate.is_empty() && !user.client_certificate_data.is_empty() {
            self.fault(
                Class::ClientCertificateBoth,
                "client-certificate",
                "and `client-certificate-data` are both set",
            );
        }
        match (user.client_key.is_empty(), user.client_key_data.is_empty()) {
            (false, false) => {
                self.fault(
                    Class::ClientKeyBoth,
                    "client-key",
                    "and `client-key-data` are both set",
                );
            }
            (true, true) => self.fault(
                Class::ClientKeyMissing,
                "client-key",
                "is missing, but there is a client certificate",
            ),
            _ => {}
        }
        self.open(
            &user.client_certificate,
            "client-certificate",
            Class::ClientCertificateUnreadable,
        );
        self.open(&user.client_key, "client-key", Class::ClientKeyUnreadable);
    }

    fn exec(&mut self, exec: &Exec) {
        let user = std::mem::replace(&mut self.place, exec.place.clone());
        if exec.command.is_empty() {
            self.fault(Class::ExecCommandMissing, "exec.command", "is missing");
        }
        if exec.api_version.is_empty() {
            self.fault(Class::ExecVersionMissing, "exec.apiVersion", "is missing");
        }
        for _ in exec.env.iter().filter(|(name, _)| name.is_empty()) {
            self.fault(Class::ExecVariableUnnamed, "exec.env", "has a variable without a name");
        }
        match exec.interactive_mode.as_str() {
            "Never" | "IfAvailable" | "Always" => {}
            "" => self.fault(
                Class::ExecModeMissing,
                "exec.interactiveMode",
                "is missing: `Never`, `IfAvailable` or `Always`",
            ),
            _ => self.fault(
                Class::ExecModeInvalid,
                "exec.interactiveMode",
                "must be `Never`, `IfAvailable` or `Always`, in these letters",
            ),
        }
        self.place = user;
    }

    /// Whether a file can be opened; its content is another matter, and looked at later.
    fn open(&mut self, path: &str, field: &str, class: Class) {
        if path.is_empty() {
            return;
        }
        let absolute = self.surroundings.absolute(Path::new(path));
        if let Err(error) = file::open_named(&absolute) {
            let path = inline(path);
            let what = format!("cannot be read: `{path}`: {}", error.kind());
            self.fault(class, field, &what);
        }
    }

    fn fault(&mut self, class: Class, field: &str, message: &str) {
        self.problems.push(
            Problem::new(class, self.place.clone(), message)
                .about(self.subject.clone())
                .field(field),
        );
    }
}
