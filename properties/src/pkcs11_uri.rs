//! `pkcs11:` URIs: what was read can be written without its PIN, and reads back the same.

use crate::{MARK, budget, mark};

#[path = "../../plugins/pkcs11/src/uri.rs"]
#[expect(dead_code, reason = "the program uses more of it")]
mod uri;

use uri::Uri;

pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match budget::within(input, || Uri::parse(text)) {
        Err(error) => {
            // The name of an attribute is repeated, never a value.
            let rest = text.get(7..).unwrap_or_default();
            let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
            let named = path
                .split(';')
                .chain(query.split('&'))
                .any(|part| part.split_once('=').is_some_and(|(name, _)| name.contains(MARK)));
            if !named {
                mark::hidden(&format!("{error} {error:?}"));
            }
        }
        Ok(uri) => {
            let written = uri.to_string();
            let pin = uri.pin_value.as_ref().map(|pin| pin.expose().to_owned());
            if pin.is_some_and(|pin| pin.contains(MARK)) && text.matches(MARK).count() == 1 {
                mark::hidden(&format!("{written} {uri:?}"));
            }
            let again = Uri::parse(&written).expect("it was written by us");
            assert_eq!(again.to_string(), written);
            assert_eq!(again, Uri { pin_value: None, ..uri });
        }
    }
}
