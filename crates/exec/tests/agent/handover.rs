//! A program that is replaced while its agent runs.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use keyward_agent::{Client, Obtained, obtain};
use keyward_protocol::agent::Message;

use crate::stage::{Stage, eventually, exec, request};

/// Together they ask some 200 times a second, or as often as the machine allows.
const CLIENTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(18);

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
            fs::copy(from, &new).unwrap();
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
    let (done, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    get(&socket, &question);
                    asked.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(PAUSE);
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
    assert_eq!(fs::metadata(&socket).unwrap().ino(), inode, "the socket is the same");
    assert_eq!(stage.status()["pid"], stage.agent());
    assert_eq!(serving(), after);
}

fn get(socket: &Path, question: &Message) {
    let mut client = Client::connect(socket).unwrap();
    match obtain(&mut client, question, |_| {}).unwrap() {
        Obtained::Answer(answer) => assert!(answer.stdout.expose().contains("t0ken")),
        other => panic!("{other:?}"),
    }
}
