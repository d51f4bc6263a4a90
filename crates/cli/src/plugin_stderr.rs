//! Copies a plugin's stderr to ours at once: a device code is of no use after the login.

use keyward_process::runner::Sink;

use crate::output::{self, Format};

/// Forwards what plugins write, already redacted. A JSON log gets an event for each line, because
/// its readers expect nothing else.
pub(crate) struct PluginStderr {
    log: Format,
}

impl PluginStderr {
    pub(crate) fn new(log: Format) -> Self {
        Self { log }
    }

    fn tell(&self, plugin: &str, text: &str, end: &str) {
        match self.log {
            Format::Text => output::tell(&format!("{text}{end}")),
            Format::Json if text.is_empty() => {}
            Format::Json => tracing::warn!(plugin, "{text}"),
        }
    }
}

impl Sink for PluginStderr {
    fn line(&self, plugin: &str, line: &str) {
        self.tell(plugin, line, "\n");
    }

    fn prompt(&self, plugin: &str, text: &str) {
        self.tell(plugin, text, "");
    }

    fn rest(&self, plugin: &str, text: &str) {
        self.tell(plugin, text, "\n");
    }
}
