//! The loop: everything that can happen to a program, in one place.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Signal,
};

use super::{
    Failure, Invocation, Left, Output, Status, Stdin,
    buffer::Buffer,
    cancel::Listener,
    child::Child,
    failure::End,
    launch::Pipes,
    stderr::{ROUNDS, StderrPipe},
};
use crate::clock::{Clock, SystemClock};

/// How long the pipes of a program that has ended may be held by what it left behind, such as a
/// browser; or by the last process of a pipeline that still writes.
const PIPE_GRACE: Duration = Duration::from_millis(250);
/// How long a program that is told to end has for that before it is killed.
const TERM_GRACE: Duration = Duration::from_millis(250);
/// How often to look whether the program has ended, where that cannot be waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Talks with the program until it has ended or we give up.
pub(super) fn run(
    invocation: &Invocation,
    child: Child,
    pipes: Pipes,
    started: Duration,
    listener: &Listener,
) -> Result<Output, Failure> {
    let mut io = IoLoop::new(invocation, child, pipes, started);
    match io.listen(listener) {
        Ok(status) => Ok(io.finish(status)),
        Err(End::GaveUp(failure)) => Err(io.give_up(failure)),
        Err(End::System(error)) => Err(Failure::System(error)),
    }
}

struct IoLoop<'a> {
    invocation: &'a Invocation,
    child: Child,
    request: &'a [u8],
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    output: Buffer,
    stderr: StderrPipe,
    started: Duration,
}

impl<'a> IoLoop<'a> {
    fn new(invocation: &'a Invocation, child: Child, pipes: Pipes, started: Duration) -> Self {
        let request: &[u8] = match &invocation.stdin {
            Stdin::Request(bytes) => bytes,
            Stdin::Closed | Stdin::Terminal => &[],
        };
        Self {
            invocation,
            child,
            request,
            stdin: pipes.stdin.filter(|_| !request.is_empty()),
            stdout: Some(pipes.stdout),
            output: Buffer::default(),
            stderr: StderrPipe::new(invocation, pipes.stderr),
            started,
        }
    }

    /// Writes, reads and waits until the program has ended and said all it had to say.
    fn listen(&mut self, listener: &Listener) -> Result<(Status, Duration), End> {
        let deadline = self.started.saturating_add(self.invocation.budget);
        let mut ended: Option<(Status, Duration)> = None;
        loop {
            let until = match ended {
                Some((_, at)) => at + PIPE_GRACE,
                None => deadline,
            };
            let ready = self.wait(Some(listener), until).map_err(End::System)?;
            self.serve(ready)?;
            let now = SystemClock.elapsed();
            if ended.is_none() && ready.ended {
                let status = self.child.ended().map_err(End::System)?;
                ended = status.map(|status| (status, now));
                if ended.is_some() {
                    // What the program itself wrote is in the pipes by now.
                    self.serve(Ready::all())?;
                }
            }
            match ended {
                Some((status, at)) => {
                    let grace_over = now >= at + PIPE_GRACE || listener.is_cancelled();
                    if grace_over || self.all_said(status) {
                        return Ok((status, at));
                    }
                }
                None if listener.is_cancelled() => return Err(End::GaveUp(Failure::Cancelled)),
                None if now >= deadline => return Err(End::GaveUp(Failure::TimedOut)),
                None => {}
            }
        }
    }

    /// Nobody can add to the answer any more. What is left of stderr matters only with a failure.
    fn all_said(&self, status: Status) -> bool {
        self.stdout.is_none() && (self.stderr.is_over() || status.success())
    }

    /// Waits until something happens, at most until `until`.
    fn wait(&mut self, listener: Option<&Listener>, until: Duration) -> io::Result<Ready> {
        let now = SystemClock.elapsed();
        let mut until = self.stderr.tick(now).map_or(until, |due| due.min(until));
        let ended = self.child.has_ended();
        let watched = self.child.watch().is_some();
        if !ended && !watched {
            until = until.min(now + LOOK_EVERY);
        }
        let mut fds = Fds::default();
        fds.add(listener.map(Listener::wakeup), PollFlags::IN);
        // Its end is known already, and would wake us at once.
        let watch = fds.add(self.child.watch().filter(|_| !ended), PollFlags::IN);
        let stdin = fds.add(self.stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT);
        let stdout = fds.add(self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN);
        let stderr = fds.add(self.stderr.pipe(), PollFlags::IN);
        fds.poll(until.saturating_sub(now))?;
        Ok(Ready {
            ended: !watched || fds.is_ready(watch),
            stdin: fds.is_ready(stdin),
            stdout: fds.is_ready(stdout),
            stderr: fds.is_ready(stderr),
        })
    }

    /// Writes and reads what is ready.
    fn serve(&mut self, ready: Ready) -> Result<(), End> {
        if ready.stdin {
            self.write();
        }
        if ready.stderr {
            self.stderr.read();
        }
        if ready.stdout { self.read() } else { Ok(()) }
    }

    /// Writes what the program is ready to take. It may answer without reading.
    fn write(&mut self) {
        while let Some(stdin) = &self.stdin {
            match rustix::io::write(stdin, self.request) {
                Ok(written) => {
                    self.request = &self.request[written..];
                    if self.request.is_empty() {
                        self.stdin = None;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.stdin = None,
            }
        }
    }

    /// Reads what is there of the answer.
    fn read(&mut self) -> Result<(), End> {
        for _ in 0..ROUNDS {
            let Some(stdout) = &self.stdout else { break };
            match rustix::io::read(stdout, spare_capacity(self.output.room())) {
                Ok(0) => self.stdout = None,
                Ok(_) if self.output.len() > self.invocation.limits.stdout => {
                    return Err(End::GaveUp(Failure::TooMuchOutput));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.stdout = None,
            }
        }
        Ok(())
    }

    /// The program ended by itself: nothing is killed, it may have left something behind on purpose.
    fn finish(mut self, (status, at): (Status, Duration)) -> Output {
        self.child.reap();
        Output {
            status,
            took: at.saturating_sub(self.started),
            stderr: self.stderr.take(),
            stdout: self.output.into_bytes(),
        }
    }

    /// Ends the program, gently at first.
    fn give_up(mut self, failure: fn(Left) -> Failure) -> Failure {
        let took = SystemClock.elapsed().saturating_sub(self.started);
        if matches!(self.child.ended(), Ok(None)) {
            self.child.signal(Signal::TERM);
            self.let_end();
            self.child.end();
        } else {
            // It had ended by itself before we lost patience with what it printed.
            self.child.reap();
        }
        let (stdout, stderr) = (self.output.into_bytes(), self.stderr.take());
        failure(Left { stdout, stderr, took })
    }

    /// Listens to the last words of a program that was told to end: until it has, and with it, in a
    /// group, everybody who holds its pipes.
    fn let_end(&mut self) {
        self.stdin = None;
        let until = SystemClock.elapsed() + TERM_GRACE;
        while SystemClock.elapsed() < until {
            let Ok(ready) = self.wait(None, until) else { return };
            let _ = self.serve(ready);
            self.output.keep_first(self.invocation.limits.stdout);
            let ended = !matches!(self.child.ended(), Ok(None));
            let silent = self.stdout.is_none() && self.stderr.is_over();
            if ended && (silent || !self.child.group) {
                return;
            }
        }
    }
}

/// What can be gone on with.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "four things that are ready or not")]
struct Ready {
    ended: bool,
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Ready {
    /// To look everywhere.
    fn all() -> Self {
        Self { ended: true, stdin: true, stdout: true, stderr: true }
    }
}

/// The descriptors of one poll.
#[derive(Default)]
pub(super) struct Fds<'fd>(Vec<PollFd<'fd>>);

impl<'fd> Fds<'fd> {
    /// Adds a descriptor if there is one; returns its place.
    pub(super) fn add(&mut self, fd: Option<BorrowedFd<'fd>>, flags: PollFlags) -> Option<usize> {
        self.0.push(PollFd::from_borrowed_fd(fd?, flags));
        Some(self.0.len() - 1)
    }

    fn is_ready(&self, place: Option<usize>) -> bool {
        place.is_some_and(|place| !self.0[place].revents().is_empty())
    }

    pub(super) fn poll(&mut self, timeout: Duration) -> io::Result<()> {
        // A timeout that does not fit is as good as none: the loop looks at the clock again.
        let timeout = timeout.try_into().ok();
        match poll(&mut self.0, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
