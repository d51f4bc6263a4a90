//! Hides secrets in everything that people see: messages, logs, a plugin's stderr, answers of the proxy.
//!
//! ```text
//!          known secrets (this process, this run)
//!                        │
//! raw text ──► views ──► find ──► [hidden] ──► clean ──► shapes ──► shown
//! ```
//!
//! Secrets are known from two places. [`remember`] takes what holds for the whole process: every
//! credential that a source handed out, for as long as it may be valid, and what a kubeconfig or a
//! flag said. A `Redactor` adds what only one run knows: its environment, its arguments, its own
//! answer. Both are looked for as they are and in the forms in which programs repeat them (`views`):
//! base64, hexadecimal, percent-encoded, escaped as in JSON, broken over lines. What nobody told us is
//! recognised by its shape alone: private keys in PEM, JSON Web Tokens, `Bearer` and `Basic` headers,
//! passwords in URLs.

mod clues;
mod known;
mod shapes;
mod views;

use std::{
    borrow::Cow,
    sync::{LazyLock, PoisonError, RwLock},
    time::Duration,
};

use keyward_protocol::{Secret, text};

use self::known::Known;
pub(crate) use self::{
    clues::{url_passwords, without_first_line},
    known::SHORTEST_VALUE,
};
use keyward_process::clock::{Clock, SystemClock};

/// What stands in the place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// A clock may be wrong, and a server may take a token for a while after its end: no credential is
/// forgotten sooner after it came, nor sooner after it expired.
const LEAST: Duration = Duration::from_secs(3600);

/// The secrets of this process.
static PROCESS: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

/// Hides this secret from now on in everything this process shows: each line of it too, because a key
/// may be repeated line by line. `lifetime` is for how long it may be valid; `None` is for good.
///
/// The number of secrets is bounded. Where there are more, those that expire first, then the oldest, are
/// forgotten.
pub fn remember(secret: &Secret, lifetime: Option<Duration>) {
    let now = SystemClock.elapsed();
    let until = lifetime.map(|lifetime| now.saturating_add(lifetime.max(LEAST) + LEAST));
    let mut known = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    known.add(secret, until, now);
}

/// Hides a value that is often no secret at all, such as one of a plugin's variables, for as long as
/// the process lives. Short values are left alone: `prod` is a part of too many names.
pub fn remember_value(value: &Secret) {
    if value.expose().trim().len() >= SHORTEST_VALUE {
        remember(value, None);
    }
}

/// The text without any secret that this process knows.
pub fn redact(text: &str) -> Cow<'_, str> {
    let known = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
    views::hide(text, &[&known])
}

/// The secrets of one run, beside those of the process.
#[derive(Default)]
pub(crate) struct Redactor(Known);

impl Redactor {
    /// Also hides this text, and each of its lines.
    pub(crate) fn add(&mut self, secret: &str) {
        self.0.add(&Secret::new(secret), None, Duration::ZERO);
    }

    /// The text, safe to show: known secrets hidden, control characters by their names, and whatever
    /// looks like a token or a private key hidden too.
    pub(crate) fn apply(&self, raw: &[u8]) -> String {
        let raw = String::from_utf8_lossy(raw);
        let known = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
        let hidden = views::hide(&raw, &[&self.0, &known]);
        shapes::hide(&text::clean(&hidden))
    }
}

#[cfg(test)]
mod tests;
