//! Values of flags that several families have, and the files that they name.

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

use crate::{
    Call,
    client_auth::{ClientAuth, SigningKey},
    flags::Flags,
    http::{Pair, Trust},
    store::digest_of,
};

/// The most of a file that a flag names.
const LIMITS: Limits = Limits::NAMED.at_most(1 << 20);

/// The command line of one call.
pub(crate) struct Reader<'a> {
    pub(crate) call: &'a Call,
    pub(crate) flags: &'a Flags,
}

impl Reader<'_> {
    /// A value that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.flags.filled(name).map(str::to_owned)
    }

    /// A value under one of two names.
    pub(crate) fn one(&self, [name, alias]: [&'static str; 2]) -> Option<String> {
        self.text(name).or_else(|| self.text(alias))
    }

    /// All values under these names, each a list separated by commas.
    pub(crate) fn many(&self, names: &[&str]) -> Vec<String> {
        let values = names.iter().flat_map(|name| self.flags.list(name));
        let items = values.flat_map(|value| value.split(',')).map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// `NAME=VALUE`, also several separated by commas, as pflag takes them: a value with a single `=` is
    /// one pair, commas and all.
    pub(crate) fn pairs(&self, name: &str) -> Result<Vec<(String, String)>, Refusal> {
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

    /// A secret in a flag or in a file, without the file's last line break.
    pub(crate) fn secret(&self, flag: &str, file: &str) -> Result<Option<Secret>, Refusal> {
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
    pub(crate) fn client_auth(
        &self,
        secret: Option<Secret>,
    ) -> Result<(ClientAuth, String), Refusal> {
        match (secret, self.text("client-key"), self.text("client-assertion-file")) {
            (None, None, None) => Ok((ClientAuth::Public, "none".into())),
            (Some(secret), None, None) => {
                let digest = digest_of(secret.expose_bytes());
                Ok((ClientAuth::Secret(secret), format!("secret {digest}")))
            }
            (None, Some(path), None) => {
                let pem = self.read("client-key", &path)?;
                let key = SigningKey::from_pem(&pem, self.text("client-key-id"));
                let key = key.map_err(|why| {
                    Refusal::BadConfig(format!("`--client-key` `{}`: {why}", inline(&path)))
                })?;
                Ok((ClientAuth::Key(Box::new(key)), format!("key {}", digest_of(&pem))))
            }
            (None, None, Some(path)) => {
                let path = self.call.path(&path);
                let digest = format!("assertion in {}", path.display());
                Ok((ClientAuth::AssertionFile(path), digest))
            }
            _ => Err(Refusal::bad_config(
                "a client secret, `--client-key` and `--client-assertion-file` exclude each other",
            )),
        }
    }

    /// The authorities and the certificate for the server.
    pub(crate) fn trust(&self) -> Result<Trust, Refusal> {
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
    pub(crate) fn pair(&self, chain: &str, key: &str) -> Result<Option<Pair>, Refusal> {
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
    pub(crate) fn read(&self, flag: &str, path: &str) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        file::read(&self.call.path(path), &LIMITS).map_err(|error| {
            Refusal::BadConfig(format!(
                "cannot read `{}`, the file of `--{flag}`: {}",
                inline(path),
                file::reason(&error)
            ))
        })
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
