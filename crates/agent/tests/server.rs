//! The agent in this process: its end, and secrets by name.
#![cfg(all(feature = "server", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, os::unix::fs::DirBuilderExt as _, sync::Arc, thread::JoinHandle, time::Duration};

use keyward_agent::{Address, CannotStart, Client, End, Server, Settings, Stopper, Unreachable};
use keyward_process::clock::SystemClock;
use keyward_protocol::{
    Secret,
    agent::{Admin, Message, SecretRequest, Served},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

struct Agent {
    dir: TempDir,
    address: Address,
    stopper: Stopper,
    thread: Option<JoinHandle<End>>,
}

impl Agent {
    fn new(idle: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("run");
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let address = Address { socket: directory.join("agent.sock"), directory };
        let server = Server::bind(settings(&address, &dir, idle)).unwrap();
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(|| server.run().unwrap()));
        Self { dir, address, stopper, thread }
    }

    fn client(&self) -> Client {
        Client::connect(&self.address.socket).unwrap()
    }

    fn end(&mut self) -> End {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn settings(address: &Address, dir: &TempDir, idle: Duration) -> Settings {
    let mut settings =
        Settings::new(address.clone(), dir.path().join("entries"), Arc::new(SystemClock));
    settings.idle = idle;
    settings
}

fn served(client: &mut Client) -> Served {
    match client.receive(PATIENCE).unwrap() {
        Message::Served(served) => served,
        other => panic!("{other:?}"),
    }
}

fn secret(text: &str) -> Served {
    Served::Done(Secret::new(text))
}

#[test]
fn an_agent_with_nothing_to_keep_ends_by_itself() {
    let mut agent = Agent::new(Duration::from_millis(50));
    assert_eq!(agent.end(), End::Idle);
    assert!(!agent.address.socket.exists());
    assert!(matches!(Client::connect(&agent.address.socket), Err(Unreachable::Absent)));
}

#[test]
fn an_agent_that_keeps_something_does_not_end() {
    let mut agent = Agent::new(Duration::from_millis(50));
    let mut client = agent.client();
    let put = SecretRequest::Put("a".into(), Secret::new("t"), 0);
    client.ask(&Message::Secret(put)).unwrap();
    assert_eq!(served(&mut client), secret(""));
    // Ten times as long as it would take; whoever waits for nothing has no event to wait for.
    std::thread::sleep(Duration::from_millis(500));
    client.send(&Message::Secret(SecretRequest::Get("a".into()))).unwrap();
    assert_eq!(served(&mut client), secret("t"));
    client.send(&Message::Secret(SecretRequest::Forget("a".into()))).unwrap();
    assert_eq!(served(&mut client), secret(""));
    drop(client);
    assert_eq!(agent.end(), End::Idle);
}

#[test]
fn there_is_one_agent_at_a_time() {
    let agent = Agent::new(PATIENCE);
    let second = Server::bind(settings(&agent.address, &agent.dir, PATIENCE));
    assert!(matches!(second.map(drop), Err(CannotStart::Running)));
    // And it has not taken the socket of the first one away.
    let mut client = agent.client();
    client.ask(&Message::Admin(Admin::Status)).unwrap();
    assert!(matches!(served(&mut client), Served::Done(_)));
}

#[test]
fn an_agent_whose_socket_is_gone_ends() {
    let mut agent = Agent::new(Duration::from_millis(50));
    let mut client = agent.client();
    client.ask(&Message::Secret(SecretRequest::Lease("a".into()))).unwrap();
    assert_eq!(served(&mut client), Served::Leased);
    fs::remove_file(&agent.address.socket).unwrap();
    assert_eq!(agent.end(), End::Displaced);
}

#[test]
fn one_process_brings_a_secret_and_the_others_wait_for_it() {
    let agent = Agent::new(PATIENCE);
    let lease = || Message::Secret(SecretRequest::Lease("registry".into()));
    let (mut first, mut second, mut third) = (agent.client(), agent.client(), agent.client());
    first.ask(&lease()).unwrap();
    assert_eq!(served(&mut first), Served::Leased);
    second.ask(&lease()).unwrap();
    third.ask(&Message::Secret(SecretRequest::Pending)).unwrap();
    assert_eq!(served(&mut third), secret("registry"));
    // The first one dies; the second one is to bring it.
    drop(first);
    assert_eq!(served(&mut second), Served::Leased);
    third.send(&lease()).unwrap();
    let put = SecretRequest::Put("registry".into(), Secret::new("t0ken"), 0);
    second.send(&Message::Secret(put)).unwrap();
    assert_eq!(served(&mut second), secret(""));
    assert_eq!(served(&mut third), secret("t0ken"));
}

#[test]
fn a_locked_agent_has_no_secrets() {
    let agent = Agent::new(PATIENCE);
    let mut client = agent.client();
    let put = SecretRequest::Put("a".into(), Secret::new("t"), 0);
    client.ask(&Message::Secret(put)).unwrap();
    assert_eq!(served(&mut client), secret(""));
    let admin = |admin| {
        let mut client = agent.client();
        client.ask(&Message::Admin(admin)).unwrap();
        served(&mut client)
    };
    assert_eq!(admin(Admin::Lock), secret(""));
    client.send(&Message::Secret(SecretRequest::Get("a".into()))).unwrap();
    assert!(matches!(served(&mut client), Served::Not(_)));
    assert_eq!(admin(Admin::Unlock), secret(""));
    client.send(&Message::Secret(SecretRequest::Get("a".into()))).unwrap();
    assert_eq!(served(&mut client), Served::Absent);
}

#[test]
fn what_is_no_question_ends_the_connection_and_nothing_else() {
    let agent = Agent::new(PATIENCE);
    let mut odd = agent.client();
    odd.ask(&Message::Note("hello".into())).unwrap();
    assert!(matches!(odd.receive(PATIENCE), Err(Unreachable::Gone)));
    let mut client = agent.client();
    client.ask(&Message::Admin(Admin::Status)).unwrap();
    assert!(matches!(served(&mut client), Served::Done(_)));
}
