//! The last steps to a [`Target`]: its addresses in their final form, and what its files hold.

use std::{io::ErrorKind, path::Path};

use keyward_protocol::{Secret, text, url};

use super::{
    Class, EXEC_EXTENSION, Problem, Target, User,
    load::{self, read},
    resolve::find,
    server::{self, Transport},
};
use keyward_process::surroundings::Surroundings;

use crate::error::inline;

impl Target {
    /// Puts server and proxy in their final form, and drops what must not go over an open line.
    pub(super) fn address(&mut self, notices: &mut Vec<Problem>) {
        let cluster = &mut self.cluster.value;
        cluster.server = server::normalise(&cluster.server);
        if let Ok(proxy) = server::proxy(&cluster.proxy_url) {
            cluster.proxy_url = proxy;
        }
        let shown = inline(&url::mask(&cluster.server));
        let why = match server::transport(&cluster.server) {
            Transport::Https => {
                let extensions = &cluster.extensions;
                self.exec_config = find(extensions, EXEC_EXTENSION)
                    .map(|extension| extension.value.clone())
                    .filter(|value| !value.is_null());
                return;
            }
            Transport::Plain => format!("`{shown}` is not HTTPS"),
            Transport::Unsaid => {
                format!(
                    "`{shown}` has no scheme and is taken for plain HTTP (`https://` is missing?)"
                )
            }
            Transport::Invalid => format!("`{shown}` is not an address"),
        };
        let user = std::mem::take(&mut self.user.value);
        self.user.value.impersonate = user.impersonate.clone();
        cluster.certificate_authority.clear();
        cluster.certificate_authority_data.clear();
        cluster.insecure_skip_tls_verify = false;
        cluster.tls_server_name.clear();
        self.withheld = has_credentials(&user);
        if self.withheld {
            let user = inline(&self.user.name);
            let what = format!("{why}: the credentials of user `{user}` are not sent");
            notices.push(self.cluster.problem(Class::NotHttps, "server", what));
        }
    }

    /// Reads the files whose content is needed now.
    pub(super) fn fetch(&mut self, surroundings: &Surroundings) -> Result<(), Problem> {
        let (cluster, user) = (&mut self.cluster.value, &self.user.value);
        if !cluster.certificate_authority.is_empty() {
            let file = surroundings.absolute(Path::new(&cluster.certificate_authority));
            // It could be opened. What is wrong with its content is said by
            // `Target::check_authority`, before it is used.
            cluster.certificate_authority_data =
                read(&file).map(|bytes| bytes.to_vec()).unwrap_or_default();
        }
        if user.token.is_empty() && !user.token_file.is_empty() {
            let file = surroundings.absolute(Path::new(&user.token_file));
            let mut bytes = read(&file).map_err(|kind| {
                let class = match kind {
                    ErrorKind::NotFound => Class::FileNotFound,
                    _ => Class::TokenUnreadable,
                };
                let message = load::cannot_be_read(&user.token_file, kind);
                self.user.problem(class, "tokenFile", message)
            })?;
            self.user.value.token = Secret::from_bytes(std::mem::take(&mut *bytes));
        }
        let user = &mut self.user.value;
        if user.client_certificate.is_empty() && user.client_certificate_data.is_empty() {
            user.client_key.clear();
            user.client_key_data = Secret::default();
        }
        if let Some(exec) = &mut user.exec {
            exec.install_hint = text::clean(&exec.install_hint);
        }
        Ok(())
    }
}

fn has_credentials(user: &User) -> bool {
    !user.token.is_empty()
        || !user.token_file.is_empty()
        || !user.username.is_empty()
        || !user.password.is_empty()
        || !user.client_certificate.is_empty()
        || !user.client_certificate_data.is_empty()
        || user.exec.is_some()
        || user.auth_provider.is_some()
}
