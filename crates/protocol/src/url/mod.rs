//! URLs as Go parses and prints them, which is more lenient than the standards.

mod escape;
mod mask;

use std::{fmt, net::Ipv6Addr};

use self::escape::{Part, canonical, push_escaped, unescape};
pub use self::{
    escape::percent_decode,
    mask::{mask, passwords},
};
use crate::Secret;

/// A URL, split into its parts as Go's `url.Parse` does it.
///
/// Almost any text is a URL: scheme and host may be missing, so check for them if you need them.
/// [`Url::text`] is the URL as Go prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// What follows `scheme:` if it does not begin with a slash.
    opaque: String,
    user: Option<User>,
    /// Host and port, unescaped; bytes, because escapes may spell any.
    host: Vec<u8>,
    /// Whether the authority is missing (`file:/x`).
    hostless: bool,
    path: String,
    query: Option<String>,
    fragment: String,
}

/// The user of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name, unescaped.
    pub name: String,
    /// The password, unescaped, where a colon introduced one.
    pub password: Option<Secret>,
}

/// Why a text is not a URL. Does not contain the text, which may have a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UrlError(&'static str);

impl Url {
    /// Parses a URL or a relative reference.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::parse_parts(text, false)?;
        unescape(fragment, Part::Fragment)?;
        fragment.clone_into(&mut url.fragment);
        Ok(url)
    }

    /// Parses the target of a request line, as Go's `url.ParseRequestURI` does: an absolute URL or an
    /// absolute path, without a fragment (`#` is an ordinary character).
    pub fn parse_request(text: &str) -> Result<Self, UrlError> {
        if text.is_empty() {
            return Err(UrlError("nothing in it"));
        }
        Self::parse_parts(text, true)
    }

    fn parse_parts(text: &str, request: bool) -> Result<Self, UrlError> {
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err(UrlError("a control character in it"));
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let mut url = Self {
            scheme: scheme.to_ascii_lowercase(),
            opaque: String::new(),
            user: None,
            host: Vec::new(),
            hostless: false,
            path: String::new(),
            query,
            fragment: String::new(),
        };
        let mut path = rest;
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if request && text != "*" {
                return Err(UrlError("neither a scheme nor an absolute path"));
            }
            if rest.split('/').next().is_some_and(|s| s.contains(':')) {
                return Err(UrlError("a colon in the first part of a relative path"));
            }
        }
        let relative = url.scheme.is_empty();
        if let Some(rest) =
            rest.strip_prefix("//").filter(|rest| !(relative && (request || rest.starts_with('/'))))
        {
            let end = rest.find('/').unwrap_or(rest.len());
            url.read_authority(&rest[..end])?;
            path = &rest[end..];
        } else {
            url.hostless = !relative && rest.starts_with('/');
        }
        unescape(path, Part::Path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    /// The scheme in lower case; empty when there is none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The user, if the URL has one.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }

    /// The host without port and brackets; `None` when there is none or it is not UTF-8.
    pub fn host(&self) -> Option<&str> {
        let host = std::str::from_utf8(&self.host).ok()?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.rsplit_once(']').map_or(rest, |(host, _)| host),
            None => host.rsplit_once(':').map_or(host, |(host, _)| host),
        };
        (!host.is_empty()).then_some(host)
    }

    /// The explicit port, if it is valid.
    pub fn port(&self) -> Option<u16> {
        let host = std::str::from_utf8(&self.host).ok()?;
        let port = match host.strip_prefix('[') {
            Some(rest) => rest.rsplit_once(']')?.1.strip_prefix(':')?,
            None => host.rsplit_once(':')?.1,
        };
        port.parse().ok()
    }

    /// Host and port together, unescaped: bytes, because escapes may spell any.
    pub fn authority(&self) -> &[u8] {
        &self.host
    }

    /// The path with its escapes resolved: bytes, because escapes may spell any.
    pub fn decoded_path(&self) -> Vec<u8> {
        unescape(&self.path, Part::Path).unwrap_or_default()
    }

    /// Whether there is a host, or at least a port.
    pub fn has_host(&self) -> bool {
        !self.host.is_empty()
    }

    /// Whether the scheme is not followed by a slash (`host:80`).
    pub fn is_opaque(&self) -> bool {
        !self.opaque.is_empty()
    }

    /// The path, still escaped.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path as it is sent: unchanged if validly escaped, otherwise escaped again.
    pub fn escaped_path(&self) -> String {
        canonical(&self.path, Part::Path)
    }

    /// Path and query as a request line has them: escaped, and at least a slash.
    pub fn path_and_query(&self) -> String {
        let mut out = self.escaped_path();
        if out.is_empty() {
            out.push('/');
        }
        if let Some(query) = &self.query {
            out.push('?');
            out.push_str(query);
        }
        out
    }

    /// The URL with the path, query and fragment of `reference`; `None` unless its path is an
    /// absolute one.
    #[must_use]
    pub fn with_path_of(&self, reference: &Self) -> Option<Self> {
        reference.path.starts_with('/').then(|| Self {
            path: reference.path.clone(),
            query: reference.query.clone(),
            fragment: reference.fragment.clone(),
            ..self.clone()
        })
    }

    /// Whether there is an explicit port, valid or not. A colon alone is not a port.
    pub fn has_port(&self) -> bool {
        let after = self.host.rsplit(|byte| *byte == b']').next().unwrap_or_default();
        after.iter().rev().position(|byte| *byte == b':').is_some_and(|digits| digits > 0)
    }

    /// Drops the query. A `?` that nothing follows stays, as in the reference.
    pub fn clear_query(&mut self) {
        self.query = self.query.take().filter(String::is_empty);
    }

    /// The URL as Go prints it, but with the password replaced: safe to show.
    pub fn masked(&self) -> String {
        let mut shown = self.clone();
        if let Some(user) = &mut shown.user
            && user.password.is_some()
        {
            user.password = Some(Secret::new("xxxxx"));
        }
        shown.text()
    }

    /// The URL as Go prints it, with the password.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            self.push_authority(&mut out);
            let path = canonical(&self.path, Part::Path);
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            if out.is_empty() && path.split('/').next().is_some_and(|s| s.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        } else {
            out.push_str(&self.opaque);
        }
        if let Some(query) = &self.query {
            out.push('?');
            out.push_str(query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&canonical(&self.fragment, Part::Fragment));
        }
        out
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), UrlError> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.host = read_host(&self.scheme, host)?;
        if let Some(user) = user {
            if !user.bytes().all(is_user_byte) {
                return Err(UrlError("a character that a user name cannot have"));
            }
            let (name, password) = match user.split_once(':') {
                Some((name, password)) => (name, Some(password)),
                None => (user, None),
            };
            let text = |escaped: &str| -> Result<String, UrlError> {
                String::from_utf8(unescape(escaped, Part::User)?)
                    .map_err(|_| UrlError("a user name or password that is not UTF-8"))
            };
            self.user = Some(User {
                name: text(name)?,
                password: password.map(|p| text(p).map(Secret::new)).transpose()?,
            });
        }
        Ok(())
    }

    fn push_authority(&self, out: &mut String) {
        let bare = self.host.is_empty() && self.user.is_none();
        if bare && (self.scheme.is_empty() || self.hostless) {
            return;
        }
        if !(bare && self.path.is_empty()) {
            out.push_str("//");
        }
        if let Some(user) = &self.user {
            push_escaped(out, user.name.as_bytes(), Part::User);
            if let Some(password) = &user.password {
                out.push(':');
                push_escaped(out, password.expose().as_bytes(), Part::User);
            }
            out.push('@');
        }
        push_escaped(out, &self.host, Part::Host);
    }
}

/// Shows the URL without its password.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a URL: {}", self.0)
    }
}

impl std::error::Error for UrlError {}

/// The scheme (empty when there is none) and what follows its colon.
fn split_scheme(text: &str) -> Result<(&str, &str), UrlError> {
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err(UrlError("no scheme before the colon")),
            b':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

/// Checks and unescapes `host[:port]`.
fn read_host(scheme: &str, host: &str) -> Result<Vec<u8>, UrlError> {
    match host.rfind('[') {
        Some(0) => return read_literal(host),
        Some(_) => return Err(UrlError("a bracket inside the host")),
        None => {}
    }
    if let Some(first) = host.find(':') {
        // More than one colon is let pass for schemes other than the web's own: databases
        // list several hosts that way.
        let colon = match scheme {
            "http" | "https" => first,
            _ => host.rfind(':').unwrap_or(first),
        };
        check_port(&host[colon..])?;
    }
    unescape(host, Part::Host)
}

/// Checks and unescapes `[IPv6%25zone][:port]`.
fn read_literal(host: &str) -> Result<Vec<u8>, UrlError> {
    let end = host.rfind(']').ok_or(UrlError("an opening bracket without a closing one"))?;
    check_port(&host[end + 1..])?;
    let inside = &host[1..end];
    let address = match inside.find("%25") {
        Some(zone) => {
            let mut address = unescape(&inside[..zone], Part::Host)?;
            address.extend(unescape(&inside[zone..], Part::Zone)?);
            address
        }
        None => unescape(inside, Part::Host)?,
    };
    let known = std::str::from_utf8(&address).is_ok_and(|text| match text.split_once('%') {
        Some((ip, zone)) => !zone.is_empty() && ip.parse::<Ipv6Addr>().is_ok(),
        None => text.parse::<Ipv6Addr>().is_ok(),
    });
    if !known {
        return Err(UrlError("brackets around something that is not IPv6"));
    }
    let mut out = vec![b'['];
    out.extend(address);
    out.push(b']');
    out.extend(host[end + 1..].bytes());
    Ok(out)
}

fn check_port(port: &str) -> Result<(), UrlError> {
    let fine = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => port.is_empty(),
    };
    fine.then_some(()).ok_or(UrlError("a port that is not a number"))
}

fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

#[cfg(test)]
mod tests;
