//! A login, fully described: what the flags ask for, checked.

use std::time::Duration;

use keyward_plugin::Refusal;
use keyward_protocol::Secret;

use crate::{
    Call,
    client_auth::ClientAuth,
    flags::Flags,
    http::{Pair, Trust},
    reader::Reader,
    store::Key,
};

/// How long a person may take to log in.
pub(crate) const PERSON: Duration = Duration::from_mins(10);

/// The keeper of what outlives a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The agent, in memory.
    Agent,
    /// The agent and, for the refresh token, the desktop's keyring.
    Keyring,
    /// Nobody.
    Nothing,
}

/// How a token is obtained if there is nothing to refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// The code flow, or the device flow where no browser can be opened.
    Auto,
    /// The code flow with a browser and a listener.
    Code,
    /// The code flow with a code that the person pastes.
    PastedCode,
    /// The device flow.
    Device,
    /// Name and password.
    Password,
    /// The client itself, without a person.
    ClientCredentials,
}

/// The endpoints of Entra ID, which are known without asking. It is never discovered: for a tenant that is named by
/// its domain, it gives another issuer than it was asked for.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) authorization: String,
    pub(crate) token: String,
    pub(crate) device: String,
}

/// A login.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Settings {
    pub(crate) issuer: String,
    pub(crate) client: String,
    pub(crate) auth: ClientAuth,
    /// The scopes besides `openid`.
    pub(crate) scopes: Vec<String>,
    /// Whether the access token is wanted.
    pub(crate) access_token: bool,
    pub(crate) headers: Vec<(String, String)>,
    /// Parameters of the login page, or of the request for client credentials.
    pub(crate) extra: Vec<(String, String)>,
    pub(crate) grant: Grant,
    pub(crate) pkce: bool,
    pub(crate) redirect: Option<String>,
    pub(crate) listen: Vec<String>,
    pub(crate) skip_browser: bool,
    pub(crate) browser: Option<String>,
    /// How long the person may take.
    pub(crate) person: Duration,
    /// The certificate of the listener.
    pub(crate) listener: Option<Pair>,
    /// The page to show after the login.
    pub(crate) landing: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) force_refresh: bool,
    pub(crate) keep: Keep,
    /// Known for Entra ID alone; other providers say themselves where they are.
    pub(crate) endpoints: Option<Endpoints>,
    /// The identity that logs in.
    pub(crate) key: Key,
}

impl Settings {
    /// Reads what the flags say, and the files they name.
    pub(super) fn new(call: &Call, flags: &Flags) -> Result<(Self, Trust), Refusal> {
        let reader = Reader { call, flags };
        let required = |names: [&'static str; 2]| {
            reader.one(names).ok_or_else(|| {
                // Another program has this name, too.
                let azure = if call.name == "kubelogin" {
                    " (or `--server-id`, for a login at Entra ID)"
                } else {
                    ""
                };
                Refusal::BadConfig(format!(
                    "`--{0}` is missing{azure}\n\nhint: `{1} --help`",
                    names[0], call.name
                ))
            })
        };
        let issuer = required(["oidc-issuer-url", "idp-issuer-url"])?;
        let client = required(["oidc-client-id", "client-id"])?;
        let trust = reader.trust()?;
        let (auth, auth_digest) = reader.client_auth(reader.client_secret()?)?;
        let grant = reader.grant()?;
        let mut scopes = reader.many(&["oidc-extra-scope", "extra-scopes"]);
        scopes.retain(|scope| scope != "openid");
        let redirect = reader.text("oidc-redirect-url");
        check(grant, redirect.as_deref(), &auth, &trust)?;
        let extra = reader.pairs("oidc-auth-request-extra-params")?;
        let headers = reader.pairs("oidc-request-header")?;
        let username = reader.text("username");
        let key = Key::new("oidc")
            .with("issuer", issuer.clone())
            .with("client", client.clone())
            .with("client authentication", auth_digest)
            .with("scopes", sorted(scopes.clone()))
            .with("parameters", sorted(extra.iter().map(|(k, v)| format!("{k}={v}")).collect()))
            .with("headers", sorted(headers.iter().map(|(k, v)| format!("{k}={v}")).collect()))
            .with("user", username.clone().unwrap_or_default())
            .with("grant", if grant == Grant::ClientCredentials { "client" } else { "person" })
            // A kubeconfig with authorities of its own must not get at the login of another one.
            .with("trust", trust.digest());
        let settings = Self {
            issuer,
            client,
            auth,
            scopes,
            access_token: flags.is_set("oidc-use-access-token"),
            headers,
            extra,
            grant,
            pkce: reader.pkce()?,
            redirect,
            listen: reader.listen(),
            skip_browser: flags.is_set("skip-open-browser"),
            browser: reader.text("browser-command"),
            person: reader.person(PERSON)?,
            listener: reader.pair("local-server-cert", "local-server-key")?,
            landing: reader.text("open-url-after-authentication"),
            username,
            password: reader.secret("password", "password-file")?,
            force_refresh: flags.is_set("force-refresh"),
            keep: reader.keep()?,
            endpoints: None,
            key,
        };
        Ok((settings, trust))
    }

    /// The scopes, `openid` among them.
    pub(super) fn all_scopes(&self) -> Vec<String> {
        self.scopes.iter().cloned().chain(["openid".to_owned()]).collect()
    }

    /// The key of the token that is printed.
    pub(super) fn token_key(&self) -> Key {
        self.key.clone().with("kept", if self.access_token { "access token" } else { "id token" })
    }

    /// The key of the refresh token.
    pub(super) fn refresh_key(&self) -> Key {
        self.key.clone().with("kept", "refresh token")
    }
}

fn check(
    grant: Grant,
    redirect: Option<&str>,
    auth: &ClientAuth,
    trust: &Trust,
) -> Result<(), Refusal> {
    if grant == Grant::PastedCode && redirect.is_none() {
        return Err(Refusal::bad_config(
            "`--grant-type=authcode-keyboard` needs `--oidc-redirect-url`, the address at which the \
             provider shows the code",
        ));
    }
    if grant == Grant::ClientCredentials
        && matches!(auth, ClientAuth::Public)
        && trust.identity.is_none()
    {
        return Err(Refusal::bad_config(
            "`--grant-type=client-credentials` needs `--client-secret-file`, `--client-key`, \
             `--client-assertion-file` or `--client-certificate`",
        ));
    }
    Ok(())
}

/// A list as one text that does not depend on its order.
fn sorted(mut items: Vec<String>) -> String {
    items.sort_unstable();
    items.join("\n")
}
