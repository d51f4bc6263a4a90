//! One login page per identity, whoever asks, with and without an agent.
//!
//! A file in the runtime directory is locked while a page is open. While it has content, a page was shown and
//! no login came of it: then only a person at a terminal opens another one. It holds no secret. Where the file
//! cannot be made, nothing keeps two processes from opening a page each.
//!
//! With an agent, processes wait earlier, for the lease of the token ([`Session::token`](super::session::Session)).

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use keyward_plugin::Refusal;
use keyward_process::runtime;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::{Call, store::Key};

/// How long nobody but a person at a terminal opens a page after one that no
/// login came of. The agent keeps logins as long as this.
const QUIET: SignedDuration = SignedDuration::from_hours(12);

/// The right to open a login page. It ends when this is dropped.
pub(super) struct Gate {
    file: Option<File>,
    /// Another process had a page open first, and may have logged in there.
    pub(super) waited: bool,
}

impl Gate {
    /// Waits for the page of another process, up to `limit`. Refuses if nobody is here to log in and no
    /// login came of the last page.
    pub(super) fn enter(
        call: &Call,
        key: &Key,
        attended: bool,
        limit: Duration,
    ) -> Result<Self, Refusal> {
        // Where no file can be made, there is nothing to hold on to; the login itself may still work.
        let Ok(file) = open(&path(call, key)) else {
            return Ok(Self { file: None, waited: false });
        };
        let (mut file, waited) = lock(call, file, attended, limit)?;
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        let opened = text.trim().parse().ok().and_then(|time| Timestamp::from_second(time).ok());
        let now = call.clock.now();
        match opened {
            Some(opened) if !attended && now.duration_since(opened).abs() < QUIET => {
                Err(Refusal::NeedsTerminal(format!(
                    "somebody has to log in, and the login that was begun at {} did not end well\n\n\
                     hint: log in with the same command at a terminal, such as `kubectl get namespaces`; until \
                     then no other page is opened",
                    keyward_protocol::time::format_rfc3339(opened)
                )))
            }
            _ => Ok(Self { file: Some(file), waited }),
        }
    }

    /// Remembers that the page is shown.
    pub(super) fn opened(&self, now: Timestamp) {
        self.write(&now.as_second().to_string());
    }

    /// Remembers that it was used.
    pub(super) fn used(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if let Some(mut file) = self.file.as_ref() {
            let written = file.set_len(0).and_then(|()| file.rewind());
            let _ = written.and_then(|()| file.write_all(text.as_bytes()));
        }
    }
}

fn path(call: &Call, key: &Key) -> PathBuf {
    let var = |name: &str| call.surroundings.var(name).map(PathBuf::from);
    let runtime = var("XDG_RUNTIME_DIR");
    let temporary = var("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let home = call.surroundings.home();
    let directory = runtime::directory(runtime.as_deref(), &temporary, home.as_deref());
    directory.join(format!("{}.page", key.name().replace('/', "-")))
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        if !runtime::is_ours(directory) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

/// Locks the file, and returns whether that took a wait. While another process holds it, a login page is open.
fn lock(call: &Call, file: File, attended: bool, limit: Duration) -> Result<(File, bool), Refusal> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok((file, false)),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(error) => return Err(io::Error::from(error).into()),
    }
    if !attended {
        return Err(Refusal::NeedsTerminal(
            "somebody has to log in, and a login page is open already\n\n\
             hint: log in there and try again; with Keyward's agent, programs wait for that login"
                .into(),
        ));
    }
    call.tell("waiting for the login page that another process has open");
    let (sender, receiver) = mpsc::channel();
    // A lock cannot be waited for with a limit; a thread that waits too long ends with the process.
    std::thread::Builder::new().name("lock".into()).spawn(move || {
        if flock(&file, FlockOperation::LockExclusive).is_ok() {
            let _ = sender.send(file);
        }
    })?;
    receiver.recv_timeout(limit).map(|file| (file, true)).map_err(|_| {
        Refusal::failed(
            "another process has had a login page open for too long; end it and try again",
        )
    })
}
