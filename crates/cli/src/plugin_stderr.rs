//! A plugin's stderr on ours, as it comes: a device code that is shown after the login is no use.

use keyward_process::runner::Sink;

use crate::output::{self, Format};

/// Passes on what plugins write, which arrives redacted. A log in JSON gets an event for each line,
/// because whoever reads it expects nothing else.
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
