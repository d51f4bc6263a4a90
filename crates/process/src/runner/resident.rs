//! A program that stays: started once, then asked line by line.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use zeroize::Zeroizing;

use super::{
    Cancel, Failure, Invocation, Left, argument_sizes, buffer::Buffer, cancel::Listener,
    child::Child, failure::End, io_loop::Fds, launch, stderr::StderrPipe, terminal,
};
use crate::clock::{Clock, SystemClock};

/// How long a program whose stdin was closed has for its end before it is killed.
const LEAVE: Duration = Duration::from_millis(500);

/// A program that answers each line it is given with a line, until its stdin is closed.
///
/// Nothing watches it between two questions: what it writes to stderr meanwhile is read with the
/// next one. Dropped, it is told to go by the end of its stdin, and made to go if it does not.
pub struct Resident {
    invocation: Invocation,
    child: Child,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    answer: Buffer,
    stderr: StderrPipe,
    broken: bool,
}

/// Starts a program that stays. The invocation's stdin does not count, and its budget is that of
/// each question.
pub fn stay(mut invocation: Invocation, cancel: &Cancel) -> Result<Resident, Failure> {
    // Nothing to say yet, but a pipe to say it by.
    invocation.stdin = super::Stdin::Request(Zeroizing::default());
    argument_sizes::check(&invocation)?;
    let listener = cancel.listen().map_err(Failure::System)?;
    if listener.is_cancelled() {
        return Err(Failure::Cancelled(Left::default()));
    }
    let (child, pipes) = launch::launch(&invocation, &listener)?;
    let stderr = StderrPipe::new(&invocation, pipes.stderr);
    Ok(Resident {
        invocation,
        child,
        stdin: pipes.stdin,
        stdout: Some(pipes.stdout),
        answer: Buffer::default(),
        stderr,
        broken: false,
    })
}

impl Resident {
    /// Asks, and returns the answer, both without their line breaks. After a failure the program is
    /// of no more use, because what it says next would be taken for another answer; unless it
    /// [is whole](Self::is_whole), and was not asked at all.
    pub fn ask(&mut self, line: &[u8], cancel: &Cancel) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let listener = cancel.listen().map_err(Failure::System)?;
        let _terminal = terminal::take(self.invocation.attended, &listener)?;
        let started = SystemClock.elapsed();
        let mut request = Zeroizing::new(Vec::with_capacity(line.len() + 1));
        request.extend_from_slice(line);
        request.push(b'\n');
        let result = self.exchange(&request, started, &listener);
        if result.is_err() {
            self.broken = true;
            self.child.end();
        }
        result.map_err(|end| {
            let took = SystemClock.elapsed().saturating_sub(started);
            self.stderr.read();
            let stdout = std::mem::take(&mut self.answer).into_bytes();
            let left = Left { stdout, stderr: self.stderr.take(), took };
            match end {
                End::GaveUp(failure) => failure(left),
                End::System(error) => Failure::System(error),
            }
        })
    }

    /// Whether it can be asked again: nothing failed, or it was still waiting for the terminal.
    pub fn is_whole(&self) -> bool {
        !self.broken
    }

    fn exchange(
        &mut self,
        mut request: &[u8],
        started: Duration,
        listener: &Listener,
    ) -> Result<Zeroizing<Vec<u8>>, End> {
        let deadline = started + self.invocation.budget;
        loop {
            if listener.is_cancelled() {
                return Err(End::GaveUp(Failure::Cancelled));
            }
            let now = SystemClock.elapsed();
            if now >= deadline {
                return Err(End::GaveUp(Failure::TimedOut));
            }
            let until = self.stderr.tick(now).map_or(deadline, |due| due.min(deadline));
            self.wait(!request.is_empty(), until.saturating_sub(now), listener)?;
            self.stderr.read();
            self.write(&mut request)?;
            if let Some(answer) = self.read()? {
                // An answer before the question is whole is an answer to something else.
                return if request.is_empty() {
                    Ok(answer)
                } else {
                    Err(End::GaveUp(Failure::Gone))
                };
            }
        }
    }

    fn wait(&self, writes: bool, limit: Duration, listener: &Listener) -> Result<(), End> {
        let mut fds = Fds::default();
        fds.add(Some(listener.wakeup()), PollFlags::IN);
        fds.add(self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN);
        fds.add(self.stderr.pipe(), PollFlags::IN);
        fds.add(self.stdin.as_ref().filter(|_| writes).map(AsFd::as_fd), PollFlags::OUT);
        fds.poll(limit).map_err(End::System)
    }

    fn write(&mut self, request: &mut &[u8]) -> Result<(), End> {
        while let Some(stdin) = self.stdin.as_ref().filter(|_| !request.is_empty()) {
            match rustix::io::write(stdin, request) {
                Ok(written) => *request = &request[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(End::GaveUp(Failure::Gone)),
            }
        }
        Ok(())
    }

    /// The answer, once it is whole.
    fn read(&mut self) -> Result<Option<Zeroizing<Vec<u8>>>, End> {
        while let Some(stdout) = &self.stdout {
            match rustix::io::read(stdout, spare_capacity(self.answer.room())) {
                Ok(0) => return Err(End::GaveUp(Failure::Gone)),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(End::GaveUp(Failure::Gone)),
            }
            let Some(end) = self.answer.bytes_from(0).iter().position(|byte| *byte == b'\n') else {
                if self.answer.len() > self.invocation.limits.stdout {
                    return Err(End::GaveUp(Failure::TooMuchOutput));
                }
                continue;
            };
            let line = Zeroizing::new(self.answer.bytes_from(0)[..end].to_vec());
            if self.answer.len() > end + 1 {
                // Two answers to one question.
                return Err(End::GaveUp(Failure::Gone));
            }
            self.answer.clear();
            return Ok(Some(line));
        }
        Ok(None)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.stdin = None;
        if !matches!(self.child.ended(), Ok(None)) {
            self.child.reap();
            return;
        }
        // Its stdout ends with it, or it hangs; either way the child is killed if it is still there.
        if let Some(stdout) = &self.stdout {
            let until = SystemClock.elapsed() + LEAVE;
            let mut rest = [0; 256];
            while let Some(left) = until.checked_sub(SystemClock.elapsed()) {
                let limit = left.try_into().ok();
                let _ = poll(&mut [PollFd::new(stdout, PollFlags::IN)], limit.as_ref());
                if matches!(rustix::io::read(stdout, &mut rest), Ok(0)) {
                    break;
                }
            }
        }
        if self.child.ends_within(LEAVE) {
            self.child.reap();
        } else {
            self.child.end();
        }
    }
}
