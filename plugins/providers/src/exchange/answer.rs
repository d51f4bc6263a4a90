//! What comes of an exchange: a login, read from an answer in JSON.

use http::Response;
use jiff::{SignedDuration, Timestamp};
use keyward_plugin::Refusal;
use keyward_protocol::{
    Secret, duration,
    jwt::Claims,
    text::inline,
    time::{format_rfc3339, parse_rfc3339},
};
use serde_json::{Value, json};

use crate::http::shown;

/// The most of a server's own words in a message.
const LONGEST: usize = 300;

/// A login for a registry, or a token for a cluster.
#[derive(Debug, Clone)]
pub(super) struct Login {
    /// The user name, if the answer has one.
    pub(super) user: Option<String>,
    pub(super) password: Secret,
    /// When it ends, if the answer says so.
    pub(super) ends: Option<Timestamp>,
}

/// Where the answer has what is wanted, as JSON pointers (RFC 6901).
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) expiry: Option<String>,
}

impl Login {
    /// When it ends: at the earliest time that is known, also of the password itself if it is a JSON Web Token. If
    /// nothing is known, it is used for `lifetime`.
    pub(super) fn end(
        &self,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<Timestamp, Refusal> {
        let own = Claims::read(self.password.expose()).and_then(|claims| claims.time("exp"));
        let end = self.ends.into_iter().chain(own).min();
        let end = end.unwrap_or_else(|| now.saturating_add(lifetime).unwrap_or(Timestamp::MAX));
        if end <= now {
            return Err(Refusal::Failed(format!(
                "the result of the exchange expired at {}, before it arrived",
                format_rfc3339(end)
            )));
        }
        Ok(end)
    }

    /// The form that the agent keeps.
    pub(super) fn to_secret(&self) -> Secret {
        let end = self.ends.map(Timestamp::as_second);
        let json = json!({ "user": self.user, "password": self.password.expose(), "end": end });
        Secret::new(json.to_string())
    }

    /// Reads what the agent kept; `None` if another version wrote it.
    pub(super) fn from_secret(secret: &Secret) -> Option<Self> {
        let json: Value = serde_json::from_slice(secret.expose_bytes()).ok()?;
        Some(Self {
            user: json.get("user")?.as_str().map(str::to_owned),
            password: Secret::new(json.get("password")?.as_str()?),
            ends: Some(Timestamp::from_second(json.get("end")?.as_i64()?).ok()?),
        })
    }
}

/// An answer in JSON, and whose it is.
pub(super) struct Answer<'a> {
    pub(super) server: &'a str,
    pub(super) json: Value,
}

impl<'a> Answer<'a> {
    /// Reads an answer, or the reason why there is none. `sent` are secrets that a server may repeat.
    pub(super) fn read(
        server: &'a str,
        response: &Response<Vec<u8>>,
        sent: &[&Secret],
    ) -> Result<Self, Refusal> {
        let json = serde_json::from_slice::<Value>(response.body());
        let status = response.status();
        if status.is_success() {
            return match json {
                Ok(json @ Value::Object(_)) => Ok(Self { server, json }),
                _ => Err(Refusal::Failed(format!(
                    "the answer of `{}` is not a JSON object",
                    shown(server)
                ))),
            };
        }
        let words = json.ok().and_then(|json| words(&json, sent));
        let words = words.map_or(String::new(), |words| format!(": {words}"));
        let why = format!("`{}` answered {status}{words}", shown(server));
        Err(match status.as_u16() {
            300..=399 => Refusal::Failed(format!("{why}\n\nhint: redirects are not followed")),
            400 | 401 | 403 => Refusal::NotAllowed(why),
            404 | 405 => Refusal::BadConfig(why),
            _ => Refusal::Failed(why),
        })
    }

    /// A text that has to be there.
    pub(super) fn text(&self, place: &str) -> Result<&str, Refusal> {
        self.text_if(place).ok_or_else(|| self.lacks("text", place))
    }

    /// A text, unless it is missing or empty.
    pub(super) fn text_if(&self, place: &str) -> Option<&str> {
        self.json.pointer(place)?.as_str().filter(|text| !text.is_empty())
    }

    /// When something ends: a lifetime or a time in seconds, a time in milliseconds, or a text with one of these, a
    /// time (RFC 3339) or a duration (`1h30m`).
    pub(super) fn end(&self, place: &str, now: Timestamp) -> Result<Timestamp, Refusal> {
        let value = self.json.pointer(place);
        let end = match value {
            Some(Value::Number(number)) => number.as_f64().and_then(|n| from_number(n, now)),
            Some(Value::String(text)) => from_text(text, now),
            _ => None,
        };
        end.ok_or_else(|| self.lacks("time", place))
    }

    fn lacks(&self, what: &str, place: &str) -> Refusal {
        let (server, place) = (shown(self.server), inline(place));
        Refusal::Failed(format!("the answer of `{server}` has no {what} at `{place}`"))
    }
}

/// From here on, a number is a time and not a lifetime: nothing lives for 30 years.
const FIRST_TIME: f64 = 1e9;
/// From here on, it is in milliseconds.
const FIRST_MILLISECOND: f64 = 1e11;

#[expect(clippy::cast_possible_truncation, reason = "a number out of range saturates")]
fn from_number(number: f64, now: Timestamp) -> Option<Timestamp> {
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    if number >= FIRST_MILLISECOND {
        return Timestamp::from_millisecond(number as i64).ok();
    }
    if number >= FIRST_TIME {
        return Timestamp::from_second(number as i64).ok();
    }
    now.checked_add(SignedDuration::from_secs(number as i64)).ok()
}

fn from_text(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(number) = text.parse::<f64>() {
        return from_number(number, now);
    }
    parse_rfc3339(text).or_else(|| {
        let nanos = duration::parse(text).filter(|nanos| *nanos > 0)?;
        now.checked_add(SignedDuration::from_nanos(nanos)).ok()
    })
}

/// The server's own words: OAuth's `error` and `error_description`, Vault's `errors`, or a `message`.
fn words(json: &Value, sent: &[&Secret]) -> Option<String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let named = [text(json.get("error")), text(json.get("error_description"))];
    let named: Vec<String> = named.into_iter().flatten().collect();
    let listed = json.get("errors").and_then(Value::as_array).map(|errors| {
        let texts =
            errors.iter().map(|error| text(Some(error)).or_else(|| text(error.get("message"))));
        texts.flatten().collect::<Vec<String>>().join("; ")
    });
    let words = if named.is_empty() { listed } else { Some(named.join(": ")) };
    let mut words = words.or_else(|| text(json.get("message")))?;
    for secret in sent.iter().filter(|secret| !secret.is_empty()) {
        words = words.replace(secret.expose(), "[hidden]");
    }
    let words: String = inline(&words).chars().take(LONGEST).collect();
    (!words.is_empty()).then_some(words)
}
