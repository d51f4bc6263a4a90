//! The headers a client adds to every request: user agent, impersonation, compression.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, RANGE, USER_AGENT},
};
use keyward_host::kubeconfig::Impersonate;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{Error, bearer::has_own_credential, error::Kind};

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

/// Headers for requests that lack them.
pub(super) struct DefaultHeaders {
    agent: Option<HeaderValue>,
    impersonation: Vec<(HeaderName, HeaderValue)>,
    compression: bool,
}

impl DefaultHeaders {
    pub(super) fn new(
        agent: Option<HeaderValue>,
        impersonate: &Impersonate,
        compression: bool,
    ) -> Result<Self, Error> {
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| bad("has a character that cannot be sent"))
        };
        let mut impersonation = Vec::new();
        if !impersonate.user.is_empty() {
            impersonation.push((USER, value(&impersonate.user)?));
        }
        if !impersonate.uid.is_empty() {
            impersonation.push((UID, value(&impersonate.uid)?));
        }
        for group in &impersonate.groups {
            impersonation.push((GROUP, value(group)?));
        }
        for (key, values) in &impersonate.extra {
            let name = format!("{EXTRA}{}", utf8_percent_encode(key, KEY));
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| bad("has an extra key that cannot be sent"))?;
            for text in values {
                impersonation.push((name.clone(), value(text)?));
            }
        }
        Ok(Self { agent, impersonation, compression })
    }

    /// Adds the headers that the request lacks. A request that impersonates a user sets all of the
    /// impersonation headers itself, as in client-go. Returns whether to decompress the response: only
    /// if compression was not the caller's idea.
    pub(super) fn apply(&self, method: &Method, headers: &mut HeaderMap) -> bool {
        if let Some(agent) = &self.agent
            && !headers.contains_key(USER_AGENT)
        {
            headers.insert(USER_AGENT, agent.clone());
        }
        // A request with a credential of its own does not impersonate through ours.
        if !self.impersonation.is_empty()
            && !headers.contains_key(USER)
            && !has_own_credential(headers)
        {
            for (name, value) in &self.impersonation {
                headers.append(name.clone(), value.clone());
            }
        }
        // A range of a compressed text cannot be decompressed, and the answer to `HEAD` has no body.
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

/// Whether a response is compressed. If so, its headers are changed to fit the decompressed body.
pub(super) fn decompress(headers: &mut HeaderMap) -> bool {
    let packed = headers.get(CONTENT_ENCODING) == Some(&GZIP);
    if packed {
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
    }
    packed
}

fn bad(what: &str) -> Error {
    Error::new(Kind::BadConfig, format!("the impersonation of the kubeconfig's user {what}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn defaults() -> DefaultHeaders {
        let impersonate = Impersonate {
            user: "jane".into(),
            groups: vec!["dev".into(), "ops".into()],
            extra: vec![("example.org/%scope".into(), vec!["view".into()])],
            ..Impersonate::default()
        };
        DefaultHeaders::new(Some(HeaderValue::from_static("test/1")), &impersonate, true).unwrap()
    }

    #[test]
    fn impersonation_headers_are_spelt_as_the_server_reads_them() {
        let mut headers = HeaderMap::new();
        defaults().apply(&Method::GET, &mut headers);
        assert_eq!(headers[USER], "jane");
        assert_eq!(headers.get_all(GROUP).iter().count(), 2);
        assert_eq!(headers["impersonate-extra-example.org%2f%25scope"], "view");
        assert_eq!(headers[USER_AGENT], "test/1");
    }

    #[test]
    fn headers_of_the_request_itself_are_kept() {
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
        let impersonate = Impersonate {
            user: "jane\r\nimpersonate-group: root".into(),
            ..Impersonate::default()
        };
        assert!(DefaultHeaders::new(None, &impersonate, true).is_err());
    }

    #[test]
    fn a_response_is_decompressed_only_if_the_caller_did_not_ask_for_gzip() {
        let mut headers = HeaderMap::new();
        assert!(defaults().apply(&Method::GET, &mut headers));
        assert_eq!(headers[ACCEPT_ENCODING], "gzip");
        // A caller that asks for gzip gets gzip.
        assert!(!defaults().apply(&Method::GET, &mut headers));
        let mut ranged = HeaderMap::new();
        ranged.insert(RANGE, HeaderValue::from_static("bytes=0-9"));
        assert!(!defaults().apply(&Method::GET, &mut ranged));
        assert!(!defaults().apply(&Method::HEAD, &mut HeaderMap::new()));
    }

    #[test]
    fn the_length_of_a_compressed_response_is_dropped() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("12"));
        assert!(!decompress(&mut headers));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(decompress(&mut headers));
        assert!(headers.is_empty());
    }
}
