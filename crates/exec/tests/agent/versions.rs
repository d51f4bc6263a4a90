//! Clients and agents of different versions.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use keyward_protocol::agent::{Hello, Inbox, Message};

use crate::stage::{PATIENCE, Stage, private};

/// The greeting of a program that speaks these versions.
fn hello(lowest: u16, highest: u16) -> Vec<u8> {
    let mut wire = Vec::new();
    Message::Hello(Hello { lowest, highest, version: "9.9.9".into() }).write(&mut wire);
    wire
}

/// An agent that says this to everybody, and closes the connection.
struct Odd {
    over: Arc<AtomicBool>,
    socket: std::path::PathBuf,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Odd {
    fn start(stage: &Stage, says: &[u8]) -> Self {
        let directory = stage.dir.path().join("run/keyward");
        std::fs::create_dir_all(&directory).unwrap();
        private(&directory);
        let socket = directory.join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (over, says) = (Arc::new(AtomicBool::new(false)), says.to_vec());
        let ending = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ending.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1 << 14]);
                let _ = stream.write_all(&says);
            }
        });
        Self { over, socket, thread: Some(thread) }
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(UnixStream::connect(&self.socket));
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn an_agent_that_speaks_another_version_or_nonsense_is_done_without() {
    let unknown_frame = [2, 0, 0, 0, 200, 0];
    let endless = [0xff; 64];
    for says in [hello(9, 9), hello(0, 0), unknown_frame.to_vec(), endless.to_vec(), Vec::new()] {
        let stage = Stage::new();
        let _agent = Odd::start(&stage, &says);
        assert_eq!(stage.token(), "t0ken", "{says:?}");
        assert_eq!(stage.token(), "t0ken", "{says:?}");
        assert_eq!(stage.runs(), 2, "{says:?}");
        assert!(stage.agents().is_empty(), "the socket belongs to another agent");
    }
}

/// What the agent says to this, to the end.
fn told(stage: &Stage, wire: &[u8]) -> Vec<Message> {
    let mut stream = UnixStream::connect(stage.dir.path().join("run/keyward/agent.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(wire).unwrap();
    let (mut inbox, mut bytes, mut messages) = (Inbox::default(), [0; 1 << 14], Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        inbox.push(&bytes[..count]);
    }
    while let Ok(Some(message)) = inbox.next() {
        messages.push(message);
    }
    messages
}

#[test]
fn a_client_that_speaks_another_version_is_told_ours_and_nothing_else() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let question = |hello: Vec<u8>| {
        let mut wire = hello;
        Message::Ask(stage.question()).write(&mut wire);
        wire
    };
    for (lowest, highest) in [(9, 9), (2, 9), (0, 0), (9, 1)] {
        let said = told(&stage, &question(hello(lowest, highest)));
        assert!(matches!(&said[..], [Message::Hello(_)]), "{lowest} to {highest}: {said:?}");
    }
    // One that speaks ours too is served.
    let said = told(&stage, &question(hello(1, 9)));
    assert!(matches!(&said[..], [Message::Hello(_), Message::Answer(_)]), "{said:?}");
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 1);
}
