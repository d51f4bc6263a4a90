//! The claims of a JSON Web Token. Nothing is verified.

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use jiff::Timestamp;
use zeroize::Zeroizing;

use crate::{Node, node::Value};

/// base64url as Go's `RawURLEncoding` reads it: no padding, stray last bits ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The claims of a token.
///
/// ```
/// # use keyward_protocol::jwt::Claims;
/// let claims = Claims::read("e30.eyJzdWIiOiJhbm4iLCJleHAiOjYwfQ.c2ln").unwrap();
/// assert_eq!(claims.text("sub"), Some("ann"));
/// assert_eq!(claims.time("exp").unwrap().as_second(), 60);
/// ```
pub struct Claims(Node);

impl Claims {
    /// Reads a token; `None` if it is not a JWT.
    pub fn read(token: &str) -> Option<Self> {
        payload(token).filter(|claims| matches!(claims.value, Value::Map(_))).map(Self)
    }

    /// A claim that is a text, such as `iss` or `sub`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_text()
    }

    /// The audiences: one text, or a list of them.
    pub fn audience(&self) -> Vec<&str> {
        let Some(audience) = self.0.get("aud") else { return Vec::new() };
        match &audience.value {
            Value::List(items) => items.iter().filter_map(Node::as_text).collect(),
            _ => audience.as_text().into_iter().collect(),
        }
    }

    /// A claim that is a time, such as `exp`, in whole seconds.
    pub fn time(&self, name: &str) -> Option<Timestamp> {
        let Value::Number(number) = &self.0.get(name)?.value else { return None };
        Timestamp::from_second(seconds(number)?).ok()
    }
}

/// What a token says, which should be claims but may be any JSON; `None` if it is not a JWT.
pub fn payload(token: &str) -> Option<Node> {
    let parts: Vec<&str> = token.split('.').collect();
    let [_, payload, _] = parts[..] else { return None };
    Node::from_json(&Zeroizing::new(LENIENT.decode(payload).ok()?)).ok()
}

/// A number of JSON as whole seconds: fractions are cut off, and a number out of range saturates.
#[expect(clippy::cast_possible_truncation, reason = "a float out of range saturates")]
pub fn seconds(number: &str) -> Option<i64> {
    number.parse().ok().or_else(|| number.parse::<f64>().ok().map(|float| float as i64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn an_audience_is_a_text_or_a_list() {
        let audience = |claims: &str| {
            let claims = Claims::read(&token(claims)).unwrap();
            claims.audience().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(audience(r#"{"aud":"a"}"#), ["a"]);
        assert_eq!(audience(r#"{"aud":["a",7,"b"]}"#), ["a", "b"]);
        assert!(audience("{}").is_empty());
    }

    #[test]
    fn a_time_may_have_a_fraction() {
        let claims = Claims::read(&token(r#"{"exp":1.5e3,"nbf":"soon"}"#)).unwrap();
        assert_eq!(claims.time("exp").unwrap().as_second(), 1500);
        assert_eq!(claims.time("nbf"), None);
    }

    #[test]
    fn other_tokens_have_no_claims() {
        for other in ["k8s-aws-v1.abc", "opaque", "a.b.c", &token("[]"), "a.b.c.d", ""] {
            assert!(Claims::read(other).is_none(), "{other}");
        }
    }
}
