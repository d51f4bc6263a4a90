//! Logins of people: the session of `keyward-oidc`, with endpoints that are known.

use keyward_plugin::Refusal;
use openidconnect::url::Url;

use super::login::{Login, Method};
use crate::{
    Call,
    client_auth::ClientAuth,
    flags::{Flags, wrong_value},
    oidc::{Endpoints, Grant, Keep, PERSON, Settings},
    reader::Reader,
};

/// The settings of a session that brings the access token.
pub(super) fn settings(call: &Call, flags: &Flags, login: &Login) -> Result<Settings, Refusal> {
    let reader = Reader { call, flags };
    let (authority, client) = (login.authority()?, login.client()?.to_owned());
    let grant = match login.method {
        Method::DeviceCode => Grant::Device,
        Method::Password => Grant::Password,
        _ => Grant::Code,
    };
    let mut extra = Vec::new();
    if grant == Grant::Code {
        // Browsers know several accounts; the person chooses one.
        extra.push(("prompt".to_owned(), "select_account".to_owned()));
        extra.extend(login.hint.clone().map(|hint| ("login_hint".to_owned(), hint)));
    }
    let port = login.redirect.as_deref().map(port).transpose()?;
    Ok(Settings {
        issuer: format!("{}{}/v2.0", authority.host, authority.tenant),
        client,
        auth: ClientAuth::Public,
        scopes: vec![login.scope.clone(), "offline_access".into(), "profile".into()],
        access_token: true,
        headers: Vec::new(),
        extra,
        grant,
        // Entra ID has no PKCE for device codes.
        pkce: grant == Grant::Code,
        redirect: login.redirect.clone(),
        // It ignores the port of `http://localhost` (RFC 8252).
        listen: vec![format!("localhost:{}", port.unwrap_or(0))],
        skip_browser: flags.is_set("skip-open-browser"),
        browser: reader.text("browser-command"),
        person: reader.person(PERSON)?,
        listener: None,
        landing: None,
        username: login.username.clone(),
        password: login.password.clone(),
        force_refresh: false,
        keep: Keep::Agent,
        endpoints: Some(Endpoints {
            authorization: authority.endpoint("authorize"),
            token: authority.endpoint("token"),
            device: authority.endpoint("devicecode"),
        }),
        key: login.key("person"),
    })
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
