//! The exchange: a registry gives a login for a token of Entra ID.

use http::{Request, header::WWW_AUTHENTICATE};
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, image::Login, text::inline};
use serde_json::Value;

use super::USER;
use crate::azure::{Azure, Token, no_address, post, reason};

/// The login of a registry for a token. The token goes to this host and no other.
pub(super) fn login(azure: &Azure<'_>, host: &str, token: &Token) -> Result<Login, Refusal> {
    let service = challenge(azure, host)?;
    let fields = [
        ("grant_type", "access_token"),
        ("service", &service),
        ("access_token", token.text.expose()),
    ];
    let what = format!("the registry `{}` gives no login", inline(host));
    let response = azure.send(&what, post(&format!("https://{host}/oauth2/exchange"), &fields)?)?;
    let status = response.status().as_u16();
    let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let password =
        answer.get("refresh_token").and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(password) = password.filter(|_| status == 200) {
        return Ok(Login { username: USER.to_owned(), password: Secret::new(password) });
    }
    let text = format!("{what}: {}", reason(status, response.body()));
    Err(if matches!(status, 400..404) {
        Refusal::NotAllowed(format!(
            "{text}\n\nhint: give the identity the role `AcrPull` for the registry: `az role assignment create`"
        ))
    } else {
        Refusal::Failed(text)
    })
}

/// Asks the registry how it wants to be asked: the name of its service. Its token endpoint has to be on the same host.
fn challenge(azure: &Azure<'_>, host: &str) -> Result<String, Refusal> {
    let address = format!("https://{host}/v2/");
    let what = format!("the registry `{}` cannot be asked", inline(host));
    let request = Request::get(&address).body(Vec::new()).map_err(|_| no_address(&address))?;
    let response = azure.send(&what, request)?;
    let failed = |why: String| Refusal::Failed(format!("{what}: {why}"));
    if response.status() != 401 {
        let status = response.status().as_u16();
        return Err(failed(format!("it answers with status {status} and not with a challenge")));
    }
    let headers = response.headers().get_all(WWW_AUTHENTICATE);
    let mut challenges = headers.iter().filter_map(|value| bearer(value.to_str().ok()?));
    let (Some(challenge), None) = (challenges.next(), challenges.next()) else {
        return Err(failed("it has no challenge for bearer tokens, or several".into()));
    };
    let value = |name: &str| {
        challenge.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    let (Some(realm), Some(service)) = (value("realm"), value("service")) else {
        return Err(failed("its challenge lacks `realm` or `service`".into()));
    };
    let uri: Option<http::Uri> = realm.parse().ok();
    let same = uri.is_some_and(|uri| {
        uri.scheme_str() == Some("https")
            && uri.authority().is_some_and(|there| there.as_str().eq_ignore_ascii_case(host))
    });
    if !same {
        return Err(Refusal::NotAllowed(format!(
            "{what}: it sends tokens to `{}`, which is another host; none is sent",
            inline(realm)
        )));
    }
    azure.call.note("registry", format!("`{}`", inline(host)));
    Ok(service.to_owned())
}

/// The parameters of a challenge for bearer tokens; `None` if it is another one or cannot be read.
fn bearer(text: &str) -> Option<Vec<(String, String)>> {
    let (scheme, mut rest) = text.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parameters = Vec::new();
    while !rest.trim().is_empty() {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted_value(quoted)?,
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        parameters.push((name.trim().to_ascii_lowercase(), value));
        let next = next.trim_start();
        rest = if next.is_empty() { next } else { next.strip_prefix(',')? };
    }
    Some(parameters)
}

/// The text up to the next quote that no backslash precedes, and what comes after it.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[place + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_with_and_without_quotes() {
        let read = |text: &str| {
            let parameters = bearer(text)?;
            Some(
                parameters
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect::<Vec<_>>(),
            )
        };
        let expected = Some(vec!["realm=https://a/b".to_owned(), "service=a".to_owned()]);
        for text in [
            r#"Bearer realm="https://a/b",service="a""#,
            r#"bearer Realm = "https://a/b" , service = a"#,
            r#"Bearer realm=https://a/b, service="\a""#,
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read(r#"Bearer scope="a,b=c""#), Some(vec!["scope=a,b=c".to_owned()]));
        for text in
            ["Bearer", "Basic realm=a", r#"Bearer realm="a"#, r#"Bearer realm="a" b"#, "Bearer a"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
