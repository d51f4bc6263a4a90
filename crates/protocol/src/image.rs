//! The image credential protocol: `credentialprovider.kubelet.k8s.io` v1alpha1, v1beta1 and v1,
//! and the form of the original proposal.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use zeroize::Zeroizing;

use crate::{
    Node, Secret, duration,
    json::{self, Object},
    node::{DecodeError, Entry},
    text::same_name,
    time,
    version::versions,
};

versions! {
    /// A version of the kubelet's protocol. The shapes are equal, so it is a value, not a type.
    "credentialprovider.kubelet.k8s.io"
}

/// What a puller asks a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The version both sides speak; `None` is the original proposal's form, which names no version.
    pub version: Option<Version>,
    /// The image, without tag and digest.
    pub image: String,
    /// A token of the pod's service account. Said under v1 only.
    pub token: Option<Secret>,
    /// Annotations of that service account. Said under v1 only.
    pub annotations: Vec<(String, String)>,
}

/// What a provider answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// Under which key the answer may be kept.
    pub key: CacheKey,
    /// For how long, in nanoseconds; `None` leaves it to the configuration.
    pub duration: Option<i64>,
    /// Logins by registry pattern.
    pub auth: Vec<(String, Login)>,
}

/// Under which key an answer may be kept: for one image, one registry, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheKey {
    /// Only for this image.
    Image,
    /// All images of this registry.
    Registry,
    /// All images.
    Global,
    /// A word we do not know: the answer is not accepted.
    Other(String),
}

/// A user name and password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password or token.
    pub password: Secret,
}

/// What a provider of the original proposal answered: one login, and until when.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposalResponse {
    /// The login.
    pub login: Login,
    /// Until when it may be kept; `None` is not at all.
    pub expires: Option<Timestamp>,
}

/// Why an answer was not accepted. No variant carries text of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseError {
    /// Not a JSON object with texts for `kind` and `apiVersion`.
    Unreadable(DecodeError),
    /// Another version than the one asked for.
    VersionMismatch {
        /// The version found, if it is one we know.
        found: Option<Version>,
    },
    /// A wrong kind, an unknown or repeated field, or a field of the wrong type.
    Decode(DecodeError),
}

impl Request {
    /// The one-line JSON that a provider reads from its stdin, newline included.
    pub fn to_json(&self) -> Secret {
        Secret::new(json::line(|request| {
            if let Some(version) = self.version {
                request.text("kind", "CredentialProviderRequest");
                request.text("apiVersion", version.api_version());
            }
            request.text("image", &self.image);
            if self.version == Some(Version::V1) {
                if let Some(token) = &self.token {
                    request.text("serviceAccountToken", token.expose());
                }
                let mut sorted: Vec<_> = self.annotations.iter().collect();
                sorted.sort();
                if !sorted.is_empty() {
                    let mut annotations = request.object("serviceAccountAnnotations");
                    for (name, value) in sorted {
                        annotations.text(name, value);
                    }
                    annotations.close();
                }
            }
        }))
    }

    /// Reads a request, for whoever writes a provider. Unknown fields are ignored.
    pub fn read(stdin: &[u8]) -> Result<Self, DecodeError> {
        let node = Node::from_json(stdin)?;
        node.map("request")?;
        let version = Self::read_version(&node)?;
        let mut annotations = Vec::new();
        for entry in node.map_of("serviceAccountAnnotations")? {
            let value = entry.value.text("serviceAccountAnnotations")?.unwrap_or_default();
            annotations.push((entry.key.clone(), value.to_owned()));
        }
        Ok(Self {
            version,
            image: node.text_of("image")?.unwrap_or_default().to_owned(),
            token: node.text_of("serviceAccountToken")?.filter(|t| !t.is_empty()).map(Secret::new),
            annotations,
        })
    }

    /// Type meta may be left out in the original proposal's form, but is checked where it is there.
    fn read_version(node: &Node) -> Result<Option<Version>, DecodeError> {
        let (kind, version) = (node.text_of("kind")?, node.text_of("apiVersion")?);
        let wrong = |field, expected| place(node, field).mismatch(field, expected);
        match (kind.unwrap_or_default(), version.unwrap_or_default()) {
            ("" | "RegistryCredentialPluginRequest", "")
            | ("RegistryCredentialPluginRequest", "v1alpha1") => Ok(None),
            ("CredentialProviderRequest", version) => match Version::parse(version) {
                Some(version) => Ok(Some(version)),
                None => Err(wrong("apiVersion", "a known version")),
            },
            ("RegistryCredentialPluginRequest", _) => Err(wrong("apiVersion", "`v1alpha1`")),
            _ => Err(wrong("kind", "`CredentialProviderRequest`")),
        }
    }
}

impl Response {
    /// Reads what a provider printed when asked in `version`: strictly JSON, strictly these fields.
    pub fn read(stdout: &[u8], version: Version) -> Result<Self, ResponseError> {
        let unreadable = ResponseError::Unreadable;
        let node = Node::from_json(stdout).map_err(|error| unreadable(error.into()))?;
        node.map("answer").map_err(unreadable)?;
        let folded = |name| folded_text(&node, name).map_err(unreadable);
        let (found, kind) = (folded("apiVersion")?, folded("kind")?);
        if found.matches('/').count() > 1 {
            let what = "`apiVersion` has more than one `/`".to_owned();
            return Err(unreadable(fault(place(&node, "apiVersion"), what)));
        }
        if found != version.api_version() {
            return Err(ResponseError::VersionMismatch { found: Version::parse(found) });
        }
        if kind != "CredentialProviderResponse" {
            let place = place(&node, "kind");
            return Err(ResponseError::Decode(
                place.mismatch("kind", "`CredentialProviderResponse`"),
            ));
        }
        Self::decode(&node).map_err(ResponseError::Decode)
    }

    fn decode(node: &Node) -> Result<Self, DecodeError> {
        const FIELDS: &[&str] = &["apiVersion", "kind", "cacheKeyType", "cacheDuration", "auth"];
        only(node, "answer", FIELDS)?;
        let duration = node.get("cacheDuration").filter(|node| !node.is_null()).map(|node| {
            let parsed = node.text("cacheDuration")?.and_then(duration::parse);
            parsed.ok_or_else(|| node.mismatch("cacheDuration", "a duration such as `10m`"))
        });
        let duration = duration.transpose()?;
        let mut auth: Vec<(String, Login)> = Vec::new();
        for entry in node.map_of("auth")? {
            if auth.iter().any(|(pattern, _)| *pattern == entry.key) {
                return Err(fault(&entry.value, "`auth` has the same pattern twice".to_owned()));
            }
            let login = if entry.value.is_null() {
                Login::default()
            } else {
                only(&entry.value, "auth", &["username", "password"])?;
                Login::read(&entry.value)?
            };
            auth.push((entry.key.clone(), login));
        }
        let key = CacheKey::named(node.text_of("cacheKeyType")?.unwrap_or_default());
        Ok(Self { key, duration, auth })
    }

    /// The answer as a provider prints it.
    pub fn to_json(&self, version: Version) -> Secret {
        Secret::new(json::line(|response| {
            response.text("kind", "CredentialProviderResponse");
            response.text("apiVersion", version.api_version());
            response.text("cacheKeyType", self.key.name());
            if let Some(nanos) = self.duration {
                response.text("cacheDuration", &duration::format(nanos));
            }
            let mut auth = response.object("auth");
            for (pattern, login) in &self.auth {
                let mut entry = auth.object(pattern);
                login.write(&mut entry);
                entry.close();
            }
            auth.close();
        }))
    }
}

impl CacheKey {
    /// The key that this word on the wire names.
    pub fn named(word: &str) -> Self {
        match word {
            "Image" => Self::Image,
            "Registry" => Self::Registry,
            "Global" => Self::Global,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The word on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::Image => "Image",
            Self::Registry => "Registry",
            Self::Global => "Global",
            Self::Other(word) => word,
        }
    }
}

impl ProposalResponse {
    /// Reads what a provider of the original proposal printed. Type meta may be left out, but is
    /// checked where it is there.
    pub fn read(stdout: &[u8]) -> Result<Self, ResponseError> {
        let unreadable = ResponseError::Unreadable;
        let node = Node::from_json_or_yaml(stdout).map_err(|error| unreadable(error.into()))?;
        node.map("answer").map_err(unreadable)?;
        Self::decode(&node).map_err(ResponseError::Decode)
    }

    fn decode(node: &Node) -> Result<Self, DecodeError> {
        let kind = node.text_of("kind")?;
        if !matches!(kind, None | Some("" | "RegistryCredentialPluginResponse")) {
            return Err(place(node, "kind").mismatch("kind", "`RegistryCredentialPluginResponse`"));
        }
        let version = node.text_of("apiVersion")?.unwrap_or_default();
        if !version.is_empty() && version.rsplit('/').next() != Some("v1alpha1") {
            return Err(place(node, "apiVersion").mismatch("apiVersion", "`v1alpha1`"));
        }
        let expires = node.get("expirationTimestamp").filter(|node| !node.is_null()).map(|node| {
            let parsed = node.text("expirationTimestamp")?.and_then(time::parse_rfc3339);
            parsed.ok_or_else(|| node.mismatch("expirationTimestamp", "an RFC 3339 time"))
        });
        let expires = expires.transpose()?;
        Ok(Self { login: Login::read(node)?, expires })
    }

    /// The answer as a provider of the original proposal prints it.
    pub fn to_json(&self) -> Secret {
        Secret::new(json::line(|response| {
            response
                .text("kind", "RegistryCredentialPluginResponse")
                .text("apiVersion", "v1alpha1");
            if let Some(expires) = self.expires {
                response.text("expirationTimestamp", &time::format_rfc3339(expires));
            }
            self.login.write(response);
        }))
    }
}

/// The `exp` of a JSON Web Token, in seconds since 1970. Nothing is verified: it is only used to
/// throw a token away in time.
pub fn token_expiry(token: &str) -> Option<i64> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    let json = Zeroizing::new(URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?);
    let node = Node::from_json(&json).ok()?;
    node.get("exp")?.integer("exp").ok()?
}

impl Login {
    fn read(node: &Node) -> Result<Self, DecodeError> {
        Ok(Self {
            username: node.text_of("username")?.unwrap_or_default().to_owned(),
            password: Secret::new(node.text_of("password")?.unwrap_or_default()),
        })
    }

    fn write(&self, object: &mut Object<'_>) {
        object.text("username", &self.username).text("password", self.password.expose());
    }
}

/// Refuses unknown and repeated fields.
fn only(node: &Node, what: &str, fields: &[&str]) -> Result<(), DecodeError> {
    let entries = node.map(what)?.unwrap_or_default();
    for (number, entry) in entries.iter().enumerate() {
        if !fields.contains(&entry.key.as_str()) {
            return Err(fault(&entry.value, format!("`{what}` has no such field")));
        }
        if entries[..number].iter().any(|earlier| earlier.key == entry.key) {
            return Err(fault(&entry.value, format!("`{what}` has the same field twice")));
        }
    }
    Ok(())
}

/// The text of a field whose name is compared without regard to case, as the reference does when
/// it looks for the version; the last one counts.
fn folded_text<'n>(node: &'n Node, field: &str) -> Result<&'n str, DecodeError> {
    let lower = field.to_ascii_lowercase();
    let mut found = "";
    for Entry { key, value, .. } in node.entries() {
        if same_name(key, &lower) {
            found = value.text(field)?.unwrap_or(found);
        }
    }
    Ok(found)
}

fn fault(node: &Node, what: String) -> DecodeError {
    DecodeError { what, line: node.line, column: node.column }
}

/// The field's own place, or the object's where it is missing.
fn place<'n>(node: &'n Node, field: &str) -> &'n Node {
    node.get(field).unwrap_or(node)
}

#[cfg(test)]
mod tests {
    use super::token_expiry;

    #[test]
    fn a_tokens_own_end_is_read_where_it_has_one() {
        // {"alg":"none"} . {"exp":1700000000} . nothing
        let token = "eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDB9.";
        assert_eq!(token_expiry(token), Some(1_700_000_000));
        assert_eq!(token_expiry("s3cr3t"), None);
        assert_eq!(token_expiry("a.b.c"), None);
    }
}
