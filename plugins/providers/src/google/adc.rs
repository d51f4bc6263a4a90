//! Application Default Credentials: which file, and what is in it.

use std::path::{Path, PathBuf};

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::{Google, Token, info::Info};
use crate::store::Key;

const VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// The name of the file of `gcloud auth application-default login`.
const FILE: &str = "application_default_credentials.json";

impl Google<'_> {
    /// The token of the first source that is configured; `None` if there is none. Only with `thorough` is the
    /// network asked whether there is a metadata server.
    pub(crate) fn adc(&self, thorough: bool) -> Result<Option<Token>, Refusal> {
        if let Some(path) = self.call.var(VARIABLE) {
            let path = self.call.surroundings.absolute(Path::new(&path));
            return self.file(&path, &format!("`{VARIABLE}`")).map(Some);
        }
        self.call.skipped(format!("`{VARIABLE}`"), "it is not set");
        let source = "file of `gcloud auth application-default login`";
        match self.gcloud_directory().map(|directory| directory.join(FILE)) {
            Some(path) if path.is_file() => return self.file(&path, source).map(Some),
            Some(path) => {
                let why = format!("`{}` does not exist", inline(&path.display().to_string()));
                self.call.skipped(source, why);
            }
            None => self.call.skipped(source, "`HOME` is not set"),
        }
        self.metadata(thorough)
    }

    /// gcloud's directory of settings.
    pub(super) fn gcloud_directory(&self) -> Option<PathBuf> {
        let call = self.call;
        if let Some(directory) = call.var("CLOUDSDK_CONFIG") {
            return Some(call.surroundings.absolute(Path::new(&directory)));
        }
        if cfg!(windows) {
            return call.var("APPDATA").map(|data| Path::new(&data).join("gcloud"));
        }
        call.surroundings.home().map(|home| home.join(".config/gcloud"))
    }

    /// The token of a file, which must be one of Google's.
    fn file(&self, path: &Path, source: &str) -> Result<Token, Refusal> {
        let (info, digest) = Info::read(path)?;
        let kind = info.text("type").unwrap_or_default().to_owned();
        let fetch: fn(&Self, &Info) -> Result<Token, Refusal> = match kind.as_str() {
            "authorized_user" => Self::authorized_user,
            "external_account_authorized_user" => Self::external_user,
            "service_account" if self.self_signed => Self::self_signed_token,
            "service_account" => |google, info| google.service_account(info, &google.scopes),
            "gdch_service_account" => Self::gdch,
            "external_account" => |google, info| google.external(info, &google.scopes),
            "impersonated_service_account" => Self::impersonated,
            _ => {
                return Err(info.bad(
                    "`type` is none of authorized_user, service_account, external_account, \
                     external_account_authorized_user, impersonated_service_account, gdch_service_account\n\n\
                     hint: `gcloud auth application-default login` writes such a file",
                ));
            }
        };
        self.call.note(source, format!("`{info}`, {kind}"));
        let key = Key::new("google").with("file", digest).with("scopes", self.scopes.join(" "));
        let key = key.with("audience", self.audience.clone().unwrap_or_default());
        let nested = info.object("source_credentials");
        let federated = [Some(&info), nested.as_ref()].into_iter().flatten();
        let mut federated = federated.filter(|info| info.text("type") == Some("external_account"));
        let token = match federated.next() {
            // Signing takes less time than asking the agent.
            None if self.self_signed && kind == "service_account" => fetch(self, &info),
            None => self.kept(&key, || fetch(self, &info)),
            Some(external) => match self.fingerprint(external) {
                Some(owner) => self.kept(&key.with("subject", owner), || fetch(self, &info)),
                None => fetch(self, &info),
            },
        };
        let token = token.inspect_err(|refusal| self.call.failed(source, refusal.to_string()))?;
        self.call.used(source, who(&info, &kind));
        Ok(token)
    }
}

/// Whose token it is, for people.
fn who(info: &Info, kind: &str) -> String {
    let account = info.text("client_email").or_else(|| info.text("account"));
    let url = info.text("service_account_impersonation_url");
    let account = account.or_else(|| url.and_then(super::impersonated::account));
    match account.or_else(|| info.text("name")) {
        Some(account) => format!("a token of `{}`", inline(account)),
        None => format!("a token of the {kind} in `{info}`"),
    }
}
