//! What must hold before a cluster and a user are used. All problems are reported together (EV-10).

use std::path::Path;

use keyward_process::file;

use super::{
    Class, Cluster, Exec, InteractiveMode, Lines, Named, Place, Problem, Subject, User, load,
    server, types::Listed,
};
use keyward_process::surroundings::Surroundings;

use crate::error::inline;

/// An entry under judgement: its name, its place and where problems go.
pub(super) struct Judge<'a> {
    subject: Subject,
    pub(super) place: Place,
    lines: Lines,
    pub(super) surroundings: &'a Surroundings,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Judge<'a> {
    pub(super) fn of<T: Listed>(
        entry: &Named<T>,
        surroundings: &'a Surroundings,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        let (subject, place) = (entry.subject(), entry.place.clone());
        Self { subject, place, lines: entry.lines, surroundings, problems }
    }

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
            self.both(Class::CaBoth, "certificate-authority");
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
                let what = "and `auth-provider` are both set";
                let mut problem = self.problem(Class::ExecWithProvider, "exec", what);
                problem.place = exec.place.clone();
                self.problems.push(problem);
            }
            self.exec(exec);
        }
        let basic = !user.username.is_empty() || !user.password.is_empty();
        if basic && !user.token.is_empty() {
            let other = if user.username.is_empty() { "password" } else { "username" };
            // Where one of them is a flag, the other tells the place.
            let swap = self.lines.is_flag("token") && !self.lines.is_flag(other);
            let (first, second) = if swap { (other, "token") } else { ("token", other) };
            let second = self.lines.name(second);
            let what = format!("and `{second}` are both set: only one is allowed");
            self.fault(Class::MultipleMethods, first, &what);
        }
        self.impersonation(user);
    }

    fn impersonation(&mut self, user: &User) {
        let who = &user.impersonate;
        let more = [
            ("as-uid", !who.uid.is_empty()),
            ("as-groups", !who.groups.is_empty()),
            ("as-user-extra", !who.extra.is_empty()),
        ];
        let Some((field, _)) = more.into_iter().find(|(_, said)| *said) else { return };
        if who.user.is_empty() {
            let name = self.lines.name(field);
            let missing = if self.lines.is_flag(field) { "--as" } else { "as" };
            let what = format!("is missing, but `{name}` is set");
            let mut problem = self.problem(Class::ImpersonationWithoutUser, field, &what);
            problem.field = Some(missing.into());
            self.problems.push(problem);
        }
    }

    fn pair(&mut self, user: &User) {
        if !user.client_certificate.is_empty() && !user.client_certificate_data.is_empty() {
            self.both(Class::ClientCertificateBoth, "client-certificate");
        }
        match (user.client_key.is_empty(), user.client_key_data.is_empty()) {
            (false, false) => self.both(Class::ClientKeyBoth, "client-key"),
            (true, true) => {
                if self.lines.is_flag("client-certificate") {
                    self.lines.flag("client-key");
                }
                self.fault(
                    Class::ClientKeyMissing,
                    "client-key",
                    "is missing, but there is a client certificate",
                );
            }
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
        if exec.api_version.text().is_empty() {
            self.fault(Class::ExecVersionMissing, "exec.apiVersion", "is missing");
        }
        let unnamed = exec.env.iter().enumerate().filter(|(_, (name, _))| name.is_empty());
        for (nth, (index, _)) in unnamed.enumerate() {
            let field = format!("exec.env[{index}].name");
            let mut problem = self.problem(Class::ExecVariableUnnamed, &field, "is missing");
            if let Some(line) = exec.unnamed.get(nth) {
                problem.place.line = *line;
            }
            self.problems.push(problem);
        }
        if let InteractiveMode::Unknown(text) = &exec.interactive_mode {
            let (class, what) = if text.is_empty() {
                (Class::ExecModeMissing, "is missing: `Never`, `IfAvailable` or `Always`")
            } else {
                let what = "must be `Never`, `IfAvailable` or `Always`, in these letters";
                (Class::ExecModeInvalid, what)
            };
            // The reference checks the version later, but nobody wants to be told of one after the other.
            let version = &exec.api_version;
            let what = if version.text().is_empty() || version.known().is_some() {
                what.to_owned()
            } else {
                let version = inline(version.text());
                format!("{what}; and `exec.apiVersion` is `{version}`, a version nobody speaks")
            };
            self.fault(class, "exec.interactiveMode", &what);
        }
        self.place = user;
    }

    /// Whether a file can be opened; its content is another matter, and looked at later.
    fn open(&mut self, path: &str, field: &str, class: Class) {
        if path.is_empty() {
            return;
        }
        let absolute = self.surroundings.absolute(Path::new(path));
        if let Err(error) = file::readable(&absolute) {
            self.fault(class, field, &load::cannot_be_read(path, error.kind()));
        }
    }

    /// A file is named, and its content is there too.
    pub(super) fn both(&mut self, class: Class, field: &str) {
        self.fault(class, field, &format!("and `{field}-data` are both set"));
    }

    pub(super) fn fault(&mut self, class: Class, field: &str, message: &str) {
        let problem = self.problem(class, field, message);
        self.problems.push(problem);
    }

    fn problem(&self, class: Class, field: &str, message: &str) -> Problem {
        self.lines.problem(class, (&self.subject, &self.place), field, message)
    }
}
