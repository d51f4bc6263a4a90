//! A pseudo-terminal, read and written without blocking a thread.

use std::{io, os::fd::OwnedFd};

use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe;

use super::exec::Size;
use crate::terminal;

/// The outer side of a terminal.
pub(crate) struct Terminal {
    /// What the program writes. Fails when nobody holds the inner side any more.
    pub(crate) output: pipe::Receiver,
    /// What is typed.
    pub(crate) input: pipe::Sender,
    pub(crate) screen: Screen,
}

impl Terminal {
    /// Opens a terminal: the outer side, and the inner one for the program.
    pub(crate) fn open() -> io::Result<(Self, OwnedFd)> {
        let (outer, inner) = terminal::open()?;
        rustix::io::ioctl_fionbio(&outer, true)?;
        // A terminal is no pipe, but is waited for in the same way.
        let terminal = Self {
            output: pipe::Receiver::from_owned_fd_unchecked(outer.try_clone()?)?,
            input: pipe::Sender::from_owned_fd_unchecked(outer.try_clone()?)?,
            screen: Screen(outer),
        };
        Ok((terminal, inner))
    }
}

/// What has a size.
pub(crate) struct Screen(OwnedFd);

impl Screen {
    /// Changes the size; the program is told by a signal.
    pub(crate) fn resize(&self, size: Size) {
        let size = Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal without a size is no reason to end the session.
        let _ = tcsetwinsize(&self.0, size);
    }
}
