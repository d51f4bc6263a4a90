//! Authorities, certificates and addresses that are not what they should be, or only seem so.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::{Done, Running, tool, wait_until},
    stage::{PATIENCE, Stage, cluster, server},
    untried,
    upstream::{Plain, Upstream},
};

pub const ALL: &[Line] = &[
    ("M2-empty", "an authority file that is empty", empty),
    ("M2-null", "an authority file that is `/dev/null`", null),
    ("M2-fifo", "an authority file that is a FIFO whose writer is late", fifo),
    ("held-authority", "an authority file without a certificate in it", comment),
    ("L17", "OIDC discovery that leads from https to http", discovery),
    ("D8-authority", "authorities whose curve and hash differ", odd_authorities),
    ("D8-v1", "a client certificate of X.509 version 1", version_one),
    ("D8-p521", "a client key on P-521", p521),
    ("D8-bundle", "a bundle with a truncated certificate before a good one", bundle),
    ("D8-zone", "an address with a zone", zone),
    ("D8-percent", "an address with `%zz`", percent),
    ("D8-exam", "a certificate that `plugin test` passes and the client rejects", exam),
    ("D8-hybrid", "a key exchange that a quantum computer could undo", hybrid),
];

/// A server that the system trusts gets no request of a client with this authority file.
fn authority(stage: &Stage, file: &Path) -> Outcome {
    let server = server()?;
    let system = stage.write("system.pem", server.authority().pem())?;
    let get = |own: &Value| -> Result<Done, Failure> {
        stage.write("config", cluster(own, &json!({ "token": "good" })))?;
        let mut command = stage.keyward(&["get", "--raw", "/version"]);
        stage.run(command.env("SSL_CERT_FILE", &system))
    };
    let control = get(&json!({ "server": server.url() }))?;
    if !control.ok() {
        return untried(format!("the system's authorities are not used: {}", control.why()));
    }
    let before = server.recorder().all().len();
    let done = get(&json!({ "server": server.url(), "certificate-authority": file }))?;
    if server.recorder().all().len() > before {
        return got_through("the token was sent");
    }
    Ok(done.why())
}

fn empty(stage: &Stage) -> Outcome {
    let file = stage.write("empty.pem", "")?;
    authority(stage, &file)
}

fn null(stage: &Stage) -> Outcome {
    authority(stage, Path::new("/dev/null"))
}

fn comment(stage: &Stage) -> Outcome {
    let file = stage.write("comment.pem", "# the certificate goes here\n")?;
    authority(stage, &file)
}

fn fifo(stage: &Stage) -> Outcome {
    let fifo = stage.home("fifo");
    tool("mkfifo", "coreutils", &[&fifo.display().to_string()])?;
    stage.give(&fifo, 0o600)?;
    authority(stage, &fifo)
}

fn discovery(stage: &Stage) -> Outcome {
    let plain = Plain::start("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")?;
    let to = plain.address;
    let issuer = Upstream::answering(move |_| {
        format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{to}/.well-known/openid-configuration\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .into_bytes()
    })?;
    // An ID token that has expired, so that it is renewed.
    let claims = json!({ "iss": format!("https://{}", issuer.address), "exp": 1_000 }).to_string();
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let old = format!("{}.{}.{}", encode("{\"alg\":\"none\"}"), encode(&claims), encode("x"));
    let user = json!({ "auth-provider": { "name": "oidc", "config": {
        "idp-issuer-url": format!("https://{}", issuer.address),
        "idp-certificate-authority-data": STANDARD.encode(issuer.authority.pem()),
        "client-id": "c", "client-secret": "s", "refresh-token": "r", "id-token": old,
    } } });
    stage.write("config", crate::stage::kubeconfig(&user))?;
    let done = stage.run(&mut stage.keyward(&["credential"]))?;
    if issuer.text().is_empty() {
        return untried(format!("no discovery: {}", done.said()));
    }
    if !plain.text().is_empty() {
        return got_through("the document is asked for over plain HTTP");
    }
    Ok(done.why())
}

/// openssl in the stage's directory.
fn openssl(stage: &Stage, words: &str) -> Result<(), Failure> {
    let args: Vec<&str> = words.split_whitespace().collect();
    let mut command = Command::new("openssl");
    command.args(&args).current_dir(&stage.dir).stdin(Stdio::null());
    let output = command.output();
    let output = output.or_else(|e| crate::process::missing("openssl", "openssl", &e))?;
    if output.status.success() {
        return Ok(());
    }
    untried(format!("openssl {words}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// An authority and a server's certificate, made by openssl.
fn pki(stage: &Stage, curve: &str, hash: &str) -> Result<(), Failure> {
    fs::write(stage.dir.join("san"), "subjectAltName=IP:127.0.0.1,IP:::1\n")?;
    let key = format!("-newkey ec -pkeyopt ec_paramgen_curve:{curve} -nodes");
    openssl(
        stage,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca -days 2 -{hash}"),
    )?;
    openssl(
        stage,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout s.key -out s.csr -subj /CN=s",
    )?;
    openssl(
        stage,
        &format!(
            "x509 -req -in s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out s.pem -days 2 -{hash} -extfile san"
        ),
    )
}

/// An openssl server with these words more; its port.
fn serve(stage: &Stage, more: &str) -> Result<(Running, u16), Failure> {
    let mut command = Command::new("openssl");
    command
        .args([
            "s_server", "-accept", "0", "-www", "-naccept", "50", "-cert", "s.pem", "-key", "s.key",
        ])
        .args(more.split_whitespace())
        .current_dir(&stage.dir);
    let running = stage.start(&mut command)?;
    let mut port = 0;
    wait_until(PATIENCE, || {
        let text = running.stdout();
        let line = text.lines().find_map(|line| line.strip_prefix("ACCEPT "));
        let number =
            line.and_then(|line| line.rsplit(':').next()).and_then(|n| n.trim().parse().ok());
        port = number.unwrap_or(0);
        port != 0
    });
    if port == 0 {
        return untried(format!("openssl does not listen: {}", running.stderr()));
    }
    Ok((running, port))
}

/// Gets from the openssl server with this user.
fn reaches(stage: &Stage, url: &str, ca: &str, user: &Value) -> Result<Done, Failure> {
    let pem = fs::read(stage.dir.join(ca))?;
    let own = json!({ "server": url, "certificate-authority-data": STANDARD.encode(pem) });
    stage.write("config", cluster(&own, user))?;
    stage.run_for(&mut stage.keyward(&["get", "--raw", "/"]), Duration::from_secs(20))
}

fn odd_authorities(stage: &Stage) -> Outcome {
    let mut wrong = Vec::new();
    for (curve, hash) in
        [("P-521", "sha256"), ("P-521", "sha384"), ("P-256", "sha512"), ("P-384", "sha512")]
    {
        pki(stage, curve, hash)?;
        let (_server, port) = serve(stage, "")?;
        let done = reaches(
            stage,
            &format!("https://127.0.0.1:{port}"),
            "ca.pem",
            &json!({ "token": "t" }),
        )?;
        if !done.ok() {
            wrong.push(format!("{curve} with {hash}: {}", done.why()));
        }
    }
    if wrong.is_empty() { Ok("4 of 4 accepted".to_owned()) } else { got_through(wrong.join("; ")) }
}

/// A client with this key and a certificate from the words of `openssl x509 -req` reaches a server
/// that demands one.
fn client(stage: &Stage, curve: &str, sign: &str) -> Outcome {
    pki(stage, "P-256", "sha256")?;
    openssl(
        stage,
        &format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:{curve} -nodes -keyout c.key -out c.csr -subj /CN=jane"
        ),
    )?;
    openssl(
        stage,
        &format!(
            "x509 -req -in c.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out c.pem -days 2 {sign}"
        ),
    )?;
    let mut wrong = Vec::new();
    for version in ["-tls1_2", "-tls1_3"] {
        let (_server, port) =
            serve(stage, &format!("-Verify 1 -verify_return_error -CAfile ca.pem {version}"))?;
        let data = |name: &str| fs::read(stage.dir.join(name)).map(|bytes| STANDARD.encode(bytes));
        let user = json!({
            "client-certificate-data": data("c.pem")?,
            "client-key-data": data("c.key")?,
        });
        let done = reaches(stage, &format!("https://127.0.0.1:{port}"), "ca.pem", &user)?;
        if !done.ok() {
            wrong.push(format!("{version}: {}", done.why()));
        }
    }
    if wrong.is_empty() {
        Ok("accepted in TLS 1.2 and 1.3".to_owned())
    } else {
        got_through(wrong.join("; "))
    }
}

fn version_one(stage: &Stage) -> Outcome {
    client(stage, "P-256", "")
}

fn p521(stage: &Stage) -> Outcome {
    fs::write(stage.dir.join("eku"), "extendedKeyUsage=clientAuth\n")?;
    client(stage, "P-521", "-extfile eku")
}

fn bundle(stage: &Stage) -> Outcome {
    pki(stage, "P-256", "sha256")?;
    let good = fs::read_to_string(stage.dir.join("ca.pem"))?;
    let cut: String = good.lines().take(4).map(|line| format!("{line}\n")).collect();
    fs::write(stage.dir.join("bundle.pem"), format!("{cut}{good}"))?;
    let (_server, port) = serve(stage, "")?;
    let done = reaches(
        stage,
        &format!("https://127.0.0.1:{port}"),
        "bundle.pem",
        &json!({ "token": "t" }),
    )?;
    if done.ok() { Ok("the good one counts".to_owned()) } else { got_through(done.why()) }
}

fn zone(stage: &Stage) -> Outcome {
    if !fs::read_to_string("/proc/net/if_inet6").is_ok_and(|all| all.contains(" lo")) {
        return untried("the loopback has no IPv6 address");
    }
    pki(stage, "P-256", "sha256")?;
    let (_server, port) = serve(stage, "-6")?;
    // No certificate is for an address with a zone, so the name has to be said, as for kubectl.
    let own = json!({
        "server": format!("https://[::1%25lo]:{port}"),
        "tls-server-name": "127.0.0.1",
        "certificate-authority-data": STANDARD.encode(fs::read(stage.dir.join("ca.pem"))?),
    });
    stage.write("config", cluster(&own, &json!({ "token": "t" })))?;
    let mut command = stage.keyward(&["get", "--raw", "/"]);
    let done = stage.run_for(&mut command, Duration::from_secs(20))?;
    if done.ok() { Ok("reached".to_owned()) } else { got_through(done.why()) }
}

fn percent(stage: &Stage) -> Outcome {
    let server = server()?;
    for url in [format!("{}/%zz", server.url()), "https://127.0.0.1%zz:1".to_owned()] {
        let own = json!({
            "server": url, "certificate-authority-data": STANDARD.encode(server.authority().pem()),
        });
        stage.write("config", cluster(&own, &json!({ "token": "good" })))?;
        let done = stage.run(&mut stage.keyward(&["get", "--raw", "/version"]))?;
        if server.counts().connections > 0 {
            return got_through(format!("{url} is dialled: {}", done.why()));
        }
        if done.ok() {
            return got_through(format!("{url} is accepted"));
        }
    }
    Ok("an error, and nobody is dialled".to_owned())
}

/// A key that does not fit its certificate's curve order, in a certificate that the client refuses.
fn exam(stage: &Stage) -> Outcome {
    openssl(
        stage,
        "req -x509 -newkey rsa:1024 -nodes -keyout c.key -out c.pem -subj /CN=jane -days 2",
    )?;
    let text = |name: &str| fs::read_to_string(stage.dir.join(name));
    let answer = json!({
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": { "clientCertificateData": text("c.pem")?, "clientKeyData": text("c.key")? },
    });
    let answer = stage.write("answer", answer.to_string())?;
    let server = server()?;
    let user = stage.exec(&format!("#!/bin/sh\nexec cat {}\n", answer.display()))?;
    stage.write("config", server.kubeconfig(&user))?;
    let asked = stage.run(&mut stage.keyward(&["get", "--raw", "/version"]))?;
    let mut command = stage.keyward(&["plugin", "test", "--plugin-timeout", "20s", "--"]);
    let tested = stage.run(command.arg(stage.home("bin/plugin")))?;
    let said = tested.said();
    let fails = said.lines().any(|line| line.contains("FAIL") && line.contains("certificate"));
    // What the client refuses before it dials is a fault of the certificate, not the server's word.
    if !asked.ok() && server.counts().requests == 0 && !fails {
        return got_through(format!("`plugin test` passes what fails with: {}", asked.why()));
    }
    Ok(format!("the client: {}; the test fails: {fails}", asked.why()))
}

/// X25519MLKEM768, as the client's first message has to offer it.
fn hybrid(stage: &Stage) -> Outcome {
    let plain = Plain::start("")?;
    let own = json!({
        "server": format!("https://{}", plain.address), "insecure-skip-tls-verify": true,
    });
    stage.write("config", cluster(&own, &json!({ "token": "good" })))?;
    let mut command = stage.keyward(&["get", "--raw", "/version", "--request-timeout", "2"]);
    stage.run_for(&mut command, Duration::from_secs(10))?;
    let hello = plain.bytes();
    if hello.is_empty() {
        return untried("no first message came");
    }
    // supported_groups: type 10, length, length of the list, groups of two bytes.
    let groups = hello.windows(6).enumerate().find_map(|(at, head)| {
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let whole = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let like = head[..2] == [0, 10] && whole == length + 2 && length % 2 == 0 && length < 64;
        like.then(|| hello.get(at + 6..at + 6 + length)).flatten()
    });
    let groups = groups.unwrap_or_default();
    if groups.chunks(2).any(|group| group == [0x11, 0xec]) {
        return Ok("X25519MLKEM768 is offered".to_owned());
    }
    got_through(format!("only {groups:02x?} are offered"))
}
