use std::{collections::BTreeMap, fmt};

use percent_encoding::percent_decode_str;

use super::MessageError;
use crate::{Node, Secret, json::Object};

/// The attribute of a `pkcs11:` URI that holds a PIN.
const PIN_VALUE: &str = "pin-value=";

/// The PINs in an entry of the configuration: its value if the name contains `pin`, and the `pin-value` of
/// a `pkcs11:` URI, both escaped and decoded.
pub fn pins(name: &str, value: &str) -> Vec<Secret> {
    let mut pins = Vec::new();
    if name.to_ascii_lowercase().contains("pin") {
        pins.push(Secret::new(value));
    }
    for (at, _) in value.match_indices(PIN_VALUE) {
        let rest = &value[at + PIN_VALUE.len()..];
        let written = &rest[..rest.find(['&', ';', '?']).unwrap_or(rest.len())];
        pins.push(Secret::new(written));
        pins.push(Secret::from_bytes(percent_decode_str(written).collect()));
    }
    pins
}

/// The kubeconfig's settings for the plugin: texts by name, passed on unchanged.
///
/// Any value may be a PIN, so `Debug` shows the names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Configuration(BTreeMap<String, Secret>);

impl Configuration {
    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::expose)
    }

    /// Sets a value, over an older one.
    pub fn set(&mut self, name: impl Into<String>, value: Secret) {
        self.0.insert(name.into(), value);
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn read(message: &Node) -> Result<Self, MessageError> {
        let mut read = Self::default();
        for entry in message.map_of("configuration")? {
            let field = format!("configuration.{}", entry.key);
            let value = entry.value.text(&field)?.unwrap_or_default();
            read.set(&entry.key, Secret::new(value));
        }
        Ok(read)
    }

    pub(super) fn write(&self, mut object: Object<'_>) {
        for (name, value) in self.iter() {
            object.text(name, value.expose());
        }
        object.close();
    }

    /// More bytes than its JSON can take.
    pub(super) fn length(&self) -> usize {
        self.iter().map(|(name, value)| 6 * (name.len() + value.expose().len()) + 8).sum()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Configuration {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(entries: T) -> Self {
        Self(entries.into_iter().map(|(name, value)| (name.into(), Secret::new(value))).collect())
    }
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_found_by_its_name_and_in_a_uri() {
        let found = |name: &str, value: &str| -> Vec<String> {
            pins(name, value).iter().map(|pin| pin.expose().to_owned()).collect()
        };
        assert_eq!(found("pin", "1234"), ["1234"]);
        assert_eq!(found("userPIN", "1234"), ["1234"]);
        assert_eq!(found("pathLib", "/usr/lib/x.so"), [""; 0]);
        let uri = "pkcs11:token=lab?pin-value=a%2fb%4&module-path=/x.so";
        assert_eq!(found("uri", uri), ["a%2fb%4", "a/b%4"]);
    }
}
