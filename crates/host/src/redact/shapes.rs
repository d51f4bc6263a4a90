//! Secrets that nobody told us about, recognised by how they look.

use keyward_protocol::url;

use super::HIDDEN;

/// A header's value that is shorter is more likely a word after `basic`.
const SHORTEST: usize = 4;

/// The text without what looks like a private key, a token or a password.
pub(super) fn hide(text: &str) -> String {
    hide_words(&hide_keys(text))
}

/// Private keys in PEM, whole: from their first line to their last, or to the end of the text. Where
/// the first line is missing, from the beginning of the text.
fn hide_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        if line.contains("-----BEGIN") && line.contains("PRIVATE KEY-----") {
            inside = true;
            out.push_str(HIDDEN);
            out.push('\n');
        }
        if !inside {
            out.push_str(line);
        }
        if inside && line.contains("-----END") {
            inside = false;
        } else if line.contains("-----END") && line.contains("PRIVATE KEY-----") {
            out.clear();
            out.push_str(HIDDEN);
            out.push('\n');
        }
    }
    out
}

/// What looks like a JSON Web Token, what follows `Bearer` or `Basic`, and passwords of URLs.
fn hide_words(text: &str) -> String {
    const ENDS: &str = "\"'`,;<>()[]{}";
    let mut out = String::with_capacity(text.len());
    let mut after_scheme = false;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || ENDS.contains(c)) {
        let end =
            word.char_indices().next_back().filter(|(_, c)| c.is_whitespace() || ENDS.contains(*c));
        let (core, tail) = word.split_at(end.map_or(word.len(), |(at, _)| at));
        let value = core.rsplit(['=', ':']).next().unwrap_or(core);
        if after_scheme && core.len() >= SHORTEST {
            out.push_str(HIDDEN);
        } else if is_jwt(value) {
            out.push_str(&core[..core.len() - value.len()]);
            out.push_str(HIDDEN);
        } else if core.contains("://") && core.contains('@') {
            out.push_str(&url::mask(core));
        } else {
            out.push_str(core);
        }
        out.push_str(tail);
        if !core.is_empty() {
            after_scheme = ["bearer", "basic"].iter().any(|s| core.eq_ignore_ascii_case(s));
        }
    }
    out
}

/// Three parts of base64url, the first of which begins an object.
fn is_jwt(word: &str) -> bool {
    word.starts_with("eyJ")
        && word.split('.').count() >= 2
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.=".contains(c))
}
