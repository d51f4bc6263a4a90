//! A login, fully described: what the flags ask for, checked.

use std::{path::PathBuf, time::Duration};

use keyward_plugin::Refusal;
use keyward_protocol::Secret;
use ring::digest::{SHA256, digest};

use super::{assertion::SigningKey, reader::Reader};
use crate::{
    Call,
    flags::Flags,
    http::{Pair, Trust},
    store::Key,
};

/// How long a person may take to log in.
pub(super) const PERSON: Duration = Duration::from_mins(10);

/// Who keeps what outlives a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// The agent, in memory.
    Agent,
    /// The agent and, for the refresh token, the desktop's keyring.
    Keyring,
    /// Nobody.
    Nothing,
}

/// How a token is obtained if there is nothing to refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
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

/// How the client proves who it is, besides a certificate.
pub(super) enum ClientAuth {
    /// Not at all.
    Public,
    /// With a secret.
    Secret(Secret),
    /// With assertions that it signs (`private_key_jwt`).
    Key(Box<SigningKey>),
    /// With an assertion in a file, read for each request.
    AssertionFile(PathBuf),
}

/// A login.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Settings {
    pub(super) issuer: String,
    pub(super) client: String,
    pub(super) auth: ClientAuth,
    /// The scopes besides `openid`.
    pub(super) scopes: Vec<String>,
    /// Whether the access token is wanted.
    pub(super) access_token: bool,
    pub(super) headers: Vec<(String, String)>,
    /// Parameters of the login page, or of the request for client credentials.
    pub(super) extra: Vec<(String, String)>,
    pub(super) grant: Grant,
    pub(super) pkce: bool,
    pub(super) redirect: Option<String>,
    pub(super) listen: Vec<String>,
    pub(super) skip_browser: bool,
    pub(super) browser: Option<String>,
    /// How long the person may take.
    pub(super) person: Duration,
    /// The certificate of the listener.
    pub(super) listener: Option<Pair>,
    /// The page to show after the login.
    pub(super) landing: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) force_refresh: bool,
    pub(super) keep: Keep,
    key: Key,
}

impl Settings {
    /// Reads what the flags say, and the files they name.
    pub(super) fn new(call: &Call, flags: &Flags) -> Result<(Self, Trust), Refusal> {
        let reader = Reader { call, flags };
        let required = |names: [&'static str; 2]| {
            reader.one(names).ok_or_else(|| {
                Refusal::BadConfig(format!(
                    "`--{0}` is missing\n\nhint: `{1} --help`",
                    names[0], call.name
                ))
            })
        };
        let issuer = required(["oidc-issuer-url", "idp-issuer-url"])?;
        let client = required(["oidc-client-id", "client-id"])?;
        let trust = reader.trust()?;
        let (auth, auth_digest) = reader.client_auth()?;
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
            .with("trust", trust_digest(&trust));
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
            key,
        };
        Ok((settings, trust))
    }

    /// The identity that logs in.
    pub(super) fn key(&self) -> Key {
        self.key.clone()
    }

    /// The key of the token that is printed.
    pub(super) fn token_key(&self) -> Key {
        self.key().with("kept", if self.access_token { "access token" } else { "id token" })
    }

    /// The key of the refresh token.
    pub(super) fn refresh_key(&self) -> Key {
        self.key().with("kept", "refresh token")
    }
}

fn check(
    grant: Grant,
    redirect: Option<&str>,
    auth: &ClientAuth,
    trust: &Trust,
) -> Result<(), Refusal> {
    if grant == Grant::PastedCode && redirect.is_none() {
        return Err(Refusal::BadConfig(
            "`--grant-type=authcode-keyboard` needs `--oidc-redirect-url`, the address at which the \
             provider shows the code"
                .into(),
        ));
    }
    if grant == Grant::ClientCredentials
        && matches!(auth, ClientAuth::Public)
        && trust.identity.is_none()
    {
        return Err(Refusal::BadConfig(
            "`--grant-type=client-credentials` needs `--client-secret-file`, `--client-key`, \
             `--client-assertion-file` or `--client-certificate`"
                .into(),
        ));
    }
    Ok(())
}

/// A list as one text that does not depend on its order.
fn sorted(mut items: Vec<String>) -> String {
    items.sort_unstable();
    items.join("\n")
}

fn trust_digest(trust: &Trust) -> String {
    let mut parts: Vec<String> = trust.authorities.iter().map(|der| hex(der)).collect();
    if let Some((chain, _)) = &trust.identity {
        parts.extend(chain.iter().map(|der| format!("identity {}", hex(der))));
    }
    if trust.danger_any {
        parts.push("any certificate".into());
    }
    sorted(parts)
}

/// A digest as text.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().fold(String::with_capacity(64), |text, byte| format!("{text}{byte:02x}"))
}
