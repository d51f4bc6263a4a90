use zeroize::Zeroizing;

use super::{Configuration, MessageError, Options, begin, open, required, required_bytes};
use crate::Secret;

/// What a client asks of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `CertificateRequest`: the certificate of the key.
    Certificate(Configuration),
    /// `SignRequest`: a signature.
    Sign(SignRequest),
    /// `UnlockRequest`, in resident mode only: open the token and get it ready to sign, asking a
    /// person where needed, before a server waits for the signature.
    Unlock(Configuration),
    /// `SessionRequest`, in the environment only: stay, and read requests from stdin, a line each.
    /// It has no configuration, so that no PIN stands in the environment of a process that stays.
    Session,
}

/// What to sign, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignRequest {
    /// What the kubeconfig says to the plugin.
    pub configuration: Configuration,
    /// The digest, or the whole message under [`Options::Message`].
    pub digest: Vec<u8>,
    /// Scheme and hash.
    pub options: Options,
}

impl Request {
    /// Reads a request. The request kinds `Certificate` and `Sign` of the protocol's first
    /// implementation are understood too.
    pub fn read(bytes: &[u8]) -> Result<Self, MessageError> {
        let (node, kind) = open(bytes)?;
        match kind.as_str() {
            "CertificateRequest" | "Certificate" => {
                Ok(Self::Certificate(Configuration::read(&node)?))
            }
            "SignRequest" | "Sign" => {
                let configuration = Configuration::read(&node)?;
                let digest = required_bytes(&node, "digest")?;
                // The proposal has a default for the type.
                let kind = node.text_of("signerOptsType")?.filter(|kind| !kind.is_empty());
                let kind = kind.unwrap_or(Options::DEFAULT_KIND);
                let options = Options::read(kind, required(&node, "signerOpts")?)?;
                match options.hash() {
                    Some(hash) if hash.length() != digest.len() => {
                        Err(MessageError::Unreadable(format!(
                            "`digest` has {} bytes, a digest of {hash} has {}",
                            digest.len(),
                            hash.length()
                        )))
                    }
                    _ => Ok(Self::Sign(SignRequest { configuration, digest, options })),
                }
            }
            "UnlockRequest" => Ok(Self::Unlock(Configuration::read(&node)?)),
            "SessionRequest" => Ok(Self::Session),
            _ => Err(MessageError::Kind),
        }
    }

    /// What the kubeconfig says to the plugin; none in a [`Request::Session`].
    pub fn configuration(&self) -> Option<&Configuration> {
        match self {
            Self::Certificate(configuration) | Self::Unlock(configuration) => Some(configuration),
            Self::Sign(request) => Some(&request.configuration),
            Self::Session => None,
        }
    }

    /// The `kind` it is written with.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Certificate(_) => "CertificateRequest",
            Self::Sign(_) => "SignRequest",
            Self::Unlock(_) => "UnlockRequest",
            Self::Session => "SessionRequest",
        }
    }

    /// The request as compact JSON, without a line break, with the fields in the order of the
    /// proposal. It is secret because a PIN may be among the configuration.
    pub fn to_json(&self) -> Secret {
        let mut out = Zeroizing::new(String::with_capacity(self.length()));
        let mut message = begin(&mut out, self.kind());
        if let Self::Sign(request) = self {
            message.bytes("digest", &request.digest);
        }
        if let Some(configuration) = self.configuration() {
            configuration.write(message.object("configuration"));
        }
        if let Self::Sign(SignRequest { options, .. }) = self {
            message.text("signerOptsType", options.kind()).text("signerOpts", &options.value());
        }
        message.close();
        Secret::new(std::mem::take(&mut *out))
    }

    /// More than the JSON of it can take, so that secrets are not moved while it is written.
    fn length(&self) -> usize {
        let digest = if let Self::Sign(request) = self { request.digest.len() } else { 0 };
        512 + 2 * digest + self.configuration().map_or(0, Configuration::length)
    }
}
