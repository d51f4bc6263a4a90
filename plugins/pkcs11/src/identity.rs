//! Finds the key that a URI matches, and its certificate.
//!
//! They are paired by the public key, not by `CKA_ID` alone: people and tools set ids, at times wrongly.
//! A URI may match the key or its certificate.

use jiff::Timestamp;
use keyward_plugin::Refusal;

use crate::{
    certificate::Certificate,
    contents::{Contents, Names, Private},
    module::Token,
    public::Public,
    uri::{Uri, lines},
};

/// A key, visible or known by its public key only, with its certificates.
#[derive(Debug, Clone)]
pub(crate) struct Identity<'a> {
    /// The private key, if visible.
    pub(crate) private: Option<&'a Private>,
    /// The public key, if known.
    pub(crate) public: Option<&'a Public>,
    /// All names of the key and its certificates.
    names: Vec<&'a Names>,
    pub(crate) certificates: Vec<(&'a Names, &'a Certificate)>,
}

impl<'a> Identity<'a> {
    fn new(private: Option<&'a Private>, public: Option<&'a Public>, names: &'a Names) -> Self {
        Self { private, public, names: vec![names], certificates: Vec::new() }
    }

    /// All keys in the token. If no private key is visible yet, public keys stand for them; without
    /// those, certificates that issued no other.
    pub(crate) fn all(contents: &'a Contents) -> Vec<Self> {
        let mut found: Vec<Self> = contents
            .private
            .iter()
            .map(|key| Self::new(Some(key), key.public.as_ref(), &key.names))
            .collect();
        for (names, public) in &contents.public {
            match found.iter_mut().find(|identity| identity.public == Some(public)) {
                Some(identity) => identity.names.push(names),
                None if contents.private.is_empty() => {
                    found.push(Self::new(None, Some(public), names));
                }
                None => {}
            }
        }
        let key_seen = !found.is_empty();
        for (names, certificate) in &contents.certificates {
            let mine = found.iter_mut().find(|identity| match identity.public {
                Some(public) => *public == certificate.public,
                None => identity.names.iter().any(|key| !key.id.is_empty() && key.id == names.id),
            });
            match mine {
                Some(identity) => {
                    identity.names.push(names);
                    identity.certificates.push((names, certificate));
                }
                None if !key_seen && !issued_another(certificate, contents) => found.push(Self {
                    certificates: vec![(names, certificate)],
                    ..Self::new(None, Some(&certificate.public), names)
                }),
                None => {}
            }
        }
        found
    }

    /// The identity that the URI matches; of several the one with a certificate.
    pub(crate) fn choose(
        contents: &'a Contents,
        token: &Token,
        wanted: &Uri,
    ) -> Result<Option<Self>, Refusal> {
        let mut matching = Self::all(contents);
        matching.retain(|identity| identity.matches(wanted));
        if matching.len() > 1 && matching.iter().any(|identity| !identity.certificates.is_empty()) {
            matching.retain(|identity| !identity.certificates.is_empty());
        }
        if matching.len() > 1 {
            return Err(Refusal::BadConfig(format!(
                "several keys of token `{}` match\n\nhint: extend the URI to match one of{}",
                token.label,
                lines(matching.iter().map(|identity| identity.uri(token)))
            )));
        }
        Ok(matching.pop())
    }

    /// The certificate to show: a valid one if possible, and of those the one that expires last.
    pub(crate) fn certificate(&self, now: Timestamp) -> Option<&'a Certificate> {
        let of = |(_, certificate): &(&Names, &'a Certificate)| *certificate;
        self.certificates
            .iter()
            .map(of)
            .max_by_key(|certificate| (certificate.is_valid(now), certificate.until))
    }

    /// The URI of the identity.
    pub(crate) fn uri(&self, token: &Token) -> Uri {
        let names = self.names[0];
        Uri {
            id: Some(names.id.clone()).filter(|id| !id.is_empty()),
            object: Some(names.label.clone()).filter(|label| !label.is_empty()),
            ..token.uri()
        }
    }

    fn matches(&self, wanted: &Uri) -> bool {
        let id = |names: &&Names| wanted.id.as_ref().is_none_or(|id| *id == names.id);
        let label =
            |names: &&Names| wanted.object.as_ref().is_none_or(|label| *label == names.label);
        self.names.iter().any(id) && self.names.iter().any(label)
    }
}

/// What stands between this certificate and the authority, nearest first, without the authority.
pub(crate) fn chain<'a>(
    certificate: &'a Certificate,
    contents: &'a Contents,
    now: Timestamp,
) -> Vec<&'a Certificate> {
    let mut chain: Vec<&Certificate> = Vec::new();
    let mut last = certificate;
    loop {
        let issuer = contents
            .certificates
            .iter()
            .map(|(_, candidate)| candidate)
            .filter(|candidate| candidate.subject == last.issuer && !candidate.is_root())
            .filter(|candidate| *candidate != certificate && !chain.contains(candidate))
            .max_by_key(|candidate| (candidate.is_valid(now), candidate.until));
        match issuer {
            Some(issuer) if !last.is_root() => {
                chain.push(issuer);
                last = issuer;
            }
            _ => return chain,
        }
    }
}

fn issued_another(certificate: &Certificate, contents: &Contents) -> bool {
    contents
        .certificates
        .iter()
        .any(|(_, other)| other != certificate && other.issuer == certificate.subject)
}
