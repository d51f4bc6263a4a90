//! Who is not let in, and what is not passed on.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::{Command, Output, Stdio},
};

use crate::{
    stage::{Stage, signal},
    wire::{Card, exchange},
};

/// The request was refused with these words, and nothing of it reached the server.
fn refused(stage: &Stage, answer: &str, code: u16, word: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
    assert!(answer.contains("\"kind\":\"Status\"") && answer.contains(word), "{answer}");
    assert_eq!(stage.server.counts().requests, 0);
}

#[test]
fn only_the_certificate_of_this_start_lets_a_client_in() {
    let stage = Stage::new();
    let old = {
        let proxy = stage.proxy(&[]);
        let card = Card::read(&proxy.kubeconfig, 0);
        assert!(card.get("/healthz", "").ends_with("ok"), "it works while the proxy runs");
        assert!(proxy.end().0.success());
        card
    };
    let proxy = stage.proxy(&[]);
    let new = Card::read(&proxy.kubeconfig, 0);
    stage.server.recorder().clear();

    // Without a certificate.
    let text = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", new.address);
    let name = &new.server_name;
    let answer = exchange(&mut new.connect(new.settings(false), name), &text);
    assert!(answer.is_err(), "{answer:?}");
    // With that of an earlier start, which also does not trust this one.
    let mixed = Card { authority: new.authority.clone(), ..Card::read(&proxy.kubeconfig, 0) };
    let mixed = Card { certificate: old.certificate.clone(), key: old.key.clone(), ..mixed };
    let answer = mixed.say(&text);
    assert!(answer.is_err(), "{answer:?}");
    let distrustful = Card { address: new.address, ..old };
    assert!(distrustful.say(&text).is_err());
    // Without TLS at all.
    let mut plain = TcpStream::connect(new.address).unwrap();
    let answer = exchange(&mut plain, &text).unwrap();
    assert!(answer.starts_with("HTTP/1.0 400 ") && answer.contains("TLS"), "{answer}");
    assert!(stage.server.recorder().all().is_empty());
    assert!(new.get("/healthz", "").ends_with("ok"));
}

#[test]
fn a_foreign_host_an_origin_and_a_foreign_upgrade_are_refused() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    for host in ["evil.example", "localhost", "127.0.0.1:1"] {
        let text = format!("GET /api/v1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        refused(&stage, &card.say(&text).unwrap(), 403, "another host");
    }
    for (lines, code, word) in [
        ("Origin: https://evil.example\r\n", 403, "Origin"),
        ("Sec-Fetch-Site: same-origin\r\n", 403, "Origin"),
        ("Host: evil.example\r\n", 400, "more than one"),
        ("Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n", 400, "SPDY/3.1"),
    ] {
        refused(&stage, &card.get("/api/v1", lines), code, word);
    }
    let absolute = format!(
        "GET https://evil.example/api/v1 HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        card.address
    );
    refused(&stage, &card.say(&absolute).unwrap(), 403, "another host");
}

#[test]
fn whoever_brings_an_identity_is_refused_and_told_which_switch_allows_it() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    for (lines, switch) in [
        ("Authorization: Bearer other\r\n", "--allow-authorization"),
        (
            "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.b3RoZXI\r\n",
            "--allow-authorization",
        ),
        ("Impersonate-User: dora\r\n", "--allow-impersonation"),
        ("Impersonate-Group: system:masters\r\n", "--allow-impersonation"),
        ("X-Remote-User: dora\r\n", "--allow-impersonation"),
    ] {
        refused(&stage, &card.get("/api/v1", lines), 403, switch);
    }
    let output = proxy.run(&["get", "pods", "--as", "dora"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--allow-impersonation"), "{said}");
    let seen = stage.server.recorder().all();
    assert!(seen.iter().all(|record| record.uri.path() == "/version"), "{seen:?}");

    let proxy = stage.proxy(&["--allow-impersonation", "--allow-authorization"]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let answer = card.get("/whoami", "Impersonate-User: dora\r\n");
    assert!(answer.contains("\"username\":\"dora\""), "{answer}");
    let protocol = "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.b3RoZXI\r\n";
    for lines in ["Authorization: Bearer other\r\n", protocol] {
        let answer = card.get("/whoami", lines);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
    // Named as one of the connection's it would be lost, and the request be the proxy's own.
    let hidden = format!("{protocol}Connection: Sec-WebSocket-Protocol\r\n");
    let answer = card.get("/whoami", &hidden);
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("would be lost"), "{answer}");
    let answer = card.get("/whoami", "Proxy-Authorization: Basic eDp5\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("does not use"), "{answer}");
}

#[test]
fn whoever_brings_an_identity_does_not_act_as_the_one_in_the_kubeconfig() {
    let stage = Stage::new();
    let user = serde_json::json!({ "token": "good", "as": "bob" });
    stage.write("config", &stage.server.kubeconfig(&user));
    let proxy = stage.proxy(&["--allow-authorization"]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let answer = card.get("/whoami", "");
    assert!(answer.contains("\"username\":\"bob\""), "{answer}");
    let answer = card.get("/whoami", "Authorization: Bearer good\r\n");
    assert!(answer.contains("\"username\":\"anna\""), "{answer}");
}

#[test]
fn clusters_and_users_of_two_contexts_do_not_mix() {
    let stage = Stage::new();
    let config = fs::read_to_string(stage.path("config")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let mut second = config["contexts"][0].clone();
    second["name"] = "second".into();
    config["contexts"].as_array_mut().unwrap().push(second);
    stage.write("config", &config.to_string());
    let proxy = stage.proxy(&["--all-contexts"]);
    for context in ["test", "second"] {
        assert_eq!(proxy.prints(&["--context", context, "get", "--raw", "/healthz"]), "ok");
    }
    let before = stage.server.counts().requests;
    let output = proxy.run(&["--cluster", "test", "--user", "second", "get", "--raw", "/healthz"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("different contexts"), "{said}");
    assert_eq!(stage.server.counts().requests, before);
    let card = Card::read(&proxy.kubeconfig, 0);
    // A client that names no host in its handshake is taken by its certificate.
    let mut stream = card.connect(card.settings(true), "127.0.0.1");
    let text =
        format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", card.address);
    assert!(exchange(&mut stream, &text).unwrap().ends_with("ok"));
}

/// What a command says when somebody else starts it.
fn as_another(words: &[&str]) -> Output {
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new("setpriv")
    } else {
        let sudo = Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
        assert!(
            sudo.is_ok_and(|status| status.success()),
            "to play another user of the machine this test needs root, or sudo without a password"
        );
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "setpriv"]);
        sudo
    };
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(words);
    command.output().expect("setpriv (Debian package `util-linux`)")
}

#[test]
fn another_user_of_the_machine_can_neither_read_the_kubeconfig_nor_connect() {
    let stage = Stage::new();
    // The tester's own directory must not be what keeps others out.
    fs::set_permissions(stage.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(stage.path("run"), fs::Permissions::from_mode(0o755)).unwrap();
    let open = stage.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let written = open.join("kubeconfig");
    for args in [vec![], vec!["--write-kubeconfig", written.to_str().unwrap()]] {
        let proxy = stage.proxy(&args);
        let mode = fs::metadata(&proxy.kubeconfig).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let path = proxy.kubeconfig.to_str().unwrap();
        let read = as_another(&["cat", path]);
        assert!(!read.status.success() && read.stdout.is_empty());
        assert!(String::from_utf8_lossy(&read.stderr).contains("Permission denied"), "{read:?}");
        let url = format!("{}/healthz", proxy.url);
        let asked = as_another(&["curl", "-sSk", &url]);
        assert!(!asked.status.success() && asked.stdout.is_empty(), "{asked:?}");
        // It was the proxy that ended the talk (in one of the ways curl can find that), and not
        // somebody who could not start curl or connect.
        assert!(matches!(asked.status.code(), Some(35 | 52 | 55 | 56)), "{asked:?}");
        assert!(proxy.end().0.success());
    }
    assert!(!written.exists(), "it is taken away at the end");
}

#[test]
fn no_other_address_and_no_file_of_the_users_own_is_taken() {
    let stage = Stage::new();
    let run = |args: &[&str]| {
        let output = stage.keyward(&[&["proxy"], args].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&["--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && said.contains("--danger-listen-remote"), "{said}");
    let (code, said) = run(&["--admin-listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && said.contains("--danger-listen-remote"), "{said}");
    let (code, said) = run(&["--listen", "0.0.0.0:0", "--danger-listen-remote=a b"]);
    assert!(code == Some(2) && said.contains("`a b` is not the name of a machine"), "{said}");
    let (code, said) = run(&["--all-contexts", "--context", "test"]);
    assert!(code == Some(2) && said.contains("contradict"), "{said}");
    let before = fs::read_to_string(stage.path("config")).unwrap();
    let (code, said) = run(&["--write-kubeconfig", "config"]);
    assert!(code == Some(2) && said.contains("is the kubeconfig that the proxy reads"), "{said}");
    stage.write("other", "precious");
    let (code, said) = run(&["--write-kubeconfig", "other"]);
    assert!(code == Some(2) && said.contains("not written by a proxy"), "{said}");
    assert_eq!(fs::read_to_string(stage.path("config")).unwrap(), before);
    assert_eq!(fs::read_to_string(stage.path("other")).unwrap(), "precious");
}

#[test]
fn what_a_killed_proxy_leaves_lets_nobody_in_and_the_next_start_takes_it_away() {
    let stage = Stage::new();
    let mut proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    signal(&proxy.child, "KILL");
    proxy.child.wait().unwrap();
    assert!(TcpStream::connect(card.address).is_err());
    let left = proxy.kubeconfig.clone();
    assert!(left.exists());
    let next = stage.proxy(&["--listen", &card.address.to_string()]);
    let text = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", card.address);
    assert!(card.say(&text).is_err(), "the old certificate and authority are worth nothing");
    assert!(!left.exists() && next.kubeconfig.exists());
}

#[test]
fn a_client_whose_origin_is_the_address_it_calls_is_served() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    for scheme in ["http", "https"] {
        let answer = card.get("/healthz", &format!("Origin: {scheme}://{}\r\n", card.address));
        assert!(answer.ends_with("ok"), "{answer}");
    }
    // What a websocket library sends that makes up an origin: Python's `websocket-client` does.
    stage.server.store().put(&crate::stage::pod("a")).unwrap();
    let host = card.address;
    let ask = |origin: &str| {
        let mut stream = card.connect(card.settings(true), &card.server_name);
        let text = format!(
            "GET /api/v1/namespaces/default/pods/a/exec?command=true&stdout=true HTTP/1.1\r\n\
             Host: {host}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
             Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    };
    let answer = ask(&format!("http://{host}"));
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    let answer = ask("https://evil.example");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn strangers_who_say_nothing_keep_nobody_out_and_hold_up_no_end() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(card.address).unwrap()).collect();
    assert!(card.get("/healthz", "").ends_with("ok"));
    let (status, said) = proxy.end();
    assert!(status.success(), "{said}");
    assert!(said.contains("dropped a client"), "they were waited for: {said}");
    assert!(!said.contains("timed out"), "they were waited for: {said}");
    drop(silent);
}

#[test]
fn a_plugins_words_reach_whoever_asked_through_the_proxy() {
    let stage = Stage::new();
    let script =
        stage.write("plugin", "#!/bin/sh\necho 'session over: run corp-login' >&2\nexit 1\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let user = serde_json::json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": script,
        "interactiveMode": "Never",
    } });
    stage.write("config", &stage.server.kubeconfig(&user));
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    for _ in 0..3 {
        let answer = card.get("/healthz", "");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains("it said: session over: run corp-login"), "{answer}");
        assert!(answer.contains("needed by: user `"), "{answer}");
    }
    let (_, said) = proxy.end();
    assert_eq!(said.matches("corp-login").count(), 1, "once for whoever reads the log: {said}");
}
