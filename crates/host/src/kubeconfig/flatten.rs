//! Two smaller forms of a configuration: self-contained, and of one context only.

use std::io::ErrorKind;

use keyward_protocol::Secret;

use super::{
    Class, Kubeconfig, Lines, Named, Place, Problem, Subject,
    load::{self, read},
    path,
    problem::report,
    types::Entry,
};
use keyward_process::surroundings::Surroundings;

use crate::{Error, error::inline};

impl Kubeconfig {
    /// Copies the configuration with certificate authorities, client certificates and keys inlined
    /// from their files (KC-41). Token files and commands stay as they are: they are read and run
    /// where the configuration is used.
    pub fn flatten(&self, surroundings: &Surroundings) -> Result<Self, Error> {
        let mut flat = self.clone();
        let mut problems = Vec::new();
        for user in &mut flat.users {
            let mut inliner = Inliner {
                subject: user.subject(),
                place: &user.place,
                lines: user.lines,
                surroundings,
                problems: &mut problems,
            };
            let value = &mut user.value;
            inliner.inline(
                &mut value.client_certificate,
                &mut value.client_certificate_data,
                "client-certificate",
                Class::ClientCertificateBoth,
            );
            // Keys are held as texts; as bytes only for the length of this call.
            let mut key = value.client_key_data.expose_bytes().to_vec();
            inliner.inline(&mut value.client_key, &mut key, "client-key", Class::ClientKeyBoth);
            value.client_key_data = Secret::from_bytes(key);
        }
        for cluster in &mut flat.clusters {
            let mut inliner = Inliner {
                subject: cluster.subject(),
                place: &cluster.place,
                lines: cluster.lines,
                surroundings,
                problems: &mut problems,
            };
            inliner.inline(
                &mut cluster.value.certificate_authority,
                &mut cluster.value.certificate_authority_data,
                "certificate-authority",
                Class::CaBoth,
            );
        }
        if problems.is_empty() { Ok(flat) } else { Err(report(problems)) }
    }

    /// Copies the configuration with only one context, and the cluster and user it names (KC-42):
    /// the current context, or the one a flag names.
    pub fn minify(&self, context: Option<&str>) -> Result<Self, Error> {
        let fail = |class, message: String| {
            report(vec![Problem::new(class, self.current_context_place.clone(), message)])
        };
        let name = context.filter(|name| !name.is_empty()).unwrap_or(&self.current_context);
        if name.is_empty() {
            return Err(fail(
                Class::EmptyConfig,
                "there is no `current-context`, which tells what to keep".to_owned(),
            ));
        }
        let missing = |class, what: &str, name: &str| {
            fail(class, format!("there is no {what} `{}`", inline(name)))
        };
        let contexts = only(&self.contexts, name);
        let Some(chosen) = contexts.first() else {
            return Err(missing(Class::ContextNotFound, "context", name));
        };
        let clusters = only(&self.clusters, &chosen.value.cluster);
        if clusters.is_empty() && !chosen.value.cluster.is_empty() {
            return Err(missing(Class::ClusterNotFound, "cluster", &chosen.value.cluster));
        }
        let users = only(&self.users, &chosen.value.user);
        if users.is_empty() && !chosen.value.user.is_empty() {
            return Err(missing(Class::UserNotFound, "user", &chosen.value.user));
        }
        Ok(Self {
            files: self.files.clone(),
            current_context: name.to_owned(),
            current_context_place: self.current_context_place.clone(),
            clusters: unless(chosen.value.cluster.is_empty(), clusters),
            users: unless(chosen.value.user.is_empty(), users),
            contexts,
            preferences_colors: self.preferences_colors,
            preferences_extensions: self.preferences_extensions.clone(),
            extensions: self.extensions.clone(),
            warnings: self.warnings.clone(),
        })
    }
}

/// Puts the content of files in the place of their names.
struct Inliner<'a> {
    subject: Subject,
    place: &'a Place,
    lines: Lines,
    surroundings: &'a Surroundings,
    problems: &'a mut Vec<Problem>,
}

impl Inliner<'_> {
    fn inline(&mut self, file: &mut String, data: &mut Vec<u8>, field: &str, both: Class) {
        if file.is_empty() {
            return;
        }
        if !data.is_empty() {
            self.fault(both, field, format!("and `{field}-data` are both set"));
            return;
        }
        let base = path::base(self.place, self.surroundings);
        let base = base.unwrap_or_else(|| self.surroundings.absolute("".as_ref()));
        match read(&path::join(file, &base)) {
            Ok(mut bytes) => {
                *data = std::mem::take(&mut *bytes);
                file.clear();
            }
            Err(kind) => {
                let class = match kind {
                    ErrorKind::NotFound => Class::FileNotFound,
                    _ => Class::Load,
                };
                let message = format!("cannot be read: `{}`: {}", inline(file), load::reason(kind));
                self.fault(class, field, message);
            }
        }
    }

    fn fault(&mut self, class: Class, field: &str, message: String) {
        let entry = (&self.subject, self.place);
        self.problems.push(self.lines.problem(class, entry, field, message));
    }
}

/// The entry of this name, alone.
fn only<T: Clone>(list: &[Named<T>], name: &str) -> Vec<Named<T>> {
    let found = list.iter().find(|named| named.name == name);
    found.cloned().into_iter().collect()
}

fn unless<T>(empty: bool, list: Vec<T>) -> Vec<T> {
    if empty { Vec::new() } else { list }
}
