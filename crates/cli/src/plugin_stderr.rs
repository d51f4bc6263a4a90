//! A plugin's stderr on ours, as it comes: a device code that is shown after the login is no use.

use keyward_host::process::Sink;

use crate::{
    mask::Mask,
    output::{self, Format},
};

/// Passes on what plugins write, cleaned of control characters and of known secrets. A log in JSON
/// gets an event for each line, because whoever reads it expects nothing else.
pub(crate) struct PluginStderr {
    mask: Mask,
    log: Format,
}

impl PluginStderr {
    pub(crate) fn new(mask: Mask, log: Format) -> Self {
        Self { mask, log }
    }

    fn tell(&self, plugin: &str, text: &str, end: &str) {
        match self.log {
            Format::Text => output::tell(&format!("{}{end}", self.mask.apply(text))),
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
