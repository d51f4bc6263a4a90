//! Accepted credentials: tokens, passwords and certificates, and their users.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, header::AUTHORIZATION};
use serde_json::{Value, json};

use super::certificate::Certificate;

/// The owner of a credential.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's unique id, or empty.
    pub uid: String,
    /// The groups besides `system:authenticated`.
    pub groups: Vec<String>,
    /// More about the user, by key.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// A user with this name, in no group.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// The user as Kubernetes writes it.
    pub fn info(&self) -> Value {
        let mut groups = self.groups.clone();
        groups.push("system:authenticated".to_owned());
        let mut info = json!({ "username": self.name, "groups": groups });
        if !self.uid.is_empty() {
            info["uid"] = self.uid.clone().into();
        }
        for (key, values) in &self.extra {
            info["extra"][key] = json!(values);
        }
        info
    }
}

/// How a request was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A client certificate.
    Certificate,
    /// A bearer token.
    Token,
    /// User name and password.
    Basic,
    /// A certificate and a token, if both are required.
    Both,
    /// Nothing: the path is open to everyone.
    Nothing,
}

/// The credentials that the server accepts. They can change while the server runs.
#[derive(Default)]
pub struct Users {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    tokens: HashMap<String, Token>,
    passwords: HashMap<String, String>,
    revoked: HashSet<u64>,
    open: Vec<String>,
    both: bool,
}

struct Token {
    user: User,
    until: Option<SystemTime>,
}

impl Users {
    /// Accepts a bearer token forever.
    pub fn token(&self, token: &str, user: User) {
        self.accept(token, Token { user, until: None });
    }

    /// Accepts a bearer token until this moment.
    pub fn token_until(&self, token: &str, user: User, until: SystemTime) {
        self.accept(token, Token { user, until: Some(until) });
    }

    /// Rejects a bearer token from now on. Returns whether it was known.
    pub fn revoke_token(&self, token: &str) -> bool {
        self.with(|table| table.tokens.remove(token).is_some())
    }

    /// Rejects every bearer token that is known now.
    pub fn revoke_tokens(&self) {
        self.with(|table| table.tokens.clear());
    }

    /// Accepts these bearer tokens and no others, in one step.
    pub fn replace_tokens<'a>(&self, tokens: impl IntoIterator<Item = (&'a str, User)>) {
        let tokens = tokens
            .into_iter()
            .map(|(token, user)| (token.to_owned(), Token { user, until: None }))
            .collect();
        self.with(|table| table.tokens = tokens);
    }

    /// Accepts a user name with this password.
    pub fn password(&self, name: &str, password: &str) {
        self.with(|table| table.passwords.insert(name.to_owned(), password.to_owned()));
    }

    /// Rejects the client certificate with this serial number from the next request on.
    pub fn revoke_certificate(&self, serial: u64) {
        self.with(|table| table.revoked.insert(serial));
    }

    /// Accepts everyone below this path, as `system:anonymous`.
    pub fn open(&self, path: &str) {
        self.with(|table| table.open.push(path.to_owned()));
    }

    /// Requires a certificate *and* a token (or password) for every request.
    pub fn demand_both(&self, both: bool) {
        self.with(|table| table.both = both);
    }

    /// The user of this request, and how it was authenticated.
    pub(crate) fn identify(
        &self,
        path: &str,
        headers: &HeaderMap,
        certificate: Option<&Certificate>,
        now: SystemTime,
    ) -> Option<(User, Proof)> {
        let (user, proof) = self.with(|table| table.identify(path, headers, certificate, now))?;
        Some((impersonated(headers).unwrap_or(user), proof))
    }

    fn accept(&self, token: &str, entry: Token) {
        self.with(|table| table.tokens.insert(token.to_owned(), entry));
    }

    fn with<T>(&self, act: impl FnOnce(&mut Table) -> T) -> T {
        act(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

impl Table {
    fn identify(
        &self,
        path: &str,
        headers: &HeaderMap,
        certificate: Option<&Certificate>,
        now: SystemTime,
    ) -> Option<(User, Proof)> {
        let by_certificate = certificate
            .and_then(|certificate| self.certificate(certificate, now))
            .map(|user| (user, Proof::Certificate));
        let by_header = self.header(headers, now);
        let known = match (by_certificate, by_header) {
            (Some((user, _)), Some(_)) if self.both => Some((user, Proof::Both)),
            _ if self.both => None,
            // The order of the real server: a valid certificate is enough, whatever the token is.
            (by_certificate, by_header) => by_certificate.or(by_header),
        };
        known.or_else(|| self.anonymous(path))
    }

    fn certificate(&self, certificate: &Certificate, now: SystemTime) -> Option<User> {
        let good = certificate.from <= now
            && now <= certificate.until
            && !self.revoked.contains(&certificate.serial)
            && !certificate.name.is_empty();
        good.then(|| User {
            name: certificate.name.clone(),
            groups: certificate.groups.clone(),
            ..User::default()
        })
    }

    fn header(&self, headers: &HeaderMap, now: SystemTime) -> Option<(User, Proof)> {
        let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, rest) = value.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            let token = self.tokens.get(rest.trim())?;
            let good = token.until.is_none_or(|until| now < until);
            return good.then(|| (token.user.clone(), Proof::Token));
        }
        if scheme.eq_ignore_ascii_case("basic") {
            let pair = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
            let (name, password) = pair.split_once(':')?;
            let good = self.passwords.get(name).is_some_and(|p| p == password);
            return good.then(|| (User::new(name), Proof::Basic));
        }
        None
    }

    fn anonymous(&self, path: &str) -> Option<(User, Proof)> {
        let open = self.open.iter().any(|open| path.starts_with(open.as_str()));
        open.then(|| {
            let user = User::new("system:anonymous").group("system:unauthenticated");
            (user, Proof::Nothing)
        })
    }
}

/// The user that the request impersonates.
fn impersonated(headers: &HeaderMap) -> Option<User> {
    const EXTRA: &str = "impersonate-extra-";
    let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let name = text(headers.get("impersonate-user")?);
    let mut user = User {
        name,
        uid: headers.get("impersonate-uid").map(text).unwrap_or_default(),
        groups: headers.get_all("impersonate-group").iter().map(text).collect(),
        extra: Vec::new(),
    };
    for key in headers.keys() {
        if let Some(name) = key.as_str().strip_prefix(EXTRA) {
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            let values = headers.get_all(key).iter().map(text).collect();
            user.extra.push((name.into_owned(), values));
        }
    }
    Some(user)
}
