//! Logins by registry pattern, looked up in the order in which a pull tries them.

use std::collections::BTreeMap;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode as Mode, GeneralPurpose, GeneralPurposeConfig},
};
use keyward_protocol::{
    Node, Secret, Url,
    image::Login,
    node::DecodeError,
    text::{self, lossy, same_name},
};

use super::{Index, Name, Pattern, Reading};

/// The key of Docker Hub's login, and the fallback for short names.
const DOCKER_HUB: &str = "index.docker.io";

/// Logins from one or several sources.
///
/// Keys are compared in reverse byte order, so that of two keys with the same host the longer path
/// comes first, and a literal before a `*`; under one key the earlier source comes first.
#[derive(Debug)]
pub struct Keyring<L = Login> {
    reading: Reading,
    logins: BTreeMap<String, Vec<L>>,
    /// The keys in order of lookup, and their index.
    order: Vec<String>,
    /// For each pattern of the index its position in `order`; keys that are not patterns have none.
    places: Vec<usize>,
    index: Index,
}

impl<L> Default for Keyring<L> {
    fn default() -> Self {
        Self::new(Reading::default())
    }
}

impl<L> Keyring<L> {
    /// An empty keyring, which compares keys with images in this way.
    pub fn new(reading: Reading) -> Self {
        Self {
            reading,
            logins: BTreeMap::new(),
            order: Vec::new(),
            places: Vec::new(),
            index: Index::default(),
        }
    }

    /// Adds the logins of one source, such as a provider's answer or the `auths` of a docker
    /// configuration. Keys that are not URLs are skipped.
    pub fn add(&mut self, logins: impl IntoIterator<Item = (String, L)>) {
        for (location, login) in logins {
            if let Some(key) = key(&location) {
                self.logins.entry(key).or_default().push(login);
            }
        }
        self.order = self.logins.keys().rev().cloned().collect();
        let parsed = self.order.iter().map(|key| Pattern::parse(key).ok()).enumerate();
        let (places, patterns): (Vec<_>, Vec<_>) =
            parsed.filter_map(|(place, pattern)| Some((place, pattern?))).unzip();
        self.places = places;
        self.index = Index::new(&patterns, self.reading);
    }

    /// The keys, in order of lookup.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// The logins to try for an image, best first, each with its key.
    pub fn lookup(&self, image: &str) -> Vec<(&str, &L)> {
        let mut places = Vec::new();
        if let Some(name) = Name::parse(image) {
            self.index.each_match(&name, |number| places.push(self.places[number]));
        }
        places.sort_unstable();
        let mut keys: Vec<&str> = places.iter().map(|place| self.order[*place].as_str()).collect();
        if keys.is_empty() && is_docker_hub(image) {
            keys.push(DOCKER_HUB);
        }
        let logins =
            |key| self.logins.get(key).into_iter().flatten().map(move |login| (key, login));
        keys.into_iter().flat_map(logins).collect()
    }
}

impl Keyring {
    /// Reads the logins of a docker configuration's `auths`. One unreadable entry fails all, because it
    /// could be for any image.
    pub fn read_auths(auths: &Node) -> Result<Vec<(String, Login)>, DecodeError> {
        let entries = auths.map("auths")?.unwrap_or_default();
        entries
            .iter()
            .map(|entry| Ok((entry.key.clone(), Self::read_login(&entry.value, &entry.key)?)))
            .collect()
    }

    /// Reads one login as docker's `auths` has it: `auth`, or `username` and `password`. `key` names it in errors.
    pub fn read_login(node: &Node, key: &str) -> Result<Login, DecodeError> {
        // Names in any case, and the last of each that is not null; the email must be a string too.
        let mut fields = [("auth", ""), ("username", ""), ("password", ""), ("email", "")];
        for entry in node.map(key)?.unwrap_or_default() {
            let field = fields.iter_mut().find(|(name, _)| same_name(&entry.key, name));
            if let Some((name, text)) = field {
                *text = entry.value.text(name)?.unwrap_or(text);
            }
        }
        let [(_, auth), (_, username), (_, password), _] = fields;
        if auth.is_empty() {
            return Ok(Login { username: username.to_owned(), password: Secret::new(password) });
        }
        split_auth(auth).ok_or_else(|| DecodeError {
            what: format!("`auth` of `{}` is not the Base64 of `name:password`", text::clean(key)),
            line: node.line,
            column: node.column,
        })
    }
}

/// Splits a docker `auth` field: standard Base64, padded or not, line breaks and unused bits ignored.
fn split_auth(auth: &str) -> Option<Login> {
    let padding =
        if auth.trim().ends_with('=') { Mode::RequireCanonical } else { Mode::RequireNone };
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(padding);
    let text: String = auth.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = GeneralPurpose::new(&STANDARD, config).decode(text).ok()?;
    let text = Secret::new(lossy(&bytes));
    let (username, password) = text.expose().split_once(':')?;
    Some(Login { username: username.to_owned(), password: Secret::new(password) })
}

/// A location in the form used for comparison: without `http://` or `https://`, and without the
/// registry API's `/v1/` or `/v2/`. `None` if it is not a URL.
fn key(location: &str) -> Option<String> {
    let schemed = location.starts_with("https://") || location.starts_with("http://");
    let url =
        if schemed { Url::parse(location) } else { Url::parse(&format!("https://{location}")) };
    let url = url.ok()?;
    let path = url.decoded_path();
    let path = match path.strip_prefix(b"/v1/").or(path.strip_prefix(b"/v2/")) {
        Some(_) => &path[3..],
        None => &path[..],
    };
    let mut key = url.authority().to_vec();
    if path != b"/" {
        key.extend(path);
    }
    Some(lossy(&key))
}

/// Whether a name without a registry refers to Docker Hub. `localhost/x` does too.
fn is_docker_hub(image: &str) -> bool {
    match image.split_once('/') {
        None => !image.is_empty(),
        Some(("", _)) => false,
        Some(("docker.io" | DOCKER_HUB, _)) => true,
        Some((host, _)) => !host.contains(['.', ':']),
    }
}
