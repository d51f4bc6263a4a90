//! Logins of people at Entra ID, for `keyward-entra`: the same session, with endpoints that are known.

use keyward_plugin::{Question, Refusal};
use keyward_protocol::Secret;
use openidconnect::url::Url;

use super::{
    kept::Token,
    session::Session,
    settings::{Endpoints, Grant, Keep, PERSON, Settings},
};
use crate::{
    Call,
    azure::Authority,
    client_auth::ClientAuth,
    explain::Explain,
    flags::{Flags, wrong_value},
    http::Trust,
    reader::Reader,
    store::Key,
};

/// A person who logs in at Entra ID.
pub(crate) struct Person {
    pub(crate) authority: Authority,
    pub(crate) client: String,
    pub(crate) scope: String,
    pub(crate) grant: Grant,
    pub(crate) login_hint: Option<String>,
    pub(crate) redirect: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) key: Key,
}

impl Person {
    /// The access token: from the agent, with a refresh token, or with a login.
    pub(crate) fn log_in(
        self,
        call: &Call,
        flags: &Flags,
        question: &Question,
        explain: &Explain,
    ) -> Result<Token, Refusal> {
        let settings = self.settings(call, flags)?;
        Session::new(call, (&settings, Trust::default()), question, explain).token()
    }

    fn settings(self, call: &Call, flags: &Flags) -> Result<Settings, Refusal> {
        let reader = Reader { call, flags };
        let mut extra = Vec::new();
        if self.grant == Grant::Code {
            // Browsers know several accounts; the person chooses one.
            extra.push(("prompt".to_owned(), "select_account".to_owned()));
            extra.extend(self.login_hint.map(|hint| ("login_hint".to_owned(), hint)));
        }
        let port = self.redirect.as_deref().map(port).transpose()?;
        Ok(Settings {
            issuer: format!("{}{}/v2.0", self.authority.host, self.authority.tenant),
            client: self.client,
            auth: ClientAuth::Public,
            scopes: vec![self.scope, "offline_access".into(), "profile".into()],
            access_token: true,
            headers: Vec::new(),
            extra,
            grant: self.grant,
            // Entra ID has no PKCE for device codes.
            pkce: self.grant == Grant::Code,
            redirect: self.redirect,
            // It ignores the port of `http://localhost` (RFC 8252).
            listen: vec![format!("localhost:{}", port.unwrap_or(0))],
            skip_browser: flags.is_set("skip-open-browser"),
            browser: reader.text("browser-command"),
            person: reader.person(PERSON)?,
            listener: None,
            landing: None,
            username: self.username,
            password: self.password,
            force_refresh: false,
            keep: Keep::Agent,
            endpoints: Some(Endpoints {
                authorization: self.authority.endpoint("authorize"),
                token: self.authority.endpoint("token"),
                device: self.authority.endpoint("devicecode"),
            }),
            key: self.key,
        })
    }
}

/// The port of a redirect URL. It has to lead to this machine.
fn port(redirect: &str) -> Result<u16, Refusal> {
    let url = Url::parse(redirect).ok().filter(|url| {
        url.scheme() == "http"
            && matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
    });
    url.and_then(|url| url.port_or_known_default()).ok_or_else(|| {
        let right = "an address of this machine, such as `http://localhost:8400`";
        wrong_value("--redirect-url", right, redirect)
    })
}
