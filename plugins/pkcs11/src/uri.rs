//! `pkcs11:` URIs (RFC 7512): how people and other programs name a token and what is in it.

use std::fmt::{self, Write as _};

use keyward_plugin::{Refusal, Secret};
use keyward_protocol::url::percent_decode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};

/// What is escaped in texts: all but what the RFC accepts in both path and query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'[')
    .remove(b']')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b'/');

/// An id is binary, so all of it is escaped, as the RFC advises.
const EVERY_BYTE: &AsciiSet = &AsciiSet::EMPTY.complement();

/// A parsed URI. Missing attributes match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Uri {
    /// The token's label.
    pub(crate) token: Option<String>,
    /// Who made the token.
    pub(crate) manufacturer: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) model: Option<String>,
    /// The slot the token is in, as its reader describes it.
    pub(crate) slot_description: Option<String>,
    /// Who made the reader.
    pub(crate) slot_manufacturer: Option<String>,
    /// The module, as it describes itself.
    pub(crate) library_description: Option<String>,
    /// Who made the module.
    pub(crate) library_manufacturer: Option<String>,
    /// The module's version: `2` or `2.6`.
    pub(crate) library_version: Option<String>,
    /// The slot the token is in.
    pub(crate) slot: Option<u64>,
    /// `CKA_LABEL` of key or certificate.
    pub(crate) object: Option<String>,
    /// `CKA_ID` of key or certificate.
    pub(crate) id: Option<Vec<u8>>,
    /// `module-path`: the library to load.
    pub(crate) module_path: Option<String>,
    /// `module-name`: the library to load, without directory and extension.
    pub(crate) module_name: Option<String>,
    /// `pin-source`: the file with the PIN.
    pub(crate) pin_source: Option<String>,
    /// `pin-value`: the PIN itself.
    pub(crate) pin_value: Option<Secret>,
}

impl Uri {
    /// Parses a URI. No message repeats a value, because one of them may be a PIN.
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let rest = text
            .get(..7)
            .filter(|scheme| scheme.eq_ignore_ascii_case("pkcs11:"))
            .and_then(|_| text.get(7..))
            .ok_or_else(|| fault("it does not begin with `pkcs11:`"))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self::default();
        for part in path.split(';').filter(|part| !part.is_empty()) {
            uri.path_attribute(part)?;
        }
        for part in query.split('&').filter(|part| !part.is_empty()) {
            uri.query_attribute(part)?;
        }
        Ok(uri)
    }

    fn path_attribute(&mut self, part: &str) -> Result<(), Refusal> {
        let (name, value) = attribute(part)?;
        match name {
            "token" => set(&mut self.token, name, text(name, value)?),
            "manufacturer" => set(&mut self.manufacturer, name, text(name, value)?),
            "serial" => set(&mut self.serial, name, text(name, value)?),
            "model" => set(&mut self.model, name, text(name, value)?),
            "slot-description" => set(&mut self.slot_description, name, text(name, value)?),
            "slot-manufacturer" => set(&mut self.slot_manufacturer, name, text(name, value)?),
            "library-description" => set(&mut self.library_description, name, text(name, value)?),
            "library-manufacturer" => set(&mut self.library_manufacturer, name, text(name, value)?),
            "library-version" => set(&mut self.library_version, name, text(name, value)?),
            "object" => set(&mut self.object, name, text(name, value)?),
            "id" => set(&mut self.id, name, unescape(name, value)?),
            "slot-id" => {
                let number = value.parse().map_err(|_| fault("`slot-id` is not a number"))?;
                set(&mut self.slot, name, number)
            }
            // Key and certificate are used together, so either type selects the pair.
            "type" if matches!(value, "private" | "cert" | "public") => Ok(()),
            "type" => Err(fault("`type` is neither `private` nor `cert` nor `public`")),
            // Ignoring an attribute could select another object.
            _ => Err(fault(&format!(
                "`{}` is not an attribute that is known here",
                name.escape_debug()
            ))),
        }
    }

    fn query_attribute(&mut self, part: &str) -> Result<(), Refusal> {
        let (name, value) = attribute(part)?;
        match name {
            "module-path" => set(&mut self.module_path, name, text(name, value)?),
            "module-name" => set(&mut self.module_name, name, text(name, value)?),
            "pin-source" => set(&mut self.pin_source, name, text(name, value)?),
            "pin-value" => set(&mut self.pin_value, name, Secret::new(text(name, value)?)),
            // Other programs may use query attributes that we do not need.
            _ => Ok(()),
        }
    }
}

/// Shows no PIN.
impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pkcs11:")?;
        let mut first = true;
        let mut part =
            |f: &mut fmt::Formatter<'_>, mark: char, name: &str, value: &dyn fmt::Display| {
                if !std::mem::take(&mut first) {
                    f.write_char(mark)?;
                }
                write!(f, "{name}={value}")
            };
        let texts = [
            ("library-manufacturer", &self.library_manufacturer),
            ("library-description", &self.library_description),
            ("library-version", &self.library_version),
            ("slot-manufacturer", &self.slot_manufacturer),
            ("slot-description", &self.slot_description),
            ("model", &self.model),
            ("manufacturer", &self.manufacturer),
            ("serial", &self.serial),
            ("token", &self.token),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                part(f, ';', name, &utf8_percent_encode(value, ESCAPED))?;
            }
        }
        if let Some(slot) = self.slot {
            part(f, ';', "slot-id", &slot)?;
        }
        if let Some(id) = &self.id {
            part(f, ';', "id", &percent_encode(id, EVERY_BYTE))?;
        }
        if let Some(object) = &self.object {
            part(f, ';', "object", &utf8_percent_encode(object, ESCAPED))?;
        }
        let mut mark = '?';
        let query = [
            ("module-path", &self.module_path),
            ("module-name", &self.module_name),
            ("pin-source", &self.pin_source),
        ];
        for (name, value) in query {
            if let Some(value) = value {
                write!(f, "{mark}{name}={}", utf8_percent_encode(value, ESCAPED))?;
                mark = '&';
            }
        }
        Ok(())
    }
}

/// A line for each URI, for messages.
pub(crate) fn lines(uris: impl Iterator<Item = Uri>) -> String {
    uris.fold(String::new(), |mut out, uri| {
        // Writing to a text cannot fail.
        let _ = write!(out, "\n  {uri}");
        out
    })
}

fn fault(what: &str) -> Refusal {
    Refusal::BadConfig(format!("cannot read the `pkcs11:` URI: {what}"))
}

fn attribute(part: &str) -> Result<(&str, &str), Refusal> {
    part.split_once('=').ok_or_else(|| fault("a part of it is not `name=value`"))
}

fn set<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Refusal> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(fault(&format!("`{name}` appears twice"))),
    }
}

fn text(name: &str, value: &str) -> Result<String, Refusal> {
    String::from_utf8(unescape(name, value)?).map_err(|_| fault(&format!("`{name}` is not UTF-8")))
}

fn unescape(name: &str, value: &str) -> Result<Vec<u8>, Refusal> {
    percent_decode(value)
        .ok_or_else(|| fault(&format!("`{name}` has a `%` without two hex digits")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_uri_says_token_object_module_and_pin() {
        let uri = Uri::parse(
            "pkcs11:token=The%20Lab;serial=0a1b;id=%01%FF;object=my-key;type=private;slot-id=7\
             ?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/pin&pin-value=12%2034",
        )
        .unwrap();
        assert_eq!(uri.token.as_deref(), Some("The Lab"));
        assert_eq!(uri.serial.as_deref(), Some("0a1b"));
        assert_eq!(uri.id.as_deref(), Some(&[1, 255][..]));
        assert_eq!(uri.object.as_deref(), Some("my-key"));
        assert_eq!(uri.slot, Some(7));
        assert_eq!(uri.module_path.as_deref(), Some("/usr/lib/softhsm/libsofthsm2.so"));
        assert_eq!(uri.pin_source.as_deref(), Some("file:/etc/pin"));
        assert_eq!(uri.pin_value.unwrap().expose(), "12 34");
        assert_eq!(Uri::parse("pkcs11:").unwrap(), Uri::default());
        assert_eq!(Uri::parse("PKCS11:").unwrap(), Uri::default());
    }

    #[test]
    fn what_is_written_reads_back_without_the_pin() {
        let uri = Uri::parse("pkcs11:token=a%3bb%26c;id=%00%7e?pin-value=1234&module-path=/x%3f")
            .unwrap();
        let written = uri.to_string();
        assert!(!written.contains("1234"), "{written}");
        assert_eq!(Uri::parse(&written).unwrap(), Uri { pin_value: None, ..uri });
    }

    #[test]
    fn faults_are_named_and_never_repeat_a_value() {
        for (text, what) in [
            ("file:/x", "does not begin"),
            ("pkcs11:tok", "not `name=value`"),
            ("pkcs11:colour=marked", "`colour` is not an attribute"),
            ("pkcs11:token=a;token=marked", "`token` appears twice"),
            ("pkcs11:type=data", "`type` is neither"),
            ("pkcs11:id=%1", "`id` has a `%`"),
            ("pkcs11:object=%ff", "`object` is not UTF-8"),
            ("pkcs11:?pin-value=marked%", "`pin-value` has a `%`"),
        ] {
            let message = Uri::parse(text).unwrap_err().to_string();
            assert!(message.contains(what), "{text}: {message}");
            assert!(!message.contains("marked"), "{message}");
        }
    }

    #[test]
    fn unknown_parts_of_the_query_are_for_others() {
        assert_eq!(Uri::parse("pkcs11:?x-vendor=1").unwrap(), Uri::default());
    }
}
