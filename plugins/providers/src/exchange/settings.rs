//! An exchange, fully described: what the flags ask for, checked.

use http::{HeaderName, HeaderValue};
use jiff::SignedDuration;
use keyward_plugin::Refusal;
use keyward_protocol::{duration, text::inline};

use super::{
    answer::Places,
    flags::{COMMON, OF_EXCHANGE, OF_LOGIN, OF_POST},
    method::{Method, Post},
    subject::Subject,
    template::{Document, Template},
    token_exchange::{TokenExchange, token_type},
    vault::JwtLogin,
};
use crate::{
    Call,
    client_auth::ClientAuth,
    flags::{Flag, Flags, wrong_value},
    http::{Trust, require_https},
    reader::Reader,
    store::{Key, digest_of},
};

/// The user name if nothing else sets one; most registries ignore it.
const USERNAME: &str = "service-account";

/// How long a result that states no expiry is used.
const LIFETIME: SignedDuration = SignedDuration::from_mins(5);

/// An exchange.
pub(super) struct Settings {
    pub(super) method: Method,
    pub(super) places: Places,
    pub(super) username: Template,
    pub(super) username_annotation: Option<String>,
    pub(super) lifetime: SignedDuration,
    registries: Vec<String>,
    /// Everything that the flags say, and the files that they name.
    said: Vec<String>,
}

impl Settings {
    /// Reads what the flags say, and the files they name.
    pub(super) fn new(call: &Call, flags: &Flags) -> Result<(Self, Trust), Refusal> {
        let reader = Reader { call, flags };
        let trust = reader.trust()?;
        let mut said: Vec<String> =
            flags.given().map(|(name, values)| format!("{name}={}", values.join("\0"))).collect();
        let places = Places {
            username: reader.pointer("username-at")?,
            password: reader.pointer("password-at")?,
            expiry: reader.pointer("expiry-at")?,
        };
        let method = reader.method(&places, &trust, &mut said)?;
        reader.check_flags(&method)?;
        let username = reader.text("username").unwrap_or_else(|| USERNAME.to_owned());
        let settings = Self {
            username: Template::without_token("username", &username)?,
            username_annotation: reader.text("username-annotation"),
            lifetime: reader.lifetime()?,
            registries: reader.many(&["registry"]),
            method,
            places,
            said,
        };
        Ok((settings, trust))
    }

    /// Whether the login is for one image and not for all of its registry.
    pub(super) fn names_image(&self) -> bool {
        self.method.names_image() || self.username.names_image()
    }

    /// Refuses a registry that no flag names: a node's configuration may match more than it was meant to.
    pub(super) fn check_registry(&self, registry: &str) -> Result<(), Refusal> {
        if self.registries.is_empty() {
            return Err(Refusal::bad_config(
                "`--registry` is missing: name the registries that may get the login, such as \
                 `--registry=registry.example` or `--registry=*.registry.example:5000`",
            ));
        }
        if self.registries.iter().any(|pattern| is_matched(pattern, registry)) {
            return Ok(());
        }
        Err(Refusal::NotAllowed(format!(
            "`{}` is not one of the registries of `--registry` (`{}`), so it gets no login",
            inline(registry),
            inline(&self.registries.join("`, `"))
        )))
    }

    /// What the agent keeps the result under: the whole request, and whoever has this very token.
    pub(super) fn key(&self, trust: &Trust, subject: &Subject) -> Key {
        let mut said = self.said.clone();
        said.sort_unstable();
        Key::new("exchange")
            .with("request", said.join("\n"))
            .with("trust", trust.digest())
            .with("token", digest_of(subject.token.expose_bytes()))
    }
}

/// Whether a registry is what a pattern says: the same port, and each label the same or `*`.
fn is_matched(pattern: &str, registry: &str) -> bool {
    let split = |text: &str| {
        let text = text.to_ascii_lowercase();
        match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host.to_owned(), port.to_owned()),
            _ => (text, String::new()),
        }
    };
    let ((pattern, port), (host, own)) = (split(pattern), split(registry));
    let (labels, of_host): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.split('.').collect());
    port == own
        && labels.len() == of_host.len()
        && labels
            .iter()
            .zip(&of_host)
            .all(|(label, own)| label == own || (*label == "*" && !own.is_empty()))
}

impl Reader<'_> {
    fn method(
        &self,
        places: &Places,
        trust: &Trust,
        said: &mut Vec<String>,
    ) -> Result<Method, Refusal> {
        let urls = ["token-url", "jwt-login", "post"].map(|flag| self.text(flag));
        match (self.flags.is_set("pass"), urls) {
            (true, [None, None, None]) => Ok(Method::Pass),
            (false, [Some(url), None, None]) => {
                let exchange = self.exchange(url, trust, said)?;
                Ok(Method::TokenExchange(Box::new(exchange)))
            }
            (false, [None, Some(url), None]) => {
                Ok(Method::JwtLogin(Box::new(self.jwt_login(&url)?)))
            }
            (false, [None, None, Some(url)]) => {
                Ok(Method::Post(Box::new(self.post(url, places, said)?)))
            }
            _ => Err(Refusal::BadConfig(format!(
                "give one of `--pass`, `--token-url`, `--jwt-login` and `--post`\n\nhint: `{} --help`",
                self.call.name
            ))),
        }
    }

    fn exchange(
        &self,
        url: String,
        trust: &Trust,
        said: &mut Vec<String>,
    ) -> Result<TokenExchange, Refusal> {
        require_https(&url, "`--token-url`")?;
        let client = self.text("client-id");
        let (auth, digest) =
            self.client_auth(self.secret("client-secret", "client-secret-file")?)?;
        let proves = !matches!(auth, ClientAuth::Public) || trust.identity.is_some();
        if proves && client.is_none() {
            return Err(Refusal::bad_config("a client that proves who it is needs `--client-id`"));
        }
        said.push(digest);
        let mut parameters = Vec::new();
        for flag in ["audience", "resource", "scope"] {
            for value in self.flags.list(flag).iter().filter(|value| !value.is_empty()) {
                parameters.push((flag.to_owned(), Template::without_token(flag, value)?));
            }
        }
        for (name, value) in self.pairs("parameter")? {
            parameters.push((name, Template::parse("parameter", &value)?));
        }
        Ok(TokenExchange {
            url,
            client,
            auth,
            subject_type: token_type(self.text("subject-token-type").as_deref().unwrap_or("jwt")),
            requested_type: self.text("requested-token-type").map(|kind| token_type(&kind)),
            parameters,
        })
    }

    fn jwt_login(&self, url: &str) -> Result<JwtLogin, Refusal> {
        require_https(url, "`--jwt-login`")?;
        let template = |flag: &'static str| {
            self.text(flag).map(|text| Template::without_token(flag, &text)).transpose()
        };
        let mount = self.text("mount").unwrap_or_else(|| "jwt".to_owned());
        let mount = mount.trim_matches('/');
        let good = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        if !mount.bytes().all(good) || mount.split('/').any(|part| matches!(part, "" | "." | ".."))
        {
            return Err(Refusal::BadConfig(format!(
                "`--mount` is not a path: `{}`",
                inline(mount)
            )));
        }
        let namespace = self.text("namespace");
        if namespace.as_deref().is_some_and(|text| HeaderValue::from_str(text).is_err()) {
            return Err(Refusal::bad_config("`--namespace` cannot be in a header"));
        }
        Ok(JwtLogin {
            url: url.trim_end_matches('/').to_owned(),
            mount: mount.to_owned(),
            role: template("role")?,
            namespace,
            read: template("read")?,
        })
    }

    fn post(&self, url: String, places: &Places, said: &mut Vec<String>) -> Result<Post, Refusal> {
        require_https(&url, "`--post`")?;
        let body = match (self.text("body"), self.text("body-file")) {
            (Some(text), None) => Document::parse("body", text.as_bytes())?,
            (None, Some(path)) => {
                let bytes = self.read("body-file", &path)?;
                said.push(digest_of(&bytes));
                Document::parse("body-file", &bytes)?
            }
            _ => {
                return Err(Refusal::bad_config(
                    "`--post` needs one of `--body` and `--body-file`",
                ));
            }
        };
        let mut headers = Vec::new();
        for (name, value) in self.pairs("header")? {
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                Refusal::BadConfig(format!("`--header`: `{}` is no name", inline(&name)))
            })?;
            headers.push((header, Template::parse("header", &value)?));
        }
        if !body.has_token() && !headers.iter().any(|(_, value)| value.has_token()) {
            return Err(Refusal::bad_config(
                "neither `--body` nor `--header` has `{token}`, so anybody would get the login",
            ));
        }
        let password = places.password.clone().ok_or_else(|| {
            Refusal::bad_config(
                "`--post` needs `--password-at`, the place of the password in the answer, such as \
                 `/token`",
            )
        })?;
        Ok(Post { url, body, headers, password })
    }

    /// A JSON pointer.
    fn pointer(&self, flag: &str) -> Result<Option<String>, Refusal> {
        match self.text(flag) {
            Some(text) if !text.starts_with('/') => {
                let right = "a JSON pointer, such as `/token` or `/data/password`";
                Err(wrong_value(&format!("--{flag}"), right, &text))
            }
            pointer => Ok(pointer),
        }
    }

    fn lifetime(&self) -> Result<SignedDuration, Refusal> {
        let Some(text) = self.text("lifetime") else { return Ok(LIFETIME) };
        let nanos = duration::parse(&text).filter(|nanos| *nanos >= 1_000_000_000);
        nanos.map(SignedDuration::from_nanos).ok_or_else(|| {
            wrong_value("--lifetime", "a duration of at least a second, such as `5m`", &text)
        })
    }

    /// Refuses flags of the other methods, which would have no effect.
    fn check_flags(&self, method: &Method) -> Result<(), Refusal> {
        let (own, name): (&[Flag], _) = match method {
            Method::Pass => (&[], "--pass"),
            Method::TokenExchange(_) => (OF_EXCHANGE, "--token-url"),
            Method::JwtLogin(_) => (OF_LOGIN, "--jwt-login"),
            Method::Post(_) => (OF_POST, "--post"),
        };
        let known = |name| COMMON.iter().chain(own).any(|flag| flag.name == name);
        match self.flags.given().find(|(flag, _)| !known(*flag)) {
            Some((flag, _)) => {
                Err(Refusal::BadConfig(format!("`--{flag}` has no effect with `{name}`")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_matched_label_by_label_and_with_its_port() {
        for (pattern, registry) in [
            ("registry.example", "registry.example"),
            ("Registry.Example", "registry.example"),
            ("*.registry.example", "eu.registry.example"),
            ("registry.example:5000", "registry.example:5000"),
            ("*.*.example", "a.b.example"),
            ("[::1]:5000", "[::1]:5000"),
        ] {
            assert!(is_matched(pattern, registry), "{pattern} {registry}");
        }
        for (pattern, registry) in [
            ("registry.example", "registry.example:5000"),
            ("registry.example:5000", "registry.example"),
            ("*.registry.example", "registry.example"),
            ("*.registry.example", "a.b.registry.example"),
            ("*.registry.example", ".registry.example"),
            ("*", "registry.example"),
            ("registry.example", "registry.example.evil"),
        ] {
            assert!(!is_matched(pattern, registry), "{pattern} {registry}");
        }
    }
}
