//! What a person sees in kubectl when something is wrong: at most three lines, with the reason.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    path::Path,
    thread,
};

use serde_json::{Value, json};

use super::stage::{Stage, eventually};

const LINES: usize = 3;

fn plugin(script: &str) -> Value {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "sh", "args": ["-c", script],
    });
    json!({ "exec": exec })
}

fn answer(status: &Value) -> Value {
    let answer = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
    });
    plugin(&format!("echo '{answer}'"))
}

/// Users that do not work, by the name of their context.
fn users() -> Vec<(&'static str, Value)> {
    let mut unknown = plugin("");
    unknown["exec"]["command"] = "no-such-plugin".into();
    unknown["exec"]["installHint"] = "get it from example.org".into();
    let mut attended = plugin("");
    attended["exec"]["interactiveMode"] = "Always".into();
    let failing = "echo 'Unable to locate credentials.' >&2; echo 'Run: cloud login' >&2; exit 255";
    vec![
        ("plugin-missing", unknown),
        ("plugin-fails", plugin(failing)),
        ("plugin-fails-silently", plugin("exit 3")),
        ("plugin-killed", plugin("kill -9 $$")),
        ("plugin-prints-nothing", plugin("true")),
        ("plugin-prints-a-page", plugin("echo '<html>please log in</html>'")),
        ("plugin-has-no-credential", answer(&json!({}))),
        (
            "plugin-in-another-version",
            plugin(
                r#"echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"x"}}'"#,
            ),
        ),
        ("plugin-wants-a-terminal", attended),
        ("plugin-token-rejected", answer(&json!({ "token": "not-a-good-one" }))),
        ("token-rejected", json!({ "token": "not-a-good-one" })),
        ("token-file-missing", json!({ "tokenFile": "/no/such/file" })),
        (
            "certificate-missing",
            json!({
                "client-certificate": "/no/such/cert", "client-key": "/no/such/key",
            }),
        ),
        (
            "certificate-malformed",
            json!({
                "client-certificate-data": "eA==", "client-key-data": "eA==",
            }),
        ),
    ]
}

/// A server that does this with each connection.
fn server(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    format!("https://{address}")
}

/// Clusters that do not work, by the name of their context.
fn clusters() -> Vec<(&'static str, Value)> {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let plain = server(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    let silent = server(|mut stream| {
        // What is left unread would be answered with a reset.
        let _ = stream.read(&mut vec![0; 64 << 10]);
    });
    vec![
        ("server-down", json!({ "server": format!("https://{closed}") })),
        ("server-unknown", json!({ "server": "https://no-such-host.invalid" })),
        ("server-hangs-up", json!({ "server": silent })),
        ("server-without-tls", json!({ "server": plain })),
        (
            "authority-missing",
            json!({
                "server": "https://127.0.0.1:1", "certificate-authority": "/no/such/authority",
            }),
        ),
        ("server-address-malformed", json!({ "server": "https://a b" })),
    ]
}

/// Leaves out what differs each time.
fn steady(text: &str, stage: &Stage) -> String {
    let text = text.replace(stage.home.path().to_str().unwrap(), "HOME");
    let mut text = text.replace(stage.bin.to_str().unwrap(), "BIN");
    if let Some(at) = text.find("valid from ") {
        let end = text[at..].find("Z:").map_or(text.len(), |end| at + end + 1);
        text.replace_range(at..end, "valid for a while");
    }
    let mut out = String::new();
    let mut rest = text.as_str();
    // Ports and times are numbers of several digits; exit codes are shorter.
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| at + end);
        let number = &rest[at..end];
        out.push_str(if number.len() > 3 { "N" } else { number });
        rest = &rest[end..];
    }
    out + rest
}

#[test]
fn one_problem_is_at_most_three_lines_in_kubectl() {
    let mut stage = Stage::new(&["good"]);
    stage.add_server("other");
    let mut config = stage.config(&["good"]);
    let mut add = |name: &str, cluster: Option<Value>, user: Option<Value>| {
        let cluster_name = if cluster.is_some() { name } else { "good" };
        let user_name = if user.is_some() { name } else { "good" };
        let context = json!({ "cluster": cluster_name, "user": user_name });
        for (list, key, value) in [
            ("clusters", "cluster", cluster),
            ("users", "user", user),
            ("contexts", "context", Some(context)),
        ] {
            if let Some(value) = value {
                config[list].as_array_mut().unwrap().push(json!({ "name": name, key: value }));
            }
        }
    };
    let mut names: Vec<String> = Vec::new();
    for (name, user) in users() {
        add(name, None, Some(user));
        names.push(name.into());
    }
    for (name, cluster) in clusters() {
        add(name, Some(cluster), None);
        names.push(name.into());
    }
    // A server whose certificate another authority signed.
    let mut wrong = stage.config(&["other"])["clusters"][0]["cluster"].take();
    wrong["certificate-authority-data"] =
        stage.config(&["good"])["clusters"][0]["cluster"]["certificate-authority-data"].take();
    add("server-of-another-authority", Some(wrong), None);
    names.push("server-of-another-authority".into());
    config["contexts"].as_array_mut().unwrap().push(
        json!({ "name": "user-undefined", "context": { "cluster": "good", "user": "nobody" } }),
    );
    names.push("user-undefined".into());
    stage.write_own(&config.to_string());
    let kubeconfig = stage.start(&[]);

    let mut all: Vec<(String, Vec<&str>)> =
        names.iter().map(|name| (name.clone(), vec!["--context", name.as_str()])).collect();
    all.push(("impersonation".into(), vec!["--as", "somebody"]));
    all.push(("mixed-contexts".into(), vec!["--cluster", "good", "--user", "plugin-fails"]));
    let mut shown = String::new();
    for (name, args) in &all {
        // With nothing in its cache, which is where kubectl repeats itself.
        let _ = fs::remove_dir_all(stage.path(".kube/cache"));
        let mut command = stage.kubectl(&kubeconfig, args);
        let output = command.args(["get", "ns"]).output().unwrap();
        assert!(!output.status.success(), "{name}");
        let text = String::from_utf8_lossy(&output.stderr);
        let text = steady(&text, &stage);
        let _ = writeln!(shown, "# {name}\n{text}");
    }
    // One that is gone, for a client that has read the kubeconfig before.
    let copy = stage.path("copy");
    fs::copy(&kubeconfig, &copy).unwrap();
    stage.write_config(&["other"]);
    eventually("it is gone", || !fs::read_to_string(&kubeconfig).unwrap().contains("\"good\""));
    let output = stage.kubectl(&copy, &["--context", "good", "get", "ns"]).output().unwrap();
    let text = steady(&String::from_utf8_lossy(&output.stderr), &stage);
    let _ = writeln!(shown, "# context-removed\n{text}");

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/proxy-errors.txt");
    if std::env::var_os("KEYWARD_BLESS").is_some() {
        fs::write(&path, &shown).unwrap();
    }
    let kinds = shown.split("# ").skip(1).map(|kind| kind.trim_end().lines().skip(1).count());
    let kinds: Vec<usize> = kinds.collect();
    assert!(kinds.len() >= 20, "{}", kinds.len());
    assert!(kinds.iter().all(|lines| (1..=LINES).contains(lines)), "{kinds:?}\n{shown}");
    assert_eq!(shown, fs::read_to_string(&path).unwrap_or_default());
}

#[test]
fn kubectl_works_at_once_when_the_problem_is_gone() {
    let stage = Stage::new(&["east"]);
    let mut config = stage.config(&["east"]);
    let good = config["users"][0]["user"].clone();
    config["users"][0]["user"] = plugin("exit 1");
    stage.write_own(&config.to_string());
    let kubeconfig = stage.start(&[]);
    let get = || stage.kubectl(&kubeconfig, &["get", "pods", "-o", "name"]).output().unwrap();
    let output = get();
    assert!(!output.status.success());
    let groups = ".kube/cache/discovery";
    assert!(stage.path(groups).exists(), "kubectl has stored that there are no kinds");
    config["users"][0]["user"] = good;
    stage.write_own(&config.to_string());
    eventually("the user is served", || {
        stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap().status.success()
    });
    let output = get();
    assert!(output.status.success(), "{output:?}");
}
