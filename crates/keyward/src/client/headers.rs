//! The headers a client adds to every request: who it is, and whom it acts as.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, RANGE, USER_AGENT},
};
use keyward_host::kubeconfig::Impersonate;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{Error, bearer::brings_own, error::Kind};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const EXTRA: &str = "impersonate-extra-";

/// What the key of an extra escapes in a header's name: all but the characters of a token, and the
/// percent sign itself (client-go's `headerKeyEscape`).
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Headers for requests that do not have them.
pub(super) struct Defaults {
    agent: Option<HeaderValue>,
    impersonation: Vec<(HeaderName, HeaderValue)>,
    compression: bool,
}

impl Defaults {
    pub(super) fn new(
        agent: Option<HeaderValue>,
        as_whom: &Impersonate,
        compression: bool,
    ) -> Result<Self, Error> {
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| bad("has a character that cannot be sent"))
        };
        let mut impersonation = Vec::new();
        if !as_whom.user.is_empty() {
            impersonation.push((USER, value(&as_whom.user)?));
        }
        if !as_whom.uid.is_empty() {
            impersonation.push((UID, value(&as_whom.uid)?));
        }
        for group in &as_whom.groups {
            impersonation.push((GROUP, value(group)?));
        }
        for (key, values) in &as_whom.extra {
            let name = format!("{EXTRA}{}", utf8_percent_encode(key, KEY));
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| bad("has an extra key that cannot be sent"))?;
            for text in values {
                impersonation.push((name.clone(), value(text)?));
            }
        }
        Ok(Self { agent, impersonation, compression })
    }

    /// Whoever says whom to act as in the request itself says all of it, as in client-go. Gives
    /// whether the response is to be unpacked: only if it was us who asked for that.
    pub(super) fn apply(&self, method: &Method, headers: &mut HeaderMap) -> bool {
        if let Some(agent) = &self.agent
            && !headers.contains_key(USER_AGENT)
        {
            headers.insert(USER_AGENT, agent.clone());
        }
        // Whoever comes with an authorization of its own does not act as somebody through ours.
        if !self.impersonation.is_empty() && !headers.contains_key(USER) && !brings_own(headers) {
            for (name, value) in &self.impersonation {
                headers.append(name.clone(), value.clone());
            }
        }
        // A range of a packed text cannot be unpacked, and the answer to `HEAD` has no text.
        let ask = self.compression
            && method != Method::HEAD
            && !headers.contains_key(ACCEPT_ENCODING)
            && !headers.contains_key(RANGE);
        if ask {
            headers.insert(ACCEPT_ENCODING, GZIP);
        }
        ask
    }
}

/// Whether a response is packed. If so its headers are made to fit the unpacked body.
pub(super) fn unpack(headers: &mut HeaderMap) -> bool {
    let packed = headers.get(CONTENT_ENCODING) == Some(&GZIP);
    if packed {
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
    }
    packed
}

fn bad(what: &str) -> Error {
    Error::new(Kind::BadConfig, format!("whom the kubeconfig's user acts as {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn defaults() -> Defaults {
        let as_whom = Impersonate {
            user: "jane".into(),
            groups: vec!["dev".into(), "ops".into()],
            extra: vec![("example.org/%scope".into(), vec!["view".into()])],
            ..Impersonate::default()
        };
        Defaults::new(Some(HeaderValue::from_static("test/1")), &as_whom, true).unwrap()
    }

    #[test]
    fn impersonation_is_spelt_as_the_server_reads_it() {
        let mut headers = HeaderMap::new();
        defaults().apply(&Method::GET, &mut headers);
        assert_eq!(headers[USER], "jane");
        assert_eq!(headers.get_all(GROUP).iter().count(), 2);
        assert_eq!(headers["impersonate-extra-example.org%2f%25scope"], "view");
        assert_eq!(headers[USER_AGENT], "test/1");
    }

    #[test]
    fn a_request_that_says_its_own_is_left_alone() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_static("bob"));
        headers.insert(USER_AGENT, HeaderValue::from_static("mine"));
        defaults().apply(&Method::GET, &mut headers);
        assert_eq!(headers[USER], "bob");
        assert_eq!(headers.get(GROUP), None);
        assert_eq!(headers[USER_AGENT], "mine");
    }

    #[test]
    fn a_name_with_a_line_break_is_refused() {
        let as_whom = Impersonate {
            user: "jane\r\nimpersonate-group: root".into(),
            ..Impersonate::default()
        };
        assert!(Defaults::new(None, &as_whom, true).is_err());
    }

    #[test]
    fn a_response_is_unpacked_only_where_that_was_our_wish() {
        let mut headers = HeaderMap::new();
        assert!(defaults().apply(&Method::GET, &mut headers));
        assert_eq!(headers[ACCEPT_ENCODING], "gzip");
        // What asks for it asks for what it can read.
        assert!(!defaults().apply(&Method::GET, &mut headers));
        let mut ranged = HeaderMap::new();
        ranged.insert(RANGE, HeaderValue::from_static("bytes=0-9"));
        assert!(!defaults().apply(&Method::GET, &mut ranged));
        assert!(!defaults().apply(&Method::HEAD, &mut HeaderMap::new()));
    }

    #[test]
    fn the_length_of_a_packed_response_says_nothing_of_the_unpacked() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("12"));
        assert!(!unpack(&mut headers));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(unpack(&mut headers));
        assert!(headers.is_empty());
    }
}
