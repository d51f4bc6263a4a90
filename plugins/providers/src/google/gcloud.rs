//! `gcloud auth login`: gcloud keeps these logins in a database of its own, so gcloud is asked.

use std::path::PathBuf;

use keyward_plugin::Refusal;
use keyward_process::{
    file::{self, Limits},
    runner::{Stderr, Stdin},
};
use keyward_protocol::Secret;
use serde_json::Value;

use super::{Google, Token};
use crate::{
    program::output,
    store::{Key, Store, digest_of},
};

/// A variable with a token, which gcloud, too, returns as it is.
const VARIABLE: &str = "CLOUDSDK_AUTH_ACCESS_TOKEN";

/// The database with gcloud's logins. A login or a logout changes it; a new access token does not.
const LOGINS: &str = "credentials.db";

const LIMITS: Limits = Limits::NAMED.at_most(16 << 20);

/// Settings that take the login from a file outside of the database, so that a change of it goes unnoticed.
const ELSEWHERE: [&str; 3] =
    ["access_token_file", "credential_file_override", "authorization_token_file"];

/// What to ask gcloud.
pub(crate) enum Gcloud {
    /// The access token of an account.
    Login(Vec<String>),
    /// The token of a cluster of Distributed Cloud.
    Edge(Vec<String>),
}

impl Gcloud {
    fn args(&self) -> Vec<String> {
        let (command, more): (&[&str], _) = match self {
            Self::Login(more) => (&["config", "config-helper", "--format=json"], more),
            Self::Edge(more) => {
                (&["edge-cloud", "container", "clusters", "print-access-token"], more)
            }
        };
        command.iter().map(|word| (*word).to_owned()).chain(more.iter().cloned()).collect()
    }
}

impl Google<'_> {
    /// The token of gcloud's login; `None` if there is no gcloud.
    pub(crate) fn gcloud(&self, ask: &Gcloud) -> Result<Option<Token>, Refusal> {
        if let (Gcloud::Login(_), Some(token)) = (ask, self.call.var(VARIABLE)) {
            self.call.used(format!("`{VARIABLE}`"), "its value, whose end is not known");
            return Ok(Some(Token { text: Secret::new(token), end: None }));
        }
        let Some(program) = self.call.find_program("gcloud") else {
            return self.call.skip("gcloud", "it is not on `PATH`");
        };
        let token = match self.gcloud_login() {
            Some(login) => {
                let key =
                    Key::new("google").with("gcloud", login).with("args", ask.args().join("\0"));
                // gcloud takes half a second or more, so that an agent is worth its start.
                self.store
                    .borrow_mut()
                    .get_or_insert_with(|| Store::open_or_start(&self.call.surroundings));
                self.kept(&key, || self.run_gcloud(program, ask))
            }
            None => self.run_gcloud(program, ask),
        };
        let token = token.inspect_err(|refusal| self.call.failed("gcloud", refusal.to_string()))?;
        self.call.used("gcloud", "its login");
        Ok(Some(token))
    }

    /// What tells gcloud's logins apart: the database, the configuration and the variables that choose among them.
    /// `None` if that cannot be known: then nothing is kept.
    fn gcloud_login(&self) -> Option<String> {
        let directory = self.gcloud_directory()?;
        let read = |name: &str| file::read(&directory.join(name), &LIMITS).ok();
        let active = self.call.var("CLOUDSDK_ACTIVE_CONFIG_NAME").or_else(|| {
            String::from_utf8(read("active_config")?.to_vec())
                .ok()
                .map(|name| name.trim().to_owned())
        });
        let active = active.unwrap_or_else(|| "default".into());
        let settings = read(&format!("configurations/config_{active}")).unwrap_or_default();
        // Settings for all configurations.
        let properties = read("properties").unwrap_or_default();
        let mut variables: Vec<_> = self.call.surroundings.vars();
        variables.retain(|(name, _)| name.as_encoded_bytes().starts_with(b"CLOUDSDK_"));
        variables.sort_unstable();
        let text =
            [&*settings, &*properties].map(|text| String::from_utf8_lossy(text).to_lowercase());
        let names = variables.iter().map(|(name, _)| name.to_string_lossy().to_lowercase());
        let mut chosen = names.chain(text);
        if chosen.any(|text| ELSEWHERE.iter().any(|setting| text.contains(setting))) {
            return None;
        }
        let variables = format!("{variables:?}");
        let parts = [
            directory.as_os_str().as_encoded_bytes(),
            active.as_bytes(),
            &settings,
            &properties,
            &read(LOGINS)?,
            variables.as_bytes(),
        ];
        Some(digest_of(parts.map(digest_of).join(" ").as_bytes()))
    }

    fn run_gcloud(&self, program: PathBuf, ask: &Gcloud) -> Result<Token, Refusal> {
        let args = ask.args();
        let shown = format!("gcloud {}", args[..2].join(" "));
        let failed = |why: String| {
            Refusal::Failed(format!(
                "`{shown}` gives no token: {why}\n\n\
                 hint: run `gcloud auth login`; `keyward-gke --source adc` takes application default credentials"
            ))
        };
        let mut run = self.call.invocation(program, "gcloud", args.iter().map(String::as_str));
        run.stdin = Stdin::Terminal;
        run.stderr = Stderr::Shown;
        run.attended = self.attended;
        let printed = output(&run).map_err(failed)?.stdout;
        let answer: Value = serde_json::from_slice(&printed)
            .map_err(|_| failed("what it printed is no JSON".into()))?;
        let (token, end) = match ask {
            Gcloud::Login(_) => {
                (&answer["credential"]["access_token"], &answer["credential"]["token_expiry"])
            }
            Gcloud::Edge(_) => (&answer["accessToken"], &answer["expireTime"]),
        };
        let token = token.as_str().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| failed("what it printed has no token".into()))?;
        let end = end.as_str().and_then(|end| end.parse().ok());
        if end.is_some_and(|end| end <= self.call.clock.now()) {
            return Err(failed("its token has expired".into()));
        }
        Ok(Token { text: Secret::new(token), end })
    }
}
