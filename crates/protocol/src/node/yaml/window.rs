//! What the reference has in its buffer, which shows where a byte order mark stands in the text.
//!
//! It means to skip such a mark where a line starts, but asks whether its *buffer* starts with one,
//! wherever in it the line is. So a mark that the buffer happens to start with takes the first
//! character from every line, until the buffer starts elsewhere. It does so at the place where more
//! characters were needed than were left.

use super::scan::Scanner;

const MARK: char = '\u{feff}';

/// The part of the text that is in the buffer, kept only for a text with a mark in it.
#[derive(Default)]
pub(super) struct Window {
    start: usize,
    end: usize,
    /// Characters that stand for the end of the text: one for each time that it was met.
    ends: usize,
}

impl Scanner<'_> {
    /// Sees to `count` characters in the buffer. Everyone that looks at more than the next one says
    /// so before.
    pub(super) fn need(&mut self, count: usize) {
        if self.source.marked {
            self.fill(count);
        }
    }

    /// Whether a line that starts here loses a character.
    pub(super) fn loses_character(&self) -> bool {
        self.source.marked
            && self.mark.column == 0
            && !self.is_end()
            && self.source.text[self.window.start..].starts_with(MARK)
    }

    fn fill(&mut self, count: usize) {
        let (at, source) = (self.at, self.source);
        let window = &mut self.window;
        let has_enough = |window: &Window| {
            let unread = source.text.get(at..window.end).unwrap_or_default();
            unread.chars().take(count).count() + window.ends >= count
        };
        if has_enough(window) {
            return;
        }
        window.start = at.min(source.text.len());
        while !has_enough(window) {
            if window.end == source.text.len() {
                window.ends += 1;
                break;
            }
            window.end = source.portion_after(window.end);
        }
    }
}

/// Whether the text needs a window.
pub(super) fn is_marked(text: &str) -> bool {
    text.contains(MARK)
}
