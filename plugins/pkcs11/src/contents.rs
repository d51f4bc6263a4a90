//! What is in a token: keys and certificates.

use cryptoki::{
    error::Error,
    object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle},
    session::Session,
};
use keyward_plugin::Refusal;

use crate::{
    certificate::Certificate,
    fault::explain,
    public::{Kind, Public},
};

/// The names of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// `CKA_ID`
    pub(crate) id: Vec<u8>,
    /// `CKA_LABEL`
    pub(crate) label: String,
}

/// A private key. Its secret part cannot be asked for.
#[derive(Debug, Clone)]
pub(crate) struct Private {
    /// The handle of the key in this session.
    pub(crate) handle: ObjectHandle,
    pub(crate) names: Names,
    /// The kind of the key, if we can sign with it and the token reports it.
    pub(crate) kind: Option<Kind>,
    /// The public key, if the token reports it.
    pub(crate) public: Option<Public>,
    /// Whether the key needs the PIN for each signature.
    pub(crate) always_authenticate: bool,
    /// Whether the token exports the key.
    pub(crate) extractable: bool,
}

/// The keys and certificates that a session shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// Private keys, which most tokens show only after the login.
    pub(crate) private: Vec<Private>,
    pub(crate) public: Vec<(Names, Public)>,
    pub(crate) certificates: Vec<(Names, Certificate)>,
}

impl Contents {
    /// Reads all objects.
    pub(crate) fn read(session: &Session) -> Result<Self, Refusal> {
        let mut found = Self::default();
        let fail = |e: Error| explain("look into the token", &e);
        for handle in find(session, ObjectClass::PUBLIC_KEY)? {
            let fields = Fields::read(session, handle, PUBLIC).map_err(fail)?;
            if let Some(public) = fields.public() {
                found.public.push((fields.names, public));
            }
        }
        for handle in find(session, ObjectClass::CERTIFICATE)? {
            let fields = Fields::read(session, handle, CERTIFICATE).map_err(fail)?;
            // YubiKeys show their attestation under the id of the key it is about.
            let attests = fields.names.label.starts_with("X.509 Certificate for PIV Attestation");
            if let Some(certificate) = fields.value.as_deref().and_then(Certificate::parse)
                && !attests
            {
                found.certificates.push((fields.names, certificate));
            }
        }
        let private = [PUBLIC, USE].concat();
        for handle in find(session, ObjectClass::PRIVATE_KEY)? {
            let fields = Fields::read(session, handle, &private).map_err(fail)?;
            if fields.signs == Some(false) {
                continue;
            }
            let mut key = Private {
                handle,
                kind: fields.kind(),
                public: fields.public(),
                names: fields.names,
                always_authenticate: fields.always_authenticate,
                extractable: fields.extractable,
            };
            found.complete(&mut key);
            found.private.push(key);
        }
        Ok(found)
    }

    /// Takes the public half from beside the key, where the key itself does not tell.
    fn complete(&self, key: &mut Private) {
        if key.public.is_none() && !key.names.id.is_empty() {
            let publics = self.public.iter().map(|(names, public)| (names, public));
            let certified = self.certificates.iter().map(|(names, cert)| (names, &cert.public));
            let fits = |public: &Public| key.kind.is_none_or(|kind| kind == public.kind);
            key.public = publics
                .chain(certified)
                .find(|(names, public)| names.id == key.names.id && fits(public))
                .map(|(_, public)| public.clone());
        }
        key.kind = key.kind.or(key.public.as_ref().map(|public| public.kind));
    }
}

fn find(session: &Session, class: ObjectClass) -> Result<Vec<ObjectHandle>, Refusal> {
    session
        .find_objects(&[Attribute::Class(class)])
        .map_err(|e| explain("look for objects in the token", &e))
}

const PUBLIC: &[AttributeType] = &[
    AttributeType::Id,
    AttributeType::Label,
    AttributeType::KeyType,
    AttributeType::Modulus,
    AttributeType::PublicExponent,
    AttributeType::EcParams,
    AttributeType::EcPoint,
];

/// What is asked of private keys besides.
const USE: &[AttributeType] =
    &[AttributeType::Sign, AttributeType::AlwaysAuthenticate, AttributeType::Extractable];

const CERTIFICATE: &[AttributeType] =
    &[AttributeType::Id, AttributeType::Label, AttributeType::Value];

/// The attributes that an object was willing to show. Those that are empty count as missing.
#[derive(Default)]
struct Fields {
    names: Names,
    key_type: Option<KeyType>,
    value: Option<Vec<u8>>,
    modulus: Option<Vec<u8>>,
    exponent: Option<Vec<u8>>,
    parameters: Option<Vec<u8>>,
    point: Option<Vec<u8>>,
    signs: Option<bool>,
    always_authenticate: bool,
    extractable: bool,
}

impl Fields {
    fn read(
        session: &Session,
        handle: ObjectHandle,
        wanted: &[AttributeType],
    ) -> Result<Self, Error> {
        let filled = |bytes: Vec<u8>| Some(bytes).filter(|bytes| !bytes.is_empty());
        let mut fields = Self::default();
        for attribute in session.get_attributes(handle, wanted)? {
            match attribute {
                Attribute::Id(id) => fields.names.id = id,
                Attribute::Label(label) => {
                    let text = String::from_utf8_lossy(&label);
                    text.trim_end_matches('\0').clone_into(&mut fields.names.label);
                }
                Attribute::KeyType(kind) => fields.key_type = Some(kind),
                Attribute::Value(value) => fields.value = filled(value),
                Attribute::Modulus(modulus) => fields.modulus = filled(modulus),
                Attribute::PublicExponent(exponent) => fields.exponent = filled(exponent),
                Attribute::EcParams(parameters) => fields.parameters = filled(parameters),
                Attribute::EcPoint(point) => fields.point = filled(point),
                Attribute::Sign(flag) => fields.signs = Some(flag),
                Attribute::AlwaysAuthenticate(flag) => fields.always_authenticate = flag,
                Attribute::Extractable(flag) => fields.extractable = flag,
                _ => {}
            }
        }
        Ok(fields)
    }

    fn kind(&self) -> Option<Kind> {
        match self.key_type? {
            // The exponent does not matter for the length.
            KeyType::RSA => Some(Public::rsa(self.modulus.as_deref()?, &[1])?.kind),
            _ => Kind::curve(self.parameters.as_deref()?),
        }
    }

    fn public(&self) -> Option<Public> {
        match self.key_type? {
            KeyType::RSA => Public::rsa(self.modulus.as_deref()?, self.exponent.as_deref()?),
            _ => Public::curve(self.parameters.as_deref()?, self.point.as_deref()?),
        }
    }
}
