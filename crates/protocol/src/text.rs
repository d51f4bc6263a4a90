//! Text from strangers: made safe to show, and read where the reference is lenient.

use std::fmt::Write as _;

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
/// assert!(sounds_secret("clientSecret") && !sounds_secret("region"));
/// ```
pub fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "api_key",
        "apikey",
        "private",
    ]
    .iter()
    .any(|word| name.contains(word))
        || name.ends_with("_key")
        || name.ends_with("-key")
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
