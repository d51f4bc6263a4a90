//! A program's stderr as events for a sink.

use std::{sync::Arc, time::Duration};

use keyward_protocol::text;

use super::{Invocation, Sink, Stderr, buffer::Buffer};

/// Cuts what arrives into lines, and hands over the beginning of a line when nothing follows: a
/// prompt has no line break.
pub(super) struct Lines {
    sink: Arc<dyn Sink>,
    plugin: String,
    pending: Buffer,
    quiet_at: Option<Duration>,
    /// The line's beginning was handed over as a prompt.
    begun: bool,
}

impl Lines {
    /// How long a program says nothing more before the beginning of a line counts as a prompt.
    const QUIET: Duration = Duration::from_millis(80);
    /// A line longer than this comes in pieces.
    const LONGEST: usize = 8 << 10;

    /// The lines of an invocation's stderr, if a sink is to get them.
    pub(super) fn of(invocation: &Invocation) -> Option<Self> {
        match &invocation.stderr {
            Stderr::Sink(sink) => {
                Some(Self::new(Arc::clone(sink), &invocation.name.to_string_lossy()))
            }
            Stderr::Kept | Stderr::Shown => None,
        }
    }

    fn new(sink: Arc<dyn Sink>, plugin: &str) -> Self {
        Self {
            sink,
            plugin: text::clean(plugin),
            pending: Buffer::default(),
            quiet_at: None,
            begun: false,
        }
    }

    /// Takes what has arrived at `now`.
    pub(super) fn feed(&mut self, bytes: &[u8], now: Duration) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
                continue;
            }
            self.pending.room().push(byte);
            if self.pending.len() >= Self::LONGEST && is_boundary(self.pending.bytes_from(0)) {
                self.end_line();
            }
        }
        self.quiet_at = (self.pending.len() > 0).then(|| now + Self::QUIET);
    }

    /// When [`Lines::tick`] is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.quiet_at
    }

    /// Hands over a prompt if the program has been quiet since.
    pub(super) fn tick(&mut self, now: Duration) {
        if self.quiet_at.is_none_or(|quiet_at| now < quiet_at) {
            return;
        }
        self.quiet_at = None;
        // Half a character waits for its other half.
        if is_boundary(self.pending.bytes_from(0)) {
            let prompt = self.take();
            self.sink.prompt(&self.plugin, &prompt);
            self.begun = true;
        }
    }

    /// Hands over what is left when the stream has ended.
    pub(super) fn finish(&mut self) {
        if self.pending.len() > 0 || self.begun {
            self.end_line();
        }
        self.quiet_at = None;
    }

    fn end_line(&mut self) {
        let line = self.take();
        if std::mem::take(&mut self.begun) {
            self.sink.rest(&self.plugin, &line);
        } else {
            self.sink.line(&self.plugin, &line);
        }
    }

    fn take(&mut self) -> String {
        let bytes = self.pending.bytes_from(0);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let line = text::clean(&String::from_utf8_lossy(bytes));
        // What moves the cursor, and is left to stand in texts of several lines.
        let line = line.replace(['\r', '\u{b}', '\u{c}'], " ");
        self.pending.clear();
        line
    }
}

/// Whether the text does not end in the middle of a character.
fn is_boundary(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_some(), |_| true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl Sink for Log {
        fn line(&self, plugin: &str, line: &str) {
            let mut log = self.0.lock().unwrap();
            log.push(format!("{plugin}: line {line:?}"));
        }

        fn prompt(&self, plugin: &str, text: &str) {
            let mut log = self.0.lock().unwrap();
            log.push(format!("{plugin}: prompt {text:?}"));
        }
    }

    fn feed(steps: &[(&[u8], u64)]) -> Vec<String> {
        let log = Arc::new(Log::default());
        let mut lines = Lines::new(log.clone(), "p");
        for (bytes, at) in steps {
            lines.tick(Duration::from_millis(*at));
            lines.feed(bytes, Duration::from_millis(*at));
        }
        lines.finish();
        log.0.lock().unwrap().clone()
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let log = feed(&[(b"one\ntw", 0), (b"o\r\nthree", 10)]);
        assert_eq!(log, ["p: line \"one\"", "p: line \"two\"", "p: line \"three\""]);
    }

    #[test]
    fn a_prompt_comes_after_a_quiet_while_and_its_line_break_says_nothing() {
        let log = feed(&[(b"Password: ", 0), (b"\nthanks\n", 500)]);
        assert_eq!(log, ["p: prompt \"Password: \"", "p: line \"thanks\""]);
    }

    #[test]
    fn half_a_character_is_not_shown() {
        let log = feed(&[(b"gr\xc3", 0), (b"\xbc\xc3\x9fe\n", 500)]);
        assert_eq!(log, ["p: line \"gr\u{fc}\u{df}e\""]);
    }

    #[test]
    fn control_characters_never_reach_the_screen() {
        let log = feed(&[(b"\x1b[2Jow\rned\n", 0)]);
        assert_eq!(log, ["p: line \"U+001B[2Jow ned\""]);
    }
}
