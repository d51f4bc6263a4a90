//! What pods do here: write logs, run commands, listen on ports.

pub(crate) mod exec;
pub(crate) mod forward;
mod log;
mod terminal;

pub(crate) use self::log::answer as log_answer;
pub use self::{forward::Ports, log::Logs};
