//! What a new user stumbles over, each with the whole text that the program shows: what went wrong, where,
//! and what to do next.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::Command,
    thread,
};

use keyward_testing::server::{Server, User};
use serde_json::json;

use crate::stage::{Run, Stage, config, exec, gives};

/// A command line, its exit code and all it writes to stderr.
type Row<'a> = (&'a str, i32, &'a str);

/// Compares the stderr of each row, with `[STAGE]` for the test's directory.
fn check(stage: &Stage, rows: &[Row<'_>]) {
    for (line, code, expected) in rows {
        let ran = stage.run(line);
        assert_eq!(ran.code, Some(*code), "`keyward {line}`: {ran:#?}");
        assert_eq!(stage.steady(&ran.stderr), *expected, "`keyward {line}`");
    }
}

#[test]
fn a_mistyped_name_gets_the_closest_one() {
    let stage = Stage::new();
    let many = |kind: &str, name: &str, value: &str| {
        let entries = (0..300).map(|n| format!("- {{name: {name}-{n}, {kind}: {value}}}\n"));
        entries.collect::<String>()
    };
    stage.kubeconfig(&format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: prod-cluster-1\ncontexts:\n{}\
         - {{name: broken, context: {{cluster: tst-1, user: ann-1}}}}\nclusters:\n{}users:\n{}",
        many("context", "prod-cluster", "{cluster: test-1, user: ann-1}"),
        many("cluster", "test", "{server: 'https://localhost:1'}"),
        many("user", "ann", "{token: t}"),
    ));
    check(
        &stage,
        &[
            (
                "credential --context prod-clster-250",
                1,
                "error: there is no context `prod-clster-250`\n\n\
                 hint: did you mean `prod-cluster-250`?\n",
            ),
            (
                "credential --user anne-17",
                1,
                "error: there is no user `anne-17`\n\nhint: did you mean `ann-17`?\n",
            ),
            (
                "credential --cluster Test-17",
                1,
                "error: there is no cluster `Test-17`\n\nhint: did you mean `test-17`?\n",
            ),
            (
                "credential --user minikube",
                1,
                "error: there is no user `minikube`\n\n\
                 hint: choose a user with `--user`: `ann-0`, `ann-1`, `ann-2`, `ann-3`, `ann-4`, `ann-5`, \
                 `ann-6`, `ann-7`, `ann-8`, `ann-9`, and 290 more\n",
            ),
            (
                "credential --context broken",
                1,
                "error: context `broken`: names the cluster `tst-1`, which does not exist or says \
                 nothing (`[STAGE]/home/.kube/config`, line 305)\n\nhint: did you mean `test-1`?\n",
            ),
            (
                "credential --contxt x",
                2,
                "error: unexpected argument '--contxt' found\n\n  \
                 tip: a similar argument exists: '--context'\n\n\
                 Usage: keyward credential --context <NAME>\n\n\
                 For more information, try '--help'.\n",
            ),
            (
                "credental",
                2,
                "error: unrecognized subcommand 'credental'\n\n  \
                 tip: a similar subcommand exists: 'credential'\n\n\
                 Usage: keyward [OPTIONS] <COMMAND>\n\n\
                 For more information, try '--help'.\n",
            ),
        ],
    );
}

#[test]
fn get_says_what_to_use_instead_of_what_kubectl_would_be_given() {
    let stage = Stage::new();
    let resources = |words: &str| {
        format!(
            "error: `keyward get` gets paths, not resources such as `pods`\n\n\
             hint: kubectl gets resources with Keyward's credentials: `keyward proxy -- kubectl get \
             {words}`, or `keyward wrap` once and then `kubectl get {words}`\n"
        )
    };
    check(
        &stage,
        &[
            (
                "get /version",
                2,
                "error: the path `/version` needs `--raw` in front of it\n\n\
                 hint: keyward get --raw /version\n",
            ),
            ("get pods", 2, &resources("pods")),
            ("get pods web-0 -A", 2, &resources("pods web-0 -A")),
        ],
    );
}

#[test]
fn a_file_that_is_no_kubeconfig_is_named_with_what_is_wrong() {
    let stage = Stage::new();
    stage.write("text", "just a text\n");
    stage.write("tab", "apiVersion: v1\nkind: Config\n\tclusters: []\n");
    std::fs::create_dir(stage.path("directory")).unwrap();
    check(
        &stage,
        &[
            (
                "credential --kubeconfig text",
                1,
                "error: the kubeconfig must be a mapping, not a text (`text`, line 1)\n",
            ),
            (
                "credential --kubeconfig directory",
                1,
                "error: the kubeconfig cannot be read: is a directory (`directory`)\n",
            ),
            (
                "credential --kubeconfig tab",
                1,
                "error: not a kubeconfig: a tab stands where indentation is expected (`tab`, line 3)\n",
            ),
        ],
    );
}

#[test]
fn a_missing_file_is_always_told_in_the_same_words() {
    let stage = Stage::new();
    stage.plugin("p", &gives("t"));
    stage.kubeconfig(&exec("p"));
    check(
        &stage,
        &[
            (
                "credential --kubeconfig nowhere",
                1,
                "error: there is no such kubeconfig file (`nowhere`)\n",
            ),
            (
                "credential --certificate-authority nowhere",
                1,
                "error: `--certificate-authority` cannot be read: `nowhere`: no such file or \
                 directory\n",
            ),
            (
                "credential --client-certificate nowhere --client-key nowhere",
                1,
                "error: there are 2 problems\n  \
                 problem: `--client-certificate` cannot be read: `nowhere`: no such file or directory\n  \
                 problem: `--client-key` cannot be read: `nowhere`: no such file or directory\n",
            ),
            ("credential --kuberc nowhere", 1, "error: kuberc `nowhere` does not exist\n"),
            (
                "plugin test --answers nowhere -- p",
                1,
                "error: `nowhere` could not be read\n  because: no such file or directory\n",
            ),
            (
                "image credentials --config nowhere r.io/app",
                1,
                "error: the configuration cannot be read: no such file or directory (`nowhere`)\n",
            ),
        ],
    );
}

#[test]
fn an_unknown_version_and_a_missing_mode_are_told_together() {
    let stage = Stage::new();
    stage.kubeconfig(&exec("p").replace("k8s.io/v1", "k8s.io/v7").replace("interactiveMode", "x"));
    check(
        &stage,
        &[(
            "credential",
            1,
            "error: user `u`: `exec.interactiveMode` is missing: `Never`, `IfAvailable` or `Always`; \
             and `exec.apiVersion` is `client.authentication.k8s.io/v7`, a version nobody speaks \
             (`[STAGE]/home/.kube/config`, line 13)\n",
        )],
    );
}

#[test]
fn a_pem_in_base64_is_told_as_such() {
    let stage = Stage::new();
    let server = Server::setup().start().unwrap();
    stage.write("ca.pem", server.authority().pem());
    stage.plugin(
        "p",
        r#"pem=$(base64 < $STAGE/ca.pem | tr -d '\n')
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"clientCertificateData":"%s","clientKeyData":"%s"}}' "$pem" "$pem""#,
    );
    stage.kubeconfig(&exec("p"));
    check(
        &stage,
        &[(
            "credential",
            1,
            "error: plugin `p` answered a certificate and a key that are not a pair\n  \
             needed by: user `u` in `[STAGE]/home/.kube/config`, line 11\n  \
             because: the certificate is a PEM in base64: give the PEM itself\n",
        )],
    );
}

#[test]
fn a_credential_that_had_expired_says_by_how_much() {
    let stage = Stage::new();
    stage.plugin(
        "p",
        r#"echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t","expirationTimestamp":"2001-02-03T04:05:06Z"}}'"#,
    );
    stage.kubeconfig(&exec("p"));
    let ran = stage.run("credential");
    ran.good();
    let (before, rest) = ran.stderr.split_once(" expired ").unwrap();
    assert_eq!(
        stage.steady(before),
        "warning: plugin `p` of user `u` in `[STAGE]/home/.kube/config`, line 11 answered a credential \
         that had"
    );
    let (ago, rest) = rest.split_once(' ').unwrap();
    assert!(ago.contains('h') && ago.ends_with('s') && !ago.contains('.'), "{ago}");
    assert_eq!(
        rest,
        "before: check this machine's clock and that of whoever issued it; the credential is used for \
         1 s nevertheless\n"
    );
}

#[test]
fn a_refused_credential_is_named_with_user_plugin_and_renewal() {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    let plugin = stage.plugin("p", &gives("unknown"));
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin,
        "interactiveMode": "Never",
    } });
    stage.kubeconfig(&server.kubeconfig(&user));
    let ran = stage.run("get --raw /healthz");
    let text = stage.steady(ran.bad(1));
    let place = text.lines().find(|line| line.starts_with("  refused is: ")).unwrap();
    assert!(
        place.contains("user `") && place.contains("[STAGE]/home/.kube/config`, line "),
        "{text}"
    );
    for words in [
        "error: the server answered 401 Unauthorized\n",
        "  renewal: plugin `[STAGE]/bin/p` was run again, which did not help\n",
        "\nhint: the server does not accept the plugin's credential: check the account it is logged in \
         with; `keyward plan` shows what it is told\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn an_authority_that_did_not_sign_the_server_is_shown_next_to_what_the_server_showed() {
    let stage = Stage::new();
    let server = Server::setup().start().unwrap();
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    server.users().token("good", User::new("anna"));
    stage.write("other.pem", &other.cert.pem());
    stage.kubeconfig(&server.kubeconfig(&json!({ "token": "good" })));
    let line = "get --raw /healthz --certificate-authority other.pem";
    let ran = stage.run(line);
    let text = ran.bad(1);
    for words in [
        "error: the TLS handshake with `https://",
        "  cause: the server's certificate is signed by none of the trusted authorities\n",
        "  cause: the server showed `",
        ", signed by `",
        ", valid from ",
        "  cause: trusted is `",
        ", from `--certificate-authority` `other.pem`\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn plain_http_in_place_of_tls_is_told_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut hello = [0; 64];
        let _ = client.read(&mut hello);
        client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let stage = Stage::new();
    stage.kubeconfig(&config("      token: s3cr3t"));
    let ran = stage.run(&format!("get --raw /version --server https://{address}"));
    server.join().unwrap();
    let first = format!(
        "error: `https://{address}` does not answer in TLS: if it serves plain HTTP, its URL is \
         `http://{address}`\n"
    );
    assert!(ran.bad(1).starts_with(&first), "{ran:?}");
}

#[test]
fn tls_in_place_of_plain_http_is_told_as_such() {
    let stage = Stage::new();
    stage.kubeconfig(&config("      token: s3cr3t"));
    let tls = Server::setup().start().unwrap();
    // Some servers answer an alert, others end the connection: with a reset if they left something unread.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let resetting = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        client.peek(&mut [0; 8]).unwrap();
    });
    for (address, what) in
        [(tls.address(), "does not answer in HTTP"), (resetting, "hung up without an answer")]
    {
        let ran = stage.run(&format!("get --raw /version --server http://{address}"));
        let error = format!(
            "error: `http://{address}` {what}: if it serves TLS, its URL is `https://{address}`\n"
        );
        let warning = format!(
            "warning: `--server` `http://{address}` is not HTTPS: the credentials of user `u` are not \
             sent\n"
        );
        assert!(ran.bad(1).starts_with(&(warning + &error)), "{ran:?}");
    }
    server.join().unwrap();
}

#[test]
fn arguments_that_select_something_are_shown() {
    let stage = Stage::new();
    stage.plugin("aws", "exit 1");
    let args = "args: [--region, eu-west-1, eks, get-token, --cluster-name, prod, --profile=dev, \
                --client-secret, hush, --session-token=hush]";
    let exec = exec("aws").replace("command: aws", &format!("command: aws\n        {args}"));
    stage.kubeconfig(&exec);
    let ran = stage.run("plan");
    let shown = "  arguments    --region eu-west-1 eks get-token --cluster-name prod --profile=dev \
                 --client-secret [hidden] --session-token=[hidden]\n";
    assert!(ran.good().contains(shown), "{}", ran.stdout);
}

#[test]
fn help_has_every_exit_code_and_the_flags_that_apply() {
    let stage = Stage::new();
    let help = stage.run("--help");
    for code in ["0", "1", "2", "3", "4", "7", "126", "127"] {
        let line =
            |line: &str| line.strip_prefix("  ").is_some_and(|l| l.split(' ').next() == Some(code));
        assert!(help.good().lines().any(line), "{code}: {}", help.stdout);
    }
    for line in ["completions --help", "demo --help", "version --help", "help help"] {
        let ran = stage.run(line);
        for flag in ["--context", "--token", "--plugin-timeout"] {
            assert!(!ran.good().contains(flag), "`keyward {line}`: {}", ran.stdout);
        }
    }
    assert_eq!(stage.run("help plan").good(), stage.run("plan --help").good());
    assert_eq!(stage.run("help").good(), help.good());
}

#[test]
fn a_findings_place_is_that_of_the_pattern_and_a_file_is_blamed_once() {
    let stage = Stage::new();
    for name in ["one", "two"] {
        stage.plugin(name, "exit 0");
    }
    let provider = |name: &str, pattern: &str| {
        format!(
            "- name: {name}\n  matchImages:\n  - r.io\n  - {pattern}\n  defaultCacheDuration: 10m\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1beta1\n"
        )
    };
    let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n";
    let providers = provider("one", "https://r.io") + &provider("two", "s.io");
    stage.write("providers.yaml", &format!("{head}{providers}"));
    let line = "image lint --config providers.yaml --bin-dir bin --kubelet 1.24";
    let ran = stage.run(line);
    let findings: Vec<_> = ran.stdout.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(
        findings,
        [
            "error: one: `https://r.io` begins with a scheme and never matches: write only the registry \
             (`providers.yaml`, line 7)",
            "error: `apiVersion`: a file of `kubelet.config.k8s.io/v1` needs kubelet 1.26, which is newer \
             than 1.24 (`providers.yaml`)",
        ],
    );
    let ran = stage.run(&format!("{line} -o json"));
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        report["findings"][0],
        json!({
            "severity": "error",
            "file": "providers.yaml",
            "line": 7,
            "provider": "one",
            "field": "matchImages",
            "message": "`https://r.io` begins with a scheme and never matches: write only the registry",
        })
    );
    assert_eq!(report["findings"][1]["line"], json!(null));
}

#[test]
fn the_shell_plugin_of_the_guide_is_a_good_plugin() {
    let stage = Stage::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugin-authors.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, script) = page.split_once("```sh\n#!/bin/sh\n").expect("a shell plugin");
    let (script, _) = script.split_once("```").unwrap();
    stage.plugin("from-page", script);
    let token = stage.write("token", "t0ken\n");
    let ran = stage.command(["plugin", "test", "--", "from-page"]).env("TOKEN_FILE", token).ran();
    assert!(ran.good().contains(" 0 failed"), "{}", ran.stdout);
    let ran = Command::new(stage.path("bin/from-page")).env("TOKEN_FILE", "/no/such/file").ran();
    assert!(ran.bad(1).contains("/no/such/file"), "{ran:?}");
}
