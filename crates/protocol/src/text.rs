//! Untrusted text: made safe to show, and parsed as leniently as client-go does.

use std::{error::Error, fmt::Write as _, iter::successors};

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use unicode_general_category::{GeneralCategory, get_general_category};
use zeroize::Zeroizing;

/// Replaces every character that is not a letter, mark, number, punctuation, symbol, separator or
/// U+0009 to U+000D by its `U+XXXX` name (IH-05).
///
/// ```
/// # use keyward_protocol::text::clean;
/// assert_eq!(clean("\u{1b}[31mrun\tme\u{200e}"), "U+001B[31mrun\tmeU+200E");
/// ```
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_shown(character) {
            out.push(character);
        } else {
            let _ = write!(out, "U+{:04X}", u32::from(character));
        }
    }
    out
}

/// The causes of an error, the nearest first.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(error.source(), |cause: &&'a (dyn Error + 'static)| (*cause).source())
}

/// An error and its causes in one line.
///
/// ```
/// # use keyward_protocol::text::with_causes;
/// assert_eq!(with_causes(&std::io::Error::other("no network")), "no network");
/// ```
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// How many characters of a text are shown in one line. The beginning and the end of a longer one are.
const LONGEST: usize = 4000;

/// Makes untrusted text safe inside a line: control characters by their names, no line breaks,
/// and of a very long one the beginning and the end.
///
/// ```
/// # use keyward_protocol::text::inline;
/// assert_eq!(inline("a\r\nb\u{202e}\u{9b}"), "a  bU+202EU+009B");
/// let long = inline(&"x".repeat(5_000_000));
/// assert!(long.len() < 4200 && long.contains("… (4996000 characters left out) …"));
/// ```
pub fn inline(text: &str) -> String {
    // One more than is shown tells whether there are more.
    match text.char_indices().nth(LONGEST) {
        None => inline_part(text),
        Some(_) => {
            let count = text.chars().count();
            let half = |number: usize| text.char_indices().nth(number).map_or(0, |(at, _)| at);
            let (start, end) = (half(LONGEST / 2), half(count - LONGEST / 2));
            let left_out = count - LONGEST;
            let (start, end) = (inline_part(&text[..start]), inline_part(&text[end..]));
            format!("{start}… ({left_out} characters left out) …{end}")
        }
    }
}

fn inline_part(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    clean(text).chars().map(|c| if breaks(c) { ' ' } else { c }).collect()
}

/// Makes untrusted text of several lines safe, each by [`inline`].
pub fn block(text: &str) -> String {
    text.split('\n').map(inline).collect::<Vec<_>>().join("\n")
}

/// JSON with every character that [`clean`] would name written as its escape: the same data, safe on a
/// terminal.
///
/// ```
/// # use keyward_protocol::text::escape_json;
/// assert_eq!(escape_json("{\"a\":\"\u{9b}é\u{202e}\u{e0001}\"}"), r#"{"a":"\u009bé\u202e\udb40\udc01"}"#);
/// ```
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if is_shown(character) && !matches!(character, '\u{2028}' | '\u{2029}') {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// Untrusted text as the content of an element or of a quoted attribute, in HTML and XML.
///
/// ```
/// # use keyward_protocol::text::escape_html;
/// assert_eq!(escape_html("<b title='\"&\u{7}'>"), "&lt;b title=&#39;&quot;&amp; &#39;&gt;");
/// ```
pub fn escape_html(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, char| {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
        out
    })
}

/// Whether a field's name is `lower` whatever its case, as Go compares them where it is not exact: letters that fold
/// onto ASCII ones are the same.
///
/// ```
/// # use keyward_protocol::text::same_name;
/// assert!(same_name("apiVER\u{17f}ion", "apiversion"));
/// ```
pub fn same_name(name: &str, lower: &str) -> bool {
    let fold = |character: char| match character {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(lower.chars())
}

/// Whether a name is one under which secrets are kept.
///
/// ```
/// # use keyward_protocol::text::sounds_secret;
/// assert!(sounds_secret("clientSecret") && sounds_secret("GITHUB_PAT") && sounds_secret("--pass"));
/// assert!(!sounds_secret("region") && !sounds_secret("PATH") && !sounds_secret("--bypass"));
/// ```
pub fn sounds_secret(name: &str) -> bool {
    const PARTS: [&str; 9] = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "api_key",
        "apikey",
        "private",
    ];
    const WORDS: [&str; 9] =
        ["pass", "pwd", "pat", "cred", "creds", "jwt", "bearer", "pin", "cookie"];
    let lower = name.to_ascii_lowercase();
    PARTS.iter().any(|part| lower.contains(part))
        || lower.ends_with("cred")
        || lower.ends_with("creds")
        || lower.ends_with("_key")
        || lower.ends_with("-key")
        || words(name).any(|word| WORDS.iter().any(|secret| word.eq_ignore_ascii_case(secret)))
}

/// Whether a name is one under which secrets are kept now and then, such as `NPM_AUTH`.
///
/// ```
/// # use keyward_protocol::text::may_be_secret;
/// assert!(may_be_secret("NPM_AUTH") && may_be_secret("sessionId") && !may_be_secret("AUTHOR"));
/// ```
pub fn may_be_secret(name: &str) -> bool {
    const WORDS: [&str; 8] =
        ["auth", "authorization", "key", "session", "sig", "signature", "login", "license"];
    words(name).any(|word| WORDS.iter().any(|secret| word.eq_ignore_ascii_case(secret)))
}

/// The words of a name in `snake_case`, `kebab-case` or `camelCase`.
///
/// ```
/// # use keyward_protocol::text::words;
/// assert!(words("--cluster-name").eq(["cluster", "name"]));
/// assert!(words("clientId").eq(["client", "Id"]));
/// ```
pub fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(|part| {
        let mut rest = part;
        std::iter::from_fn(move || {
            let mut before = rest.chars().next()?;
            let end = rest.char_indices().skip(1).find(|(_, c)| {
                let begins = before.is_ascii_lowercase() && c.is_ascii_uppercase();
                before = *c;
                begins
            });
            let (word, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
            rest = after;
            Some(word)
        })
    })
}

/// Base64 as Go reads it: padded, line breaks anywhere, unused bits ignored.
///
/// ```
/// # use keyward_protocol::text::from_base64;
/// assert_eq!(from_base64(b"Y2\nF=").as_deref(), Some(&b"ca"[..]));
/// ```
pub fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    if text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        let mut joined = Zeroizing::new(text.to_vec());
        joined.retain(|byte| !matches!(byte, b'\r' | b'\n'));
        ENGINE.decode(&*joined).ok()
    } else {
        ENGINE.decode(text).ok()
    }
}

/// Text with one U+FFFD for each byte that is not UTF-8, as Go has it.
///
/// ```
/// # use keyward_protocol::text::lossy;
/// assert_eq!(lossy(b"a\xe2\x82"), "a\u{fffd}\u{fffd}");
/// ```
pub fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    push_lossy(&mut text, bytes);
    text
}

/// Appends what [`lossy`] returns.
pub(crate) fn push_lossy(text: &mut String, bytes: &[u8]) {
    if let Ok(good) = std::str::from_utf8(bytes) {
        return text.push_str(good);
    }
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

fn is_shown(character: char) -> bool {
    match character {
        ' '..='~' | '\u{9}'..='\u{d}' => true,
        _ => !matches!(
            get_general_category(character),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::PrivateUse
                | GeneralCategory::Surrogate
                | GeneralCategory::Unassigned
        ),
    }
}
