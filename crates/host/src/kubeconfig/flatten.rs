//! Two smaller forms of a configuration: self-contained, and of one context only.

use std::io::ErrorKind;

use keyward_protocol::Secret;

use super::{
    Class, Context, Kubeconfig, Named, Problem,
    load::{self, read},
    path,
    problem::report,
    resolve::find,
    validate::Judge,
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
            let mut judge = Judge::of(user, surroundings, &mut problems);
            let value = &mut user.value;
            judge.inline(
                &mut value.client_certificate,
                &mut value.client_certificate_data,
                "client-certificate",
                Class::ClientCertificateBoth,
            );
            // Keys are held as texts; as bytes only for the length of this call.
            let mut key = value.client_key_data.expose_bytes().to_vec();
            judge.inline(&mut value.client_key, &mut key, "client-key", Class::ClientKeyBoth);
            value.client_key_data = Secret::from_bytes(key);
        }
        for cluster in &mut flat.clusters {
            Judge::of(cluster, surroundings, &mut problems).inline(
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
        let chosen = find(&self.contexts, name)
            .ok_or_else(|| missing(Class::ContextNotFound, "context", name))?;
        let Context { cluster, user, .. } = &chosen.value;
        Ok(Self {
            files: self.files.clone(),
            current_context: name.to_owned(),
            current_context_place: self.current_context_place.clone(),
            clusters: only(&self.clusters, cluster)
                .ok_or_else(|| missing(Class::ClusterNotFound, "cluster", cluster))?,
            users: only(&self.users, user)
                .ok_or_else(|| missing(Class::UserNotFound, "user", user))?,
            contexts: vec![chosen.clone()],
            preferences_colors: self.preferences_colors,
            preferences_extensions: self.preferences_extensions.clone(),
            extensions: self.extensions.clone(),
            warnings: self.warnings.clone(),
        })
    }
}

impl Judge<'_> {
    /// Puts the content of a file in the place of its name.
    fn inline(&mut self, file: &mut String, data: &mut Vec<u8>, field: &str, both: Class) {
        if file.is_empty() {
            return;
        }
        if !data.is_empty() {
            self.both(both, field);
            return;
        }
        let base = path::base(&self.place, self.surroundings);
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
                self.fault(class, field, &load::cannot_be_read(file, kind));
            }
        }
    }
}

/// The entry of this name alone, or nothing for no name; `None` if there is no such entry.
fn only<T: Clone>(list: &[Named<T>], name: &str) -> Option<Vec<Named<T>>> {
    if name.is_empty() { Some(Vec::new()) } else { find(list, name).map(|one| vec![one.clone()]) }
}
