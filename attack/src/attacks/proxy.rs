//! What clients, servers and neighbours of the proxy can do to it.

use std::{
    fs,
    io::Write as _,
    thread,
    time::{Duration, Instant},
};

use keyward_testing::server::Server;
use serde_json::{Value, json};

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::{processor, wait_until},
    stage::{PATIENCE, Proxy, Stage, server},
    untried,
    upstream::{self, Upstream},
    wire::{Card, body, status},
};

pub const ALL: &[Line] = &[
    ("M7", "another user who floods the proxy's log", log_flood),
    ("L2", "a request with both a length and chunks", two_framings),
    ("L3-both", "a response with both a length and chunks", response_both),
    ("L3-codings", "a response in other codings than chunks", response_codings),
    ("L3-lengths", "a response with a list of lengths", response_lengths),
    ("L4-leave", "a client that pipelines two requests and leaves", pipelined),
    ("L4-endless", "a server of endless 1xx whose client has left", endless_informational),
    ("L4-waiting", "a server of endless 1xx whose client waits", informational_for_a_client),
    ("L11-group", "a group added to the kubeconfig's impersonated user", added_group),
    ("L11-empty", "an empty name in place of the kubeconfig's impersonated user", empty_user),
    ("D1-address", "two contexts behind one address", one_address),
    ("D1-restart", "an address that changes when the proxy starts again", changed_address),
    ("D2", "clients that are no browsers and send `Origin`", origin),
    ("D3", "a key that clients cannot load", key_form),
    ("D4-kubeconfig", "a token that stays in use after the kubeconfig has another", stale_token),
    ("D4-policy", "a plugin that runs on after the policy forbids it", stale_policy),
];

/// A proxy before this server.
fn before(stage: &Stage, upstream: &Upstream, args: &[&str]) -> Result<(Proxy, Card), Failure> {
    stage.write("config", upstream.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = stage.proxy(args)?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    Ok((proxy, card))
}

fn ok_server() -> Result<Upstream, Failure> {
    Upstream::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n".to_vec()
    })
}

fn log_flood(stage: &Stage) -> Outcome {
    let attacker = stage.attacker()?;
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = stage.proxy(&[])?;
    let address = Card::read(&proxy.kubeconfig, 0)?.address.to_string();
    let done = stage.run(&mut stage.role(attacker, &["connect", &address, "3"]))?;
    let lines = proxy.running.stderr().lines().count();
    let count = done.stdout.trim().to_owned();
    if lines > 100 {
        let size = proxy.running.stderr_size();
        return got_through(format!("{count} connections, {lines} lines, {size} bytes"));
    }
    Ok(format!("{count} connections, {lines} lines"))
}

/// Refused, or read as chunks alone and nothing after it believed: the connection ends.
fn two_framings(stage: &Stage) -> Outcome {
    let upstream = ok_server()?;
    let (_proxy, card) = before(stage, &upstream, &[])?;
    let next = format!("GET {}/next HTTP/1.1\r\nHost: {}\r\n\r\n", card.prefix, card.host);
    let mut stream = card.connect()?;
    let request = format!(
        "POST {}/first HTTP/1.1\r\nHost: {}\r\nContent-Length: 5\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}",
        card.prefix, card.host
    );
    stream.write_all(request.as_bytes())?;
    stream.sock.set_read_timeout(Some(Duration::from_secs(3)))?;
    let answer = crate::wire::read_to_end(&mut stream);
    let seen = upstream.text();
    let first = seen.split("/next").next().unwrap_or_default().to_lowercase();
    if seen.contains("/next") {
        return got_through("what follows it is passed on");
    }
    if first.contains("content-length: 5") {
        return got_through("both framings are passed on");
    }
    Ok(format!("the answer is {}, and the connection ends", status(&answer)))
}

/// A response of these bytes becomes a 502, or breaks off.
fn response(stage: &Stage, bytes: &'static str) -> Outcome {
    let upstream = Upstream::answering(|_| bytes.as_bytes().to_vec())?;
    let (_proxy, card) = before(stage, &upstream, &[])?;
    let answer = card.get("/first", "")?;
    if upstream.text().is_empty() {
        return untried(format!("the server was not asked: {answer}"));
    }
    match status(&answer) {
        502 | 0 => Ok(format!("status {}", status(&answer))),
        _ => got_through(answer.replace("\r\n", " | ")),
    }
}

fn response_both(stage: &Stage) -> Outcome {
    response(
        stage,
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    )
}

fn response_codings(stage: &Stage) -> Outcome {
    response(
        stage,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    )
}

fn response_lengths(stage: &Stage) -> Outcome {
    response(stage, "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello")
}

/// Sockets of this port whose client has left and whose server has not noticed.
fn close_wait(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let local = format!(":{port:04X}");
    let like = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let own = fields.next().is_some_and(|own| own.ends_with(&local));
        own && fields.nth(1) == Some("08")
    };
    table.lines().filter(like).count()
}

/// Five clients say this and leave.
fn leave(card: &Card, text: &str) -> Result<(), Failure> {
    let mut streams = Vec::new();
    for _ in 0..5 {
        let mut stream = card.connect()?;
        stream.write_all(text.as_bytes())?;
        streams.push(stream);
    }
    thread::sleep(Duration::from_secs(1));
    drop(streams);
    Ok(())
}

fn pipelined(stage: &Stage) -> Outcome {
    let upstream = Upstream::start(|mut stream, _| {
        let _ = upstream::head(&mut stream);
        thread::sleep(Duration::from_secs(100));
    })?;
    let (_proxy, card) = before(stage, &upstream, &[])?;
    let request = format!("GET {}/slow HTTP/1.1\r\nHost: {}\r\n\r\n", card.prefix, card.host);
    leave(&card, &request.repeat(2))?;
    let port = card.address.port();
    if wait_until(Duration::from_secs(12), || close_wait(port) == 0) {
        return Ok("all noticed".to_owned());
    }
    got_through(format!("{} of 5 sockets in CLOSE-WAIT", close_wait(port)))
}

/// A server that never comes to its response.
fn endless_1xx() -> Result<Upstream, Failure> {
    Upstream::start(|mut stream, _| {
        let _ = upstream::head(&mut stream);
        let many = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(200);
        while stream.write_all(many.as_bytes()).is_ok() {}
    })
}

fn informational_for_a_client(stage: &Stage) -> Outcome {
    let upstream = endless_1xx()?;
    let (_proxy, card) = before(stage, &upstream, &[])?;
    match status(&card.get("/slow", "")?) {
        0 => got_through("no answer within 20 s"),
        code => Ok(format!("answered with {code}")),
    }
}

fn endless_informational(stage: &Stage) -> Outcome {
    let upstream = endless_1xx()?;
    let (proxy, card) = before(stage, &upstream, &[])?;
    let request = format!("GET {}/slow HTTP/1.1\r\nHost: {}\r\n\r\n", card.prefix, card.host);
    leave(&card, &request.repeat(2))?;
    // A loaded machine needs a while to notice; one that never notices goes on for minutes.
    let mut share = 1.0;
    for _ in 0..6 {
        let (before, began) = (processor(proxy.running.pid()), Instant::now());
        thread::sleep(Duration::from_secs(2));
        let used = processor(proxy.running.pid()).saturating_sub(before);
        share = used.as_secs_f64() / began.elapsed().as_secs_f64();
        if share < 0.03 {
            return Ok("it rests after the clients left".to_owned());
        }
    }
    got_through(format!("{:.0} % of a processor after the clients left", share * 100.0))
}

/// A proxy whose kubeconfig impersonates jane, asked with these lines; what the server was told.
fn impersonating(stage: &Stage, lines: &str) -> Outcome {
    let upstream = ok_server()?;
    stage.write("config", upstream.kubeconfig(&json!({ "token": "good", "as": "jane" })))?;
    let proxy = stage.proxy(&["--allow-impersonation"])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    if status(&card.get("/control", "")?) != 200 || !upstream.text().contains("jane") {
        return untried(format!("jane is not impersonated: {}", upstream.text()));
    }
    let answer = card.get("/attack", lines)?;
    if upstream.text().contains("/attack") {
        let told: Vec<String> = upstream
            .text()
            .split("/attack")
            .nth(1)
            .unwrap_or_default()
            .lines()
            .filter(|line| line.to_lowercase().starts_with("impersonate"))
            .map(str::to_owned)
            .collect();
        return got_through(format!("the server is told {told:?}"));
    }
    Ok(format!("refused with {}", status(&answer)))
}

fn added_group(stage: &Stage) -> Outcome {
    impersonating(stage, "Impersonate-Group: system:masters\r\n")
}

fn empty_user(stage: &Stage) -> Outcome {
    impersonating(stage, "Impersonate-User: \r\n")
}

/// A kubeconfig with two contexts; the addresses that the proxy gives them.
fn addresses(stage: &Stage, server: &Server) -> Result<Vec<String>, Failure> {
    let mut config: Value = serde_json::from_str(&server.kubeconfig(&json!({ "token": "good" })))?;
    for list in ["contexts", "clusters", "users"] {
        let text = config[list][0].to_string().replace("\"test\"", "\"west\"");
        let other: Value = serde_json::from_str(&text)?;
        if let Some(all) = config[list].as_array_mut() {
            all.push(other);
        }
    }
    stage.write("config", config.to_string())?;
    let proxy = stage.proxy(&["--all-contexts"])?;
    let made: Value = serde_json::from_str(&fs::read_to_string(&proxy.kubeconfig)?)?;
    let clusters = made["clusters"].as_array().cloned().unwrap_or_default();
    Ok(clusters.iter().map(|one| one["cluster"]["server"].to_string()).collect())
}

fn one_address(stage: &Stage) -> Outcome {
    let found = addresses(stage, &server()?)?;
    if found.len() != 2 || found[0] == found[1] {
        return got_through(format!("{found:?}"));
    }
    Ok(format!("{found:?}"))
}

fn changed_address(stage: &Stage) -> Outcome {
    let server = server()?;
    let (first, second) = (addresses(stage, &server)?, addresses(stage, &server)?);
    if first != second {
        return got_through(format!("{first:?}, then {second:?}"));
    }
    Ok(format!("{first:?} both times"))
}

fn origin(stage: &Stage) -> Outcome {
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = stage.proxy(&[])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    let ask = |line: &str| card.get("/version", line).map(|answer| status(&answer));
    let host = &card.host;
    for line in [format!("Origin: http://{host}\r\n"), format!("Origin: https://{host}\r\n")] {
        let answer = ask(&line)?;
        if answer != 200 {
            return got_through(format!("{} gets {answer}", line.trim()));
        }
    }
    for line in
        ["Origin: https://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n", "Origin: null\r\n"]
    {
        let answer = ask(line)?;
        if answer == 200 {
            return got_through(format!("a browser gets in: {}", line.trim()));
        }
    }
    Ok("clients get in, browsers do not".to_owned())
}

fn key_form(stage: &Stage) -> Outcome {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = stage.proxy(&[])?;
    let made: Value = serde_json::from_str(&fs::read_to_string(&proxy.kubeconfig)?)?;
    let key = made["users"][0]["user"]["client-key-data"].as_str().unwrap_or_default();
    let key = String::from_utf8(STANDARD.decode(key)?)?;
    let first = key.lines().next().unwrap_or_default().to_owned();
    if key.contains("BEGIN EC PRIVATE KEY") { Ok(first) } else { got_through(first) }
}

fn stale_token(stage: &Stage) -> Outcome {
    let server = server()?;
    let user = stage.exec(&format!("#!/bin/sh\n{}", crate::stage::prints("good")))?;
    stage.write("config", server.kubeconfig(&user))?;
    let proxy = stage.proxy(&[])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    if !card.is_served("/version") {
        return untried(proxy.running.stderr());
    }
    server.users().token("other", keyward_testing::server::User::new("berta"));
    let new = stage.write("new", server.kubeconfig(&json!({ "token": "other" })))?;
    fs::rename(new, stage.home("config"))?;
    let taken = wait_until(Duration::from_secs(10), || {
        let _ = card.get("/version", "");
        server.recorder().last().and_then(|record| record.user).as_deref() == Some("berta")
    });
    if taken {
        Ok("the new one is used".to_owned())
    } else {
        got_through("the old one is still used")
    }
}

fn stale_policy(stage: &Stage) -> Outcome {
    let server = server()?;
    let user = stage.exec(&format!("#!/bin/sh\n{}", crate::stage::prints("good")))?;
    stage.write("config", server.kubeconfig(&user))?;
    let kuberc = |policy: &str| {
        let text = json!({
            "apiVersion": "kubectl.config.k8s.io/v1beta1",
            "kind": "Preference",
            "credentialPluginPolicy": policy,
        });
        let new = stage.write("new", text.to_string())?;
        fs::rename(new, stage.home("kuberc")).map_err(Failure::from)
    };
    kuberc("AllowAll")?;
    let file = stage.home("kuberc").display().to_string();
    let proxy = stage.proxy(&["--kuberc", &file])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    if !card.is_served("/version") {
        return untried(proxy.running.stderr());
    }
    kuberc("DenyAll")?;
    let mut last = String::new();
    let stopped = wait_until(Duration::from_secs(10).min(PATIENCE), || {
        last = card.get("/version", "").unwrap_or_default();
        status(&last) != 200
    });
    if stopped {
        Ok(body(&last).chars().take(120).collect())
    } else {
        got_through("it is still served")
    }
}
