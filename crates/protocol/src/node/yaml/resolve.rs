//! What a YAML scalar is: go-yaml's reading of YAML 1.1.

use crate::{
    json,
    text::{from_base64, lossy},
    time,
};

/// A scalar after resolution, with the distinctions that matter for keys.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    /// Fits 64 bits with sign.
    Int(i64),
    /// Needs the 64th bit.
    Uint(u64),
    Float(f64),
    /// The scalar's own text.
    Text,
    /// A text that is not the scalar's own: `!!binary`, decoded.
    Binary(String),
}

const PREFIX: &str = "tag:yaml.org,2002:";

/// Resolves a scalar that has a tag or is plain. `Err` says what cannot be.
pub(super) fn resolve(tag: Option<&str>, text: &str) -> Result<Scalar, &'static str> {
    let Some(tag) = tag.filter(|tag| !tag.is_empty()) else {
        return Ok(plain(text));
    };
    let found = || plain(text);
    match tag.strip_prefix(PREFIX) {
        Some("binary") => binary(text),
        Some("null") => match found() {
            Scalar::Null => Ok(Scalar::Null),
            _ => Err("tagged `!!null` but not empty"),
        },
        Some("bool") => match found() {
            value @ Scalar::Bool(_) => Ok(value),
            _ => Err("tagged `!!bool` but not a boolean"),
        },
        Some("int") => match found() {
            value @ (Scalar::Int(_) | Scalar::Uint(_)) => Ok(value),
            _ => Err("tagged `!!int` but not a whole number"),
        },
        Some("float") => match found() {
            #[expect(clippy::cast_precision_loss, reason = "that is what the tag asks for")]
            Scalar::Int(value) => Ok(Scalar::Float(value as f64)),
            value @ Scalar::Float(_) => Ok(value),
            _ => Err("tagged `!!float` but not a number"),
        },
        Some("timestamp") if time::check_yaml_timestamp(text).is_some() => Ok(Scalar::Text),
        Some("timestamp") => Err("tagged `!!timestamp` but not a time"),
        // `!!str`, and tags that nobody knows: whatever it looks like, it is a text.
        _ => Ok(Scalar::Text),
    }
}

/// A scalar as the text JSON has for a key of it; `None` where there can be no such key.
pub(super) fn key(scalar: &Scalar, text: &str) -> Option<String> {
    match scalar {
        Scalar::Text => Some(text.to_owned()),
        Scalar::Binary(text) => Some(text.clone()),
        Scalar::Bool(value) => Some(value.to_string()),
        Scalar::Int(value) => Some(value.to_string()),
        Scalar::Float(value) => Some(float_key(*value)),
        Scalar::Null | Scalar::Uint(_) => None,
    }
}

/// A number as JSON prints it; `None` for those it has no text for.
pub(super) fn float(value: f64) -> Option<String> {
    value.is_finite().then(|| json::number(value))
}

fn plain(text: &str) -> Scalar {
    let value = match text.as_bytes().first() {
        None => Some(Scalar::Null),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            word(text)
        }
        Some(b'.') => special(text).or_else(|| fraction(text)),
        Some(b'+' | b'-' | b'0'..=b'9') => special(text).or_else(|| number(text)),
        Some(_) => None,
    };
    value.unwrap_or(Scalar::Text)
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => return None,
    })
}

fn special(text: &str) -> Option<Scalar> {
    Some(Scalar::Float(match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    }))
}

/// A number that begins with its point. Underscores may stand between digits.
fn fraction(text: &str) -> Option<Scalar> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == b'_' && !(digit(at.checked_sub(1)) && digit(Some(at + 1))) {
            return None;
        }
    }
    finite(&text.replace('_', ""))
}

/// A number that begins with a sign or digit. Underscores may stand anywhere.
fn number(text: &str) -> Option<Scalar> {
    let text = text.replace('_', "");
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text.as_str()),
    };
    let signed = unsigned.len() < text.len();
    if let Some(size) = integer(unsigned) {
        if let Ok(value) = i64::try_from(if negative { -size } else { size }) {
            return Some(Scalar::Int(value));
        }
        if let (false, Ok(value)) = (signed, u64::try_from(size)) {
            return Some(Scalar::Uint(value));
        }
    }
    if is_decimal(unsigned)
        && let Some(value) = finite(&text)
    {
        return Some(value);
    }
    // A leftover of the reference: the sign may also follow the prefix of a binary number.
    if let Some(digits) = text.strip_prefix("0b") {
        return i64::from_str_radix(digits, 2).ok().map(Scalar::Int);
    }
    None
}

/// Digits with the base in front as Go spells it; a leading zero alone means octal.
fn integer(text: &str) -> Option<i128> {
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'b' | b'B', ..] => (&text[2..], 2),
        [b'0', b'o' | b'O', ..] => (&text[2..], 8),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, base).ok()?;
    Some(i128::from(size))
}

/// `12`, `12.`, `12.5`, `.5`, each with or without exponent.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, "")) => digits(whole),
        Some(("", part)) => digits(part),
        Some((whole, part)) => digits(whole) && digits(part),
        None => digits(mantissa),
    };
    let exponent_fits =
        exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)));
    mantissa_fits && exponent_fits
}

/// A number too large for a float is none.
fn finite(text: &str) -> Option<Scalar> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

fn binary(text: &str) -> Result<Scalar, &'static str> {
    let bytes = from_base64(text.as_bytes()).ok_or("tagged `!!binary` but not base64")?;
    Ok(Scalar::Binary(lossy(&bytes)))
}

/// A float as a key: the reference rounds to 32 bits and switches to exponents early.
#[expect(clippy::cast_possible_truncation, reason = "the reference rounds too")]
fn float_key(value: f64) -> String {
    let value = value as f32;
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
