//! What pods do here: write logs, run commands, listen on ports.

pub(crate) mod exec;
pub(crate) mod forward;
mod log;
mod terminal;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

pub(crate) use self::log::answer as log_answer;
pub use self::{forward::Ports, log::Logs};

/// How much is read from a command or a port at once.
const PIECE: usize = 32 * 1024;

/// The next piece of what a command or a port sends, or `None` at its end.
pub(crate) async fn next_piece(from: &mut (impl AsyncRead + Unpin)) -> Option<Bytes> {
    let mut piece = BytesMut::with_capacity(PIECE);
    match from.read_buf(&mut piece).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(piece.freeze()),
    }
}
