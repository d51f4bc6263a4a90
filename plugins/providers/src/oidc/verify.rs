//! Checks ID tokens, and says who they are for and how long.

use chrono::{DateTime, Utc};
use jiff::{SignedDuration, Timestamp};
use keyward_plugin::Refusal;
use keyward_protocol::{jwt::Claims, text::inline, time::format_rfc3339};
use openidconnect::{
    AccessToken, AccessTokenHash, ClaimsVerificationError, ClientId, Nonce,
    OAuth2TokenResponse as _, SignatureVerificationError, TokenResponse as _,
    core::{
        CoreIdToken, CoreIdTokenVerifier, CoreJsonWebKeySet, CoreJwsSigningAlgorithm as Algorithm,
        CoreTokenResponse,
    },
};

use super::{kept::Token, provider::Provider};

/// How far the clocks of this machine and of the provider may be apart.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// How long before its end a token is no longer handed out.
pub(super) const MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// How long an access token of unknown lifetime is used. Without an end, clients would use it for ever.
const UNKNOWN: SignedDuration = SignedDuration::from_mins(5);

/// A difference of clocks that people should hear of.
const WORTH_SAYING: SignedDuration = SignedDuration::from_secs(30);

/// The signatures that are accepted: those with a key pair. With the others, everybody who knows the client's
/// secret could sign, or nobody has to.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RsaSsaPkcs1V15Sha256,
    Algorithm::RsaSsaPkcs1V15Sha384,
    Algorithm::RsaSsaPkcs1V15Sha512,
    Algorithm::RsaSsaPssSha256,
    Algorithm::RsaSsaPssSha384,
    Algorithm::RsaSsaPssSha512,
    Algorithm::EcdsaP256Sha256,
    Algorithm::EcdsaP384Sha384,
    Algorithm::EdDsa,
];

/// What the ID token has to say besides what all have to.
pub(super) enum Expect<'a> {
    /// The nonce of a login page.
    Nonce(&'a Nonce),
    /// The person that a refresh token belongs to; empty if it is not known.
    Subject(&'a str),
    /// Nothing: the answer came straight from the token endpoint.
    Anything,
}

/// What a login brings: the token to print, and the answer it came in.
pub(super) type Login = (Token, CoreTokenResponse);

// Checks of a token endpoint's answers.
impl Provider<'_> {
    /// The token to print, with its answer. Fails if the ID token is wanted and there is none.
    pub(super) fn login(
        &self,
        response: CoreTokenResponse,
        expect: &Expect<'_>,
    ) -> Result<Login, Refusal> {
        match self.pick(&response, expect)? {
            Some(token) => Ok((token, response)),
            None => Err(Refusal::Failed(format!(
                "`{}` gave no ID token\n\n\
                 hint: allow the client the scope `openid`, or print the access token with `--oidc-use-access-token`",
                inline(&self.settings.issuer)
            ))),
        }
    }

    /// The token to print. `None` if it should be the ID token and there is none.
    pub(super) fn pick(
        &self,
        response: &CoreTokenResponse,
        expect: &Expect<'_>,
    ) -> Result<Option<Token>, Refusal> {
        if self.settings.endpoints.is_some() {
            return self.entra(response, expect).map(Some);
        }
        let id_token = response.id_token();
        let checked = id_token.map(|token| self.check(token, response.access_token(), expect));
        let checked = checked.transpose()?;
        if !self.settings.access_token {
            return Ok(checked);
        }
        let access = self.access(response);
        Ok(Some(match checked {
            Some(Token { who, subject, .. }) => Token { who, subject, ..access },
            None => access,
        }))
    }

    /// The access token of Entra ID. The ID token came straight from its token endpoint, which its certificate
    /// proves, so the signature adds nothing (OpenID Connect Core, 3.1.3.7); what ties it to this login is compared.
    fn entra(&self, response: &CoreTokenResponse, expect: &Expect<'_>) -> Result<Token, Refusal> {
        let access = self.access(response);
        let id_token = response.id_token().map(ToString::to_string);
        let Some(claims) = id_token.as_deref().and_then(Claims::read) else {
            return match expect {
                Expect::Anything | Expect::Subject("") => Ok(access),
                // Nothing else ties the answer to this login.
                Expect::Nonce(_) | Expect::Subject(_) => {
                    Err(self.invalid("there is none that can be read"))
                }
            };
        };
        if claims.audience() != [self.settings.client.as_str()] {
            return Err(self.invalid("it is for another client"));
        }
        let subject = claims.text("sub").unwrap_or_default();
        match expect {
            Expect::Nonce(nonce) if claims.text("nonce") != Some(nonce.secret()) => {
                return Err(self.invalid("its nonce is not the one that was sent"));
            }
            Expect::Subject(known) if !known.is_empty() && *known != subject => {
                return Err(self.invalid("after a refresh it is for another person"));
            }
            _ => {}
        }
        Ok(Token { who: who(&claims), subject: subject.to_owned(), ..access })
    }

    /// The access token. It is the API server's to check; a client takes it as it comes.
    pub(super) fn access(&self, response: &CoreTokenResponse) -> Token {
        let now = self.call.clock.now();
        let text = response.access_token().secret();
        let claims = Claims::read(text);
        let stated = response.expires_in().and_then(|life| now.checked_add(life).ok());
        let end = claims.as_ref().and_then(|claims| claims.time("exp")).or(stated);
        let end = end.unwrap_or_else(|| now.checked_add(UNKNOWN).unwrap_or(now));
        let who = claims.as_ref().map(who).unwrap_or_default();
        let subject = claims.as_ref().and_then(|claims| claims.text("sub")).unwrap_or_default();
        Token::new(text.clone(), end, who, subject)
    }

    fn check(
        &self,
        token: &CoreIdToken,
        access: &AccessToken,
        expect: &Expect<'_>,
    ) -> Result<Token, Refusal> {
        let mut checked = self.claims(token, self.keys(), expect);
        if let Err(ClaimsVerificationError::SignatureVerification(
            SignatureVerificationError::NoMatchingKey,
        )) = checked
            && let Some(keys) = self.read_keys_again()
        {
            checked = self.claims(token, &keys, expect);
        }
        checked.map_err(|error| self.invalid(&reason(&error)))?;
        let text = token.to_string();
        let claims = Claims::read(&text).ok_or_else(|| self.invalid("it is no JWT"))?;
        let now = self.call.clock.now();
        if let Some(start) = claims.time("nbf")
            && start > now + LEEWAY
        {
            return Err(self.invalid(&format!("it is valid from {} on", format_rfc3339(start))));
        }
        let subject = claims.text("sub").unwrap_or_default().to_owned();
        if let Expect::Subject(known) = expect
            && !known.is_empty()
            && *known != subject
        {
            return Err(self.invalid("after a refresh it is for another person"));
        }
        self.check_access_token(token, access)?;
        let end = claims.time("exp").ok_or_else(|| self.invalid("it has no end"))?;
        Ok(Token::new(text.clone(), end, who(&claims), &subject))
    }

    fn claims(
        &self,
        token: &CoreIdToken,
        keys: &CoreJsonWebKeySet,
        expect: &Expect<'_>,
    ) -> Result<(), ClaimsVerificationError> {
        let client = ClientId::new(self.settings.client.clone());
        let now = self.call.clock.now();
        let latest = chrono(now + LEEWAY);
        let verifier =
            CoreIdTokenVerifier::new_public_client(client, self.issuer.clone(), keys.clone())
                .set_allowed_algs(ALGORITHMS)
                // A token may be meant for the API server, too.
                .set_other_audience_verifier_fn(|_| true)
                .set_time_fn(move || chrono(now))
                .set_issue_time_verifier_fn(move |issued| {
                    if issued <= latest {
                        Ok(())
                    } else {
                        Err(format!("it was issued in the future, at {issued}"))
                    }
                });
        match expect {
            Expect::Nonce(nonce) => token.claims(&verifier, *nonce).map(drop),
            Expect::Subject(_) | Expect::Anything => {
                token.claims(&verifier, |_: Option<&Nonce>| Ok(())).map(drop)
            }
        }
    }

    /// Checks that the access token is the one that came with the ID token, where that says so.
    fn check_access_token(&self, token: &CoreIdToken, access: &AccessToken) -> Result<(), Refusal> {
        let text = token.to_string();
        let stated =
            Claims::read(&text).and_then(|claims| claims.text("at_hash").map(str::to_owned));
        let (Some(stated), true) = (stated, self.settings.access_token) else { return Ok(()) };
        let hash = token.signing_alg().ok().and_then(|algorithm| {
            let verifier = self.client.id_token_verifier();
            let key = token.signing_key(&verifier).ok()?;
            AccessTokenHash::from_token(access, algorithm, key).ok()
        });
        match hash {
            Some(hash) if hash.as_str() != stated => {
                Err(self.invalid("its `at_hash` belongs to another access token"))
            }
            _ => Ok(()),
        }
    }

    /// The refusal of an ID token, with what the clocks have to do with it.
    fn invalid(&self, why: &str) -> Refusal {
        let issuer = inline(&self.settings.issuer);
        let clocks = clocks(self.http.skew());
        Refusal::Failed(format!("the ID token of `{issuer}` is not valid: {}{clocks}", inline(why)))
    }
}

/// A hint about clocks, if they differ.
fn clocks(skew: SignedDuration) -> String {
    if skew.abs() < WORTH_SAYING {
        return String::new();
    }
    let direction = if skew.is_positive() { "ahead of" } else { "behind" };
    format!(
        "\n\nhint: this machine's clock is {} s {direction} the provider's; set it right",
        skew.abs().as_secs()
    )
}

/// A name for the person of a token.
fn who(claims: &Claims) -> String {
    let names = ["email", "preferred_username", "upn", "name", "sub", "client_id", "azp"];
    names.into_iter().find_map(|name| claims.text(name)).unwrap_or("an unnamed person").to_owned()
}

fn chrono(time: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp(time.as_second(), 0).unwrap_or_default()
}

fn reason(error: &ClaimsVerificationError) -> String {
    match error {
        ClaimsVerificationError::SignatureVerification(cause) => format!("its signature: {cause}"),
        ClaimsVerificationError::Expired(why) => format!("it has expired: {why}"),
        other => other.to_string(),
    }
}
