//! The `oidc` auth-provider: an id-token, refreshed in memory. The kubeconfig is never rewritten.
//!
//! This crate speaks no HTTP: an [`OidcExchange`] does, and is given with the settings of a plan.

mod renew;

use std::{fmt, path::PathBuf, sync::Mutex, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use keyward_process::{
    file::{self, Limits},
    lock,
    surroundings::Surroundings,
};
use keyward_protocol::{Node, Secret, jwt, node::Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

pub(crate) use self::renew::Renewer;
use crate::{Error, Kind, error::inline, kubeconfig::AuthProvider, redact};

/// How long before its end a token counts as expired, as in the reference: clocks differ.
const MARGIN: Duration = Duration::from_secs(10);

/// What forms escape.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Talks HTTP for the `oidc` auth-provider. Called on a thread that may block.
pub trait OidcExchange: Send + Sync + 'static {
    /// Sends a request, a `GET` or with a `form` a `POST`, and returns the status code and the whole
    /// body, whatever the status. Redirects of a `GET` are followed. The text of a failure must not
    /// contain anything of the form.
    ///
    /// `authorities` are certificate authorities in PEM, or the system's; `form` is a body of the type
    /// `application/x-www-form-urlencoded`; `basic` is the user name and password of basic auth, as
    /// the header has them.
    fn exchange(
        &self,
        url: &str,
        authorities: Option<&[u8]>,
        form: Option<&Secret>,
        basic: Option<&Secret>,
    ) -> Result<(u16, Zeroizing<Vec<u8>>), String>;
}

/// What an identity provider answered: status code and body.
type Reply = (u16, Zeroizing<Vec<u8>>);

/// The auth-provider's configuration, with the tokens as they are now.
pub(crate) struct Oidc {
    issuer: String,
    client_id: String,
    client_secret: Secret,
    authority: Authority,
    tokens: Mutex<Tokens>,
}

#[derive(Clone)]
enum Authority {
    System,
    File(PathBuf),
    Pem(Vec<u8>),
}

#[derive(Clone)]
struct Tokens {
    id: Option<Secret>,
    refresh: Option<Secret>,
}

/// An id-token and until when it counts as valid.
pub(crate) struct IdToken {
    pub(crate) token: Secret,
    pub(crate) expires: Timestamp,
}

impl Oidc {
    /// Fails when what every use needs is missing.
    pub(crate) fn new(provider: &AuthProvider, surroundings: &Surroundings) -> Result<Self, Error> {
        let said = |key: &str| {
            provider
                .config
                .iter()
                .rev()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value.clone())
                .filter(|value| !value.is_empty())
        };
        let needed = |key: &str| {
            said(key).map(|value| value.expose().to_owned()).ok_or_else(|| {
                Error::new(Kind::BadConfig, format!("the `oidc` auth-provider needs `{key}`"))
            })
        };
        let authority =
            match (said("idp-certificate-authority-data"), said("idp-certificate-authority")) {
                (Some(data), _) => {
                    Authority::Pem(STANDARD.decode(data.expose().trim()).map_err(|_| {
                        Error::new(
                            Kind::BadConfig,
                            "`idp-certificate-authority-data` is not base64",
                        )
                    })?)
                }
                (None, Some(file)) => {
                    Authority::File(surroundings.absolute(file.expose().as_ref()))
                }
                (None, None) => Authority::System,
            };
        Ok(Self {
            issuer: needed("idp-issuer-url")?,
            client_id: needed("client-id")?,
            client_secret: said("client-secret").unwrap_or_default(),
            authority,
            tokens: Mutex::new(Tokens { id: said("id-token"), refresh: said("refresh-token") }),
        })
    }

    /// The id-token while it is valid, else a new one. With `renew` a valid one is not good enough,
    /// if there is a way to a newer one.
    pub(crate) fn token(
        &self,
        exchange: Option<&dyn OidcExchange>,
        now: Timestamp,
        renew: bool,
    ) -> Result<IdToken, Error> {
        // Held over the exchange on purpose: a refresh token may be good for one use only.
        let mut tokens = lock(&self.tokens);
        let valid = match &tokens.id {
            None => None,
            Some(id) => Some(IdToken { expires: expiry(id)?, token: id.clone() })
                .filter(|id| now < id.expires),
        };
        match (valid, &tokens.refresh) {
            (Some(id), None) => Ok(id),
            (Some(id), Some(_)) if !renew => Ok(id),
            (None, None) => Err(Error::new(
                Kind::Failed,
                "the id-token has expired, and there is no refresh-token to get another",
            )
            .with_hint("log in again with the tool that wrote the kubeconfig")),
            (_, Some(refresh)) => {
                let exchange = exchange.ok_or_else(|| {
                    Error::new(
                        Kind::Failed,
                        "the id-token has expired, and this program cannot refresh it",
                    )
                })?;
                let new = self.refresh(exchange, refresh)?;
                let id = new.id.clone().unwrap_or_default();
                let expires = expiry(&id)?;
                *tokens = new;
                Ok(IdToken { token: id, expires })
            }
        }
    }

    fn refresh(&self, exchange: &dyn OidcExchange, refresh: &Secret) -> Result<Tokens, Error> {
        let authorities = match &self.authority {
            Authority::System => None,
            Authority::Pem(pem) => Some(pem.clone().into()),
            Authority::File(file) => Some(file::read(file, &Limits::NAMED).map_err(|error| {
                Error::new(
                    Kind::BadConfig,
                    format!("cannot read `idp-certificate-authority` `{}`", file.display()),
                )
                .because(error)
            })?),
        };
        let send = |url: &str, form: Option<&Secret>, basic: Option<&Secret>| {
            let authorities = authorities.as_ref().map(|pem| pem.as_slice());
            exchange.exchange(url, authorities, form, basic).map_err(|why| {
                self.failed("the identity provider cannot be reached").note("because", inline(&why))
            })
        };
        let endpoint = self.endpoint(&send(&self.discovery(), None, None)?)?;

        // Some providers want the client in a header, some in the form; the standard prefers the
        // header, and so do we, as the reference does.
        let grant = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        let basic = form_pair(&self.client_id, ":", self.client_secret.expose());
        let (mut status, mut body) = send(&endpoint, Some(&form(&grant)), Some(&basic))?;
        if status / 100 != 2 {
            let mut whole = grant.to_vec();
            whole.push(("client_id", &self.client_id));
            if !self.client_secret.is_empty() {
                whole.push(("client_secret", self.client_secret.expose()));
            }
            (status, body) = send(&endpoint, Some(&form(&whole)), None)?;
        }
        if status / 100 != 2 {
            return Err(self
                .failed("the identity provider refused to refresh the id-token")
                .note("answer", format!("status {status}{}", reason(&body)))
                .with_hint("log in again with the tool that wrote the kubeconfig"));
        }
        let answer = self.object(&body)?;
        let text = |key| {
            let text = answer.get(key).and_then(Node::as_text).filter(|text| !text.is_empty());
            text.map(Secret::new)
        };
        let Some(id) = text("id_token") else {
            return Err(self
                .failed("the identity provider answered without an `id_token`")
                .with_hint(
                    "log in again with the scope `openid`; some providers never refresh id-tokens",
                ));
        };
        let refresh = text("refresh_token").unwrap_or_else(|| refresh.clone());
        redact::remember(&refresh, None);
        Ok(Tokens { id: Some(id), refresh: Some(refresh) })
    }

    fn discovery(&self) -> String {
        format!(
            "{}/.well-known/openid-configuration",
            self.issuer.strip_suffix('/').unwrap_or(&self.issuer)
        )
    }

    fn endpoint(&self, (status, body): &Reply) -> Result<String, Error> {
        if *status != 200 {
            return Err(self
                .failed("the identity provider does not describe itself")
                .note("answer", format!("status {status}")));
        }
        match self.object(body)?.get("token_endpoint").and_then(Node::as_text) {
            // The refresh token goes there.
            Some(url) if is_https(&self.issuer) && !is_https(url) => {
                Err(self.failed("the identity provider names a `token_endpoint` without TLS"))
            }
            Some(url) if !url.is_empty() => Ok(url.to_owned()),
            _ => Err(self.failed("the identity provider names no `token_endpoint`")),
        }
    }

    fn object(&self, body: &[u8]) -> Result<Node, Error> {
        Node::from_json(body).map_err(|error| {
            self.failed("the identity provider's answer is not JSON")
                .note("place", format!("line {}, column {}", error.line, error.column))
        })
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(Kind::Failed, what).note("issuer", format!("`{}`", inline(&self.issuer)))
    }
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// The end of an id-token, less the margin. A token that does not say it has ended long ago.
fn expiry(token: &Secret) -> Result<Timestamp, Error> {
    let wrong = || Error::new(Kind::BadConfig, "the id-token is not a JWT");
    let claims = jwt::payload(token.expose()).ok_or_else(wrong)?;
    let seconds = match claims.get("exp").map(|node| &node.value) {
        None | Some(Value::Null) => 0,
        Some(Value::Number(number)) => jwt::seconds(number).ok_or_else(wrong)?,
        Some(_) => return Err(wrong()),
    };
    let margin = i64::try_from(MARGIN.as_secs()).unwrap_or(0);
    Timestamp::from_second(seconds.saturating_sub(margin)).map_err(|_| wrong())
}

/// `error` of an OAuth error answer, a word of a known kind; never its description.
fn reason(body: &[u8]) -> String {
    let Ok(answer) = Node::from_json(body) else {
        return String::new();
    };
    match answer.get("error").and_then(Node::as_text) {
        Some(word)
            if word.len() < 64 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_') =>
        {
            format!(", `{word}`")
        }
        _ => String::new(),
    }
}

fn form(fields: &[(&str, &str)]) -> Secret {
    let mut out =
        String::with_capacity(fields.iter().map(|(k, v)| k.len() + 3 * v.len() + 2).sum());
    for (name, value) in fields {
        if !out.is_empty() {
            out.push('&');
        }
        push_coded(&mut out, name);
        out.push('=');
        push_coded(&mut out, value);
    }
    Secret::new(out)
}

fn form_pair(first: &str, between: &str, second: &str) -> Secret {
    let mut out = String::with_capacity(3 * (first.len() + second.len()) + between.len());
    push_coded(&mut out, first);
    out.push_str(between);
    push_coded(&mut out, second);
    Secret::new(out)
}

/// Adds a text as forms spell it: a space is a plus sign.
fn push_coded(out: &mut String, text: &str) {
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            out.push('+');
        }
        out.extend(utf8_percent_encode(word, FORM));
    }
}

impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oidc").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
