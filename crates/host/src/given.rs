//! Credentials that need no plugin: tokens, passwords and certificates of the kubeconfig or of files.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use keyward_process::file::{self, Limits};
use keyward_protocol::Secret;

use keyward_process::clock::SharedClock;

use crate::{
    Credential, Error, Kind, Plan,
    cell::{Fetch, Fresh, Keep, Occasion},
    credential::{Header, Unsendable},
    pair::Pair,
    plan::Method,
};

/// How long the content of a file is kept, as in the reference: half of the time between the renewal
/// of a service account's token and the end of the old one.
const REREAD: Duration = Duration::from_secs(60);

/// Gives what a user has. Files are read again about once a minute; while they cannot be read, the
/// last good content serves.
pub(crate) struct Given {
    plan: Plan,
    clock: SharedClock,
    last: Mutex<Option<Last>>,
}

struct Last {
    token: Option<Secret>,
    credential: Credential,
}

impl Given {
    pub(crate) fn new(plan: Plan, clock: SharedClock) -> Self {
        Self { plan, clock, last: Mutex::new(None) }
    }

    fn read(&self, last: Option<&Last>) -> Result<Last, Error> {
        let user = &self.plan.target().user;
        let mut token = None;
        let mut header = Header::None;
        for method in self.plan.methods() {
            match method {
                Method::Token => token = Some(user.token.clone()),
                Method::TokenFile(file) => token = Some(self.token(file, last.is_none())?),
                Method::Basic => {
                    header = Header::Basic(user.username.clone(), user.password.clone());
                }
                _ => {}
            }
        }
        let known = last.and_then(|last| last.credential.pair());
        let pair = pair(&self.plan, known)?;
        // The same content is the same credential: nothing was rotated.
        if let Some(last) = last
            && last.token == token
            && same(last.credential.pair(), pair.as_ref())
        {
            return Ok(Last { token, credential: last.credential.copy() });
        }
        if let Some(token) = &token {
            header = Header::Bearer(token.clone());
        }
        let credential = Credential::new(header, pair, None).map_err(|Unsendable| {
            self.wrong("the token contains a character that no header can carry")
        })?;
        Ok(Last { token, credential })
    }

    /// The file's content without white space around it. The `first` time the kubeconfig's own token
    /// is good enough, if there is one and the file cannot be read.
    fn token(&self, file: &Path, first: bool) -> Result<Secret, Error> {
        let user = &self.plan.target().user;
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
        Error::new(Kind::BadConfig, what).note_first("needed by", self.plan.needed_by())
    }
}

impl Fetch<Credential> for Given {
    fn fetch(&self, _occasion: &Occasion) -> Result<Fresh<Credential>, Error> {
        let from_files = self
            .plan
            .methods()
            .iter()
            .any(|method| matches!(method, Method::TokenFile(_) | Method::CertificateFiles));
        let until = || self.clock.now().checked_add(REREAD).ok();
        let expires = if from_files { until() } else { None };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.read(last.as_ref()), &*last) {
            (Ok(new), _) => {
                let value = new.credential.copy();
                *last = Some(new);
                Ok(Fresh { value, expires })
            }
            (Err(error), Some(old)) => {
                tracing::warn!(%error, "the last good content is used");
                Ok(Fresh { value: old.credential.copy(), expires })
            }
            (Err(error), None) => Err(error),
        }
    }
}

/// The client certificate of a plan's user, from the kubeconfig or its files; `known` when it is the
/// same.
pub(crate) fn pair(plan: &Plan, known: Option<&Arc<Pair>>) -> Result<Option<Arc<Pair>>, Error> {
    let has = |method| plan.methods().contains(&method);
    if !has(Method::Certificate) && !has(Method::CertificateFiles) {
        return Ok(None);
    }
    let user = &plan.target().user;
    let wrong =
        |what: String| Error::new(Kind::BadConfig, what).note_first("needed by", plan.needed_by());
    let read = |what: &str, file: &str| {
        file::read(file.as_ref(), &Limits::NAMED)
            .map_err(|error| wrong(format!("cannot read {what} `{file}`")).because(error))
    };
    let certificate = if user.client_certificate_data.is_empty() {
        read("the client certificate", &user.client_certificate)?
    } else {
        user.client_certificate_data.clone().into()
    };
    let key = if user.client_key_data.is_empty() {
        let bytes = read("the client key", &user.client_key)?;
        Secret::new(String::from_utf8_lossy(&bytes))
    } else {
        user.client_key_data.clone()
    };
    let pair = Pair::parse(&String::from_utf8_lossy(&certificate), &key).map_err(|error| {
        wrong("the client certificate and key are not a pair".into()).note("because", error.0)
    })?;
    Ok(Some(keep_known(pair, known)))
}

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

fn same(a: Option<&Arc<Pair>>, b: Option<&Arc<Pair>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}
