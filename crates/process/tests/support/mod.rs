//! A run on a thread that Keyward keeps, to wait for and to cancel.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::sync::mpsc;

use keyward_process::runner::{self, Cancel, Failure, Invocation, Output};

pub(crate) struct Started {
    pub(crate) cancel: Cancel,
    result: mpsc::Receiver<Result<Output, Failure>>,
}

pub(crate) fn start(invocation: Invocation) -> Started {
    let cancel = Cancel::default();
    let (send, result) = mpsc::channel();
    let own = cancel.clone();
    runner::spawn(move || {
        let _ = send.send(runner::run(&invocation, &own));
    });
    Started { cancel, result }
}

impl Started {
    /// The result, or `None` for a run that panicked.
    pub(crate) fn wait(self) -> Option<Result<Output, Failure>> {
        self.result.recv().ok()
    }
}
