//! A runner that needs only the standard library: a thread for each stream, and a periodic look at
//! the process. Only the process itself is killed, not what it started.

use std::{
    io::{self, Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use zeroize::Zeroizing;

use super::{
    Failure, Invocation, Left, Output, Status, Stderr, Stdin, cancel::Listener, lines::Lines, spawn,
};
use crate::{
    clock::{Clock, SystemClock},
    lock,
};

const LOOK_EVERY: Duration = Duration::from_millis(5);
const PIPE_GRACE: Duration = Duration::from_millis(250);

pub(super) fn run(invocation: &Invocation, listener: &Listener) -> Result<Output, Failure> {
    let started = SystemClock.elapsed();
    let mut child = Guard(launch(invocation)?);
    let child = &mut child.0;
    if let (Stdin::Request(bytes), Some(mut stdin)) = (&invocation.stdin, child.stdin.take()) {
        let bytes = bytes.clone();
        spawn(move || drop(stdin.write_all(&bytes)));
    }
    let stdout = Stream::read(child.stdout.take(), invocation.limits.stdout + 1, None);
    let stderr = Stream::read(child.stderr.take(), usize::MAX, Lines::of(invocation));
    let give_up = |child: &mut Child| {
        let _ = child.kill();
        let _ = child.wait();
        Left {
            stdout: stdout.last(usize::MAX),
            stderr: stderr.last(invocation.limits.stderr),
            took: SystemClock.elapsed().saturating_sub(started),
        }
    };
    loop {
        if stdout.len() > invocation.limits.stdout {
            return Err(Failure::TooMuchOutput(give_up(child)));
        }
        if let Some(status) = child.try_wait().map_err(Failure::System)? {
            let took = SystemClock.elapsed().saturating_sub(started);
            stdout.finish();
            stderr.finish();
            return Ok(Output {
                status: status.code().map_or(Status::Signal(0), Status::Code),
                stdout: stdout.last(usize::MAX),
                stderr: stderr.last(invocation.limits.stderr),
                took,
            });
        }
        if listener.is_cancelled() {
            return Err(Failure::Cancelled(give_up(child)));
        }
        if SystemClock.elapsed() >= started.saturating_add(invocation.budget) {
            return Err(Failure::TimedOut(give_up(child)));
        }
        thread::park_timeout(LOOK_EVERY);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that starts programs")]
fn launch(invocation: &Invocation) -> Result<Child, Failure> {
    let mut command = Command::new(&invocation.program);
    command.args(&invocation.args);
    command.env_clear();
    command.envs(invocation.env.iter().map(|(name, value)| (name, value)));
    command.stdin(match &invocation.stdin {
        Stdin::Request(_) => Stdio::piped(),
        Stdin::Terminal if invocation.attended => Stdio::inherit(),
        Stdin::Closed | Stdin::Terminal => Stdio::null(),
    });
    command.stdout(Stdio::piped());
    command.stderr(match &invocation.stderr {
        Stderr::Shown => Stdio::inherit(),
        Stderr::Kept | Stderr::Sink(_) => Stdio::piped(),
    });
    if let Some(file_id) = invocation.file_id
        && super::FileId::read(&invocation.program).ok() != Some(file_id)
    {
        return Err(Failure::Changed);
    }
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::NotFound,
        io::ErrorKind::PermissionDenied if invocation.program.is_dir() => Failure::Directory,
        io::ErrorKind::PermissionDenied => Failure::Denied,
        _ => Failure::Start(error),
    })
}

/// Killed and reaped if we leave early.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// What a thread has read so far.
struct Stream {
    bytes: Arc<Mutex<Zeroizing<Vec<u8>>>>,
    ended: mpsc::Receiver<()>,
}

impl Stream {
    fn read(
        source: Option<impl Read + Send + 'static>,
        most: usize,
        mut lines: Option<Lines>,
    ) -> Self {
        let bytes: Arc<Mutex<Zeroizing<Vec<u8>>>> = Arc::default();
        let (end, ended) = mpsc::channel();
        if let Some(mut source) = source {
            let bytes = Arc::clone(&bytes);
            spawn(move || {
                let _end = end;
                let mut piece = Zeroizing::new([0; 4096]);
                while let Ok(length @ 1..) = source.read(&mut *piece) {
                    if let Some(lines) = &mut lines {
                        lines.feed(&piece[..length], SystemClock.elapsed());
                    }
                    let mut bytes = lock(&bytes);
                    if bytes.len() < most {
                        bytes.extend_from_slice(&piece[..length]);
                    }
                }
                if let Some(lines) = &mut lines {
                    lines.finish();
                }
            });
        }
        Self { bytes, ended }
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    /// Waits for the end, within the grace for those who hold the pipe.
    fn finish(&self) {
        let _ = self.ended.recv_timeout(PIPE_GRACE);
    }

    fn last(&self, limit: usize) -> Zeroizing<Vec<u8>> {
        let bytes = self.lock();
        Zeroizing::new(bytes[bytes.len().saturating_sub(limit)..].to_vec())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Zeroizing<Vec<u8>>> {
        lock(&self.bytes)
    }
}
