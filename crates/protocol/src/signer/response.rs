use super::{MessageError, begin, bytes, open, required_bytes};
use crate::json::{push_bytes, push_list};

/// What a plugin answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// `CertificateResponse`
    Certificate(CertificateResponse),
    /// `SignResponse`: the signature, as TLS carries it (ECDSA in ASN.1 DER).
    Sign(Vec<u8>),
    /// `UnlockResponse`: the token is ready to sign.
    Unlock,
    /// `ErrorResponse`: why not.
    Error(ErrorResponse),
}

/// The certificate that belongs to the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateResponse {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// What is between it and the authority, in DER, nearest first.
    pub chain: Vec<Vec<u8>>,
    /// What to tell the person before a signature: where to type, what to touch.
    pub prompt: Option<String>,
}

/// Why a plugin did not do what it was asked. An addition to the proposal, where an exit status was
/// all: a plugin that stays needs to say no without ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// What the client should make of it.
    pub reason: Reason,
    /// The reason in words, for people; never a secret.
    pub message: String,
}

/// What a client should make of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The operation failed; a retry may help.
    Failed,
    /// The configuration is at fault.
    BadConfig,
    /// A person is needed and there is no terminal.
    NeedsTerminal,
    /// The plugin, the token or the person refused.
    NotAllowed,
    /// The PIN of the configuration is wrong. The client does not ask again with it: a token locks
    /// after a few tries. (A mistyped PIN is [`Reason::NotAllowed`].)
    WrongPin,
    /// The plugin does not know this `kind`, or cannot sign with these options.
    Unsupported,
}

impl Reason {
    const ALL: [Self; 6] = [
        Self::Failed,
        Self::BadConfig,
        Self::NeedsTerminal,
        Self::NotAllowed,
        Self::WrongPin,
        Self::Unsupported,
    ];

    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::BadConfig => "BadConfig",
            Self::NeedsTerminal => "NeedsTerminal",
            Self::NotAllowed => "NotAllowed",
            Self::WrongPin => "WrongPin",
            Self::Unsupported => "Unsupported",
        }
    }

    /// An unknown reason is a plain failure.
    fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|reason| reason.word() == word).unwrap_or(Self::Failed)
    }
}

impl Response {
    /// Reads what a plugin printed.
    pub fn read(stdout: &[u8]) -> Result<Self, MessageError> {
        let (node, kind) = open(stdout)?;
        match kind.as_str() {
            "CertificateResponse" => {
                let certificate = required_bytes(&node, "certificate")?;
                let list = node.get("certificateChain");
                let list = list.map_or(Ok(None), |node| node.list("certificateChain"))?;
                let chain = list.unwrap_or_default().iter();
                let chain = chain
                    .enumerate()
                    .map(|(index, node)| bytes(node, &format!("certificateChain[{index}]")))
                    .collect::<Result<_, _>>()?;
                let prompt = node.text_of("userPrompt")?.filter(|text| !text.is_empty());
                let prompt = prompt.map(str::to_owned);
                Ok(Self::Certificate(CertificateResponse { certificate, chain, prompt }))
            }
            "SignResponse" => Ok(Self::Sign(required_bytes(&node, "signature")?)),
            "UnlockResponse" => Ok(Self::Unlock),
            "ErrorResponse" => Ok(Self::Error(ErrorResponse {
                reason: Reason::parse(node.text_of("reason")?.unwrap_or_default()),
                message: node.text_of("message")?.unwrap_or_default().to_owned(),
            })),
            _ => Err(MessageError::Kind),
        }
    }

    /// The `kind` it is written with.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Certificate(_) => "CertificateResponse",
            Self::Sign(_) => "SignResponse",
            Self::Unlock => "UnlockResponse",
            Self::Error(_) => "ErrorResponse",
        }
    }

    /// The response as compact JSON, without a line break.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let mut message = begin(&mut out, self.kind());
        match self {
            Self::Certificate(response) => {
                message.bytes("certificate", &response.certificate);
                if !response.chain.is_empty() {
                    let chain = message.field("certificateChain");
                    push_list(chain, &response.chain, |out, certificate| {
                        push_bytes(out, certificate);
                    });
                }
                if let Some(prompt) = &response.prompt {
                    message.text("userPrompt", prompt);
                }
            }
            Self::Sign(signature) => {
                message.bytes("signature", signature);
            }
            Self::Unlock => {}
            Self::Error(error) => {
                message.text("reason", error.reason.word()).text("message", &error.message);
            }
        }
        message.close();
        out
    }
}
