//! Requests for tokens, and how their answers are read.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, header};
use jiff::{SignedDuration, Timestamp};
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, text::inline, url::Url};
use serde_json::Value;

use super::{Google, Token, info::Info};
pub(super) use crate::http::shown;
use crate::{
    http::{Http, form, require_https},
    link::is_local,
};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// What a server may recover from at once.
const PASSING: [u16; 6] = [408, 429, 500, 502, 503, 504];

/// The token endpoints of Google: for people and service accounts, and for tokens of others.
pub(super) const TOKEN: &str = "https://oauth2.googleapis.com/token";
pub(super) const STS: &str = "https://sts.googleapis.com/v1/token";

/// The domain of Google's services.
const GOOGLE: &str = "googleapis.com";

/// The body of a request.
pub(super) enum Body<'b> {
    Form(&'b [(&'b str, &'b str)]),
    Json(&'b Value),
}

impl Google<'_> {
    /// Checks an address in a file before a secret leaves for it: https, or this machine. Warns if it is not one
    /// of Google's, because whoever wrote the file chose where the secret goes.
    pub(super) fn check_address(&self, info: &Info, name: &str, url: &str) -> Result<(), Refusal> {
        require_https(url, &format!("`{name}` in `{info}`"))?;
        let host = Url::parse(url).ok().and_then(|url| url.host().map(str::to_ascii_lowercase));
        let host = host.unwrap_or_default();
        let within = |domain: &str| host == domain || host.ends_with(&format!(".{domain}"));
        // The variable is not in the file, so that it says something about the file.
        let universe = self.call.var("GOOGLE_CLOUD_UNIVERSE_DOMAIN");
        if !(within(GOOGLE) || universe.is_some_and(|domain| within(&domain)) || is_local(&host)) {
            self.call.warn(&format!(
                "`{name}` in `{info}` is not an address of Google: the credentials go to `{}`",
                inline(&host)
            ));
        }
        Ok(())
    }

    /// Sends a request for a token, and reads the token in the answer.
    pub(super) fn fetch(
        &self,
        url: &str,
        authorization: Option<&str>,
        body: &Body<'_>,
    ) -> Result<Token, Refusal> {
        let answer = post(&self.http, url, authorization, body)?;
        read_token(url, &answer, self.call.clock.now())
    }

    /// Sends a request for something else, and returns the body of the answer.
    pub(super) fn ask(&self, url: &str, request: Request<Vec<u8>>) -> Result<Vec<u8>, Refusal> {
        let answer = self.http.call(request).map_err(Refusal::failed)?;
        match answer.status().as_u16() {
            200 => Ok(answer.into_body()),
            status => Err(refused(url, status, answer.body())),
        }
    }
}

/// Sends a request for a token, at most twice, and reads the answer as JSON.
pub(super) fn post(
    http: &Http,
    url: &str,
    authorization: Option<&str>,
    body: &Body<'_>,
) -> Result<Value, Refusal> {
    let (content, body) = match body {
        Body::Form(pairs) => (FORM, form(pairs).into_bytes()),
        Body::Json(value) => (JSON, value.to_string().into_bytes()),
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let mut request = Request::post(url).header(header::CONTENT_TYPE, content);
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.body(body.clone()).map_err(|_| {
            Refusal::BadConfig(format!("`{}` is no address of a server", shown(url)))
        })?;
        match http.call(request) {
            Ok(answer) if answer.status() == 200 => {
                return serde_json::from_slice(answer.body()).map_err(|_| {
                    Refusal::Failed(format!("what `{}` answered is no JSON", shown(url)))
                });
            }
            Ok(answer) if tries > 1 || !PASSING.contains(&answer.status().as_u16()) => {
                return Err(refused(url, answer.status().as_u16(), answer.body()));
            }
            Err(error) if tries > 1 => return Err(Refusal::failed(error)),
            _ => {}
        }
    }
}

/// The value of `Authorization` for a client with a secret.
pub(super) fn basic(client: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{client}:{secret}")))
}

/// The token in an answer with `access_token` and `expires_in`.
pub(super) fn read_token(url: &str, answer: &Value, now: Timestamp) -> Result<Token, Refusal> {
    let failed = |why: &str| Refusal::Failed(format!("`{}` answered without {why}", shown(url)));
    let text = answer.get("access_token").and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty()).ok_or_else(|| failed("a token"))?;
    let seconds = match answer.get("expires_in") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.parse::<i64>().map_err(|_| failed("a lifetime"))?),
        Some(number) => Some(number.as_i64().ok_or_else(|| failed("a lifetime"))?),
    };
    if seconds.is_some_and(|seconds| seconds <= 0) {
        return Err(failed("a token that is still valid"));
    }
    let end = seconds.and_then(|s| now.checked_add(SignedDuration::from_secs(s)).ok());
    Ok(Token { text: Secret::new(text), end })
}

/// What a server says about a request that it refuses. Its texts name accounts, never secrets.
pub(super) fn refused(url: &str, status: u16, body: &[u8]) -> Refusal {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(inline).unwrap_or_default();
    // OAuth's form, and that of Google's other services.
    let (code, detail) = match &answer["error"] {
        Value::Object(_) => (text(&answer["error"]["status"]), text(&answer["error"]["message"])),
        error => (text(error), text(&answer["error_description"])),
    };
    let mut message = format!("`{}` refuses (status {status})", shown(url));
    for part in [code.as_str(), detail.as_str()] {
        if !part.is_empty() {
            message = format!("{message}: {part}");
        }
    }
    if code == "invalid_grant" {
        message.push_str(
            "\n\nhint: the login has expired or was revoked: run `gcloud auth application-default login`; for a key \
             of a service account, create a new one, and check this machine's clock",
        );
    }
    match status {
        400 | 401 | 403 => Refusal::NotAllowed(message),
        _ => Refusal::Failed(message),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    #[test]
    fn pitfall_35_an_answer_without_a_usable_token_is_an_error_and_expires_in_counts() {
        let now = Timestamp::from_second(1000).unwrap();
        for (bad, why) in [
            (json!({}), "a token"),
            (json!({ "access_token": "" }), "a token"),
            (json!({ "access_token": 1 }), "a token"),
            (json!({ "access_token": "s3cr3t", "expires_in": "soon" }), "a lifetime"),
            (json!({ "access_token": "s3cr3t", "expires_in": 0 }), "still valid"),
            (json!({ "access_token": "s3cr3t", "expires_in": -5 }), "still valid"),
        ] {
            let error = read_token("https://a.example/t?k=s3cr3t", &bad, now).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(why) && !error.contains("s3cr3t"), "{error}");
        }
        for expires in [json!(60), json!("60")] {
            let answer = json!({ "access_token": "t", "expires_in": expires });
            let token = read_token("https://a.example", &answer, now).unwrap();
            assert_eq!(token.end.unwrap().as_second(), 1060);
        }
    }

    #[test]
    fn refusals_show_what_the_server_says_in_both_of_its_forms() {
        let text = |body: &str| refused("https://a.example/t", 400, body.as_bytes()).to_string();
        let oauth = text(r#"{"error":"invalid_grant","error_description":"Bad Request"}"#);
        assert!(oauth.contains("(status 400): invalid_grant: Bad Request"), "{oauth}");
        assert!(oauth.contains("gcloud auth application-default login"), "{oauth}");
        let other = text(r#"{"error":{"code":403,"status":"PERMISSION_DENIED","message":"no"}}"#);
        assert!(other.ends_with("PERMISSION_DENIED: no"), "{other}");
        assert_eq!(text("<html>"), "`https://a.example/t` refuses (status 400)");
    }
}
