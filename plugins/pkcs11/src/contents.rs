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
    /// The object's names.
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
    /// Public keys.
    pub(crate) public: Vec<(Names, Public)>,
    /// Certificates.
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
                found.public.push((fields.names(), public));
            }
        }
        for handle in find(session, ObjectClass::CERTIFICATE)? {
            let fields = Fields::read(session, handle, CERTIFICATE).map_err(fail)?;
            // YubiKeys show their attestation under the id of the key it is about.
            let names = fields.names();
            let attests = names.label.starts_with("X.509 Certificate for PIV Attestation");
            if let Some(certificate) = fields.value().and_then(Certificate::parse)
                && !attests
            {
                found.certificates.push((names, certificate));
            }
        }
        let private = [PUBLIC, USE].concat();
        for handle in find(session, ObjectClass::PRIVATE_KEY)? {
            let fields = Fields::read(session, handle, &private).map_err(fail)?;
            if fields.flag(AttributeType::Sign) == Some(false) {
                continue;
            }
            let mut key = Private {
                handle,
                names: fields.names(),
                kind: fields.kind(),
                public: fields.public(),
                always_authenticate: fields
                    .flag(AttributeType::AlwaysAuthenticate)
                    .unwrap_or(false),
                extractable: fields.flag(AttributeType::Extractable).unwrap_or(false),
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

/// The attributes that an object was willing to show.
struct Fields(Vec<Attribute>);

impl Fields {
    fn read(
        session: &Session,
        handle: ObjectHandle,
        wanted: &[AttributeType],
    ) -> Result<Self, Error> {
        session.get_attributes(handle, wanted).map(Self)
    }

    fn names(&self) -> Names {
        let mut names = Names::default();
        for attribute in &self.0 {
            match attribute {
                Attribute::Id(id) => names.id.clone_from(id),
                Attribute::Label(label) => {
                    let text = String::from_utf8_lossy(label);
                    text.trim_end_matches('\0').clone_into(&mut names.label);
                }
                _ => {}
            }
        }
        names
    }

    fn value(&self) -> Option<&[u8]> {
        self.bytes(|attribute| match attribute {
            Attribute::Value(value) => Some(value),
            _ => None,
        })
    }

    fn bytes(&self, pick: impl Fn(&Attribute) -> Option<&Vec<u8>>) -> Option<&[u8]> {
        self.0.iter().find_map(pick).map(Vec::as_slice).filter(|bytes| !bytes.is_empty())
    }

    fn flag(&self, kind: AttributeType) -> Option<bool> {
        self.0.iter().find(|attribute| attribute.attribute_type() == kind).and_then(|attribute| {
            match attribute {
                Attribute::Sign(flag)
                | Attribute::AlwaysAuthenticate(flag)
                | Attribute::Extractable(flag) => Some(*flag),
                _ => None,
            }
        })
    }

    fn key_type(&self) -> Option<KeyType> {
        self.0.iter().find_map(|attribute| match attribute {
            Attribute::KeyType(kind) => Some(*kind),
            _ => None,
        })
    }

    fn parameters(&self) -> Option<&[u8]> {
        self.bytes(|attribute| match attribute {
            Attribute::EcParams(parameters) => Some(parameters),
            _ => None,
        })
    }

    fn modulus(&self) -> Option<&[u8]> {
        self.bytes(|attribute| match attribute {
            Attribute::Modulus(modulus) => Some(modulus),
            _ => None,
        })
    }

    fn kind(&self) -> Option<Kind> {
        match self.key_type()? {
            // The exponent does not matter for the length.
            KeyType::RSA => Some(Public::rsa(self.modulus()?, &[1])?.kind),
            _ => Kind::curve(self.parameters()?),
        }
    }

    fn public(&self) -> Option<Public> {
        if self.key_type()? == KeyType::RSA {
            let exponent = self.bytes(|attribute| match attribute {
                Attribute::PublicExponent(exponent) => Some(exponent),
                _ => None,
            })?;
            return Public::rsa(self.modulus()?, exponent);
        }
        let point = self.bytes(|attribute| match attribute {
            Attribute::EcPoint(point) => Some(point),
            _ => None,
        })?;
        Public::curve(self.parameters()?, point)
    }
}
