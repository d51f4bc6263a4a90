//! What the owner of a proxy can see.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use keyward_testing::{
    kubectl,
    server::{Deed, Fault, User},
};
use serde_json::{Value, json};

use crate::{
    stage::{Stage, signal},
    wire::Card,
};

fn status(stage: &Stage) -> Value {
    let output = stage.keyward(&["proxy", "status", "-o", "json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A stage whose plugin gives the token of anna, for an hour.
fn with_plugin() -> Stage {
    let stage = Stage::new();
    let token = "e30.eyJzdWIiOiJhbm5hIn0.e30";
    let user = User::new("anna");
    stage.server.users().token(token, user);
    let answer = json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
        "status": { "token": token, "expirationTimestamp": "2126-01-01T00:00:00Z" },
    });
    let answer = stage.write("answer", &answer.to_string());
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "cat", "args": [answer],
    } });
    stage.write("config", &stage.server.kubeconfig(&user));
    stage
}

#[test]
fn status_tells_contexts_identity_age_expiry_and_the_last_error() {
    let stage = with_plugin();
    assert_eq!(status(&stage), json!([]));
    let proxy = stage.proxy(&[]);
    let before = status(&stage);
    assert_eq!(before[0]["url"], proxy.url);
    assert_eq!(before[0]["contexts"][0]["credential"], Value::Null, "nothing ran for this");
    assert_eq!(proxy.prints(&["get", "--raw", "/healthz"]), "ok");
    let after = status(&stage);
    let context = &after[0]["contexts"][0];
    assert_eq!((&context["name"], &context["identity"]), (&json!("test"), &json!("anna")));
    assert_eq!(context["credential"]["kind"], "token");
    assert_eq!(context["credential"]["expires"], "2126-01-01T00:00:00Z");
    assert!(context["credential"]["ageSeconds"].is_u64(), "{context}");
    assert_eq!(context["lastRun"]["succeeded"], true);
    assert_eq!(context["lastError"], Value::Null);
    stage.server.faults().add(Fault::on("/healthz", Deed::Cut));
    assert!(!proxy.run(&["get", "--raw", "/healthz"]).status.success());
    let after = status(&stage);
    let message = after[0]["contexts"][0]["lastError"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("got no response"), "{message}");
    let text = stage.keyward(&["proxy", "status"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("as `anna`") && text.contains("until 2126-01-01"), "{text}");
    assert!(!text.contains("e30.eyJ"), "no token is shown: {text}");
}

#[test]
fn status_tells_of_a_credential_that_has_expired_with_nothing_after_it() {
    let stage = Stage::new();
    let token = "e30.eyJzdWIiOiJhbm5hIn0.e30";
    stage.server.users().token(token, User::new("anna"));
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let answer = json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
        "status": { "token": token, "expirationTimestamp": end.to_string() },
    });
    let answer = stage.write("answer", &answer.to_string());
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "cat", "args": [answer],
    } });
    stage.write("config", &stage.server.kubeconfig(&user));
    let proxy = stage.proxy(&[]);
    assert_eq!(proxy.prints(&["get", "--raw", "/healthz"]), "ok");
    std::fs::remove_file(&answer).unwrap();
    let begin = Instant::now();
    let context = loop {
        let context = status(&stage)[0]["contexts"][0].clone();
        if context["credential"]["expired"] == true {
            break context;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it never expires: {context}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(
        (&context["identity"], &context["credential"]["kind"]),
        (&json!("anna"), &json!("token"))
    );
    let text = stage.keyward(&["proxy", "status"]).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("as `anna`") && text.contains("expired at "), "{text}");
}

#[test]
fn status_tells_no_run_where_nothing_is_run() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    assert_eq!(proxy.prints(&["get", "--raw", "/healthz"]), "ok");
    let context = &status(&stage)[0]["contexts"][0];
    assert_eq!(
        (&context["credential"]["kind"], &context["lastRun"]),
        (&json!("token"), &Value::Null)
    );
}

#[test]
fn a_proxy_that_does_not_answer_is_none_that_does_not_run() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    signal(&proxy.child, "STOP");
    let shown = stage.keyward(&["proxy", "status"]).output().unwrap();
    signal(&proxy.child, "CONT");
    let said = String::from_utf8(shown.stderr).unwrap();
    assert_eq!(shown.status.code(), Some(7), "{said}");
    assert!(said.contains("does not answer") && !said.contains("no proxy is running"), "{said}");
}

#[test]
fn metrics_and_health_are_told_on_the_socket_and_on_a_port() {
    let stage = with_plugin();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    assert!(card.get("/healthz", "").ends_with("ok"));
    assert!(card.get("/healthz", "Impersonate-User: dora\r\n").contains("403"));
    let mut stream = UnixStream::connect(proxy.kubeconfig.with_file_name("admin.sock")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    for line in [
        "rest_client_exec_plugin_call_total{code=\"0\",call_status=\"no_error\"} 1",
        "keyward_proxy_requests_total{context=\"test\",code=\"200\"} 1",
        "keyward_proxy_requests_total{context=\"test\",code=\"403\"} 1",
        "keyward_proxy_refusals_total{context=\"test\",reason=\"impersonation\"} 1",
        "keyward_proxy_request_duration_seconds_count{context=\"test\"} 2",
        "keyward_proxy_upgrades_total{context=\"test\",protocol=\"websocket\"} 0",
        "keyward_signatures_total{outcome=\"success\"} 0",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line} is not in:\n{metrics}");
    }
    let mut proxy = stage.proxy(&["--admin-listen", "127.0.0.1:0"]);
    let line = proxy.before.lines().find_map(|line| line.strip_prefix("metrics ")).unwrap();
    let curl = |args: &[&str]| {
        let output = Command::new("curl").arg("-s").args(args).output();
        String::from_utf8(output.expect("curl (Debian package `curl`)").stdout).unwrap()
    };
    assert_eq!(curl(&[&line.replace("/metrics", "/healthz")]), "ok");
    assert!(curl(&[line]).contains("keyward_proxy_connections_total"));
    assert!(curl(&["-H", "Host: evil.example", line]).contains("another host"));
    // The switches are for the clients' side, so they are not named.
    let answer = curl(&["-H", "Authorization: Bearer x", line]);
    assert!(answer.contains("without credentials") && !answer.contains("--allow"), "{answer}");
    assert!(!curl(&[&line.replace("/metrics", "/status")]).contains("contexts"));
    // More than there are places, and none of them says a word.
    let address = line.trim_start_matches("http://").trim_end_matches("/metrics");
    let silent: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(curl(&[&line.replace("/metrics", "/healthz")]), "ok");
    drop(silent);
    proxy.child.kill().unwrap();
    drop(proxy);

    let proxy =
        stage.proxy(&["--admin-listen", "0.0.0.0:0", "--danger-listen-remote=here.example"]);
    let line = proxy.before.lines().find_map(|line| line.strip_prefix("metrics ")).unwrap();
    let port = line.trim_end_matches("/metrics").rsplit(':').next().unwrap();
    assert_eq!(line, format!("http://here.example:{port}/metrics"));
    let own = format!("http://127.0.0.1:{port}/healthz");
    assert_eq!(curl(&[&own]), "ok");
    assert_eq!(curl(&["-H", &format!("Host: here.example:{port}"), &own]), "ok");
    assert!(curl(&["-H", &format!("Host: evil.example:{port}"), &own]).contains("another host"));
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let stage = Stage::new();
    let mut proxy = stage.proxy(&["-v"]);
    let card = Card::read(&proxy.kubeconfig, 0);
    // Each is a line of the log with its path: together more than a pipe holds.
    let path = format!("/{}", "a".repeat(2000));
    for _ in 0..60 {
        assert!(card.get(&path, "").starts_with("HTTP/1.1 404 "));
    }
    for _ in 0..5 {
        assert!(proxy.line().contains("aaa"));
    }
    assert!(card.get("/version", "").starts_with("HTTP/1.1 200 "));
    let (status, said) = proxy.end();
    assert!(status.success());
    assert!(said.contains("unread messages were dropped"), "{said}");
}

#[test]
fn a_log_that_nobody_reads_does_not_stop_a_command_either() {
    let stage = Stage::new();
    let script = "path=/$(printf %02000d 0); \
                  for turn in $(seq 40); do \"$KUBECTL\" get --raw $path >/dev/null 2>&1; done; echo done";
    let mut command = stage.keyward(&["proxy", "-v", "--", "sh", "-c", script]);
    command.env("KUBECTL", &kubectl::installed().path);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "done\n");
    assert!(child.wait().unwrap().success());
}
