//! `keyward image credentials -`: reads images line by line and prints each answer as soon as it is
//! ready.

use std::{
    io::{self, BufRead as _},
    process::ExitCode,
    sync::{
        Arc,
        mpsc::{self, Sender, SyncSender},
    },
};

use keyward_image::Lookup;
use keyward_process::runner;

use super::{answer::Answer, setup::Setup};
use crate::{
    failure::Failure,
    output::{self, Width},
};

/// How many images are looked up at the same time; further lines wait. Each has a thread.
const AT_ONCE: usize = 1000;

/// An image with its answer, or why stdin cannot be read any further: for the thread that prints.
type Event = io::Result<(String, Result<Lookup, Failure>)>;

/// Answers every line until stdin ends, in the order in which the answers arrive. The configuration
/// may change meanwhile.
pub(super) fn run(setup: Setup) -> Result<ExitCode, Failure> {
    let setup = Arc::new(setup);
    let (tell, events) = mpsc::channel();
    let (take, places) = mpsc::sync_channel(AT_ONCE);
    let reader = Arc::clone(&setup);
    // This thread may wait for a line until the program ends.
    runner::spawn(move || read(&reader, &tell, &take));
    let mut broken = None;
    for event in events {
        let (image, result) = match event {
            Ok(answer) => answer,
            Err(error) => {
                broken = Some(error);
                continue;
            }
        };
        let answer = match &result {
            Ok(found) => Answer::found(&image, found),
            Err(failure) => Answer::failed(&image, failure),
        };
        output::print_secret(&answer, Width::Line)?;
        // One more line may be read. This fails once all lines have been read.
        _ = places.recv();
    }
    match broken {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(Failure::of("stdin cannot be read")(error)),
    }
}

fn read(setup: &Arc<Setup>, tell: &Sender<Event>, take: &SyncSender<()>) {
    for line in io::stdin().lock().split(b'\n') {
        let line = match line {
            Ok(line) => String::from_utf8_lossy(&line).trim().to_owned(),
            Err(error) => {
                _ = tell.send(Err(error));
                return;
            }
        };
        if line.is_empty() {
            continue;
        }
        if take.send(()).is_err() {
            return;
        }
        let mut reply = Reply { image: line, tell: tell.clone(), given: false };
        let setup = Arc::clone(setup);
        runner::spawn(move || {
            let found = setup.lookup(&reply.image);
            reply.send(found);
        });
    }
}

/// An image that gets an answer in any case, even if no thread can be started for it.
struct Reply {
    image: String,
    tell: Sender<Event>,
    given: bool,
}

impl Reply {
    fn send(&mut self, result: Result<Lookup, Failure>) {
        self.given = true;
        // If stdout was closed, the answer has nowhere to go.
        _ = self.tell.send(Ok((std::mem::take(&mut self.image), result)));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.given {
            self.send(Err(Failure::failed("the lookup was lost")));
        }
    }
}
