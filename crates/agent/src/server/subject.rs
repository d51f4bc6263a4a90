//! Finds out whom a credential belongs to, for people.

use keyward_host::Credential;
use keyward_protocol::{jwt::Claims, text, x509::Certificate};

/// The subject of a JWT or a certificate. It is not verified, only shown and compared with the
/// previous one.
pub(super) fn of(credential: &Credential) -> Option<String> {
    match (credential.token(), credential.pair()) {
        (Some(token), _) => of_token(token.expose()),
        (None, Some(pair)) => of_certificate(pair.chain.first()?),
        (None, None) => None,
    }
}

fn of_token(token: &str) -> Option<String> {
    let claims = Claims::read(token)?;
    let claim = |name: &str| claims.text(name).map(text::inline);
    let subject = claim("sub")?;
    Some(match claim("iss") {
        Some(issuer) => format!("{subject} ({issuer})"),
        None => subject,
    })
}

fn of_certificate(der: &[u8]) -> Option<String> {
    let subject = Certificate::parse(der)?.subject;
    let organizations: Vec<_> = subject.organizations().collect();
    let name = text::inline(subject.common_name().unwrap_or_default());
    Some(match organizations.as_slice() {
        [] => name,
        some => format!("{name} ({})", text::inline(&some.join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    #[test]
    fn a_token_tells_its_subject_and_issuer_if_it_is_a_jwt() {
        let token = |claims: &str| format!("x.{}.y", URL_SAFE_NO_PAD.encode(claims));
        let both = token(r#"{"sub":"ann","iss":"https://idp"}"#);
        assert_eq!(of_token(&both).as_deref(), Some("ann (https://idp)"));
        assert_eq!(of_token(&token(r#"{"sub":"ann"}"#)).as_deref(), Some("ann"));
        for other in ["k8s-aws-v1.abc", "opaque", "a.b.c", &token("[]"), "a.b.c.d"] {
            assert_eq!(of_token(other), None, "{other}");
        }
    }
}
