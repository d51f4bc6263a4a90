//! Pulls of a node share runs and answers through its agent, and do without it.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    stage::{Ran, Stage},
    system::{Node, ask_with, socket},
};

/// How long anything may take before a test is called hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// Somebody whom no system knows.
const OTHER: &str = "424242";

/// A provider that counts its runs and answers with one login for the registry of the image. `more` fills in what
/// `login` leaves open.
fn provider(stage: &Stage, kind: &str, kept: &str, login: &str, more: &str) {
    let here = stage.folder.path().display();
    let answer = format!(
        r#"{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"{kind}","cacheDuration":"{kept}","auth":{{"%s":{login}}}}}\n"#
    );
    stage.script(
        "provider",
        &format!(
            r#"read -r request
echo run >>'{here}/runs'
while [ -e '{here}/hold' ]; do sleep 0.02; done
if [ -e '{here}/fail' ]; then echo 'the vault is sealed' >&2; exit 1; fi
image=${{request#*\"image\":\"}}
image=${{image%%\"*}}
token=${{request#*\"serviceAccountToken\":\"}}
token=${{token%%\"*}}
printf '{answer}' "${{image%%/*}}" {more}"#
        ),
    );
    let patterns = "['*.example:5000', 'registry.example:5000']";
    stage.configure(&format!("provider\n  matchImages: {patterns}"));
}

fn login(user: &str) -> String {
    format!(r#"{{"username":"{user}","password":"s3cr3t-password"}}"#)
}

fn registry(stage: &Stage) {
    provider(stage, "Registry", "1m", &login("puller"), "");
}

fn runs(stage: &Stage) -> usize {
    fs::read_to_string(stage.path("runs")).map_or(0, |runs| runs.lines().count())
}

#[track_caller]
fn user(ran: &Ran) -> String {
    let answer = ran.json();
    let login = answer["auth"].as_object().unwrap().values().next();
    login.map_or_else(|| "nobody".into(), |login| login["username"].as_str().unwrap().to_owned())
}

fn metric(stage: &Stage, name: &str) -> String {
    let text = fs::read_to_string(stage.path("keyward.prom")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or_else(|| panic!("no `{name}` in:\n{text}"), str::to_owned)
}

/// Polls something that another process does.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Fifty clients, each of which pulls four images: two hundred images of four registries.
fn pull(node: &Node, client: usize) {
    for number in 4 * client..4 * client + 4 {
        let host = ["a", "b", "c", "d"][(number + client) % 4];
        let ran = node.ask(&format!("{host}.example:5000/team/app-{number}"), &json!({}));
        assert_eq!(user(&ran), "puller", "{}", ran.stderr);
        assert!(ran.stdout.contains(&format!("\"{host}.example:5000\"")), "{}", ran.stdout);
    }
}

#[test]
fn two_hundred_images_of_four_registries_take_four_runs() {
    let node = Node::new();
    registry(&node.stage);
    std::thread::scope(|scope| {
        for client in 0..50 {
            let node = &node;
            scope.spawn(move || pull(node, client));
        }
    });
    assert_eq!(runs(&node.stage), 4);
    assert_eq!(metric(&node.stage, r#"keyward_node_pulls_total{result="login"}"#), "200");
    let answered = r#"keyward_node_provider_runs_total{provider="provider",result="answered"}"#;
    assert_eq!(metric(&node.stage, answered), "4");
    let shared = r#"keyward_node_shared_answers_total{provider="provider"}"#;
    assert_eq!(metric(&node.stage, shared), "196");
    assert_eq!(metric(&node.stage, "keyward_node_agent_up"), "1");
}

#[test]
fn an_agent_that_is_killed_costs_at_most_one_more_run_for_each_registry() {
    let node = Node::new();
    registry(&node.stage);
    node.stage.write("hold", "");
    std::thread::scope(|scope| {
        for client in 0..50 {
            let node = &node;
            scope.spawn(move || pull(node, client));
        }
        eventually("four runs, and everybody else waits", || {
            runs(&node.stage) == 4 && node.clients() == 50
        });
        node.kill_and_restart();
        fs::remove_file(node.stage.path("hold")).unwrap();
    });
    let runs = runs(&node.stage);
    assert!((4..=8).contains(&runs), "{runs} runs");
    assert_eq!(metric(&node.stage, r#"keyward_node_pulls_total{result="login"}"#), "200");
    // An agent that dies between the pulls costs one run for each registry too.
    node.kill_and_restart();
    pull(&node, 50);
    pull(&node, 51);
    assert_eq!(self::runs(&node.stage), runs + 4);
}

#[test]
fn an_answer_is_for_the_images_that_it_says_and_for_as_long() {
    for (kind, kept, expected) in
        [("Image", "1m", 3), ("Registry", "1m", 2), ("Global", "1m", 1), ("Registry", "0s", 6)]
    {
        let node = Node::new();
        provider(&node.stage, kind, kept, &login("puller"), "");
        for _ in 0..2 {
            for image in ["a.example:5000/x", "a.example:5000/y", "b.example:5000/x"] {
                node.ask(image, &json!({})).good();
            }
        }
        assert_eq!(runs(&node.stage), expected, "{kind} {kept}");
    }
}

/// A token of a service account, with a signature that nobody here checks.
fn token(account: &str, signature: &str) -> Value {
    let claims = json!({
        "aud": ["registry.example"],
        "exp": 4_000_000_000_u32,
        "sub": format!("system:serviceaccount:{account}"),
    });
    let token = crate::token(&claims);
    let (signed, _) = token.rsplit_once('.').unwrap();
    json!({ "serviceAccountToken": format!("{signed}.{signature}") })
}

#[test]
fn a_login_is_only_for_the_token_that_it_was_got_with() {
    for cache in ["Token", "ServiceAccount"] {
        let node = Node::new();
        // The user's name is the length of the token's signature, which nobody else has.
        let login = r#"{"username":"puller-%s","password":"s3cr3t-password"}"#;
        provider(&node.stage, "Registry", "1m", login, r#""${#token}""#);
        let config = fs::read_to_string(node.stage.path("providers.yaml")).unwrap();
        let tokens = format!(
            "  tokenAttributes:\n    serviceAccountTokenAudience: registry.example\n    \
             cacheType: {cache}\n    requireServiceAccount: true\n"
        );
        node.stage.write("providers.yaml", &format!("{config}{tokens}"));
        let image = "registry.example:5000/team/app";
        let ann = user(&node.ask(image, &token("default:ann", "signed")));
        assert_eq!(user(&node.ask(image, &token("default:ann", "signed"))), ann);
        assert_eq!(runs(&node.stage), 1, "{cache}");
        // Another account, and somebody who only says to be the first.
        for other in [token("default:bert", "signed"), token("default:ann", "forged-by-bert")] {
            assert_ne!(user(&node.ask(image, &other)), ann, "{cache}");
        }
        assert_eq!(user(&node.ask(image, &json!({}))), "nobody");
        assert_eq!(runs(&node.stage), 3, "{cache}");
    }
}

#[test]
fn the_last_login_serves_while_it_is_valid_and_its_provider_fails() {
    let node = Node::new();
    let jwt = crate::token(&json!({ "exp": 4_000_000_000_u32 }));
    let login = format!(r#"{{"username":"puller","password":"{jwt}"}}"#);
    provider(&node.stage, "Registry", "1ns", &login, "");
    let image = "registry.example:5000/team/app";
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    node.stage.write("fail", "");
    let ran = node.ask("registry.example:5000/team/other", &json!({}));
    assert_eq!(user(&ran), "puller");
    assert!(ran.stderr.contains("provider") && !ran.stderr.contains(&jwt), "{}", ran.stderr);
    let failed = r#"keyward_node_provider_runs_total{provider="provider",result="failed"}"#;
    assert_eq!(metric(&node.stage, failed), "1");
    // Not for another registry, and not when the configuration has changed.
    node.ask("a.example:5000/app", &json!({})).bad(1, "the vault is sealed");
    let config = fs::read_to_string(node.stage.path("providers.yaml")).unwrap();
    node.stage.write("providers.yaml", &format!("{config}  args: [--other]\n"));
    node.ask(image, &json!({})).bad(1, "the vault is sealed");
}

#[test]
fn pulls_that_wait_share_a_failure_too() {
    let node = Node::new();
    registry(&node.stage);
    node.stage.write("hold", "");
    node.stage.write("fail", "");
    let image = "registry.example:5000/team/app";
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| node.ask(image, &json!({})).bad(1, "the vault is sealed"));
        }
        eventually("one runs, and nine wait", || runs(&node.stage) == 1 && node.clients() == 10);
        fs::remove_file(node.stage.path("hold")).unwrap();
    });
    // The first and its retries; nobody else.
    assert_eq!(runs(&node.stage), 3);
    let failed = r#"keyward_node_provider_runs_total{provider="provider",result="failed"}"#;
    assert_eq!(metric(&node.stage, failed), "1");
    assert_eq!(metric(&node.stage, r#"keyward_node_pulls_total{result="failed"}"#), "10");
}

#[test]
fn a_failure_for_one_image_is_none_for_another() {
    // Before the provider's first answer, and when it is known to answer for a whole registry.
    for is_known in [false, true] {
        a_failure_stays_with_its_image(is_known);
    }
}

fn a_failure_stays_with_its_image(is_known: bool) {
    let node = Node::new();
    provider(&node.stage, "Registry", "1ns", &login("puller"), "");
    let script = fs::read_to_string(node.stage.path("provider.txt")).unwrap();
    let script = script.replace("if [ -e", "case $request in *team/bad*) exit 1;; esac\nif [ -e");
    node.stage.script("provider", script.strip_prefix("#!/bin/sh\n").unwrap());
    if is_known {
        let image = "registry.example:5000/team/first";
        assert_eq!(user(&node.ask(image, &json!({}))), "puller");
        fs::remove_file(node.stage.path("runs")).unwrap();
    }
    node.stage.write("hold", "");
    std::thread::scope(|scope| {
        scope.spawn(|| node.ask("registry.example:5000/team/bad", &json!({})).bad(1, "provider"));
        eventually("the bad one runs", || runs(&node.stage) == 1);
        let good = scope.spawn(|| user(&node.ask("registry.example:5000/team/good", &json!({}))));
        eventually("the good one waits", || node.clients() == 2);
        fs::remove_file(node.stage.path("hold")).unwrap();
        assert_eq!(good.join().unwrap(), "puller");
    });
}

#[test]
fn a_changed_provider_is_asked_at_once() {
    let node = Node::new();
    registry(&node.stage);
    let image = "registry.example:5000/team/app";
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    // Its program, then its environment.
    provider(&node.stage, "Registry", "1m", &login("second"), "");
    assert_eq!(user(&node.ask(image, &json!({}))), "second");
    let config = fs::read_to_string(node.stage.path("providers.yaml")).unwrap();
    node.stage.write("providers.yaml", &format!("{config}  env: [{{name: A, value: b}}]\n"));
    assert_eq!(user(&node.ask(image, &json!({}))), "second");
    assert_eq!(runs(&node.stage), 3);
}

#[test]
fn programs_share_if_a_provider_would_see_no_difference() {
    let node = Node::new();
    registry(&node.stage);
    let ask = |name: &str| {
        let image = "registry.example:5000/team/app";
        user(&node.ask_with(image, &json!({}), |command| _ = command.env(name, "x")))
    };
    for (name, expected) in [("TERM", 1), ("INVOCATION_ID", 1), ("AWS_PROFILE", 2), ("HOME", 3)] {
        assert_eq!(ask(name), "puller");
        assert_eq!(runs(&node.stage), expected, "{name}");
    }
}

#[test]
fn without_an_agent_every_pull_runs_its_providers() {
    let image = "registry.example:5000/team/app";
    let node = Node::new();
    registry(&node.stage);
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    let off = node.ask_with(image, &json!({}), |command| _ = command.env("KEYWARD_AGENT", "off"));
    assert_eq!(user(&off), "puller");
    assert_eq!(runs(&node.stage), 2, "not asked");
    // Stopped in the middle of its work.
    let agent = Pid::from_raw(i32::try_from(node.pid()).unwrap()).unwrap();
    kill_process(agent, Signal::STOP).unwrap();
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    assert_eq!(runs(&node.stage), 3, "stopped");
    // No agent, and a socket that a dead one left.
    let stage = Stage::new();
    registry(&stage);
    assert_eq!(user(&ask_with(&stage, image, &json!({}), |_| {})), "puller");
    fs::create_dir(stage.path("run")).unwrap();
    mode(&stage.path("run"), 0o700);
    drop(UnixListener::bind(socket(&stage)).unwrap());
    assert_eq!(user(&ask_with(&stage, image, &json!({}), |_| {})), "puller");
    assert_eq!(runs(&stage), 2);
    assert_eq!(metric(&stage, "keyward_node_agent_up"), "0");
}

#[test]
fn a_socket_that_others_could_have_put_there_is_not_asked() {
    let node = Node::new();
    registry(&node.stage);
    let image = "registry.example:5000/team/app";
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    mode(&node.stage.path("run"), 0o770);
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    assert_eq!(runs(&node.stage), 2, "a directory that a group can write to");
    mode(&node.stage.path("run"), 0o700);
    fs::rename(node.stage.path("run"), node.stage.path("moved")).unwrap();
    symlink(node.stage.path("moved"), node.stage.path("run")).unwrap();
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    assert_eq!(runs(&node.stage), 3, "a link in the place of the directory");
}

#[test]
fn another_user_gets_nothing_from_the_nodes_agent() {
    assert!(rustix::process::geteuid().is_root(), "this test plays several users: run it as root");
    let node = Node::new();
    registry(&node.stage);
    let image = "registry.example:5000/team/app";
    assert_eq!(user(&node.ask(image, &json!({}))), "puller");
    // Even if the way to the socket is open, the agent looks who asks.
    for path in ["", "run", "bin"] {
        mode(&node.stage.path(path), 0o755);
    }
    mode(&socket(&node.stage), 0o666);
    let python = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(20)\n\
                  s.connect(sys.argv[1])\ns.sendall(bytes.fromhex(sys.argv[2]))\n\
                  while True:\n  part=s.recv(4096)\n  if not part: break\n  \
                  sys.stdout.write(part.decode('latin1'))";
    let request = keyward_request();
    let connect = |socket: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups", "--"]);
        command.args(["/usr/bin/python3", "-c", python]).arg(socket).arg(&request);
        command.output().expect("setpriv (Debian package `util-linux`)")
    };
    let refused = connect(&socket(&node.stage));
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(said.contains("it belongs to another user"), "{refused:?}");
    // And with the modes that it is made with, nobody else comes near it.
    mode(&node.stage.path("run"), 0o700);
    let refused = connect(&socket(&node.stage));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("PermissionError"), "{refused:?}");
}

/// The greeting and the question for all names that have a lease, in hexadecimal digits.
fn keyward_request() -> String {
    use keyward_protocol::agent::{Hello, Message, SecretRequest};
    let mut wire = Vec::new();
    Message::Hello(Hello::ours("1.0.0")).write(&mut wire);
    Message::Secret(SecretRequest::Pending).write(&mut wire);
    wire.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
