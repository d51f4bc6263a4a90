//! How threads that run plugins reach the loop that serves clients.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, mpsc::Sender},
    task::{Wake, Waker},
};

use keyward_host::{Credential, Error};
use keyward_process::{lock, runner::Output};
use rustix::event::{EventfdFlags, eventfd};

use super::Key;

/// An event for the loop.
pub(super) enum Event {
    /// A plugin is due to run, and needs a runner.
    RunnerWanted(Key, Sender<Runner>),
    /// A slot's pending run may have finished.
    Ready(Key),
    /// A server was asked whether it accepts a credential.
    Verified(Key, Arc<Credential>, Option<bool>),
    /// The process of a proxy has ended.
    ProxyEnded(String, u32),
    /// A signal or another thread stops the agent.
    Stop,
}

/// The party that runs a plugin, or the result of the run.
pub(super) enum Runner {
    /// The agent, on the calling thread.
    Agent,
    /// A client ran it under a lease.
    Client(Output),
    /// Nobody can run it.
    Nobody(Error),
}

/// Events, and a descriptor that wakes the loop.
pub(super) struct Desk {
    events: Mutex<Vec<Event>>,
    bell: OwnedFd,
}

impl Desk {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { events: Mutex::default(), bell }))
    }

    pub(super) fn put(&self, event: Event) {
        lock(&self.events).push(event);
        // This fails only if the counter is full; then the loop will wake up anyway.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    pub(super) fn take(&self) -> Vec<Event> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *lock(&self.events))
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Wakes the loop for one slot.
    pub(super) fn waker(self: &Arc<Self>, key: Key) -> Waker {
        Arc::new(Ring { desk: Arc::clone(self), key }).into()
    }
}

struct Ring {
    desk: Arc<Desk>,
    key: Key,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.desk.put(Event::Ready(self.key));
    }
}
