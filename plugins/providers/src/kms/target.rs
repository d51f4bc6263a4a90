//! The key that a kubeconfig or a command line names.

use std::path::{Path, PathBuf};

use keyward_plugin::{Configuration, Refusal};
use keyward_protocol::text::inline;

use crate::{
    Call,
    flags::{Flags, wrong_value},
};

/// A key, and the file with its certificate.
pub(super) struct Target {
    pub(super) place: Place,
    certificate: Option<PathBuf>,
}

/// Where a key is.
pub(super) enum Place {
    /// AWS KMS: a key's id, alias or ARN.
    Aws { key: String, region: Option<String>, profile: Option<String> },
    /// The transit engine of OpenBao or Vault.
    Transit(TransitKey),
}

/// A key of a transit engine.
pub(super) struct TransitKey {
    pub(super) name: String,
    pub(super) mount: String,
    pub(super) namespace: Option<String>,
    /// The version that the certificate is for; `None` is the latest.
    pub(super) version: Option<u64>,
}

/// The entries of a kubeconfig that this signer knows.
const ENTRIES: [&str; 7] =
    ["key", "certificate", "region", "profile", "mount", "namespace", "version"];
/// Entries that the host understands.
const OF_HOST: [&str; 3] = ["pathExec", "resident", "resumption"];

impl Target {
    /// The key that a kubeconfig names.
    pub(super) fn of_configuration(
        call: &Call,
        configuration: &Configuration,
    ) -> Result<Self, Refusal> {
        let known = |name: &&str| ENTRIES.contains(name) || OF_HOST.contains(name);
        if let Some(unknown) = configuration.names().find(|name| !known(name)) {
            return Err(Refusal::BadConfig(format!(
                "the entry `{}` is not known: there are `{}`",
                inline(unknown),
                ENTRIES.join("`, `")
            )));
        }
        Self::new(call, |name| configuration.get(name).map(str::to_owned))
    }

    /// The key that flags name.
    pub(super) fn of_flags(call: &Call, flags: &Flags) -> Result<Self, Refusal> {
        Self::new(call, |name| flags.text(name).map(str::to_owned))
    }

    fn new(call: &Call, get: impl Fn(&str) -> Option<String>) -> Result<Self, Refusal> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let key = get("key").ok_or_else(|| {
            Refusal::bad_config(
                "`key` is missing: the ARN, id or alias (`alias/jane`) of a key in AWS KMS, or \
                 `transit:NAME` for OpenBao and Vault",
            )
        })?;
        let certificate = get("certificate").map(|path| call.path(&path));
        let place = match key.strip_prefix("transit:") {
            Some(name) => Place::Transit(TransitKey::new(name, get)?),
            None => Place::aws(&key, get("region"), get("profile"))?,
        };
        Ok(Self { place, certificate })
    }

    /// The file of the certificate.
    pub(super) fn certificate(&self) -> Result<&Path, Refusal> {
        self.certificate.as_deref().ok_or_else(|| {
            Refusal::bad_config("`certificate` is missing: the file of the key's certificate")
        })
    }
}

impl Place {
    fn aws(key: &str, region: Option<String>, profile: Option<String>) -> Result<Self, Refusal> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"-_:/.".contains(&b);
        if !key.bytes().all(good) {
            return Err(Refusal::BadConfig(format!("`{}` is no key of AWS KMS", inline(key))));
        }
        // `arn:aws:kms:eu-west-1:123456789012:key/…`
        let mut parts = key.split(':');
        let own = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("arn"), Some(_), Some("kms"), Some(region)) => Some(region.to_owned()),
            (Some("arn"), ..) => {
                return Err(Refusal::BadConfig(format!(
                    "`{}` is no ARN of a key in AWS KMS",
                    inline(key)
                )));
            }
            _ => None,
        };
        Ok(Self::Aws { key: key.to_owned(), region: own.or(region), profile })
    }
}

impl TransitKey {
    fn new(name: &str, get: impl Fn(&str) -> Option<String>) -> Result<Self, Refusal> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let is_name = |text: &str| {
            !text.is_empty() && text.bytes().all(good) && !text.bytes().all(|b| b == b'.')
        };
        let mount = get("mount").unwrap_or_else(|| "transit".to_owned());
        let mount = mount.trim_matches('/').to_owned();
        for (what, text) in [("key", name), ("mount", &mount)] {
            if !text.split('/').all(is_name) || (what == "key" && text.contains('/')) {
                return Err(Refusal::BadConfig(format!(
                    "`{what}`: `{}` is no name of OpenBao or Vault",
                    inline(text)
                )));
            }
        }
        let version = get("version").map(|text| {
            let number = text.parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| wrong_value("version", "a number", &text))
        });
        Ok(Self {
            name: name.to_owned(),
            mount,
            namespace: get("namespace"),
            version: version.transpose()?,
        })
    }
}
