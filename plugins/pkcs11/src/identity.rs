//! Which key is meant, and which certificate belongs to it.
//!
//! They are matched by the public key, not by `CKA_ID` alone: ids are given by people and tools, and
//! are wrong at times. What a URI says may be said of the key or of its certificate.

use jiff::Timestamp;
use keyward_plugin::Refusal;

use crate::{
    certificate::Certificate,
    contents::{Contents, Names, Private},
    module::Token,
    public::Public,
    uri::{Uri, lines},
};

/// A key, seen or only known by its public half, and what goes with it.
#[derive(Debug, Clone)]
pub(crate) struct Identity<'a> {
    /// The private key, when it can be seen.
    pub(crate) private: Option<&'a Private>,
    /// The public key, if known.
    pub(crate) public: Option<&'a Public>,
    /// Every name that key and certificates have.
    names: Vec<&'a Names>,
    /// The certificates for it.
    pub(crate) certificates: Vec<(&'a Names, &'a Certificate)>,
}

impl<'a> Identity<'a> {
    /// All keys in the token. Where the private ones cannot be seen yet, the public ones stand for
    /// them; and where there are none of these either, certificates that issued no other.
    pub(crate) fn all(contents: &'a Contents) -> Vec<Self> {
        let mut found: Vec<Self> = contents
            .private
            .iter()
            .map(|key| Self {
                private: Some(key),
                public: key.public.as_ref(),
                names: vec![&key.names],
                certificates: Vec::new(),
            })
            .collect();
        for (names, public) in &contents.public {
            match found.iter_mut().find(|identity| identity.public == Some(public)) {
                Some(identity) => identity.names.push(names),
                None if contents.private.is_empty() => found.push(Self {
                    private: None,
                    public: Some(public),
                    names: vec![names],
                    certificates: Vec::new(),
                }),
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
                    private: None,
                    public: Some(&certificate.public),
                    names: vec![names],
                    certificates: vec![(names, certificate)],
                }),
                None => {}
            }
        }
        found
    }

    /// The one that is meant; with a certificate, if one of several has it.
    pub(crate) fn choose(
        contents: &'a Contents,
        token: &Token,
        wanted: &Uri,
    ) -> Result<Option<Self>, Refusal> {
        let mut meant = Self::all(contents);
        meant.retain(|identity| identity.matches(wanted));
        if meant.len() > 1 && meant.iter().any(|identity| !identity.certificates.is_empty()) {
            meant.retain(|identity| !identity.certificates.is_empty());
        }
        if meant.len() > 1 {
            return Err(Refusal::BadConfig(format!(
                "several keys of token `{}` could be meant\n\nhint: say more of the URI, these \
                 are{}",
                token.label,
                lines(meant.iter().map(|identity| identity.uri(token)))
            )));
        }
        Ok(meant.pop())
    }

    /// The certificate to show: one that holds now, and of these the one that does so longest.
    pub(crate) fn certificate(&self, now: Timestamp) -> Option<&'a Certificate> {
        let of = |(_, certificate): &(&Names, &'a Certificate)| *certificate;
        self.certificates
            .iter()
            .map(of)
            .max_by_key(|certificate| (certificate.holds(now), certificate.until))
    }

    /// The URI that names it.
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
            .max_by_key(|candidate| (candidate.holds(now), candidate.until));
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
