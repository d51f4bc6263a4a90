//! Keys of service accounts: an assertion, signed with the key, brings a token.

use jiff::Timestamp;
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{Secret, text::inline};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::json;

use super::{
    Google, Token,
    info::Info,
    oauth::{Body, TOKEN, post, read_token},
};
use crate::{
    client_auth::SigningKey,
    http::{Http, Trust, require_https},
};

/// How long an assertion is valid, in seconds. Google's libraries ask for as much.
const LIFETIME: i64 = 3600;

impl Google<'_> {
    /// The key of a service account (RFC 7523). The assertion is for the token endpoint of the file alone.
    pub(super) fn service_account(&self, info: &Info, scopes: &[String]) -> Result<Token, Refusal> {
        let url = info.text("token_uri").unwrap_or(TOKEN);
        self.check_address(info, "token_uri", url)?;
        let now = self.call.clock.now().as_second();
        let claims = json!({
            "iss": info.required("client_email")?, "scope": scopes.join(" "), "aud": url,
            "iat": now, "exp": now + LIFETIME,
        });
        let assertion = sign(info, &claims)?;
        let body = [
            ("assertion", assertion.as_str()),
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ];
        self.fetch(url, None, &Body::Form(&body))
    }

    /// A token that the key of a service account signs itself.
    pub(super) fn self_signed_token(&self, info: &Info) -> Result<Token, Refusal> {
        let who = info.required("client_email")?;
        let now = self.call.clock.now();
        let end = now.as_second() + LIFETIME;
        let claims = json!({
            "iss": who, "sub": who, "scope": self.scopes.join(" "), "iat": now.as_second(), "exp": end,
        });
        let text = Secret::new(sign(info, &claims)?);
        Ok(Token { text, end: Timestamp::from_second(end).ok() })
    }

    /// The key of a service identity of Google Distributed Cloud, whose servers are the organization's own.
    pub(super) fn gdch(&self, info: &Info) -> Result<Token, Refusal> {
        let audience = self.audience.as_deref().ok_or_else(|| {
            info.bad("a token of Google Distributed Cloud is for one API: name it with `--gdch-audience`")
        })?;
        if info.required("format_version")? != "1" {
            return Err(info.bad("`format_version` is not `1`"));
        }
        let url = info.required("token_uri")?;
        require_https(url, &format!("`token_uri` in `{info}`"))?;
        let who = format!(
            "system:serviceaccount:{}:{}",
            info.required("project")?,
            info.required("name")?
        );
        let now = self.call.clock.now().as_second();
        let claims =
            json!({ "iss": who, "sub": who, "aud": url, "iat": now, "exp": now + LIFETIME });
        let body = json!({
            "grant_type": "urn:ietf:params:oauth:token-type:token-exchange",
            "audience": audience,
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "subject_token": sign(info, &claims)?,
            "subject_token_type": "urn:k8s:params:oauth:token-type:serviceaccount",
        });
        let own = match info.text("ca_cert_path") {
            None => None,
            Some(path) => Some(self.http_with(info, path)?),
        };
        let http = own.as_ref().unwrap_or(&self.http);
        let answer = post(http, url, None, &Body::Json(&body))?;
        read_token(url, &answer, self.call.clock.now())
    }

    /// A client that also trusts the authorities in a file.
    fn http_with(&self, info: &Info, path: &str) -> Result<Http, Refusal> {
        let bad = |why: &str| info.bad(&format!("`ca_cert_path`, `{}`: {why}", inline(path)));
        let path = self.call.surroundings.absolute(path.as_ref());
        let pem = file::read(&path, &Limits::NAMED.at_most(1 << 20))
            .map_err(|error| bad(&file::reason(&error)))?;
        let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let authorities = authorities.map_err(|_| bad("it has no certificates in PEM"))?;
        let trust = Trust { authorities, ..Trust::default() };
        Ok(Http::new(self.call, trust))
    }
}

/// Claims, signed with the key of a file.
fn sign(info: &Info, claims: &serde_json::Value) -> Result<String, Refusal> {
    let id = info.text("private_key_id").map(str::to_owned);
    let key = SigningKey::from_pem(info.required("private_key")?.as_bytes(), id);
    let key = key.map_err(|why| info.bad(&format!("`private_key`: {why}")))?;
    key.sign_claims(claims).map_err(|why| info.bad(&format!("`private_key`: {why}")))
}
