//! What has always held, so that it stays so.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Line;
use crate::{
    Outcome, got_through,
    process::{Done, tool},
    stage::{PATIENCE, Stage, cluster, prints, server},
    untried,
    upstream::{Plain, Upstream},
    wire::Card,
};

pub const ALL: &[Line] = &[
    ("held-plain", "64 ways to a server of plain HTTP that get a credential out", plain_http),
    ("held-certificates", "306 certificates with a byte changed", mutated),
    ("held-gzip", "a response that unpacks to gigabytes", gzip),
    ("held-crowd", "slow and quick connections of another user beside 110 requests", crowd),
    ("held-stale", "the kubeconfig of a proxy that has ended", stale),
    ("held-pin", "12 processes with a wrong PIN", wrong_pin),
    ("held-docker", "42 spellings of a server at the docker helper", docker_spellings),
];

/// Every credential of the kubeconfig below begins so.
const MARK: &str = "marked-7731";

fn plain_http(stage: &Stage) -> Outcome {
    let plain = Plain::start("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")?;
    let address = plain.address;
    let plugin = stage.exec(&format!("#!/bin/sh\n{}", prints(&format!("{MARK}-plugin"))))?;
    let file = stage.write("token", format!("{MARK}-file"))?;
    let users: [Value; 4] = [
        json!({ "token": format!("{MARK}-token") }),
        json!({ "username": "u", "password": format!("{MARK}-password") }),
        json!({ "tokenFile": file }),
        plugin,
    ];
    let servers: [String; 4] = [
        format!("http://{address}"),
        format!("HTTP://{address}/"),
        format!("http://{address}/api"),
        format!("http://localhost:{}", address.port()),
    ];
    let commands: [&[&str]; 4] = [
        &["get", "--raw", "/version"],
        &["whoami"],
        &["get", "--raw", "/version", "--insecure-skip-tls-verify"],
        &["get", "--raw", "/version", "--refresh-on-403"],
    ];
    let basic = STANDARD.encode(format!("u:{MARK}-password"));
    for user in &users {
        for server in &servers {
            stage.write("config", cluster(&json!({ "server": server }), user))?;
            for words in commands {
                stage.run_for(&mut stage.keyward(words), Duration::from_secs(20))?;
                let seen = plain.text();
                if seen.contains(MARK) || seen.contains(&basic) {
                    return got_through(format!("{server} gets the credential by {words:?}"));
                }
            }
        }
    }
    Ok("no credential in 64 tries".to_owned())
}

fn mutated(stage: &Stage) -> Outcome {
    let server = server()?;
    let issued = server.authority().client("anna").issue()?;
    let (certificate, mut tried) = (issued.certificate().to_vec(), 0);
    let rounds = if stage.short { 102 } else { 306 };
    let pem = |der: &[u8]| {
        format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            STANDARD.encode(der)
        )
    };
    for round in 0..rounds {
        let mut bytes = certificate.clone();
        let place = round * 7919 % bytes.len();
        bytes[place] ^= 1 << (round % 8);
        let changed = STANDARD.encode(pem(&bytes));
        let user = json!({
            "client-certificate-data": changed,
            "client-key-data": STANDARD.encode(issued.key_pem()),
        });
        let mut config: Value = serde_json::from_str(&server.kubeconfig(&user))?;
        if round % 3 == 2 {
            // The authority's own, for a change.
            let mut bytes = server.authority().der().to_vec();
            let place = round * 7919 % bytes.len();
            bytes[place] ^= 1 << (round % 8);
            config["clusters"][0]["cluster"]["certificate-authority-data"] =
                STANDARD.encode(pem(&bytes)).into();
        }
        stage.write("config", config.to_string())?;
        let done = stage
            .run_for(&mut stage.keyward(&["get", "--raw", "/version"]), Duration::from_secs(20))?;
        if done.panicked() || done.status.is_none() || done.code().is_none() {
            return got_through(format!("round {round}: {:?} {}", done.status, done.why()));
        }
        tried += 1;
    }
    Ok(format!("{tried} without a panic or a hang"))
}

fn gzip(stage: &Stage) -> Outcome {
    let (size, name) = if stage.short { (256, "256M") } else { (4096, "4G") };
    let file = stage.dir.join("bomb.gz");
    let pack = format!("head -c {name} /dev/zero | gzip -1 >{}", file.display());
    tool("sh", "dash", &["-c", &pack])?;
    let packed = Arc::new(fs::read(&file)?);
    let upstream = Upstream::answering(move |_| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            packed.len()
        );
        [head.as_bytes(), &packed].concat()
    })?;
    stage.write("config", upstream.kubeconfig(&json!({ "token": "good" })))?;
    let script = "exec \"$KEYWARD\" get --raw /bomb >/dev/null";
    let done = stage.run_for(&mut stage.shell(script), Duration::from_secs(600))?;
    if done.status.is_none() || done.peak > 150_000 {
        return got_through(format!("{} MB, {}", done.peak / 1024, done.why()));
    }
    Ok(format!("{size} MB in {} MB", done.peak / 1024))
}

fn crowd(stage: &Stage) -> Outcome {
    let attacker = stage.attacker()?;
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = stage.proxy(&[])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    let address = card.address.to_string();
    let slow = if stage.short { "400" } else { "1933" };
    let _slow = stage.start(&mut stage.role(attacker, &["linger", &address, slow]))?;
    let _quick = stage.start(&mut stage.role(attacker, &["connect", &address, "120"]))?;
    thread::sleep(Duration::from_secs(1));
    let (mut lost, began) = (0, Instant::now());
    for _ in 0..110 {
        lost += usize::from(!card.is_served("/version"));
    }
    if lost > 0 {
        return got_through(format!("{lost} of 110 requests are lost"));
    }
    Ok(format!("0 of 110 lost in {:.1?}", began.elapsed()))
}

fn stale(stage: &Stage) -> Outcome {
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0")?;
        free.local_addr()?.port()
    };
    let listen = format!("127.0.0.1:{port}");
    let first = stage.proxy(&["--listen", &listen])?;
    let old = Card::read(&first.kubeconfig, 0)?;
    if !old.is_served("/version") {
        return untried(first.running.stderr());
    }
    first.running.signal(Signal::TERM);
    first.running.wait(PATIENCE);
    let second = stage.proxy(&["--listen", &listen])?;
    if !Card::read(&second.kubeconfig, 0)?.is_served("/version") {
        return untried(second.running.stderr());
    }
    if old.is_served("/version") {
        got_through("it is still served")
    } else {
        Ok("useless".to_owned())
    }
}

fn wrong_pin(stage: &Stage) -> Outcome {
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let spy = format!("{machine}/pkcs11-spy.so");
    let module = format!("{machine}/softhsm/libsofthsm2.so");
    for (file, package) in [(&spy, "opensc-pkcs11"), (&module, "softhsm2")] {
        if !Path::new(file).exists() {
            return untried(format!("no `{file}` (Debian package `{package}`)"));
        }
    }
    let tokens = stage.directory("tokens", 0o700)?;
    let config =
        format!("directories.tokendir = {}\nobjectstore.backend = file\n", tokens.display());
    let config = stage.write("softhsm2.conf", config)?;
    let with = |mut command: std::process::Command| {
        command.env("SOFTHSM2_CONF", &config);
        command
    };
    let init = "softhsm2-util --init-token --free --label lab --pin 739125 --so-pin 73912500";
    let done = stage.run(&mut with(stage.shell(init)))?;
    if !done.ok() {
        return untried(format!("no token (Debian package `softhsm2`): {}", done.why()));
    }
    let log = stage.home("spy.log");
    let pin = stage.write("pin", "000000\n")?;
    let uri =
        format!("pkcs11:token=lab;object=jane?module-path={spy}&pin-source=file:{}", pin.display());
    let mut running = Vec::new();
    for _ in 0..12 {
        let mut command = with(stage.program("keyward-pkcs11", &["test", &uri]));
        command.env("PKCS11SPY", &module).env("PKCS11SPY_OUTPUT", &log);
        running.push(stage.start(&mut command)?);
    }
    let ends: Vec<_> = running.into_iter().map(|one| one.wait(PATIENCE)).collect();
    let text = fs::read_to_string(&log).unwrap_or_default();
    let tries = text.matches("C_Login\n").count();
    if tries == 0 {
        return untried(format!(
            "nobody tried: {}",
            ends.first().map(Done::said).unwrap_or_default()
        ));
    }
    if tries > 1 {
        got_through(format!("{tries} tries"))
    } else {
        Ok("one try by 12 processes".to_owned())
    }
}

fn docker_spellings(stage: &Stage) -> Outcome {
    let directory = stage.directory("providers", 0o755)?;
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": { "r.io:5000": { "username": "u", "password": MARK } },
    });
    let program = directory.join("prov");
    fs::write(&program, format!("#!/bin/sh\ncat >/dev/null\necho '{answer}'\n"))?;
    stage.give(&program, 0o755)?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "prov", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": ["r.io:5000"], "defaultCacheDuration": "1m",
        }],
    });
    let config = stage.write("providers.yaml", config.to_string())?;
    let ask = |spelling: &str| {
        let question = stage.write("question", spelling)?;
        let script = format!("exec \"$BIN/docker-credential-keyward\" get <{}", question.display());
        let mut command = stage.shell(&script);
        command.env("KEYWARD_IMAGE_CONFIG", &config).env("KEYWARD_IMAGE_BIN_DIR", &directory);
        stage.run(&mut command)
    };
    let good = ask("r.io:5000")?;
    if !good.stdout.contains(MARK) {
        return untried(format!("no login at all: {}", good.said()));
    }
    let mut spellings = Vec::new();
    for host in [
        "evil.io",
        "r.io",
        "r.io:5001",
        "evilr.io:5000",
        "r.io.evil:5000",
        "r.io:50001",
        "xr.io:5000",
    ] {
        for prefix in ["", "https://", "http://", "https://r.io:5000@", "https://evil.io/", " "] {
            // A path after another host, or a host after a user, is still the other host.
            let mut text = String::new();
            write!(text, "{prefix}{host}")?;
            spellings.push(text);
        }
    }
    for spelling in &spellings {
        let done = ask(spelling)?;
        if done.stdout.contains(MARK) {
            return got_through(format!("`{spelling}` gets the login of r.io:5000"));
        }
        if done.panicked() {
            return got_through(format!("`{spelling}`: a panic"));
        }
    }
    Ok(format!("{} spellings, no login", spellings.len()))
}
