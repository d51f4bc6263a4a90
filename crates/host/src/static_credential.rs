//! Credentials that need no plugin: tokens, passwords and certificates of the kubeconfig or of files.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use keyward_process::{
    clock::SharedClock,
    file::{self, Limits},
    lock,
};
use keyward_protocol::Secret;
use zeroize::Zeroizing;

use crate::{
    Credential, Error, Kind, Plan,
    cell::{CacheValue, Fetch, Fetched, Occasion},
    credential::{Header, Unsendable},
    kubeconfig::User,
    pair::Pair,
};

/// What a user has without running anything. It wins over an exec plugin (EX-15).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StaticCredential {
    /// A client certificate with its key, for the handshake.
    pub(crate) certificate: Option<CertificateSource>,
    /// What goes into the `Authorization` header.
    pub(crate) header: Option<HeaderSource>,
}

/// Where a client certificate and its key are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertificateSource {
    /// Both in the kubeconfig.
    Kubeconfig,
    /// At least one of them in a file, read again as it changes.
    Files,
}

/// Where the content of an `Authorization` header comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HeaderSource {
    /// A token, in the kubeconfig or a flag.
    Token,
    /// A token in a file, read again as it changes.
    TokenFile(PathBuf),
    /// A user name with a password.
    Basic,
}

impl StaticCredential {
    /// What this user has. A password alone, or half of a pair, is nothing.
    pub(crate) fn of(user: &User) -> Self {
        let in_config =
            !user.client_certificate_data.is_empty() && !user.client_key_data.is_empty();
        let certificate =
            !user.client_certificate.is_empty() || !user.client_certificate_data.is_empty();
        let key = !user.client_key.is_empty() || !user.client_key_data.is_empty();
        Self {
            certificate: if in_config {
                Some(CertificateSource::Kubeconfig)
            } else {
                (certificate && key).then_some(CertificateSource::Files)
            },
            header: if !user.token_file.is_empty() {
                Some(HeaderSource::TokenFile(PathBuf::from(&user.token_file)))
            } else if !user.token.is_empty() {
                Some(HeaderSource::Token)
            } else {
                (!user.username.is_empty()).then_some(HeaderSource::Basic)
            },
        }
    }

    /// Whether there is nothing: the user is anonymous, or has a plugin.
    pub(crate) fn is_empty(&self) -> bool {
        self.certificate.is_none() && self.header.is_none()
    }

    /// The header, unless it is in a file.
    pub(crate) fn header(&self, user: &User) -> Header {
        match self.header {
            Some(HeaderSource::Token) => Header::Bearer(user.token.clone()),
            Some(HeaderSource::Basic) => {
                Header::Basic(user.username.clone(), user.password.clone())
            }
            Some(HeaderSource::TokenFile(_)) | None => Header::None,
        }
    }
}

/// How long the content of a file is kept, as in the reference: half of the time between the renewal
/// of a service account's token and the end of the old one.
const REREAD: Duration = Duration::from_secs(60);

/// Gives what a user has. Files are read again about once a minute; while they cannot be read, the
/// last good content serves.
pub(crate) struct StaticFetch {
    fixed: StaticCredential,
    plan: Plan,
    clock: SharedClock,
    last: Mutex<Option<Credential>>,
}

impl StaticFetch {
    pub(crate) fn new(fixed: StaticCredential, plan: Plan, clock: SharedClock) -> Self {
        Self { fixed, plan, clock, last: Mutex::new(None) }
    }

    fn read(&self, last: Option<&Credential>) -> Result<Credential, Error> {
        let user = &self.plan.target().user.value;
        let header = match &self.fixed.header {
            Some(HeaderSource::TokenFile(file)) => {
                Header::Bearer(self.token(file, last.is_none())?)
            }
            _ => self.fixed.header(user),
        };
        let token = match &header {
            Header::Bearer(token) => Some(token),
            _ => None,
        };
        let pair = pair(&self.fixed, &self.plan, last.and_then(Credential::pair))?;
        // The same content is the same credential: nothing was rotated.
        if let Some(last) = last
            && last.token() == token
            && last.pair().map(Arc::as_ptr) == pair.as_ref().map(Arc::as_ptr)
        {
            return Ok(last.copy());
        }
        Credential::new(header, pair, None).map_err(|Unsendable| {
            self.wrong("the token contains a character that no header can contain")
        })
    }

    /// The file's content without white space around it. The `first` time the kubeconfig's own token
    /// is good enough, if there is one and the file cannot be read.
    fn token(&self, file: &Path, first: bool) -> Result<Secret, Error> {
        let user = &self.plan.target().user.value;
        let content = read_text(file);
        match content {
            Ok(content) if !content.expose().trim().is_empty() => {
                Ok(Secret::new(content.expose().trim()))
            }
            _ if first && !user.token.expose().trim().is_empty() => {
                Ok(Secret::new(user.token.expose().trim()))
            }
            Ok(_) => Err(self.wrong(&format!("the token file `{}` is empty", file.display()))),
            Err(error) => Err(self
                .wrong(&format!("cannot read the token file `{}`", file.display()))
                .because(error)),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::new(Kind::BadConfig, what).needed_by(self.plan.needed_by())
    }
}

impl Fetch<Credential> for StaticFetch {
    fn fetch(&self, _occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        let from_files = self.fixed.certificate == Some(CertificateSource::Files)
            || matches!(self.fixed.header, Some(HeaderSource::TokenFile(_)));
        let until = || self.clock.now().checked_add(REREAD).ok();
        let expires = if from_files { until() } else { None };
        let mut last = lock(&self.last);
        match (self.read(last.as_ref()), &*last) {
            (Ok(new), _) => {
                let value = new.copy();
                *last = Some(new);
                Ok(Fetched { value, expires })
            }
            (Err(error), Some(old)) => {
                tracing::warn!(%error, "the last good content is used");
                Ok(Fetched { value: old.copy(), expires })
            }
            (Err(error), None) => Err(error),
        }
    }
}

/// The client certificate of a plan's user; `known` when it did not change.
pub(crate) fn pair(
    fixed: &StaticCredential,
    plan: &Plan,
    known: Option<&Arc<Pair>>,
) -> Result<Option<Arc<Pair>>, Error> {
    if fixed.certificate.is_none() {
        return Ok(None);
    }
    let pair = read_pair(&plan.target().user.value).map_err(|unusable| {
        let wrong = |what: String| Error::new(Kind::BadConfig, what);
        let error = match unusable {
            Unusable::File { what, file, error } => {
                wrong(format!("cannot read {what} `{file}`")).because(error)
            }
            Unusable::Pair(why) => {
                wrong("the client certificate and key are not a pair".into()).note("because", why)
            }
        };
        error.needed_by(plan.needed_by())
    })?;
    Ok(Some(keep_known(pair, known)))
}

/// Why a client certificate with its key cannot be used.
pub(crate) enum Unusable {
    File { what: &'static str, file: String, error: io::Error },
    Pair(String),
}

/// The client certificate of a user with its key, parsed.
pub(crate) fn read_pair(user: &User) -> Result<Pair, Unusable> {
    let (certificate, mut key) = read_parts(user)?;
    let key = Secret::from_bytes(std::mem::take(&mut *key));
    Pair::parse(&String::from_utf8_lossy(&certificate), &key)
        .map_err(|error| Unusable::Pair(error.to_string()))
}

/// A client certificate and its key, each from the kubeconfig or else from its file.
pub(crate) fn read_parts(user: &User) -> Result<(Bytes, Bytes), Unusable> {
    let read = |what, file: &String, data: &[u8]| {
        if !data.is_empty() {
            return Ok(Bytes::new(data.to_vec()));
        }
        file::read(file.as_ref(), &Limits::NAMED).map_err(|error| Unusable::File {
            what,
            file: file.clone(),
            error,
        })
    };
    let key_data = user.client_key_data.expose_bytes();
    Ok((
        read("the client certificate", &user.client_certificate, &user.client_certificate_data)?,
        read("the client key", &user.client_key, key_data)?,
    ))
}

type Bytes = Zeroizing<Vec<u8>>;

fn read_text(path: &Path) -> io::Result<Secret> {
    let bytes = file::read(path, &Limits::NAMED)?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Secret::new(text)),
        Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The pair, or the one we had if the certificates are the same: whoever holds a key of the leaf holds
/// the same key.
pub(crate) fn keep_known(pair: Pair, known: Option<&Arc<Pair>>) -> Arc<Pair> {
    match known {
        Some(known) if known.chain == pair.chain => Arc::clone(known),
        _ => Arc::new(pair),
    }
}
