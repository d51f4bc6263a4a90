//! The token and key to use, and where the PIN is stored.

use std::path::{Path, PathBuf};

use keyward_plugin::{Configuration, Refusal, Secret};

use crate::uri::Uri;

/// The settings of the kubeconfig or the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The library to load.
    pub(crate) module: PathBuf,
    /// Token, object and the rest of the URI, without module and PIN.
    pub(crate) uri: Uri,
    /// The proposal's `slotId`: the id of a slot or, if there is none, the index of a token.
    pub(crate) slot: Option<u64>,
    /// Where the PIN is stored, if it is not typed.
    pub(crate) stored: Option<Stored>,
    /// Whether a typed PIN may be reused for a key that needs it for each signature.
    pub(crate) reuse: bool,
}

/// A stored PIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In the configuration itself.
    Value(Secret),
    /// In a file.
    File(PathBuf),
}

impl Target {
    /// Reads the entries of the kubeconfig: `uri`, or the proposal's `pathLib`, `slotId`, `objectId` and
    /// `pin`, or both if they do not set one thing twice.
    pub(crate) fn from_configuration(configuration: &Configuration) -> Result<Self, Refusal> {
        let given = |name| configuration.get(name).filter(|value| !value.is_empty());
        let mut uri = given("uri").map_or_else(|| Ok(Uri::default()), Uri::parse)?;
        if let Some(path) = given("pathLib") {
            once(&mut uri.module_path, path.to_owned(), "pathLib", "module-path")?;
        }
        if let Some(number) = given("objectId") {
            let id: u8 = number
                .parse()
                .map_err(|_| Refusal::bad_config("`objectId` is not a number from 0 to 255"))?;
            once(&mut uri.id, vec![id], "objectId", "id")?;
        }
        if let Some(pin) = given("pin") {
            once(&mut uri.pin_value, Secret::new(pin), "pin", "pin-value")?;
        }
        let slot = given("slotId")
            .map(str::parse)
            .transpose()
            .map_err(|_| Refusal::bad_config("`slotId` is not a number"))?;
        let reuse = match given("reusePin") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => {
                return Err(Refusal::bad_config("`reusePin` is neither `true` nor `false`"));
            }
        };
        Ok(Self { slot, reuse, ..Self::from_uri(uri)? })
    }

    /// From a URI alone.
    pub(crate) fn from_uri(mut uri: Uri) -> Result<Self, Refusal> {
        let module = module(uri.module_path.take(), uri.module_name.take())?;
        let stored = match (uri.pin_value.take(), uri.pin_source.take()) {
            (None, None) => None,
            (Some(pin), None) => Some(Stored::Value(pin)),
            (None, Some(source)) => Some(Stored::File(pin_file(&source)?)),
            (Some(_), Some(_)) => {
                return Err(Refusal::bad_config(
                    "the PIN is given twice: as a value and by `pin-source`",
                ));
            }
        };
        Ok(Self { module, uri, slot: None, stored, reuse: false })
    }
}

fn once<T>(place: &mut Option<T>, value: T, key: &str, attribute: &str) -> Result<(), Refusal> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::BadConfig(format!(
            "`{key}` and `{attribute}` of the URI say the same thing: leave one of them out"
        ))),
    }
}

fn module(path: Option<String>, name: Option<String>) -> Result<PathBuf, Refusal> {
    match (path, name) {
        (Some(_), Some(_)) => Err(Refusal::bad_config(
            "`module-path` and `module-name` say the same thing: leave one of them out",
        )),
        (Some(path), None) => {
            let path = PathBuf::from(path);
            // Relative to where the person happens to stand would be anybody's library.
            if path.is_relative() && path.components().count() > 1 {
                return Err(Refusal::BadConfig(format!(
                    "the module `{}` is neither an absolute path nor a bare file name",
                    path.display()
                )));
            }
            Ok(if path.is_absolute() { path } else { search(&[path.as_path()]) })
        }
        (None, Some(name)) if name.contains('/') => {
            Err(Refusal::bad_config("`module-name` is a name, not a path"))
        }
        (None, Some(name)) => {
            let names = [format!("lib{name}.so"), format!("{name}.so")];
            Ok(search(&names.each_ref().map(Path::new)))
        }
        (None, None) => Ok(search(&[Path::new(PROXY)])),
    }
}

/// The module that shows the tokens of all modules that the system knows.
const PROXY: &str = "p11-kit-proxy.so";

/// The first of these files in the directories where distributions put modules; otherwise the first
/// name as it is, for the system's own search.
fn search(names: &[&Path]) -> PathBuf {
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let roots = [machine.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/homebrew/lib"];
    roots
        .iter()
        .flat_map(|root| ["", "pkcs11", "softhsm"].map(|directory| Path::new(root).join(directory)))
        .flat_map(|directory| names.iter().map(move |name| directory.join(name)))
        .find(|path| path.is_file())
        .unwrap_or_else(|| names[0].to_path_buf())
}

fn pin_file(source: &str) -> Result<PathBuf, Refusal> {
    let path = match source.strip_prefix("file:") {
        Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
        None => source,
    };
    if !path.starts_with('/') {
        return Err(Refusal::bad_config("`pin-source` must name a file by an absolute path"));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn target(entries: &[(&str, &str)]) -> Result<Target, Refusal> {
        Target::from_configuration(&entries.iter().copied().collect())
    }

    #[test]
    fn the_proposals_configuration_is_understood() {
        let target = target(&[
            ("pathExec", "/path/to/externalSigner"),
            ("pathLib", "/path/to/library.so"),
            ("objectId", "2"),
            ("slotId", "0"),
            ("pin", "123456"),
        ])
        .unwrap();
        assert_eq!(target.module, Path::new("/path/to/library.so"));
        assert_eq!(target.uri.id.as_deref(), Some(&[2][..]));
        assert_eq!(target.slot, Some(0));
        assert_eq!(target.stored, Some(Stored::Value(Secret::new("123456"))));
        assert!(!format!("{target:?}").contains("123456"));
    }

    #[test]
    fn a_uri_says_the_same_and_more() {
        let target = target(&[(
            "uri",
            "pkcs11:token=lab;object=me?module-path=/m.so&pin-source=file:///run/pin",
        )])
        .unwrap();
        assert_eq!(target.module, Path::new("/m.so"));
        assert_eq!(target.uri.token.as_deref(), Some("lab"));
        assert_eq!(target.stored, Some(Stored::File("/run/pin".into())));
    }

    #[test]
    fn faults_name_the_key_and_not_its_value() {
        for (entries, what) in [
            (&[("objectId", "256")][..], "`objectId`"),
            (&[("objectId", "marked")], "`objectId`"),
            (&[("slotId", "-1")], "`slotId`"),
            (&[("reusePin", "marked")], "`reusePin`"),
            (&[("pin", "marked"), ("uri", "pkcs11:?pin-value=marked")], "`pin-value`"),
            (&[("pin", "marked"), ("uri", "pkcs11:?pin-source=/x")], "twice"),
            (&[("pathLib", "./here.so")], "neither an absolute path"),
            (&[("uri", "pkcs11:?pin-source=relative")], "absolute path"),
            (&[("uri", "pkcs11:?pin-source=|marked")], "absolute path"),
        ] {
            let message = target(entries).unwrap_err().to_string();
            assert!(message.contains(what), "{message}");
            assert!(!message.contains("marked"), "{message}");
        }
    }
}
