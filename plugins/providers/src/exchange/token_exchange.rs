//! OAuth 2.0 Token Exchange (RFC 8693).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Request, header};
use jiff::Timestamp;
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, text::inline};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    answer::{Answer, Login},
    method::Exchange,
    template::{Facts, Template},
};
use crate::{
    client_auth::{self, ClientAuth},
    http::shown,
};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const TYPES: &str = "urn:ietf:params:oauth:token-type:";

/// What forms leave as it is.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');

/// A request to a token endpoint.
pub(super) struct TokenExchange {
    pub(super) url: String,
    pub(super) client: Option<String>,
    pub(super) auth: ClientAuth,
    pub(super) subject_type: String,
    pub(super) requested_type: Option<String>,
    /// Audiences, resources, scopes and parameters that a flag names.
    pub(super) parameters: Vec<(String, Template)>,
}

/// The name of a kind of tokens: that of RFC 8693, or its last word (`jwt`, `id_token`, `access_token`).
pub(super) fn token_type(text: &str) -> String {
    if text.contains(':') { text.to_owned() } else { format!("{TYPES}{text}") }
}

impl TokenExchange {
    pub(super) fn names_image(&self) -> bool {
        self.parameters.iter().any(|(_, value)| value.names_image())
    }

    pub(super) fn login(&self, exchange: &Exchange<'_>) -> Result<Login, Refusal> {
        let Exchange { call, facts, places, .. } = *exchange;
        let request = self.request(call.clock.now(), facts)?;
        let mut sent = vec![facts.token];
        if let ClientAuth::Secret(secret) = &self.auth {
            sent.push(secret);
        }
        let answer = exchange.ask(&self.url, request, &sent)?;
        self.check(&answer)?;
        let expiry = places.expiry.as_deref().unwrap_or("/expires_in");
        let stated = places.expiry.is_some() || answer.json.get("expires_in").is_some();
        Ok(Login {
            user: exchange.user(&answer)?,
            password: Secret::new(
                answer.text(places.password.as_deref().unwrap_or("/access_token"))?,
            ),
            ends: if stated { Some(answer.end(expiry, call.clock.now())?) } else { None },
        })
    }

    fn request(&self, now: Timestamp, facts: &Facts<'_>) -> Result<Request<Vec<u8>>, Refusal> {
        let mut form = vec![
            ("grant_type".to_owned(), GRANT.to_owned()),
            ("subject_token".to_owned(), facts.token.expose().to_owned()),
            ("subject_token_type".to_owned(), self.subject_type.clone()),
        ];
        if let Some(kind) = &self.requested_type {
            form.push(("requested_token_type".to_owned(), kind.clone()));
        }
        let mut scopes = Vec::new();
        for (name, value) in &self.parameters {
            if name == "scope" {
                scopes.push(value.fill_scope(facts)?);
            } else {
                form.push((name.clone(), value.fill(facts)?));
            }
        }
        if !scopes.is_empty() {
            form.push(("scope".to_owned(), scopes.join(" ")));
        }
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json");
        let client = self.client.clone().unwrap_or_default();
        if let ClientAuth::Secret(secret) = &self.auth {
            request = request.header(header::AUTHORIZATION, basic(&client, secret)?);
        } else if !client.is_empty() {
            form.push(("client_id".to_owned(), client.clone()));
        }
        let assertion = self.auth.assertion(&client, &self.url, now);
        if let Some(assertion) = assertion.map_err(Refusal::Failed)? {
            form.push(("client_assertion_type".to_owned(), client_auth::KIND.to_owned()));
            form.push(("client_assertion".to_owned(), assertion.expose().to_owned()));
        }
        let form: Vec<String> = form
            .iter()
            .map(|(name, value)| format!("{}={}", escaped(name), escaped(value)))
            .collect();
        request.body(form.join("&").into_bytes()).map_err(Refusal::failed)
    }

    /// Whether the answer is what was asked for, and can be used without a key of its own.
    fn check(&self, answer: &Answer<'_>) -> Result<(), Refusal> {
        let kind = answer.text_if("/token_type").unwrap_or("Bearer");
        if !["bearer", "n_a"].contains(&kind.to_ascii_lowercase().as_str()) {
            return Err(Refusal::Failed(format!(
                "`{}` issued a token of the type `{}`, which is of no use without its key",
                shown(&self.url),
                inline(kind)
            )));
        }
        let issued = answer.text_if("/issued_token_type");
        match (&self.requested_type, issued) {
            (Some(wanted), Some(issued)) if wanted != issued => Err(Refusal::Failed(format!(
                "`{}` was asked for `{}` and issued `{}`",
                shown(&self.url),
                inline(wanted),
                inline(issued)
            ))),
            _ => Ok(()),
        }
    }
}

/// The client's name and secret in a header, both escaped as in a form (RFC 6749, 2.3.1).
fn basic(client: &str, secret: &Secret) -> Result<HeaderValue, Refusal> {
    let pair = format!("{}:{}", escaped(client), escaped(secret.expose()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)))
        .map_err(Refusal::failed)?;
    value.set_sensitive(true);
    Ok(value)
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, FORM).to_string()
}
