//! What only logins for registries need: the machine's own token, a pod's token, and the files of
//! `docker-credential-gcr`.

use keyward_plugin::Refusal;
use keyward_protocol::Secret;
use serde_json::{Value, json};

use super::{
    Google, Token,
    info::Info,
    oauth::{Body, STS, TOKEN, shown},
    token::MARGIN,
};
use crate::{
    http::require_https,
    store::{Key, digest_of},
};

const CLOUD: &str = "https://www.googleapis.com/auth/cloud-platform";

/// The client that `docker-credential-gcr gcr-login` logs in with. It is public, as of every installed program.
const CLIENT: (&str, &str) = (
    "99426463878-o7n0bshgue20tdpm25q4at0vs2mr4utq.apps.googleusercontent.com",
    "HpVi8cnKx8AAkddzaNrSWmS8",
);

impl Google<'_> {
    /// The token of the machine's service account, with the scopes that the machine has.
    pub(crate) fn instance(&self) -> Result<Token, Refusal> {
        self.metadata(true)?.ok_or_else(|| {
            Refusal::bad_config(
                "there is no metadata server: this machine is none of Google's\n\n\
                 hint: `keyward-gar` also uses application default credentials",
            )
        })
    }

    /// Exchanges the token of a pod's service account. If that fails, the machine's account is not used instead.
    pub(crate) fn pod(
        &self,
        pod: &Secret,
        audience: &str,
        url: Option<&str>,
    ) -> Result<Token, Refusal> {
        let url = url.unwrap_or(STS);
        require_https(url, "`--token-url`")?;
        let body = json!({
            "audience": audience,
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "scope": CLOUD,
            "subject_token": pod.expose(),
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        });
        self.fetch(url, None, &Body::Json(&body))
    }

    /// The `.dockercfg` in the instance's metadata, or at the URL that is there.
    pub(crate) fn docker_config(&self, by_url: bool) -> Result<Value, Refusal> {
        let name = if by_url { "google-dockercfg-url" } else { "google-dockercfg" };
        let attributes = "computeMetadata/v1/instance/attributes";
        let mut place = format!("http://{}/{attributes}/{name}", self.metadata_host());
        let mut text = self.ask_metadata(&place)?;
        if by_url {
            place = String::from_utf8_lossy(text.trim_ascii()).into_owned();
            require_https(&place, &format!("`{name}` in the instance's metadata"))?;
            let request = http::Request::get(&place).body(Vec::new());
            let request = request
                .map_err(|_| Refusal::Failed(format!("`{name}` in the metadata is no address")))?;
            text = self.ask(&place, request)?;
        }
        serde_json::from_slice(&text)
            .map_err(|_| Refusal::Failed(format!("what `{}` answered is no JSON", shown(&place))))
    }

    /// The sources that `docker-credential-gcr config` has set, or its defaults.
    pub(crate) fn gcr_sources(&self) -> Result<Vec<String>, Refusal> {
        let defaults = || vec!["store".to_owned(), "env".to_owned()];
        let file = "docker_credential_gcr_config.json";
        let Some(info) = self.gcr_file("DOCKER_CREDENTIAL_GCR_CONFIG", file)? else {
            return Ok(defaults());
        };
        let sources = info.list("TokenSources");
        Ok(if sources.is_empty() { defaults() } else { sources })
    }

    /// The login of `docker-credential-gcr gcr-login`; `None` if there is none.
    pub(crate) fn gcr_store(&self) -> Result<Option<Token>, Refusal> {
        let source = "login of `docker-credential-gcr gcr-login`";
        let info = self.gcr_file("DOCKER_CREDENTIAL_GCR_STORE", "docker_credentials.json")?;
        let Some(info) = info else {
            return self.call.skip(source, "there is no file of it");
        };
        let Some(login) = info.object("gcrCreds") else {
            return self.call.skip(source, format!("`{info}` has none"));
        };
        let now = self.call.clock.now();
        let end = login.text("token_expiry").and_then(|end| end.parse().ok());
        let kept = login.text("access_token").filter(|_| end.is_some_and(|end| now + MARGIN < end));
        let token = match kept {
            Some(text) => Token { text: Secret::new(text), end },
            None => {
                let refresh = login.required("refresh_token")?;
                let key = Key::new("google").with("gcr", digest_of(refresh.as_bytes()));
                self.kept(&key, || self.gcr_refresh(refresh))?
            }
        };
        self.call.used(source, format!("`{info}`"));
        Ok(Some(token))
    }

    fn gcr_refresh(&self, refresh: &str) -> Result<Token, Refusal> {
        let body = [
            ("grant_type", "refresh_token"),
            ("client_id", CLIENT.0),
            ("client_secret", CLIENT.1),
            ("refresh_token", refresh),
        ];
        self.fetch(TOKEN, None, &Body::Form(&body))
    }

    /// A file of `docker-credential-gcr`; `None` if it does not exist.
    fn gcr_file(&self, variable: &str, name: &str) -> Result<Option<Info>, Refusal> {
        let home =
            || self.call.surroundings.home().map(|home| home.join(".config/gcloud").join(name));
        let named = self.call.var(variable);
        let named = named.map(|path| self.call.surroundings.absolute(path.as_ref()));
        let path = named.or_else(home).filter(|path| path.try_exists().unwrap_or(true));
        path.map(|path| Ok(Info::read(&path)?.0)).transpose()
    }
}
