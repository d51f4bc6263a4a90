//! What flags say over the files.

use keyward_protocol::Secret;

use super::{Cluster, Lines, Overrides, User};

impl Overrides {
    /// What is said replaces; a certificate or key given as a file replaces data too (KC-31).
    pub(super) fn apply_user(&self, user: &mut User) {
        replace(&mut user.username, self.username.as_ref());
        replace(&mut user.client_certificate, self.client_certificate.as_ref());
        if set(self.client_certificate.as_ref()).is_some() {
            user.client_certificate_data.clear();
        }
        replace(&mut user.client_key, self.client_key.as_ref());
        if set(self.client_key.as_ref()).is_some() {
            user.client_key_data = Secret::default();
        }
        for (field, said) in [(&mut user.token, &self.token), (&mut user.password, &self.password)]
        {
            if let Some(secret) = said.as_ref().filter(|secret| !secret.is_empty()) {
                *field = secret.clone();
            }
        }
        let (who, said) = (&mut user.impersonate, &self.impersonate);
        replace(&mut who.user, Some(&said.user));
        replace(&mut who.uid, Some(&said.uid));
        if !said.groups.is_empty() {
            who.groups.clone_from(&said.groups);
        }
        for (key, values) in &said.extra {
            match who.extra.iter_mut().find(|(known, _)| known == key) {
                Some((_, known)) => known.clone_from(values),
                None => who.extra.push((key.clone(), values.clone())),
            }
        }
    }

    /// Notes which fields of the user and of the cluster are said here.
    pub(super) fn mark(&self, user: &mut Lines, cluster: &mut Lines) {
        let secret = |secret: &Option<Secret>| secret.as_ref().is_some_and(|s| !s.is_empty());
        let text = |text: &Option<String>| set(text.as_ref()).is_some();
        let who = &self.impersonate;
        for (field, said) in [
            ("token", secret(&self.token)),
            ("username", text(&self.username)),
            ("password", secret(&self.password)),
            ("client-certificate", text(&self.client_certificate)),
            ("client-key", text(&self.client_key)),
            ("as", !who.user.is_empty()),
            ("as-uid", !who.uid.is_empty()),
            ("as-groups", !who.groups.is_empty()),
        ] {
            if said {
                user.flag(field);
            }
        }
        for (field, said) in [
            ("server", text(&self.server)),
            ("proxy-url", text(&self.proxy_url)),
            ("certificate-authority", text(&self.certificate_authority)),
        ] {
            if said {
                cluster.flag(field);
            }
        }
    }

    /// What is said replaces, and clears what would contradict it (KC-28, KC-29).
    pub(super) fn apply_cluster(&self, cluster: &mut Cluster) {
        replace(&mut cluster.server, self.server.as_ref());
        replace(&mut cluster.proxy_url, self.proxy_url.as_ref());
        cluster.disable_compression |= self.disable_compression.unwrap_or(false);
        let insecure = self.insecure_skip_tls_verify.unwrap_or(false);
        let authority = set(self.certificate_authority.as_ref());
        if insecure || authority.is_some() {
            cluster.insecure_skip_tls_verify = insecure;
            authority.unwrap_or_default().clone_into(&mut cluster.certificate_authority);
            cluster.certificate_authority_data.clear();
        }
        let name = set(self.tls_server_name.as_ref());
        if name.is_some() || set(self.server.as_ref()).is_some() {
            name.unwrap_or_default().clone_into(&mut cluster.tls_server_name);
        }
    }
}

/// A flag that says something.
pub(super) fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn replace(field: &mut String, said: Option<&String>) {
    if let Some(said) = set(said) {
        said.clone_into(field);
    }
}
