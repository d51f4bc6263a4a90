//! A program that is replaced while its agent runs.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, net::UnixDatagram},
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant},
};

use keyward_agent::{Client, Obtained, obtain};
use keyward_protocol::agent::Message;

use crate::stage::{Foreground, PATIENCE, Stage, eventually, exec, request};

/// Together they ask 200 times a second. One that is late asks at once, until it has caught up.
const CLIENTS: u32 = 20;
const EVERY: Duration = Duration::from_millis(100);

#[test]
fn a_new_program_takes_the_socket_over_and_no_request_fails() {
    replace("keyward-agent", "keyward-agent");
}

#[test]
fn an_agent_inside_keyward_hands_over_too() {
    replace("keyward", "keyward");
}

#[test]
fn an_agent_inside_keyward_hands_over_to_the_program_that_a_new_version_brings() {
    replace("keyward", "keyward-agent");
}

#[test]
fn the_service_manager_is_told_which_process_serves_now() {
    let stage = Stage::new();
    let program = stage.dir.path().join("keyward-agent");
    let install = || {
        let new = stage.dir.path().join("new");
        keyward_testing::plugin::copy(keyward_testing::plugin::agent(), &new);
        fs::rename(new, &program).unwrap();
    };
    install();
    let manager = stage.dir.path().join("notify");
    let receiver = UnixDatagram::bind(&manager).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut command = stage.command(&program);
    let mut old = Foreground(command.env("NOTIFY_SOCKET", &manager).spawn().unwrap());
    let socket = stage.dir.path().join("run/keyward/agent.sock");
    // One that answers has looked at its program; one that only listens may not have.
    eventually("the agent answers", || stage.keyward(&["agent", "status"]).status.success());
    install();
    let (mut bytes, begun) = ([0; 64], Instant::now());
    let count = loop {
        // An agent that nobody asks looks at its program once a minute.
        drop(Client::connect(&socket));
        match receiver.recv(&mut bytes) {
            Ok(count) => break count,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_eq!(String::from_utf8_lossy(&bytes[..count]), format!("MAINPID={}", stage.agent()));
    assert!(old.0.wait().unwrap().success());
}

/// Replaces all programs under load. `before` and `after` are those that serve.
fn replace(before: &str, after: &str) {
    let stage = Stage::new();
    let bin = stage.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let install = |serving: &str| {
        let keyward = (keyward_testing::plugin::keyward(), "keyward");
        let agent = (keyward_testing::plugin::agent(), "keyward-agent");
        let programs = [(exec(), "keyward-exec"), agent, keyward];
        let wanted = |name: &str| name != "keyward-agent" || serving == name;
        for (from, name) in programs.into_iter().filter(|(_, name)| wanted(name)) {
            let new = bin.join(format!("{name}.new"));
            keyward_testing::plugin::copy(from, &new);
            fs::rename(new, bin.join(name)).unwrap();
        }
    };
    let serving = || {
        let mut command = stage.command(bin.join("keyward"));
        let output = command.args(["agent", "status", "-o", "json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let program = status["program"].as_str().unwrap().to_owned();
        Path::new(&program).file_name().unwrap().to_str().unwrap().to_owned()
    };
    install(before);
    let first = stage
        .command(bin.join("keyward-exec"))
        .arg("--")
        .args(stage.words())
        .env("KUBERNETES_EXEC_INFO", request(false))
        .output()
        .unwrap();
    assert!(first.status.success(), "{first:?}");
    assert_eq!(serving(), before);
    let old = stage.agent();
    let socket = stage.dir.path().join("run/keyward/agent.sock");
    let inode = fs::metadata(&socket).unwrap().ino();

    let question = Message::Ask(stage.question());
    let (done, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (done, asked, socket, question) = (&done, &asked, &socket, &question);
            scope.spawn(move || {
                let mut next = begun + EVERY * client / CLIENTS;
                while !done.load(Ordering::SeqCst) {
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    get(socket, question);
                    asked.fetch_add(1, Ordering::SeqCst);
                    next += EVERY;
                }
            });
        }
        install(after);
        eventually("the new agent is alone", || {
            stage.agents().as_slice().first().is_some_and(|agent| *agent != old)
                && stage.agents().len() == 1
        });
        let then = asked.load(Ordering::SeqCst);
        eventually("the new agent serves", || asked.load(Ordering::SeqCst) > then + 20);
        done.store(true, Ordering::SeqCst);
    });
    let rate = f64::from(asked.into_inner()) / begun.elapsed().as_secs_f64();
    println!("{rate:.0} requests a second, where the machine allows 200");
    assert_eq!(fs::metadata(&socket).unwrap().ino(), inode, "the socket is the same");
    assert_eq!(stage.status()["pid"], stage.agent());
    let client = Client::connect(&socket).unwrap();
    assert_eq!(client.process(), stage.agent(), "the socket names the process that serves");
    assert_eq!(serving(), after);
}

fn get(socket: &Path, question: &Message) {
    let mut client = Client::connect(socket).unwrap();
    match obtain(&mut client, question, |_| {}).unwrap() {
        Obtained::Answer(answer) => assert!(answer.stdout.expose().contains("t0ken")),
        other => panic!("{other:?}"),
    }
}
