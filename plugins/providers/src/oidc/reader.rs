//! Reads values of flags, and the files that they name.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{
    Secret,
    text::{from_base64, inline},
};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use zeroize::Zeroizing;

use super::{
    assertion::SigningKey,
    settings::{ClientAuth, Grant, Keep, hex},
};
use crate::{
    Call,
    flags::Flags,
    http::{Pair, Trust},
};

/// The ports that kubelogin listens on, which people have registered with their providers.
const LISTEN: [&str; 2] = ["127.0.0.1:8000", "127.0.0.1:18000"];

/// The most of a file that a flag names.
const LIMITS: Limits = Limits::NAMED.at_most(1 << 20);

/// The command line of one call.
pub(super) struct Reader<'a> {
    pub(super) call: &'a Call,
    pub(super) flags: &'a Flags,
}

impl Reader<'_> {
    /// A value that is not empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.flags.text(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// A value under one of two names.
    pub(super) fn one(&self, [name, alias]: [&'static str; 2]) -> Option<String> {
        self.text(name).or_else(|| self.text(alias))
    }

    /// All values under these names, each a list separated by commas.
    pub(super) fn many(&self, names: &[&str]) -> Vec<String> {
        let values = names.iter().flat_map(|name| self.flags.list(name));
        let items = values.flat_map(|value| value.split(',')).map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// `NAME=VALUE`, also several separated by commas, as pflag takes them: a value with a single `=` is
    /// one pair, commas and all.
    pub(super) fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, Refusal> {
        let mut pairs = Vec::new();
        for value in self.flags.list(name) {
            let single = value.matches('=').count() == 1;
            let items = if single { vec![value.as_str()] } else { value.split(',').collect() };
            for item in items {
                let pair = item.split_once('=').ok_or_else(|| {
                    Refusal::BadConfig(format!("`--{name}` is `NAME=VALUE`, which has a `=`"))
                })?;
                pairs.push((pair.0.trim().to_owned(), pair.1.to_owned()));
            }
        }
        Ok(pairs)
    }

    pub(super) fn grant(&self) -> Result<Grant, Refusal> {
        match self.flags.text("grant-type").unwrap_or("auto") {
            "auto" if self.text("username").is_some() => Ok(Grant::Password),
            "auto" => Ok(Grant::Auto),
            "authcode" => Ok(Grant::Code),
            "authcode-keyboard" => Ok(Grant::PastedCode),
            "device-code" => Ok(Grant::Device),
            "password" => Ok(Grant::Password),
            "client-credentials" => Ok(Grant::ClientCredentials),
            other => Err(Refusal::BadConfig(format!(
                "`--grant-type` is auto, authcode, authcode-keyboard, device-code, password or \
                 client-credentials, not `{}`",
                inline(other)
            ))),
        }
    }

    pub(super) fn pkce(&self) -> Result<bool, Refusal> {
        match self.flags.text("oidc-pkce-method").unwrap_or("auto") {
            "auto" | "S256" => Ok(true),
            "no" => Ok(false),
            other => Err(Refusal::BadConfig(format!(
                "`--oidc-pkce-method` is auto, no or S256, not `{}`",
                inline(other)
            ))),
        }
    }

    /// Who keeps what outlives a login. kubelogin's `disk` is the agent.
    pub(super) fn keep(&self) -> Result<Keep, Refusal> {
        let flag = if self.flags.text("store").is_some() { "store" } else { "token-cache-storage" };
        match self.flags.text(flag).unwrap_or("agent") {
            "agent" | "disk" => Ok(Keep::Agent),
            "keyring" => Ok(Keep::Keyring),
            "none" => Ok(Keep::Nothing),
            other => Err(Refusal::BadConfig(format!(
                "`--{flag}` is agent, keyring or none, not `{}`",
                inline(other)
            ))),
        }
    }

    pub(super) fn person(&self, default: Duration) -> Result<Duration, Refusal> {
        let Some(text) = self.text("authentication-timeout-sec") else { return Ok(default) };
        let seconds = text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
        seconds.map(Duration::from_secs).ok_or_else(|| {
            Refusal::BadConfig(format!(
                "`--authentication-timeout-sec` is a number of seconds from 1 to 86400, not `{}`",
                inline(&text)
            ))
        })
    }

    /// The addresses to listen at, in order.
    pub(super) fn listen(&self) -> Vec<String> {
        let given = self.many(&["listen-address"]);
        if given.is_empty() { LISTEN.map(str::to_owned).to_vec() } else { given }
    }

    /// A secret in a flag or in a file, without the file's last line break.
    pub(super) fn secret(&self, flag: &str, file: &str) -> Result<Option<Secret>, Refusal> {
        match (self.text(flag), self.text(file)) {
            (Some(_), Some(_)) => {
                Err(Refusal::BadConfig(format!("`--{flag}` and `--{file}` exclude each other")))
            }
            (Some(secret), None) => Ok(Some(Secret::new(secret))),
            (None, Some(path)) => {
                let bytes = self.read(file, &path)?;
                let end =
                    bytes.iter().rposition(|b| !matches!(b, b'\n' | b'\r')).map_or(0, |i| i + 1);
                Ok(Some(Secret::from_bytes(bytes[..end].to_vec())))
            }
            (None, None) => Ok(None),
        }
    }

    /// How the client proves who it is, and a digest that tells one way from another.
    pub(super) fn client_auth(&self) -> Result<(ClientAuth, String), Refusal> {
        let secret = match self.text("client-secret") {
            Some(secret) if self.text("oidc-client-secret").is_none() => Some(Secret::new(secret)),
            _ => self.secret("oidc-client-secret", "client-secret-file")?,
        };
        match (secret, self.text("client-key"), self.text("client-assertion-file")) {
            (None, None, None) => Ok((ClientAuth::Public, "none".into())),
            (Some(secret), None, None) => {
                let digest = hex(secret.expose_bytes());
                Ok((ClientAuth::Secret(secret), format!("secret {digest}")))
            }
            (None, Some(path), None) => {
                let pem = self.read("client-key", &path)?;
                let key = SigningKey::from_pem(&pem, self.text("client-key-id"));
                let key = key.map_err(|why| {
                    Refusal::BadConfig(format!("`--client-key` `{}`: {why}", inline(&path)))
                })?;
                Ok((ClientAuth::Key(Box::new(key)), format!("key {}", hex(&pem))))
            }
            (None, None, Some(path)) => {
                let path = self.path(&path);
                let digest = format!("assertion in {}", path.display());
                Ok((ClientAuth::AssertionFile(path), digest))
            }
            _ => Err(Refusal::BadConfig(
                "a client secret, `--client-key` and `--client-assertion-file` exclude each other"
                    .into(),
            )),
        }
    }

    /// The authorities and the certificate for the provider.
    pub(super) fn trust(&self) -> Result<Trust, Refusal> {
        let mut authorities = Vec::new();
        for flag in ["certificate-authority", "idp-certificate-authority"] {
            for path in self.flags.list(flag).iter().filter(|path| !path.is_empty()) {
                authorities.extend(certificates(flag, path, &self.read(flag, path)?)?);
            }
        }
        for flag in ["certificate-authority-data", "idp-certificate-authority-data"] {
            for data in self.flags.list(flag).iter().filter(|data| !data.is_empty()) {
                let pem = from_base64(data.as_bytes())
                    .ok_or_else(|| Refusal::BadConfig(format!("`--{flag}` is not base64")))?;
                authorities.extend(certificates(flag, "its value", &pem)?);
            }
        }
        Ok(Trust {
            authorities,
            danger_any: self.flags.is_set("insecure-skip-tls-verify"),
            identity: self.pair("client-certificate", "client-certificate-key")?,
        })
    }

    /// A certificate chain and its key, in PEM files. Without a file for the key, it is in the chain's.
    pub(super) fn pair(&self, chain: &str, key: &str) -> Result<Option<Pair>, Refusal> {
        let (chain_path, key_path) = match (self.text(chain), self.text(key)) {
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                return Err(Refusal::BadConfig(format!("`--{key}` needs `--{chain}`")));
            }
            (Some(chain_path), key_path) => (chain_path.clone(), key_path.unwrap_or(chain_path)),
        };
        let certificates = certificates(chain, &chain_path, &self.read(chain, &chain_path)?)?;
        let pem = self.read(key, &key_path)?;
        let bad =
            |why: String| Refusal::BadConfig(format!("`--{key}` `{}`: {why}", inline(&key_path)));
        let private = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|_| bad("there is no private key in PEM, or it is encrypted".into()))?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(certificates.clone(), private.clone_key(), &provider)
            .map_err(|error| bad(format!("it does not fit the certificate: {error}")))?;
        Ok(Some((certificates, private)))
    }

    /// The whole file that a flag names.
    fn read(&self, flag: &str, path: &str) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        file::read(&self.path(path), &LIMITS).map_err(|error| {
            Refusal::BadConfig(format!(
                "cannot read `{}`, the file of `--{flag}`: {}",
                inline(path),
                file::reason(&error)
            ))
        })
    }

    /// The path; `~` is the home directory.
    fn path(&self, path: &str) -> PathBuf {
        let home = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.call.surroundings.home().map(|home| home.join(rest.trim_start_matches('/')))
            }
            _ => None,
        };
        home.unwrap_or_else(|| self.call.surroundings.absolute(Path::new(path)))
    }
}

fn certificates(
    flag: &str,
    place: &str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| {
        Refusal::BadConfig(format!("`--{flag}`: `{}` has no certificate in PEM", inline(place)))
    })
}
