use std::{
    io::{self, Read},
    path::PathBuf,
};

use clap::Args;
use cryptoki::object::{Attribute, CertificateType, ObjectClass};
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};

use super::{Place, say};
use crate::{
    certificate::{self, Certificate},
    contents::{Contents, Names},
    fault::explain,
    identity::Identity,
    open::Open,
};

/// `keyward-pkcs11 import`
#[derive(Args)]
pub(super) struct Import {
    /// The certificate in PEM or DER, `-` for stdin; others after it are stored as intermediates
    certificate: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Import {
    pub(super) fn run(&self) -> Result<(), Refusal> {
        let (shown, bytes) = if self.certificate.as_os_str() == "-" {
            ("stdin".to_owned(), read_stdin())
        } else {
            let limits = Limits::GIVEN.at_most(MOST);
            let read = file::read(&self.certificate, &limits).map(|bytes| bytes.to_vec());
            (self.certificate.display().to_string(), read)
        };
        let bytes = bytes.map_err(|e| Refusal::BadConfig(format!("cannot read `{shown}`: {e}")))?;
        let certificates = certificate::from_file(&bytes).ok_or_else(|| {
            Refusal::BadConfig(format!("`{shown}` has no certificates that can be read"))
        })?;
        let mut open = Open::new(self.place.target()?, true)?;
        open.login(&mut Vec::new())?;
        let contents = open.contents()?;
        let identities = Identity::all(&contents);
        let key = identities
            .iter()
            .find(|identity| identity.public == Some(&certificates[0].public))
            .and_then(|identity| identity.private)
            .ok_or_else(|| {
                Refusal::BadConfig(format!(
                    "`{shown}` begins with a certificate for a key that is not in token `{}`",
                    open.token.label
                ))
            })?;
        store(&open, &contents, &certificates[0], &key.names)?;
        for above in certificates[1..].iter().filter(|certificate| !certificate.is_root()) {
            let names = Names { id: Vec::new(), label: above.subject_text.clone() };
            store(&open, &contents, above, &names)?;
        }
        say(&format!(
            "stored; this user can be put into a kubeconfig with\n  uri: {}",
            crate::uri::Uri {
                id: Some(key.names.id.clone()),
                object: Some(key.names.label.clone()),
                token: Some(open.token.label.clone()),
                serial: Some(open.token.serial.clone()),
                ..crate::uri::Uri::default()
            }
        ));
        Ok(())
    }
}

/// The most that is read: no chain of certificates is longer.
const MOST: u64 = 1 << 20;

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes)? as u64 > MOST {
        return Err(io::Error::other("it is longer than any chain of certificates"));
    }
    Ok(bytes)
}

fn store(
    open: &Open,
    contents: &Contents,
    certificate: &Certificate,
    names: &Names,
) -> Result<(), Refusal> {
    if contents.certificates.iter().any(|(_, there)| there == certificate) {
        return Ok(());
    }
    let mut template = vec![
        Attribute::Class(ObjectClass::CERTIFICATE),
        Attribute::CertificateType(CertificateType::X_509),
        Attribute::Token(true),
        Attribute::Private(false),
        Attribute::Label(names.label.clone().into_bytes()),
        Attribute::Subject(certificate.subject.clone()),
        Attribute::Issuer(certificate.issuer.clone()),
        Attribute::SerialNumber(certificate.serial.clone()),
        Attribute::Value(certificate.der.clone()),
    ];
    if !names.id.is_empty() {
        template.push(Attribute::Id(names.id.clone()));
    }
    open.with(|session| {
        session
            .create_object(&template)
            .map_err(|e| explain(&format!("store `{}`", certificate.subject_text), &e))?;
        Ok(())
    })
}
