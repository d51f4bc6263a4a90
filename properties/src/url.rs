//! URLs: a password is in no form that is shown, and what was written reads back the same.

use keyward_protocol::url::{Url, mask, passwords};

use crate::{MARK, budget, mark};

pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let read = budget::within(input, || {
        let _ = Url::parse_request(text);
        Url::parse(text)
    });
    let secret = passwords(text).iter().any(|password| password.expose().contains(MARK));
    let elsewhere = text.matches(MARK).count() > 1;
    if secret && !elsewhere {
        mark::hidden(&mask(text));
    }
    let url = match read {
        Ok(url) => url,
        Err(error) => return mark::hidden(&format!("{error} {error:?}")),
    };
    let password = url.user().and_then(|user| user.password.as_ref());
    if password.is_some_and(|password| password.expose().contains(MARK)) && !elsewhere {
        mark::hidden(&format!("{} {url:?} {:?}", url.masked(), url.user()));
    }
    // Without an authority, a path that begins with two slashes once decoded is written as one. Go's
    // `URL.String` does so too, and no address of a server lacks an authority.
    if url.authority().is_empty() && url.decoded_path().starts_with(b"//") {
        return;
    }
    // Escapes are made the reference's own by writing; after that nothing changes any more.
    let written = url.text();
    let Ok(again) = Url::parse(&written) else { return };
    assert_eq!(again.text(), written, "a URL changes whenever it is written");
    assert_eq!(again.scheme(), url.scheme());
    assert_eq!(again.authority(), url.authority());
    // A colon in the first part of a relative path would read as a scheme, so `./` is written in front.
    let path = again.decoded_path();
    let plain = path.strip_prefix(b"./").filter(|plain| plain.contains(&b':'));
    assert!(
        path == url.decoded_path() || plain == Some(url.decoded_path().as_ref()),
        "a path changes when it is written: {path:?}"
    );
}
