//! The JWT login of OpenBao and Vault, and the secret that it opens.

use http::{Request, header};
use jiff::{SignedDuration, Timestamp};
use keyward_plugin::Refusal;
use keyward_protocol::Secret;
use serde_json::{Value, json};

use super::{
    answer::{Answer, Login},
    method::Exchange,
    template::Template,
};

/// A login with a JSON Web Token.
pub(super) struct JwtLogin {
    /// The server, without a path of its API.
    pub(super) url: String,
    /// Where the server has the authentication method.
    pub(super) mount: String,
    pub(super) role: Option<Template>,
    pub(super) namespace: Option<String>,
    /// The secret with the login; without one, the server's own token is the login.
    pub(super) read: Option<Template>,
}

impl JwtLogin {
    pub(super) fn names_image(&self) -> bool {
        [&self.role, &self.read].into_iter().flatten().any(Template::names_image)
    }

    pub(super) fn login(&self, exchange: &Exchange<'_>) -> Result<Login, Refusal> {
        let Exchange { facts, places, .. } = *exchange;
        // Before anything is sent: the whole configuration is known to be good.
        let path = self.read.as_ref().map(|read| read.fill_path(facts)).transpose()?;
        let role = self.role.as_ref().map(|role| role.fill(facts)).transpose()?;
        let mut body = json!({ "jwt": facts.token.expose() });
        if let Some(role) = role {
            body["role"] = role.into();
        }
        let url = format!("{}/v1/auth/{}/login", self.url, self.mount);
        let request = self.with_headers(Request::post(&url));
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(Refusal::failed)?;
        let answer = exchange.ask(&url, request, &[facts.token])?;
        let now = exchange.call.clock.now();
        let token = Secret::new(answer.text("/auth/client_token")?);
        let ends = lease(&answer.json, "/auth/lease_duration", now);
        let Some(path) = path else {
            return Ok(Login { user: exchange.user(&answer)?, password: token, ends });
        };
        let read = self.read(exchange, &path, &token)?;
        // What a token has leased ends with it.
        let leased = read.text_if("/lease_id").is_some();
        let own = if leased { lease(&read.json, "/lease_duration", now) } else { None };
        let told = exchange.end(&read, now)?;
        let data = if is_versioned(&read.json) { "/data/data" } else { "/data" };
        let password = places.password.clone().unwrap_or_else(|| format!("{data}/password"));
        let user = match &places.username {
            Some(_) => exchange.user(&read)?,
            None => read.text_if(&format!("{data}/username")).map(str::to_owned),
        };
        Ok(Login {
            user,
            password: Secret::new(read.text(&password)?),
            ends: [ends, own, told].into_iter().flatten().min(),
        })
    }

    fn read<'a>(
        &'a self,
        exchange: &Exchange<'_>,
        path: &str,
        token: &Secret,
    ) -> Result<Answer<'a>, Refusal> {
        let url = format!("{}/v1/{path}", self.url);
        let mut value = header::HeaderValue::from_str(token.expose())
            .map_err(|_| Refusal::failed("the server's token cannot be in a header"))?;
        value.set_sensitive(true);
        let request = self.with_headers(Request::get(&url)).header("X-Vault-Token", value);
        let request = request.body(Vec::new()).map_err(Refusal::failed)?;
        let answer = exchange.ask(&url, request, &[token])?;
        Ok(Answer { server: &self.url, json: answer.json })
    }

    fn with_headers(&self, request: http::request::Builder) -> http::request::Builder {
        let request =
            request.header(header::ACCEPT, "application/json").header("X-Vault-Request", "true");
        match &self.namespace {
            Some(namespace) => request.header("X-Vault-Namespace", namespace),
            None => request,
        }
    }
}

/// The end of a lease. Zero is one without an end.
fn lease(json: &Value, place: &str, now: Timestamp) -> Option<Timestamp> {
    let seconds = json.pointer(place)?.as_i64().filter(|seconds| *seconds > 0)?;
    now.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether an answer comes from the second version of the key-value store, which has the secret one level deeper.
fn is_versioned(json: &Value) -> bool {
    let is_object = |place| json.pointer(place).is_some_and(Value::is_object);
    is_object("/data/data") && is_object("/data/metadata")
}
