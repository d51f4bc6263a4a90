//! The agent in this process: its end, and secrets by name.
#![cfg(all(feature = "server", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use keyward_agent::{
    Address, CannotStart, Client, End, Obtained, Server, Settings, Stopper, Unreachable, obtain,
    registration::{Registration, Registrations},
};
use keyward_host::kubeconfig::{ApiVersion, Exec, InteractiveMode};
use keyward_process::{
    clock::{Clock as _, ManualClock, SystemClock},
    surroundings::{Fixed, Surroundings},
};
use keyward_protocol::{
    Secret,
    agent::{Admin, Ask, Message, ProxyRequest, SecretRequest, Served},
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
        Self::start(|address, dir| settings(address, dir, idle))
    }

    /// An agent under a clock in the test's hand.
    fn under(clock: &Arc<ManualClock>) -> Self {
        Self::start(|address, dir| {
            Settings::new(address.clone(), dir.path().join("entries"), clock.clone())
        })
    }

    fn start(settings: impl FnOnce(&Address, &TempDir) -> Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("run");
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let address = Address { socket: directory.join("agent.sock"), directory };
        let server = Server::bind(settings(&address, &dir)).unwrap();
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

    /// Registers a plugin, and returns the question for its credential.
    fn register(&self, command: &str, args: &[String], interactive_mode: &str) -> Message {
        const VERSION: &str = "client.authentication.k8s.io/v1";
        let home = self.dir.path().to_str().unwrap();
        let vars = [("HOME", home), ("PATH", "/usr/bin:/bin")];
        let surroundings = Surroundings::fixed(Fixed {
            vars: vars.map(|(name, value)| (name.into(), value.into())).to_vec(),
            cwd: "/".into(),
            ..Fixed::default()
        });
        let exec = Exec {
            command: command.to_owned(),
            args: args.to_vec(),
            api_version: ApiVersion::parse(VERSION),
            interactive_mode: InteractiveMode::parse(interactive_mode),
            ..Exec::default()
        };
        let kubeconfig = self.dir.path().join("config");
        let registration = Registration::new(&exec, &kubeconfig, "ann", &surroundings).unwrap();
        Registrations::new(self.dir.path().join("entries")).add(&registration).unwrap();
        let spec = r#""spec":{"interactive":false}"#;
        let info = format!(r#"{{"kind":"ExecCredential","apiVersion":"{VERSION}",{spec}}}"#);
        let vars = vars.into_iter().chain([("KUBERNETES_EXEC_INFO", info.as_str())]);
        Message::Ask(Ask {
            command: command.into(),
            args: args.iter().map(|arg| arg.clone().into_bytes()).collect(),
            environment: vars.map(|(name, value)| (name.into(), value.into())).collect(),
            directory: b"/".to_vec(),
            terminal: Vec::new(),
            ..Ask::default()
        })
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

/// Waits until nothing listens. The agent closes its copy of the socket right after it has sent one,
/// which no event tells.
fn eventually_absent(address: &Address) {
    let begun = Instant::now();
    while !matches!(Client::connect(&address.socket), Err(Unreachable::Absent)) {
        assert!(begun.elapsed() < PATIENCE / 2, "something still listens");
        std::thread::yield_now();
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
fn scrapes_do_not_keep_an_agent_running() {
    let clock = Arc::new(ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
    let mut agent = Agent::under(&clock);
    let mut scrapes = 0;
    while let Ok(mut client) = Client::connect(&agent.address.socket) {
        let scrape = Message::Admin(Admin::Metrics);
        match client.ask(&scrape).and_then(|()| client.receive(PATIENCE)) {
            Ok(answer) => assert!(matches!(answer, Message::Served(Served::Done(_)))),
            // The agent ended after this client had connected.
            Err(_) => break,
        }
        clock.advance(Duration::from_secs(60));
        scrapes += 1;
        // Not just ten: while it accepts clients, it does nothing else.
        assert!(scrapes < 100, "it ends after ten minutes");
        // The agent has closed the connection, so from now on it may end.
        let again = client.send(&scrape).and_then(|()| client.receive(PATIENCE));
        assert!(matches!(again, Err(Unreachable::Gone)), "{again:?}");
    }
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
fn an_agent_waits_for_the_lock_of_one_that_no_longer_listens() {
    let mut agent = Agent::new(PATIENCE);
    agent.stopper.stop();
    assert_eq!(agent.end(), End::Stopped);
    // As of an agent that was killed: its socket is closed, and its lock not yet.
    let lock = fs::File::open(agent.address.beside("agent.lock")).unwrap();
    lock.lock().unwrap();
    let next = std::thread::scope(|scope| {
        let starting =
            scope.spawn(|| Server::bind(settings(&agent.address, &agent.dir, PATIENCE)).map(drop));
        // Long enough for one that does not wait to give up.
        let begun = Instant::now();
        while !starting.is_finished() && begun.elapsed() < Duration::from_millis(200) {
            std::thread::yield_now();
        }
        lock.unlock().unwrap();
        starting.join().unwrap()
    });
    next.unwrap();
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

/// Each connects before the handover and asks after it. What the old agent did for them would be lost.
#[test]
fn who_has_not_asked_before_a_handover_asks_the_next_agent() {
    let mut agent = Agent::new(PATIENCE);
    let questions = [
        Message::Proxy(ProxyRequest::Start("config".into())),
        Message::Secret(SecretRequest::Put("a".into(), Secret::new("t"), 0)),
        Message::Admin(Admin::Status),
    ];
    let clients: Vec<_> = questions.iter().map(|_| agent.client()).collect();
    let next = Server::take_over(settings(&agent.address, &agent.dir, PATIENCE)).unwrap();
    for (mut client, question) in clients.into_iter().zip(&questions) {
        let asked = client.ask(question).and_then(|()| client.receive(PATIENCE));
        assert!(matches!(asked, Err(Unreachable::Gone)), "{question:?}: {asked:?}");
    }
    assert_eq!(agent.end(), End::HandedOver);
    drop(next);
}

#[test]
fn an_agent_that_dies_after_a_handover_leaves_no_one_waiting() {
    let agent = Agent::new(PATIENCE);
    // It has asked and may ask again, so it kept the old agent and its socket for a minute.
    let mut reader = agent.client();
    reader.ask(&Message::Secret(SecretRequest::Get("a".into()))).unwrap();
    assert_eq!(served(&mut reader), Served::Absent);
    drop(Server::take_over(settings(&agent.address, &agent.dir, PATIENCE)).unwrap());
    eventually_absent(&agent.address);
    let third = Server::bind(settings(&agent.address, &agent.dir, PATIENCE)).unwrap();
    drop((third, reader));
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

/// An expired login that tools ask for every half a minute, by a clock in the test's hand.
#[test]
fn twelve_hours_of_background_requests_make_one_run_of_a_plugin_that_wants_a_browser() {
    let clock = Arc::new(ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
    let mut agent = Agent::under(&clock);
    let (script, runs) = (agent.dir.path().join("plugin"), agent.dir.path().join("runs"));
    let text = format!("echo run >>{}\necho see https://idp.example >&2\nexit 1\n", runs.display());
    fs::write(&script, text).unwrap();
    let question = agent.register("sh", &[script.to_str().unwrap().to_owned()], "IfAvailable");
    for _ in 0..12 * 60 * 2 {
        match obtain(&mut agent.client(), &question, |_| {}).unwrap() {
            Obtained::Failure(failure) => assert_eq!(failure.code, 3, "{failure:?}"),
            other => panic!("{other:?}"),
        }
        clock.advance(Duration::from_secs(30));
    }
    assert_eq!(fs::read_to_string(&runs).unwrap().lines().count(), 1);
    agent.stopper.stop();
    assert_eq!(agent.end(), End::Stopped);
}

/// A plugin that never prompts is run ahead of expiry while somebody asked within the last hour.
#[test]
fn a_plugin_that_never_prompts_is_kept_warm_for_an_hour_after_the_last_request() {
    let clock = Arc::new(ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
    let mut agent = Agent::under(&clock);
    let dir = agent.dir.path().to_owned();
    let (answer, runs, aws) = (dir.join("answer"), dir.join("runs"), dir.join("aws"));
    let text = format!(
        "#!/usr/bin/python3\nopen({runs:?}, 'a').write('run\\n')\nprint(open({answer:?}).read())\n"
    );
    fs::write(dir.join("text"), text).unwrap();
    // Another process writes it, because a file that is open for writing cannot be executed.
    let mut install = std::process::Command::new("install");
    let installed = install.args(["-m", "755"]).arg(dir.join("text")).arg(&aws).status().unwrap();
    assert!(installed.success());
    let args = ["eks", "get-token"].map(str::to_owned);
    let question = agent.register(aws.to_str().unwrap(), &args, "Never");
    let lasts_a_quarter = || {
        let end = clock.now().checked_add(Duration::from_secs(900)).unwrap();
        let status = format!(r#"{{"token":"t","expirationTimestamp":"{end}"}}"#);
        let kind = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
        fs::write(&answer, format!(r#"{{{kind},"status":{status}}}"#)).unwrap();
    };
    lasts_a_quarter();
    let obtained = obtain(&mut agent.client(), &question, |_| {}).unwrap();
    assert!(matches!(obtained, Obtained::Answer(_)), "{obtained:?}");

    let status = || {
        let mut client = agent.client();
        client.ask(&Message::Admin(Admin::Status)).unwrap();
        match served(&mut client) {
            Served::Done(text) => text.expose().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert!(status().contains(r#""profile":"aws""#), "{}", status());
    // A request of another kind wakes the agent, which else looks once a minute.
    for minute in 1..=130 {
        clock.advance(Duration::from_secs(60));
        lasts_a_quarter();
        status();
        // At 85 % of the lifetime a renewal has begun. It ends while the clock stands still.
        let begun = std::time::Instant::now();
        while minute < 60 && status().contains(r#""ageSeconds":780"#) {
            assert!(begun.elapsed() < PATIENCE, "nothing was renewed by minute {minute}");
        }
    }
    let runs = fs::read_to_string(&runs).unwrap().lines().count();
    // The first, and one every twelve or thirteen minutes of the next hour.
    assert_eq!(runs, 5, "{}", status());
    agent.stopper.stop();
    assert_eq!(agent.end(), End::Stopped);
}
