//! What the host tells whoever measures it.

use std::time::Duration;

/// Receives events. All methods do nothing by default.
pub trait Observer: Send + Sync + 'static {
    /// A plugin run ended (ME-01): its label values and how long it took.
    fn ran(&self, _plugin: &str, _code: i32, _status: CallStatus, _took: Duration) {}
    /// A policy decided (ME-04).
    fn judged(&self, _allowed: bool) {}
}

/// `call_status` of client-go's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the label's values")]
pub enum CallStatus {
    NoError,
    PluginExecutionError,
    PluginNotFoundError,
    ClientInternalError,
}
