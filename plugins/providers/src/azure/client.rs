//! Tokens for clients of Entra ID that prove who they are: with a secret, or with an assertion.

use keyward_plugin::Refusal;
use keyward_protocol::{Secret, jwt::Claims, text::inline};

use super::{Authority, Azure, Token, post, reason};
use crate::client_auth;

/// How a client proves who it is.
#[derive(Debug)]
pub(crate) enum Proof {
    /// With a secret.
    Secret(Secret),
    /// With a JWT that its certificate signed, or that an issuer gave which the client trusts.
    Assertion(Secret),
}

impl Azure<'_> {
    /// A token for the client itself, told as one that `what` has brought.
    pub(crate) fn token_by(
        &self,
        what: &str,
        authority: &Authority,
        client: &str,
        scope: &str,
        proof: &Proof,
    ) -> Result<Token, Refusal> {
        let token = self.client_token(authority, client, scope, proof)?;
        self.call.used(what, format!("a token for the client `{}`", inline(client)));
        Ok(token)
    }

    /// A token for the client itself.
    pub(crate) fn client_token(
        &self,
        authority: &Authority,
        client: &str,
        scope: &str,
        proof: &Proof,
    ) -> Result<Token, Refusal> {
        let endpoint = authority.endpoint("token");
        let mut fields =
            vec![("grant_type", "client_credentials"), ("client_id", client), ("scope", scope)];
        match proof {
            Proof::Secret(secret) => fields.push(("client_secret", secret.expose())),
            Proof::Assertion(assertion) => fields.extend([
                ("client_assertion_type", client_auth::KIND),
                ("client_assertion", assertion.expose()),
            ]),
        }
        let what = format!("the client `{}` gets no token", inline(client));
        let response = self.send(&what, post(&endpoint, &fields)?)?;
        let status = response.status().as_u16();
        let answer = serde_json::from_slice(response.body()).unwrap_or_default();
        if let (200, Some(token)) = (status, Token::read(&answer, self.call.clock.now())) {
            return Ok(token);
        }
        let why = reason(status, response.body());
        let text = format!("{what} from `{}`: {why}{}", inline(&endpoint), hint(&why, proof));
        Err(if (400..404).contains(&status) {
            Refusal::NotAllowed(text)
        } else {
            Refusal::Failed(text)
        })
    }
}

/// What to do about a refusal of Entra ID.
fn hint(why: &str, proof: &Proof) -> String {
    let has = |codes: &[&str]| codes.iter().any(|code| why.contains(&format!("AADSTS{code}:")));
    if has(&["7000215", "7000222"]) {
        return "\n\nhint: the client's secret is wrong or has expired; `az ad app credential reset` \
                makes a new one"
            .into();
    }
    if has(&["700016", "90002"]) {
        return "\n\nhint: check `--client-id` and `--tenant-id`: the tenant does not know the client, or \
                does not exist"
            .into();
    }
    if has(&["700027"]) {
        return "\n\nhint: upload the certificate to the application: `az ad app credential reset --cert`"
            .into();
    }
    if has(&["70021", "700211", "700212", "700213"])
        && let Proof::Assertion(assertion) = proof
        && let Some(claims) = Claims::read(assertion.expose())
    {
        // None of these is secret; without the signature they are worth nothing.
        let text = |name: &str| inline(claims.text(name).unwrap_or_default());
        return format!(
            "\n\nhint: the application or identity needs a federated credential with the issuer `{}`, the \
             subject `{}` and the audience `{}`: `az identity federated-credential create`",
            text("iss"),
            text("sub"),
            inline(&claims.audience().join(" "))
        );
    }
    String::new()
}
