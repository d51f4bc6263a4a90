//! What pods do here: write logs.

mod log;

pub use self::log::Logs;
pub(crate) use self::log::answer as log_answer;
