use clap::{Args, ValueEnum};
use cryptoki::{
    mechanism::Mechanism,
    object::{Attribute, KeyType},
};
use keyward_plugin::Refusal;

use super::{Place, print, say};
use crate::{contents::Contents, fault::explain, open::Open, public::Kind, uri::Uri};

/// `keyward-pkcs11 keygen`
#[derive(Args)]
pub(super) struct Keygen {
    #[command(flatten)]
    place: Place,
    /// What kind of key
    #[arg(long, value_enum, default_value = "p256")]
    kind: Choice,
    /// Ask for the PIN at each signature
    #[arg(long)]
    always_authenticate: bool,
}

/// The kinds of key that can be made.
#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    Rsa2048,
    Rsa3072,
    Rsa4096,
    P256,
    P384,
    P521,
    Ed25519,
}

impl Keygen {
    pub(super) fn run(&self) -> Result<(), Refusal> {
        let target = self.place.target()?;
        let label = target.uri.object.clone().ok_or_else(|| {
            Refusal::bad_config(
                "the key needs a name\n\nhint: give it one in the URI, as in \
                 `pkcs11:token=lab;object=jane`",
            )
        })?;
        let mut open = Open::new(target, true)?;
        open.login(&mut Vec::new())?;
        let contents = open.contents()?;
        let id = match &open.target.uri.id {
            Some(id) => id.clone(),
            None => free_id(&contents)?,
        };
        let taken = |names: &crate::contents::Names| names.id == id || names.label == label;
        if contents.private.iter().any(|key| taken(&key.names)) {
            return Err(Refusal::BadConfig(format!(
                "token `{}` has a key with this name or id already",
                open.token.label
            )));
        }
        self.make(&open, &label, &id)?;
        say("the key is made; it cannot leave the token");
        let uri = Uri { id: Some(id), object: Some(label), ..open.token.uri() };
        print(&format!("{uri}\n"))
    }

    fn make(&self, open: &Open, label: &str, id: &[u8]) -> Result<(), Refusal> {
        let kind = self.kind.kind();
        let names = [
            Attribute::Token(true),
            Attribute::Label(label.as_bytes().to_vec()),
            Attribute::Id(id.to_vec()),
        ];
        let mut public = names.to_vec();
        public.extend([Attribute::Private(false), Attribute::Verify(true)]);
        let mut private = names.to_vec();
        private.extend([
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(false),
            Attribute::Sign(true),
        ]);
        if self.always_authenticate {
            private.push(Attribute::AlwaysAuthenticate(true));
        }
        let (mechanism, family) = match kind {
            Kind::Rsa(bits) => {
                let bits = bits.try_into().map_err(|e| explain("make a key of this length", &e))?;
                public.push(Attribute::ModulusBits(bits));
                public.push(Attribute::PublicExponent(vec![1, 0, 1]));
                (Mechanism::RsaPkcsKeyPairGen, KeyType::RSA)
            }
            Kind::Ed25519 => (Mechanism::EccEdwardsKeyPairGen, KeyType::EC_EDWARDS),
            _ => (Mechanism::EccKeyPairGen, KeyType::EC),
        };
        if let Some(parameters) = kind.parameters() {
            public.push(Attribute::EcParams(parameters));
        }
        public.push(Attribute::KeyType(family));
        private.push(Attribute::KeyType(family));
        open.with(|session| {
            session
                .generate_key_pair(&mechanism, &public, &private)
                .map_err(|e| explain(&format!("make a key of kind {kind}"), &e))?;
            Ok(())
        })
    }
}

impl Choice {
    fn kind(self) -> Kind {
        match self {
            Self::Rsa2048 => Kind::Rsa(2048),
            Self::Rsa3072 => Kind::Rsa(3072),
            Self::Rsa4096 => Kind::Rsa(4096),
            Self::P256 => Kind::P256,
            Self::P384 => Kind::P384,
            Self::P521 => Kind::P521,
            Self::Ed25519 => Kind::Ed25519,
        }
    }
}

/// The first id of one byte that nothing in the token has, so that `objectId` can say it too.
fn free_id(contents: &Contents) -> Result<Vec<u8>, Refusal> {
    let taken = |id: u8| {
        let keys = contents.private.iter().map(|key| &key.names);
        let publics = contents.public.iter().map(|(names, _)| names);
        let certificates = contents.certificates.iter().map(|(names, _)| names);
        keys.chain(publics).chain(certificates).any(|names| names.id == [id])
    };
    (1..=u8::MAX).find(|&id| !taken(id)).map(|id| vec![id]).ok_or_else(|| {
        Refusal::bad_config("all short ids are taken: name one in the URI with `id=`")
    })
}
