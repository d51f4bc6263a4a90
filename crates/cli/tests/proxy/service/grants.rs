//! `keyward grant`: what a consumer gets, what is recorded, and how it ends.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use super::stage::{Stage, eventually, kill, prints, said};
use crate::{stage::pod, wire::Card};

/// Creates a grant for a context, and returns the consumer's kubeconfig.
fn grant(stage: &Stage, name: &str, context: &str, args: &[&str]) -> PathBuf {
    let all = [&["grant", "create", name, "--context", context], args].concat();
    PathBuf::from(stage.keyward_prints(&all).trim_end())
}

/// The log of a grant.
fn log(stage: &Stage, name: &str) -> Vec<Value> {
    let output = stage.keyward(&["grant", "log", name, "-o", "json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn listed(stage: &Stage, name: &str) -> Option<Value> {
    let all: Vec<Value> =
        serde_json::from_str(&stage.keyward_prints(&["grant", "list", "-o", "json"])).unwrap();
    all.into_iter().find(|grant| grant["name"] == name)
}

/// The status of an answer.
fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_consumer_gets_what_its_grant_allows_and_a_line_that_says_what_not() {
    let stage = Stage::new(&["east", "west"]);
    let east = stage.server("east");
    east.store().put(&pod("one")).unwrap();
    let kubeconfig = grant(&stage, "reader", "east", &["--read-only", "--ttl", "1h"]);
    assert_eq!(fs::metadata(&kubeconfig).unwrap().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&kubeconfig).unwrap();
    assert!(!text.contains("token-of-east") && !text.contains(&east.url()), "{text}");
    let kubectl = |args: &[&str]| stage.kubectl(&kubeconfig, args).output().unwrap();
    assert_eq!(
        prints(&mut stage.kubectl(&kubeconfig, &["get", "pods", "-o", "name"])),
        "pod/one\n"
    );
    east.recorder().clear();
    for (args, part) in [
        (&["get", "secrets"][..], "does not allow `list secrets` in namespace `default`"),
        (&["delete", "pod", "one"], "does not allow `delete pods` in namespace `default`"),
        (&["exec", "one", "--", "true"], "pods/exec` in namespace"),
        (&["create", "token", "default"], "does not allow `create serviceaccounts/token`"),
        (&["get", "pods", "--as", "admin"], "a consumer of a grant never impersonates"),
        (&["get", "--raw", "/metrics"], "does not allow `get /metrics`"),
        (&["get", "--raw", "/api/v1/namespaces/default/services/x/proxy/y"], "services/proxy"),
    ] {
        let output = kubectl(args);
        let said = said(&output);
        assert!(!output.status.success() && said.contains(part), "{args:?}: {said}");
        let lines = said.lines().filter(|line| !line.starts_with("Warning")).count();
        assert!(lines <= 3, "{args:?}: {said}");
    }
    // The server has heard of none of them.
    let heard = east.recorder().all();
    let secret = |path: &str| {
        ["secrets", "exec", "token", "metrics", "proxy"].iter().any(|word| path.ends_with(word))
    };
    assert!(heard.iter().all(|one| one.method == "GET" && !secret(one.uri.path())), "{heard:?}");
    let all = log(&stage, "reader");
    let denied: Vec<_> = all.iter().filter(|line| line["allowed"] == false).collect();
    assert!(denied.iter().all(|line| line["status"] == 403), "{denied:?}");
    assert!(denied.len() >= 7, "{denied:?}");
    let list =
        all.iter().find(|line| line["resource"] == "pods" && line["allowed"] == true).unwrap();
    assert_eq!(
        (&list["verb"], &list["namespace"], &list["status"]),
        (&json!("list"), &json!("default"), &json!(200))
    );
    let own = stage.path(".local/state/keyward");
    let file = own.join("grant-logs/reader.jsonl");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    // Nothing of the proxy's files is a secret of the grant, and no other context is reached.
    let rules = fs::read_to_string(own.join("proxy/config/grants/reader.json")).unwrap();
    assert!(!rules.contains("PRIVATE") && rules.contains("CERTIFICATE"), "{rules}");
    let other = super::stage::addresses(&own.join("proxy/config/kubeconfig"));
    let mut card = Card::read(&kubeconfig, 0);
    let west = other.iter().find(|(name, _)| name == "west").unwrap();
    card.address = west.1.strip_prefix("https://").unwrap().parse().unwrap();
    let host = card.address;
    let answer = card.say(&format!("GET /version HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(answer.as_ref().map_or(true, String::is_empty), "{answer:?}");
    assert_eq!(stage.server("west").recorder().all().len(), 0);
}

#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused_and_recorded() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = grant(&stage, "odd", "east", &["--allow", "*:*"]);
    let card = Card::read(&kubeconfig, 0);
    let targets = [
        "/api/v1/namespaces/default/pods/x%2f..%2f..%2fsecrets",
        "/api/v1/namespaces/default/pods/../secrets",
        "/api/v1//secrets",
        "//api/v1/secrets",
        "/api/v1/namespaces/default/pods/%2e%2e/secrets",
        "/api/v1/pods?watch=0&watch=1",
        "/api/v1/pods;/secrets",
        "/api/v1/secrets%00",
    ];
    for target in targets {
        assert_eq!(status(&card.get(target, "")), 400, "{target}");
    }
    assert_eq!(status(&card.get("/api/v1/%73ecrets", "")), 403);
    // The testing server does not decode.
    assert_eq!(status(&card.get("/api/v1/namespaces/default/%70ods", "")), 404);
    let secret = "Impersonate-User: x\r\n";
    assert_eq!(status(&card.get("/api/v1/pods", secret)), 403);
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let exec = "/api/v1/namespaces/default/pods/x/exec?command=cat&command=hunter2";
    assert_eq!(status(&card.get(exec, upgrade)), 403);
    let console = "/apis/vm.example/v1/namespaces/default/machines/x/console";
    assert_eq!(status(&card.get(console, upgrade)), 403);
    let all = log(&stage, "odd");
    let codes: Vec<_> = all.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(codes, [[400; 8].as_slice(), &[403, 404, 403, 403, 403]].concat());
    assert!(!all.iter().any(|line| line.to_string().contains("hunter2")), "{all:?}");
    assert!(
        stage.server("east").recorder().all().iter().all(|one| one.uri.path().ends_with("ods"))
    );
}

#[test]
fn a_grant_that_would_give_more_than_it_says_is_not_created() {
    let stage = Stage::new(&["east"]);
    for (args, part) in [
        (&["--read-only", "--namespace", ""][..], "`` cannot be the name of a namespace"),
        (
            &["--read-only", "--namespace", "dev,test"],
            "`dev,test` cannot be the name of a namespace",
        ),
        (&["--as-user", " "], "no request can act as this user and these groups"),
        (&["--as-user", "ann", "--as-group", "x "], "no request can act as this user"),
    ] {
        let all = [&["grant", "create", "wide", "--context", "east"], args].concat();
        let output = stage.keyward(&all).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(part), "{args:?}: {}", said(&output));
    }
    assert_eq!(listed(&stage, "wide"), None);
    // Nor taken from a file.
    let kubeconfig = grant(&stage, "wide", "east", &["--read-only", "--namespace", "default"]);
    assert!(works(&stage, &kubeconfig));
    let file = stage.path(".local/state/keyward/proxy/config/grants/wide.json");
    let mut rules: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    rules["rules"]["namespaces"] = json!([""]);
    let new = file.with_extension("new");
    fs::write(&new, rules.to_string()).unwrap();
    fs::rename(&new, &file).unwrap();
    eventually("it is not in force", || !works(&stage, &kubeconfig));
}

#[test]
fn revoking_one_grant_under_load_ends_it_at_once_and_not_the_other() {
    let stage = Stage::new(&["east"]);
    let one = grant(&stage, "one", "east", &["--read-only"]);
    let two = grant(&stage, "two", "east", &["--read-only"]);
    let (cards, stop) = ([&one, &two].map(|path| Card::read(path, 0)), AtomicBool::new(false));
    // A watch each, which is open all the time.
    let watch = |card: &Card| {
        let mut stream = card.connect(card.settings(true), &card.server_name);
        let path = "/api/v1/namespaces/default/pods?watch=true";
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", card.address).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    };
    let (mut first, mut second) = (watch(&cards[0]), watch(&cards[1]));
    let sent = [AtomicUsize::new(1), AtomicUsize::new(1)];
    let after = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (number, card) in cards.iter().enumerate() {
            for _ in 0..3 {
                let (stop, sent, after) = (&stop, &sent, &after);
                workers.push(scope.spawn(move || {
                    let text = format!(
                        "GET /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                        card.address
                    );
                    while !stop.load(Ordering::SeqCst) {
                        match card.say(&text) {
                            Ok(answer) if !answer.is_empty() => {
                                assert_eq!(status(&answer), 200, "{answer}");
                                sent[number].fetch_add(1, Ordering::SeqCst);
                            }
                            failed => {
                                assert_eq!(number, 0, "the other grant is not affected: {failed:?}");
                                after.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                }));
            }
        }
        let both = |least: usize| sent.iter().all(|sent| sent.load(Ordering::SeqCst) > least);
        eventually("both work", || both(20));
        stage.keyward_prints(&["grant", "revoke", "one"]);
        // No answer after this, whatever was under way.
        let so_far = sent[0].load(Ordering::SeqCst);
        let mut rest = Vec::new();
        let _ = first.read_to_end(&mut rest);
        let before = sent[1].load(Ordering::SeqCst);
        eventually("the other goes on", || sent[1].load(Ordering::SeqCst) > before + 20);
        eventually("the first fails", || after.load(Ordering::SeqCst) > 3);
        stop.store(true, Ordering::SeqCst);
        // Answers that had arrived but were not counted yet.
        assert!(sent[0].load(Ordering::SeqCst) <= so_far + 3);
    });
    let output = stage.kubectl(&one, &["get", "pods"]).output().unwrap();
    assert!(
        said(&output).contains("no such file") || said(&output).contains("refused"),
        "{}",
        said(&output)
    );
    stage.server("east").store().put(&pod("new")).unwrap();
    let mut line = String::new();
    let mut second = BufReader::new(&mut second);
    while !line.contains("\"new\"") {
        line.clear();
        assert!(second.read_line(&mut line).unwrap() > 0, "the watch of the other is open");
    }
    // Every request is in the log, and none that was not made.
    let lines = |name: &str, path: &str| {
        let all = log(&stage, name);
        all.iter().filter(|line| line["resource"] == path && line["status"] == 200).count()
    };
    assert_eq!(lines("two", "pods"), sent[1].load(Ordering::SeqCst));
    assert!(lines("one", "pods") >= sent[0].load(Ordering::SeqCst));
    assert_eq!(
        (listed(&stage, "one"), listed(&stage, "two").unwrap()["denied"].as_u64()),
        (None, Some(0))
    );
}

#[test]
fn a_stream_of_a_grant_ends_with_it() {
    let stage = Stage::new(&["east"]);
    stage.server("east").store().put(&pod("one")).unwrap();
    let allow = ["--read-only", "--allow", "get,create:pods/exec"];
    let kubeconfig = grant(&stage, "shell", "east", &allow);
    assert_eq!(
        prints(&mut stage.kubectl(&kubeconfig, &["exec", "one", "--", "echo", "hello"])),
        "hello\n"
    );
    let mut exec =
        stage.kubectl(&kubeconfig, &["exec", "one", "--", "sh", "-c", "echo begun; sleep 600"]);
    let mut exec = exec.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(exec.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    assert!(listed(&stage, "shell").unwrap()["connections"].as_u64().unwrap() >= 1);
    stage.keyward_prints(&["grant", "revoke", "shell"]);
    assert!(!exec.wait().unwrap().success());
}

#[test]
fn a_consumer_acts_as_the_user_of_its_grant() {
    let stage = Stage::new(&["east"]);
    let args = ["--as-user", "viewer", "--as-group", "viewers", "--as-group", "people"];
    let kubeconfig = grant(&stage, "guest", "east", &args);
    assert_eq!(stage.whoami(&kubeconfig, "east"), "viewer");
    prints(&mut stage.kubectl(&kubeconfig, &["get", "pods"]));
    let seen = stage.server("east").recorder().last().unwrap();
    let groups: Vec<_> = seen.headers.get_all("impersonate-group").iter().collect();
    assert_eq!(groups, ["viewers", "people"]);
    // The owner's kubeconfig acts as the owner still.
    assert_eq!(stage.whoami(&stage.start(&[]), "east"), "east");
    let output = stage.kubectl(&kubeconfig, &["get", "secrets"]).output().unwrap();
    assert!(said(&output).contains("does not allow `list secrets`"), "{}", said(&output));
}

#[test]
fn a_consumer_does_not_learn_why_the_owners_credential_fails() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = grant(&stage, "curious", "east", &["--read-only"]);
    let plugin = stage.path("plugin");
    fs::write(&plugin, "#!/bin/sh\necho 'no session for ann@example.com' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o700)).unwrap();
    let mut config = stage.config(&["east"]);
    config["users"][0]["user"] = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": plugin,
    } });
    stage.write_own(&config.to_string());
    let told = |kubeconfig: &Path, path: &str| {
        said(&stage.kubectl(kubeconfig, &["get", "--raw", path]).output().unwrap())
    };
    let owner = stage.path(".local/state/keyward/proxy/config/kubeconfig");
    let path = "/api/v1/namespaces/default/pods";
    eventually("the owner reads why", || told(&owner, path).contains("ann@example.com"));
    for path in [path, "/api", "/version"] {
        let why = told(&kubeconfig, path);
        assert!(why.contains("context `east` cannot be used now"), "{path}: {why}");
        assert!(!why.contains("ann@") && !why.contains("plugin"), "{path}: {why}");
    }
    fs::remove_file(stage.path(".kube/config")).unwrap();
    stage.keyward_prints(&["proxy", "stop"]);
    stage.keyward(&["proxy", "start"]).output().unwrap();
    eventually("the proxy is back", || told(&kubeconfig, path).contains("cannot be used now"));
    assert!(!told(&kubeconfig, path).contains(".kube"), "{}", told(&kubeconfig, path));
}

#[test]
fn no_request_makes_a_long_line_or_moves_the_owners_terminal() {
    let stage = Stage::new(&["east"]);
    let card = Card::read(&grant(&stage, "loud", "east", &["--read-only"]), 0);
    let (long, host) = ("X".repeat(4000), card.address);
    card.say(&format!("{long} /nothing HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
        .unwrap();
    card.get(&format!("/api/v1/namespaces/{long}/pods/{long}?container={long}"), "");
    let controls =
        ["container", "fieldSelector", "labelSelector", "limit", "fieldManager", "follow"]
            .map(|key| format!("{key}={}", "%01".repeat(300)));
    card.get(&format!("/api/v1/pods?{}", controls.join("&")), "");
    card.get("/api/v1/namespaces/default/pods?labelSelector=%c2%9b31m%e2%80%ae", "");
    let file = stage.path(".local/state/keyward/grant-logs/loud.jsonl");
    fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"\xff{half\n").unwrap();
    card.get("/version", "");
    for line in fs::read(&file).unwrap().split(|byte| *byte == b'\n') {
        assert!(line.len() <= 2048, "{}", String::from_utf8_lossy(line));
    }
    let all = log(&stage, "loud");
    assert_eq!(all.len(), 6, "{all:?}");
    assert!(all[0]["verb"].as_str().unwrap().len() < 100, "{}", all[0]);
    assert_eq!((&all[2]["shortened"], &all[2]["query"]), (&json!(true), &Value::Null));
    assert_eq!(all[3]["query"]["labelSelector"], "\u{9b}31m\u{202e}");
    assert_eq!(all[4]["unreadable"], "\u{fffd}{half");
    assert_eq!(all[5]["path"], "/version");
    for format in ["json", "text"] {
        let shown = stage.keyward_prints(&["grant", "log", "loud", "-o", format]);
        assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown}");
    }
}

#[test]
fn nothing_is_forwarded_while_a_line_is_not_in_the_log() {
    let stage = Stage::new(&["east"]);
    let card = Card::read(&grant(&stage, "mute", "east", &["--read-only"]), 0);
    let file = stage.path(".local/state/keyward/grant-logs/mute.jsonl");
    fs::create_dir_all(&file).unwrap();
    stage.server("east").recorder().clear();
    let path = "/api/v1/namespaces/default/pods";
    let answer = card.get(path, "");
    assert!(status(&answer) >= 500 && answer.contains("the log of grant `mute`"), "{answer}");
    let heard = stage.server("east").recorder().all();
    assert!(heard.iter().all(|one| one.uri.path() != path), "{heard:?}");
    fs::remove_dir(&file).unwrap();
    assert_eq!(status(&card.get(path, "")), 200);
    let allowed: Vec<_> = log(&stage, "mute").iter().map(|line| line["allowed"] == true).collect();
    assert_eq!(allowed, [false, true]);
}

#[test]
fn a_grant_stays_while_its_file_cannot_be_read_and_ends_without_it() {
    let stage = Stage::new(&["east"]);
    let one = grant(&stage, "one", "east", &["--read-only"]);
    let file = stage.path(".local/state/keyward/proxy/config/grants/one.json");
    // A link to itself cannot be opened, not even by root.
    let link = file.with_extension("new");
    std::os::unix::fs::symlink("one.json", &link).unwrap();
    fs::rename(&link, &file).unwrap();
    // When this returns, the proxy has read the directory.
    let two = grant(&stage, "two", "east", &["--read-only"]);
    assert!(works(&stage, &one) && works(&stage, &two));
    fs::remove_file(&file).unwrap();
    stage.keyward_prints(&["grant", "revoke", "two"]);
    assert!(!works(&stage, &one));
}

#[test]
fn a_consumer_has_only_so_many_connections() {
    let stage = Stage::new(&["east"]);
    let [one, two] = ["one", "two"].map(|name| grant(&stage, name, "east", &["--read-only"]));
    let card = Card::read(&one, 0);
    let open = || {
        let mut stream = card.connect(card.settings(true), &card.server_name);
        write!(stream, "GET /version HTTP/1.1\r\nHost: {}\r\n\r\n", card.address).ok()?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).ok().map(|()| stream)
    };
    let streams: Vec<_> = (0..128).map(|_| open().unwrap()).collect();
    assert!(open().is_none());
    assert!(works(&stage, &two));
    assert_eq!(listed(&stage, "one").unwrap()["connections"], 128);
    drop(streams);
    eventually("there is room", || open().is_some());
}

#[test]
fn revoking_says_if_the_proxy_does_not_answer() {
    use rustix::process::{Pid, Signal, kill_process};
    let stage = Stage::new(&["east"]);
    let kubeconfig = grant(&stage, "held", "east", &["--read-only"]);
    let copy = stage.path("copy");
    fs::copy(&kubeconfig, &copy).unwrap();
    let proxy = Pid::from_raw(stage.proxy()).unwrap();
    kill_process(proxy, Signal::STOP).unwrap();
    let output = stage.keyward(&["grant", "revoke", "held"]).output().unwrap();
    kill_process(proxy, Signal::CONT).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("does not answer"), "{}", said(&output));
    eventually("the proxy notices by itself", || !works(&stage, &copy));
}

fn works(stage: &Stage, kubeconfig: &Path) -> bool {
    stage.kubectl(kubeconfig, &["get", "pods"]).output().unwrap().status.success()
}

#[test]
fn a_grant_outlives_its_proxy_and_the_agent() {
    let stage = Stage::new(&["east"]);
    stage.start(&["--idle-timeout", "1s"]);
    let kubeconfig = grant(&stage, "robot", "east", &["--read-only"]);
    let first = stage.proxy();
    kill(stage.agent());
    assert!(works(&stage, &kubeconfig));
    // An agent, which finds the proxy.
    stage.keyward_prints(&["proxy", "start", "--idle-timeout", "1s"]);
    assert_eq!(stage.proxy(), first);
    kill(first);
    eventually("the agent has started another proxy", || works(&stage, &kubeconfig));
    let second = stage.proxy();
    assert_ne!(first, second);
    // Both are gone, as after a restart of the machine; any client of the agent starts one.
    kill(stage.agent());
    kill(second);
    let mut agent = stage.keyward(&["agent"]).stderr(Stdio::null()).spawn().unwrap();
    eventually("the new agent has started a proxy", || works(&stage, &kubeconfig));
    // A proxy that nobody uses ends only without its grants.
    let third = stage.proxy();
    stage.keyward_prints(&["grant", "revoke", "robot"]);
    eventually("the idle proxy ends", || stage.status().is_empty());
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert_ne!(second, third);
}

#[test]
fn a_grant_ends_at_its_time() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = grant(&stage, "short", "east", &["--read-only", "--ttl", "4s"]);
    let copy = stage.path("copy");
    fs::copy(&kubeconfig, &copy).unwrap();
    let mut watch = stage.kubectl(&copy, &["get", "pods", "-w"]);
    let mut watch = watch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(works(&stage, &copy));
    watch.wait().unwrap();
    let output = stage.kubectl(&copy, &["get", "pods"]).output().unwrap();
    let said = said(&output);
    assert!(said.contains("expired certificate") || said.contains("revoked certificate"), "{said}");
    eventually("it is gone", || listed(&stage, "short").is_none() && !kubeconfig.exists());
    assert!(log(&stage, "short").iter().any(|line| line["verb"] == "watch"));
    // The name is free.
    let again = grant(&stage, "short", "east", &["--read-only"]);
    assert!(works(&stage, &again));
    let output = stage
        .keyward(&["grant", "create", "short", "--context", "east", "--read-only"])
        .output()
        .unwrap();
    assert!(super::stage::said(&output).contains("there is a grant `short` already"));
}
