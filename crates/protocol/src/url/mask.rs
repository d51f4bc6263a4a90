//! Hides the passwords of addresses, and extracts them.

use super::{
    Url, User,
    escape::{Part, unescape},
};
use crate::Secret;

/// An address without anything that may be a password, even if it is not a URL. A password that is not
/// escaped may contain a slash or an `@`, so everything up to the last `@` may belong to it.
pub fn mask(address: &str) -> String {
    let url = Url::parse(address).ok();
    if let Some(url) = &url
        && !url.is_opaque()
        && !url.path.contains('@')
        && url.query.as_ref().is_none_or(|query| !query.contains('@'))
        && !url.fragment.contains('@')
    {
        return match url.user() {
            Some(user) if user.password.is_some() => url.masked(),
            // The user name may be a token.
            Some(_) => {
                let mut shown = url.clone();
                shown.user = Some(User { name: "xxxxx".to_owned(), password: None });
                shown.text()
            }
            None => address.to_owned(),
        };
    }
    let Some((before, host)) = address.rsplit_once('@') else { return address.to_owned() };
    let hidden = before.split_once("//").map_or(before, |(_, user)| user);
    // An `@` in the path is harmless if the authority has neither user nor port.
    let authority = hidden.split(['/', '?', '#']).next().unwrap_or_default();
    if url.is_some_and(|url| !url.is_opaque()) && !authority.contains([':', '@']) {
        return address.to_owned();
    }
    format!("{}xxxxx@{host}", &before[..before.len() - hidden.len()])
}

/// The password of an address in both forms in which it may appear: escaped, as in the address, and
/// decoded. Empty if there is none.
pub fn passwords(address: &str) -> Vec<Secret> {
    let Some((_, rest)) = address.split_once("//") else { return Vec::new() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = match authority.rsplit_once('@') {
        Some((user, _)) => user,
        // A password with a slash in it, not escaped.
        None if authority.contains(':') => rest.rsplit_once('@').map_or("", |(user, _)| user),
        None => "",
    };
    let Some((_, escaped)) = user.split_once(':') else { return Vec::new() };
    let mut forms = vec![Secret::new(escaped)];
    let plain = unescape(escaped, Part::User).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    forms.extend(plain.filter(|plain| plain != escaped).map(Secret::new));
    forms
}
