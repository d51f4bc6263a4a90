use std::{fmt, time::Duration};

use jiff::Timestamp;
use keyward_protocol::{
    Secret, Url,
    image::{CacheKey, Login, ProposalResponse, Response, token_expiry},
    time::format_rfc3339,
};

use super::ImageQuestion;
use crate::{Refusal, credential::expiry};

/// The logins that an image credential provider returns: for which images, and for how long.
///
/// ```
/// use std::time::Duration;
/// use keyward_plugin::Logins;
///
/// let logins = Logins::for_registry("jane", "s3cr3t").expires_in(Duration::from_secs(3600));
/// assert!(!format!("{logins:?}").contains("s3cr3t"));
/// ```
///
/// Answers are cached for less than the credential lasts: a tenth of the remaining time is subtracted, at
/// least ten seconds and at most five minutes. If a password is a JSON Web Token, no answer is cached
/// beyond its expiry, whatever else is set.
#[derive(Clone)]
pub struct Logins {
    key: CacheKey,
    /// Patterns; `None` is the image, or the registry, of the question. Logins; `None` is anonymous.
    auth: Vec<(Option<String>, Option<Login>)>,
    kept: Kept,
}

#[derive(Clone, Copy)]
enum Kept {
    /// The node's configuration decides.
    Default,
    For(Duration),
    Until(Timestamp),
}

impl Logins {
    /// A login for the image of the question and no other.
    pub fn for_image(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::one(CacheKey::Image, None, username, password)
    }

    /// A login for all images of the registry of the question. The usual case: one run of the
    /// provider then serves every image that a node pulls from there.
    pub fn for_registry(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::one(CacheKey::Registry, None, username, password)
    }

    /// Logins that do not depend on the question: this one for the registries that `pattern` matches
    /// (`*.registry.example:5000/team`), and those that [`Logins::and`] adds. One run of the provider
    /// then serves all images, so the answer must contain every login.
    pub fn everywhere(
        pattern: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        Self::one(CacheKey::Global, Some(pattern.into()), username, password)
    }

    /// No logins for this image. The answer is not cached, unless [`Logins::kept_for`] is set.
    pub fn none() -> Self {
        Self { key: CacheKey::Image, auth: Vec::new(), kept: Kept::For(Duration::ZERO) }
    }

    /// Adds a login for the registries and paths that `pattern` matches.
    #[must_use]
    pub fn and(
        mut self,
        pattern: impl Into<String>,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.auth.push((Some(pattern.into()), Some(login(username, password))));
        self
    }

    /// Lets images that `pattern` matches be pulled without a login, too.
    ///
    /// A kubelet that got a login from a provider does not pull anonymously any more. With this entry, it does
    /// so when no login works, for public images in registries that also have private ones:
    ///
    /// ```
    /// use keyward_plugin::Logins;
    ///
    /// let logins = Logins::for_registry("jane", "s3cr3t").and_anonymous("*.azurecr.*");
    /// ```
    #[must_use]
    pub fn and_anonymous(mut self, pattern: impl Into<String>) -> Self {
        self.auth.push((Some(pattern.into()), None));
        self
    }

    /// Whether there is no login at all, not even an anonymous one.
    pub fn is_empty(&self) -> bool {
        self.auth.is_empty()
    }

    /// Sets when the credential expires. Set the real expiry: the margin is subtracted here.
    #[must_use]
    pub fn expires_at(mut self, end: Timestamp) -> Self {
        self.kept = Kept::Until(end);
        self
    }

    /// Sets how long the answer may be cached, by a lifetime that begins now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
    pub fn expires_in(self, lifetime: Duration) -> Self {
        self.expires_at(expiry(Timestamp::now(), lifetime))
    }

    /// Sets how long the answer may be cached, for credentials without an expiry, such as those in a file
    /// that may change. Zero means not at all. Without this and without an expiry the node's
    /// configuration decides.
    #[must_use]
    pub fn kept_for(mut self, time: Duration) -> Self {
        self.kept = Kept::For(time);
        self
    }

    fn one(
        key: CacheKey,
        pattern: Option<String>,
        username: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        Self { key, auth: vec![(pattern, Some(login(username, password)))], kept: Kept::Default }
    }

    /// The answer in the version and form of the question, or why it would be invalid.
    pub(crate) fn answer(
        self,
        question: &ImageQuestion,
        now: Timestamp,
    ) -> Result<Secret, Refusal> {
        let duration = self.duration(now)?;
        let own = match self.key {
            CacheKey::Registry => question.registry(),
            _ => question.image(),
        };
        let auth: Vec<(String, Option<Login>)> = self
            .auth
            .into_iter()
            .map(|(pattern, login)| (pattern.unwrap_or_else(|| own.to_owned()), login))
            .collect();
        check(&self.key, &auth, question)?;
        let Some(version) = question.version() else {
            return proposal(auth, duration, question, now);
        };
        let nanos = duration.map(|d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
        let auth =
            auth.into_iter().map(|(pattern, login)| (pattern, login.unwrap_or_default())).collect();
        Ok(Response { key: self.key, duration: nanos, auth }.to_json(version))
    }

    /// How long the answer may be cached; `None` leaves it to the configuration.
    fn duration(&self, now: Timestamp) -> Result<Option<Duration>, Refusal> {
        let (set, kept_for) = match self.kept {
            Kept::Default => (None, None),
            Kept::For(time) => (None, Some(time)),
            Kept::Until(end) => (Some(end), None),
        };
        let logins = self.auth.iter().filter_map(|(_, login)| login.as_ref());
        let passwords = logins.map(|login| login.password.expose());
        let own = passwords.filter_map(token_expiry).min();
        let own = own.map(|end| Timestamp::from_second(end).unwrap_or(Timestamp::MAX));
        let Some(end) = set.into_iter().chain(own).min() else { return Ok(kept_for) };
        if end <= now {
            return Err(Refusal::Failed(format!(
                "the credential expired at {}",
                format_rfc3339(end)
            )));
        }
        let rest = Duration::try_from(end.duration_since(now)).unwrap_or_default();
        let rest = with_margin(rest);
        Ok(Some(kept_for.map_or(rest, |time| time.min(rest))))
    }
}

/// The margin before the expiry: clocks differ, and a pull takes time.
fn with_margin(rest: Duration) -> Duration {
    const LEAST: Duration = Duration::from_secs(10);
    const MOST: Duration = Duration::from_secs(300);
    let rest = rest.saturating_sub((rest / 10).clamp(LEAST, MOST));
    Duration::from_secs(rest.as_secs())
}

fn login(username: impl Into<String>, password: impl Into<String>) -> Login {
    Login { username: username.into(), password: Secret::new(password) }
}

/// Checks the logins: those that no registry could use are not printed.
fn check(
    key: &CacheKey,
    auth: &[(String, Option<Login>)],
    question: &ImageQuestion,
) -> Result<(), Refusal> {
    for (number, (pattern, login)) in auth.iter().enumerate() {
        if let Some(login) = login {
            check_login(login)?;
        }
        let host = match Url::parse(&format!("https://{pattern}")) {
            Ok(url) if !url.authority().is_empty() && !pattern.contains("://") => {
                url.authority().to_vec()
            }
            _ => {
                return Err(Refusal::Failed(format!(
                    "`{pattern}` is not a registry pattern: use the form `host[:port][/path]`"
                )));
            }
        };
        if auth[..number].iter().any(|(earlier, _)| earlier == pattern) {
            return Err(Refusal::Failed(format!("there are two logins for `{pattern}`")));
        }
        let elsewhere = !host.contains(&b'*') && host != question.registry().as_bytes();
        if *key != CacheKey::Global && elsewhere {
            return Err(Refusal::Failed(format!(
                "a login for `{pattern}` is of no use in an answer that is cached for `{}` only; \
                 `Logins::everywhere` makes one for all",
                question.registry()
            )));
        }
    }
    if let ([(pattern, _)], CacheKey::Registry) = (auth, key)
        && pattern.contains('/')
    {
        return Err(Refusal::Failed(format!(
            "an answer for a whole registry has a login for only `{pattern}`"
        )));
    }
    Ok(())
}

fn check_login(login: &Login) -> Result<(), Refusal> {
    if login.username.is_empty() {
        return Err(Refusal::failed("the user name is empty"));
    }
    if login.username.contains(|c: char| c == ':' || c.is_control()) {
        return Err(Refusal::failed(
            "the user name has a colon or a control character, which cannot be sent to a registry",
        ));
    }
    if login.password.is_empty() {
        return Err(Refusal::failed("the password is empty"));
    }
    Ok(())
}

/// The original proposal has room for one login: the first, which is the question's own.
fn proposal(
    auth: Vec<(String, Option<Login>)>,
    duration: Option<Duration>,
    question: &ImageQuestion,
    now: Timestamp,
) -> Result<Secret, Refusal> {
    let Some(login) = auth.into_iter().find_map(|(_, login)| login) else {
        return Err(Refusal::NotAllowed(format!("there is no login for `{}`", question.image())));
    };
    let kept = duration.filter(|time| !time.is_zero());
    Ok(ProposalResponse { login, expires: kept.map(|time| expiry(now, time)) }.to_json())
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins")
            .field("key", &self.key)
            .field("count", &self.auth.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn question(form: &str) -> ImageQuestion {
        let head = match form {
            "" => String::new(),
            version => format!(
                r#""kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/{version}","#
            ),
        };
        ImageQuestion::from_bytes(format!("{{{head}\"image\":\"r.io:5000/team/app\"}}").as_bytes())
            .unwrap()
    }

    fn printed(logins: Logins, form: &str) -> Result<Value, String> {
        let answer = logins.answer(&question(form), NOW).map_err(|refusal| refusal.to_string())?;
        Ok(serde_json::from_str(answer.expose()).unwrap())
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn token(exp: u64) -> String {
        let claims = URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}"));
        format!("e30.{claims}.c2ln")
    }

    #[test]
    fn each_kind_of_answer_has_its_key_and_its_pattern() {
        for (logins, key, pattern) in [
            (Logins::for_image("u", "p"), "Image", "r.io:5000/team/app"),
            (Logins::for_registry("u", "p"), "Registry", "r.io:5000"),
            (Logins::everywhere("*.io:5000", "u", "p"), "Global", "*.io:5000"),
        ] {
            let answer = printed(logins, "v1").unwrap();
            assert_eq!(answer["cacheKeyType"], key);
            assert_eq!(answer["auth"], json!({ pattern: {"username": "u", "password": "p"} }));
            assert!(answer.get("cacheDuration").is_none(), "{answer}");
        }
        let none = printed(Logins::none(), "v1").unwrap();
        assert_eq!((&none["auth"], &none["cacheDuration"]), (&json!({}), &json!("0s")));
    }

    #[test]
    fn the_duration_is_the_rest_of_the_credentials_life_less_a_margin() {
        for (rest, kept) in
            [(5, "0s"), (60, "50s"), (600, "9m0s"), (3600, "55m0s"), (43_200, "11h55m0s")]
        {
            let logins = Logins::for_registry("u", "p").expires_at(expiry(NOW, seconds(rest)));
            assert_eq!(printed(logins, "v1").unwrap()["cacheDuration"], kept, "{rest}");
        }
    }

    #[test]
    fn a_token_is_not_kept_past_its_own_end() {
        let kept = |logins: Logins| printed(logins, "v1").unwrap()["cacheDuration"].clone();
        let logins = || Logins::for_registry("u", token(600));
        assert_eq!(kept(logins()), "9m0s");
        assert_eq!(kept(logins().kept_for(seconds(3600))), "9m0s");
        assert_eq!(kept(logins().kept_for(seconds(60))), "1m0s");
        assert_eq!(kept(logins().expires_at(expiry(NOW, seconds(9999)))), "9m0s");
        let dead = printed(Logins::for_registry("u", token(0)), "v1").unwrap_err();
        assert_eq!(dead, "the credential expired at 1970-01-01T00:00:00Z");
    }

    #[test]
    fn every_form_is_answered_in_itself() {
        let logins = || Logins::for_registry("u", "p").expires_at(expiry(NOW, seconds(600)));
        for version in ["v1alpha1", "v1beta1", "v1"] {
            let answer = printed(logins(), version).unwrap();
            let full = format!("credentialprovider.kubelet.k8s.io/{version}");
            assert_eq!(answer["apiVersion"], json!(full));
        }
        let answer = printed(logins(), "").unwrap();
        assert_eq!((&answer["username"], &answer["password"]), (&json!("u"), &json!("p")));
        assert_eq!(answer["expirationTimestamp"], "1970-01-01T00:09:00Z");
        let answer = printed(Logins::for_registry("u", "p"), "").unwrap();
        assert!(answer.get("expirationTimestamp").is_none());
        assert!(printed(Logins::none(), "").unwrap_err().contains("there is no login"));
    }

    #[test]
    fn an_anonymous_entry_is_empty_and_beside_the_login() {
        let logins = || Logins::for_registry("u", "p").and_anonymous("*.io:5000");
        let empty = json!({"username": "", "password": ""});
        let expected =
            json!({"r.io:5000": {"username": "u", "password": "p"}, "*.io:5000": empty.clone()});
        assert_eq!(printed(logins(), "v1").unwrap()["auth"], expected);
        let alone = printed(Logins::none().and_anonymous("*.io:5000"), "v1").unwrap();
        assert_eq!(alone["auth"], json!({"*.io:5000": empty}));
        // The original proposal has no such thing.
        assert_eq!(printed(logins(), "").unwrap()["username"], "u");
        let refused = printed(Logins::none().and_anonymous("*.io:5000"), "").unwrap_err();
        assert!(refused.contains("there is no login"), "{refused}");
        let twice = logins().and_anonymous("r.io:5000");
        assert!(printed(twice, "v1").unwrap_err().contains("two logins"));
    }

    #[test]
    fn logins_that_no_registry_could_use_are_rejected() {
        let registry = || Logins::for_registry("u", "p");
        for (logins, why) in [
            (Logins::for_image("", "p"), "user name is empty"),
            (Logins::for_image("a:b", "p"), "colon"),
            (Logins::for_image("u", ""), "password is empty"),
            (registry().expires_at(NOW), "expired at"),
            (registry().and("r.io:5000", "u", "p"), "two logins"),
            (registry().and("s.io", "u", "p"), "of no use"),
            (Logins::everywhere("https://r.io", "u", "p"), "not a registry pattern"),
            (Logins::everywhere("a b", "u", "p"), "not a registry pattern"),
        ] {
            let refusal = printed(logins, "v1").unwrap_err();
            assert!(refusal.contains(why), "`{refusal}` does not say `{why}`");
        }
    }
}
