//! Command lines of kubelogin.

use std::{fs, os::unix::fs::symlink, process::Command};

use keyward_testing::authority::Authority;
use serde_json::json;

use super::{
    judge::Judge,
    liar::{Liar, Lies},
    stage::Stage,
};

/// The flags that kubelogin's page of usage lists for `get-token`, each with a value.
const DOCUMENTED: &[(&str, Option<&str>)] = &[
    ("--oidc-issuer-url=http://127.0.0.1:1", None),
    ("--oidc-client-id=kubernetes", None),
    ("--oidc-client-secret=secret", None),
    ("--oidc-redirect-url=http://localhost:8000", None),
    ("--oidc-extra-scope=email,profile", None),
    ("--oidc-use-access-token", None),
    ("--oidc-request-header=Origin=localhost", None),
    ("--force-refresh", None),
    ("--token-cache-dir=/tmp", None),
    ("--token-cache-storage=keyring", None),
    ("--certificate-authority-data=", None),
    ("--insecure-skip-tls-verify", None),
    ("--tls-renegotiation-once", Some("rustls never renegotiates")),
    ("--tls-renegotiation-freely", Some("rustls never renegotiates")),
    ("--oidc-pkce-method=auto", None),
    ("--oidc-pkce-method=no", None),
    ("--oidc-pkce-method=S256", None),
    ("--oidc-pkce-method=plain", Some("is auto, no or S256")),
    ("--grant-type=auto", None),
    ("--grant-type=authcode", None),
    ("--grant-type=authcode-keyboard", None),
    ("--grant-type=password", None),
    ("--grant-type=device-code", None),
    ("--grant-type=client-credentials", None),
    ("--grant-type=implicit", Some("`--grant-type` is auto, authcode")),
    ("--listen-address=127.0.0.1:8000,127.0.0.1:18000", None),
    ("--skip-open-browser", None),
    ("--browser-command=google-chrome", None),
    ("--authentication-timeout-sec=180", None),
    ("--authentication-timeout-sec=soon", Some("is a number of seconds")),
    ("--open-url-after-authentication=https://example.com/", None),
    ("--oidc-auth-request-extra-params=ttl=86400", None),
    ("--username=ann", None),
    ("--password=secret", None),
    ("--add_dir_header", None),
    ("--alsologtostderr", None),
    ("--log_backtrace_at=:0", None),
    ("--log_dir=/tmp", None),
    ("--log_file=/tmp/log", None),
    ("--log_file_max_size=1800", None),
    ("--logtostderr=true", None),
    ("--one_output", None),
    ("--skip_headers", None),
    ("--skip_log_headers", None),
    ("--stderrthreshold=2", None),
    ("-v1", None),
    ("--v=1", None),
    ("--vmodule=a=1", None),
    ("--kubeconfig=/tmp/config", Some("writes tokens into the kubeconfig")),
    ("--context=a", Some("writes tokens into the kubeconfig")),
    ("--user=a", Some("writes tokens into the kubeconfig")),
    ("--server-id=a", Some("Azure/kubelogin")),
];

/// Every flag is accepted, so that the refused connection is what remains to complain about, or refused with a
/// reason.
#[test]
fn the_words_of_kubectl_oidc_login_are_accepted() {
    let stage = Stage::new();
    let check =
        ["oidc-login", "get-token", "--oidc-issuer-url=https://idp.example", "--check-arguments"];
    let checked = stage.run(&check);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), ""), "{checked:?}");
    let unknown =
        stage.run(&["oidc-login", "get-token", "--oidc-isuer-url=a", "--check-arguments"]);
    assert!(unknown.refusal(2).contains("there is `--oidc-issuer-url`"), "{unknown:?}");
}

#[test]
fn every_documented_flag_is_accepted_or_refused_with_a_reason() {
    let stage = Stage::new().named("kubectl-oidc_login");
    let files = ["--certificate-authority", "--local-server-cert", "--local-server-key"];
    for (flag, reason) in DOCUMENTED {
        let base = [
            "get-token",
            "--oidc-issuer-url=http://127.0.0.1:1",
            "--oidc-client-id=kubernetes",
            "--oidc-client-secret=secret",
            "--oidc-redirect-url=http://localhost:8000",
        ];
        let outcome = stage.run(&[&base[..], &[flag]].concat());
        let expected = reason.unwrap_or("the provider `http://127.0.0.1:1` cannot be asked");
        assert!(outcome.stderr.contains(expected), "`{flag}`: {}", outcome.stderr);
        assert_eq!(
            outcome.code,
            Some(if reason.is_some() { 2 } else { 1 }),
            "`{flag}`: {}",
            outcome.stderr
        );
    }
    for flag in files {
        let flag = format!("{flag}=~/none");
        let outcome = stage.run(&[
            "get-token",
            "--oidc-issuer-url=http://127.0.0.1:1",
            "--oidc-client-id=a",
            &flag,
        ]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains("none") || outcome.stderr.contains("needs"), "{outcome:?}");
    }
    let unknown = stage.run(&["get-token", "--oidc-isuer-url=a"]);
    assert!(unknown.refusal(2).contains("there is `--oidc-issuer-url`"), "{unknown:?}");
}

#[test]
fn the_settings_of_the_auth_provider_are_accepted_under_their_own_names() {
    let stage = Stage::new();
    let outcome = stage.run(&[
        "--idp-issuer-url=http://127.0.0.1:1",
        "--client-id=kubernetes",
        "--client-secret=secret",
        "--extra-scopes=email,groups",
        "--idp-certificate-authority-data=",
    ]);
    assert!(
        outcome.refusal(1).contains("the provider `http://127.0.0.1:1` cannot be asked"),
        "{outcome:?}"
    );
}

#[test]
fn other_commands_of_kubelogin_answer() {
    let stage = Stage::new().named("kubelogin");
    let version = stage.run(&["version"]);
    assert!(version.stdout.starts_with("keyward-oidc "), "{version:?}");
    let alone = stage.run(&[]);
    assert!(alone.refusal(2).contains("writes tokens into the kubeconfig"), "{alone:?}");
    let help = stage.run(&["get-token", "--help"]);
    assert!(help.stdout.contains("--oidc-issuer-url URL"), "{help:?}");
    let missing = stage.run(&["get-token", "--oidc-client-id=a"]);
    assert!(missing.refusal(2).contains("`--oidc-issuer-url` is missing"), "{missing:?}");
    let other = stage.run(&["whoami"]);
    assert!(other.refusal(2).contains("there is no command `whoami`"), "{other:?}");
}

#[test]
fn setup_logs_in_and_shows_the_entry_of_the_kubeconfig() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::new().named("kubectl-oidc_login");
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let outcome = stage.run(&[
        "setup",
        &issuer,
        "--oidc-client-id=tester",
        "--listen-address=127.0.0.1:0",
        &stage.browser(),
    ]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for text in [
        "You are logged in as `ann`",
        &format!("{}#ann", liar.issuer),
        "kubectl config set-credentials oidc",
    ] {
        assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
    }
}

#[test]
fn kubectl_works_with_kubelogins_entry_and_only_our_links_on_its_path() {
    let stage = Stage::new();
    let authority = Authority::new("ca").unwrap();
    let server = authority.server(&["127.0.0.1"]).unwrap();
    let ca = stage.write("ca.pem", authority.pem());
    let judge = Judge::start(&json!({ "tls": {
        "cert": stage.write("s.pem", server.certificate_pem()), "key": stage.write("s.key", server.key_pem()),
    } }));
    for command in ["kubectl\n      args: [oidc-login, ", "kubelogin\n      args: ["] {
        let stage = Stage::new();
        let links = stage.path("links");
        fs::create_dir(&links).unwrap();
        let install = Command::new(env!("CARGO_BIN_EXE_keyward-providers"))
            .args(["install", "--drop-in"])
            .arg(&links)
            .output()
            .unwrap();
        assert!(install.status.success(), "{install:?}");
        symlink(&keyward_testing::kubectl::installed().path, links.join("kubectl")).unwrap();
        let config = stage.write(
            "config",
            &format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster:\n    \
                 server: {issuer}\n    certificate-authority: {ca}\ncontexts:\n- name: a\n  context: {{cluster: a, user: a}}\nusers:\n- name: a\n  \
                 user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      interactiveMode: IfAvailable\n      \
                 command: {command}get-token, --oidc-issuer-url={issuer}, --oidc-client-id=public, --certificate-authority={ca}, \
                 \"--listen-address=127.0.0.1:0\", \"{browser}\"]\n",
                issuer = judge.issuer,
                browser = stage.browser(),
            ),
        );
        let path = format!("{}:/usr/bin:/bin", links.display());
        let output = Command::new(links.join("kubectl"))
            .args(["get", "--raw", "/version"])
            .env_clear()
            .envs(stage.environment())
            .env_remove("KUBERNETES_EXEC_INFO")
            .envs([("PATH", path), ("KUBECONFIG", config)])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "{}", "{output:?}");
        assert_eq!(judge.events(), ["page", "grant authorization_code", "version with a token"]);
    }
}
