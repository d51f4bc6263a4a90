//! What others got wrong with AWS credentials. Each test has the number of its pitfall on the page
//! `docs/providers.md`.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use jiff::Timestamp;
use keyward_testing::{plugin, pty::Pty};
use tempfile::TempDir;

use crate::{
    judge,
    program::{self, Run},
    stage::{Stage, access_key, expiry, url},
    tls::tls,
};

const ROLE: &str =
    "role_arn = arn:aws:iam::123456789012:role/Dev\nsource_profile = a\nrole_session_name = me\n";
const KEYS: &str = "aws_access_key_id = {alice.key}\naws_secret_access_key = {alice.secret}\n";
const MFA: &str = "mfa_serial = arn:aws:iam::123456789012:mfa/alice\n";
const SSO: &str = "sso_account_id = 123456789012\nsso_role_name = Reader\nsso_start_url = https://sso.example/start\n\
                   sso_region = us-east-1\n";

#[expect(clippy::disallowed_methods, reason = "the programs live by the real clock")]
fn now() -> i64 {
    Timestamp::now().as_second()
}

/// A stage whose default profile assumes a role at the stand-in.
fn with_role(more: &str) -> Stage {
    let mut stage = Stage::new();
    stage.config(&format!("[default]\n{ROLE}{more}")).credentials(&format!("[a]\n{KEYS}"));
    stage.env("AWS_ENDPOINT_URL_STS", "{standIn}");
    stage
}

/// An agent of its own for a test.
struct Agent {
    child: Child,
    directory: TempDir,
}

impl Agent {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let mut command = Command::new(plugin::agent());
        command
            .arg("--no-verify")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", directory.path());
        command.env("KEYWARD_AGENT_SOCK", directory.path().join("agent.sock"));
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on"), "{line}");
        Self { child, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("agent.sock")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A server that counts connections and answers every request with this, or never.
struct Fake {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    fn start(answer: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { url, requests: Arc::default(), connections: Arc::default() };
        let (requests, connections) = (fake.requests.clone(), fake.connections.clone());
        // It ends with the process.
        thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                if let Some(answer) = answer {
                    let mut bytes = [0; 4096];
                    let count = stream.read(&mut bytes).unwrap_or(0);
                    let text = String::from_utf8_lossy(&bytes[..count]);
                    requests
                        .lock()
                        .unwrap()
                        .push(text.lines().next().unwrap_or_default().to_owned());
                    _ = stream.write_all(answer.as_bytes());
                } else {
                    open.push(stream);
                }
            }
        });
        fake
    }
}

#[test]
fn pitfall_01_a_token_ends_with_the_credentials_that_signed_it() {
    let soon = Timestamp::from_second(now() + 300).unwrap();
    let mut stage = Stage::new();
    stage.env_keys("alice").env("AWS_CREDENTIAL_EXPIRATION", &soon.to_string());
    assert_eq!(expiry(stage.run(&[]).run()), soon.as_second());

    let mut stage = with_role("");
    stage.config(&format!("[default]\n{}", ROLE.replace("/Dev", "/Short")));
    let left = expiry(stage.run(&[]).run()) - now();
    assert!((200..=300).contains(&left), "{left}");

    let mut stage = Stage::new();
    stage.env_keys("alice").env("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z");
    let ended = stage.run(&[]).run();
    assert!(
        ended.code == Some(1) && ended.stderr.contains("expired at 2020-01-01T00:00:00Z"),
        "{ended:?}"
    );
}

#[test]
fn pitfall_02_every_token_says_when_it_ends() {
    let mut stage = Stage::new();
    let left = expiry(stage.env_keys("alice").run(&[]).run()) - now();
    assert!((800..=840).contains(&left), "{left}");
}

#[test]
fn pitfall_03_a_configured_endpoint_of_sts_is_not_in_the_token() {
    let url = url(with_role("").run(&[]).run());
    assert!(url.starts_with("https://sts.us-east-1.amazonaws.com/?"), "{url}");
    assert!(access_key(&url).starts_with("ASIA"), "the role was assumed at the endpoint: {url}");
}

#[test]
fn pitfall_04_the_instance_is_asked_only_if_nothing_else_is_configured_and_never_for_long() {
    let silent = Fake::start(None);
    let mut stage = Stage::new();
    stage.unset("AWS_EC2_METADATA_DISABLED").env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &silent.url);
    stage.env_keys("alice").run(&[]).run().printed();
    assert_eq!(silent.connections.load(Ordering::SeqCst), 0);

    // The authenticator asks for the region as well, once, and goes on without.
    stage.unset("AWS_DEFAULT_REGION");
    let run = Run::named("aws-iam-authenticator").envs(&stage.environment);
    let url = url(run.args(["token", "-i", "c"]).run());
    assert!(url.starts_with("https://sts.us-east-1."), "{url}");
    assert_eq!(silent.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn pitfall_05_version_1_of_the_instance_metadata_is_never_used_and_the_hop_limit_is_named() {
    let old = Fake::start(Some(
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ));
    let mut stage = Stage::new();
    stage.unset("AWS_EC2_METADATA_DISABLED").env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &old.url);
    let ended = stage.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").run(&["--explain"]).run();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stdout.contains("http-put-response-hop-limit"), "{ended:?}");
    let requests = old.requests.lock().unwrap();
    assert!(
        !requests.is_empty() && requests.iter().all(|line| line.starts_with("PUT ")),
        "{requests:?}"
    );
}

#[test]
fn pitfall_06_pod_identity_is_reached_at_its_addresses_and_its_token_is_read_each_time() {
    let mut stage = Stage::new();
    stage.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/a");
    stage.file("pod", "Bearer old").env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "{home}/pod");
    assert_eq!(stage.run(&[]).run().code, Some(1));
    stage.file("pod", "Bearer pod").run(&[]).run().printed();

    let why = |url: &str| {
        let mut stage = Stage::new();
        let ended = stage.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", url).run(&[]).run();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.stderr
    };
    // In brackets, as URLs have it. Nobody is there, but it may be asked.
    let allowed = why("http://[fd00:ec2::23]/v1/credentials");
    assert!(!allowed.contains("allowed IP"), "{allowed}");
    let foreign = why("http://192.0.2.1/v1/credentials");
    assert!(foreign.contains("allowed IP"), "{foreign}");
}

#[test]
fn pitfall_07_addresses_of_this_machine_and_its_link_are_never_asked_through_a_proxy() {
    let proxy = Fake::start(Some(
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ));
    let mut stage = with_role("");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        stage.env(name, &proxy.url);
    }
    stage.run(&[]).run().printed();
    let mut stage = Stage::new();
    stage.unset("AWS_EC2_METADATA_DISABLED").env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "{standIn}");
    stage.env("HTTP_PROXY", &proxy.url).env("http_proxy", &proxy.url).run(&[]).run().printed();
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 0);

    // Other addresses are.
    let mut stage = with_role("");
    stage.env("AWS_ENDPOINT_URL_STS", "http://sts.example.invalid").env("HTTP_PROXY", &proxy.url);
    assert_eq!(stage.run(&[]).run().code, Some(1));
    assert!(proxy.connections.load(Ordering::SeqCst) > 0);
}

/// A command at a terminal, with a manifest on its stdin and a file as its stdout.
fn attended(stage: &Stage, more: &str) -> Command {
    let mut command = Command::new("env");
    command.arg("-i");
    command.args(stage.environment.iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(
        r#"KUBERNETES_EXEC_INFO={"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":true}}"#,
    );
    let program = program::path();
    let script = format!(
        "echo 999999 | '{}' eks --cluster-name c {more} > '{}/out'",
        program.display(),
        stage.home.path().display()
    );
    command.args(["sh", "-c", &script]).current_dir(stage.home.path());
    command
}

#[test]
fn pitfall_08_an_mfa_code_is_read_from_the_terminal_and_never_from_stdin() {
    let stage = with_role(MFA);
    let mut terminal = Pty::spawn(&attended(&stage, "")).unwrap();
    terminal.wait_for("Enter MFA code for arn:aws:iam::123456789012:mfa/alice: ");
    terminal.type_in("123456\n").unwrap();
    assert!(terminal.finish().success(), "{}", terminal.screen());
    let printed = std::fs::read_to_string(stage.path("out")).unwrap();
    assert!(printed.starts_with('{') && !printed.contains("MFA"), "{printed}");
    // The stand-in derives the keys from the code: the same code gives the same keys.
    let key = |code: &str| {
        let user = &judge::prepared().users["alice"].0;
        let text = [
            user,
            "arn:aws:iam::123456789012:role/Dev",
            "me",
            "",
            "",
            "arn:aws:iam::123456789012:mfa/alice",
            code,
        ];
        let digest = ring::digest::digest(&ring::digest::SHA256, text.join("\0").as_bytes());
        let hex =
            digest.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"));
        format!("ASIA{}", &hex[..16])
    };
    let ended = crate::program::Ended { code: Some(0), stdout: printed, stderr: String::new() };
    assert_eq!(access_key(&url(ended)), key("123456"));

    // Without a person, nothing is asked.
    let info = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;
    let ended = with_role(MFA).run(&[]).env("KUBERNETES_EXEC_INFO", info).with_input(b"123456\n");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), ""));
    assert!(ended.stderr.contains("hint: "), "{ended:?}");
}

#[test]
fn pitfall_09_an_mfa_code_is_asked_for_once_per_session() {
    let agent = Agent::start();
    let mut stage = with_role(MFA);
    stage.env("KEYWARD_AGENT_SOCK", agent.socket().to_str().unwrap());
    let mut terminal = Pty::spawn(&attended(&stage, "")).unwrap();
    terminal.wait_for("Enter MFA code");
    terminal.type_in("123456\n").unwrap();
    assert!(terminal.finish().success(), "{}", terminal.screen());
    let first = std::fs::read_to_string(stage.path("out")).unwrap();
    let first = crate::program::Ended { code: Some(0), stdout: first, stderr: String::new() };
    // Others get the session without a person.
    let second = url(stage.run(&[]).run());
    assert_eq!(access_key(&second), access_key(&url(first)));
}

#[test]
fn pitfall_10_an_mfa_device_counts_on_the_profile_of_the_role_alone() {
    let mut stage = with_role("");
    stage.credentials(&format!("[a]\n{KEYS}{MFA}")).run(&[]).run().printed();
    assert_eq!(with_role(MFA).run(&[]).run().code, Some(3));
}

#[test]
fn pitfall_11_a_credential_process_is_run_by_a_shell_and_its_expiry_counts() {
    let soon = Timestamp::from_second(now() + 300).unwrap();
    let mut stage = Stage::new();
    stage.file(
        "print",
        &format!(r#"printf '{{"Version":1,"AccessKeyId":"%s","SecretAccessKey":"s","Expiration":"{soon}"}}' "$1""#),
    );
    stage.config("[default]\ncredential_process = sh \"{home}/print\" 'A B' | sed 's/ /_/'\n");
    let url = url(stage.run(&[]).run());
    assert_eq!(access_key(&url), "A_B");
    assert_eq!(expiry(stage.run(&[]).run()), soon.as_second());
}

#[test]
fn pitfall_12_sessions_are_kept_by_identity_and_never_served_to_another() {
    let agent = Agent::start();
    let mut stage = Stage::new();
    let sso = SSO.replace("Reader", "Twelve");
    stage.config(&format!(
        "[profile one]\nrole_arn = arn:aws:iam::1:role/Twelve\nsource_profile = sso\n[profile sso]\n{sso}\
         [profile two]\nrole_arn = arn:aws:iam::2:role/Twelve\nsource_profile = sso\n"
    ));
    stage.sso_token("https://sso.example/start", "sso-token", "2099-01-01T00:00:00Z", "");
    stage.env("AWS_ENDPOINT_URL_STS", "{standIn}").env("AWS_ENDPOINT_URL_SSO", "{standIn}");
    stage.env("KEYWARD_AGENT_SOCK", agent.socket().to_str().unwrap());
    let key =
        |stage: &mut Stage, profile: &str| access_key(&url(stage.profile(profile).run(&[]).run()));
    let counts = || {
        let count = |what: &str| judge::judge().count(what);
        let role = |account: &str| count(&format!("AssumeRole arn:aws:iam::{account}:role/Twelve"));
        (count("sso Twelve"), role("1"), role("2"))
    };
    let one = key(&mut stage, "one");
    for _ in 0..3 {
        assert_eq!(key(&mut stage, "one"), one);
    }
    assert_ne!(key(&mut stage, "two"), one);
    assert_eq!(counts(), (1, 1, 1));
    // Whoever logs in anew may be somebody else.
    stage.sso_token("https://sso.example/start", "sso-renewed", "2099-01-01T00:00:00Z", "");
    key(&mut stage, "one");
    assert_eq!(counts(), (2, 2, 1));
}

#[test]
fn pitfall_17_nothing_of_the_usual_environment_is_needed() {
    let ended = Command::new(program::path())
        .args(["eks", "--cluster-name", "c", "--region", "us-east-1"])
        .env_clear()
        .env("AWS_ACCESS_KEY_ID", "AKIA")
        .env("AWS_SECRET_ACCESS_KEY", "s")
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn pitfall_28_a_ca_bundle_is_added_to_the_authorities_of_the_system() {
    let system = tls(&mut judge::judge());
    let bundle = tls(&mut judge::judge());
    for server in [&system, &bundle] {
        let mut stage = with_role("");
        stage.env("AWS_ENDPOINT_URL_STS", &server.url);
        stage.env("SSL_CERT_FILE", system.authority.to_str().unwrap());
        stage.env("AWS_CA_BUNDLE", bundle.authority.to_str().unwrap()).run(&[]).run().printed();
    }
    let mut stage = with_role("");
    stage.env("AWS_ENDPOINT_URL_STS", &bundle.url);
    let ended = stage.env("SSL_CERT_FILE", system.authority.to_str().unwrap()).run(&[]).run();
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn pitfall_37_a_refused_credential_does_not_come_from_the_store() {
    let agent = Agent::start();
    let mut stage = with_role("");
    stage.config(&format!("[default]\n{}", ROLE.replace("/Dev", "/ThirtySeven")));
    stage.env("KEYWARD_AGENT_SOCK", agent.socket().to_str().unwrap());
    let count = || judge::judge().count("AssumeRole arn:aws:iam::123456789012:role/ThirtySeven");
    stage.run(&[]).run().printed();
    stage.run(&[]).run().printed();
    assert_eq!(count(), 1);
    let info = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","spec":{"response":{"code":401}}}"#;
    stage.run(&[]).env("KUBERNETES_EXEC_INFO", info).run().printed();
    assert_eq!(count(), 2);
}

#[test]
fn pitfall_38_the_expiry_of_sso_is_in_milliseconds() {
    let mut stage = Stage::new();
    stage.config(&format!("[default]\n{}", SSO.replace("Reader", "Short")));
    stage.env("AWS_ENDPOINT_URL_SSO", "{standIn}");
    stage.sso_token("https://sso.example/start", "sso-token", "2099-01-01T00:00:00Z", "");
    let left = expiry(stage.run(&[]).run()) - now();
    assert!((200..=300).contains(&left), "{left}");
}
