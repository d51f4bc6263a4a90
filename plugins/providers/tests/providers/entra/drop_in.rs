//! In place of Azure/kubelogin: its flags, its name, and its entry in a kubeconfig.

use std::{fs, os::unix::fs::symlink, process::Command};

use serde_json::json;

use super::stage::{CLIENT, SERVER, TENANT, ours, stage, stand_in};
use crate::oidc::stage::Stage;

/// Every flag of `kubelogin get-token` and `convert-kubeconfig`, as their help and pages list them.
const DOCUMENTED: &[(&str, Option<&str>)] = &[
    ("--login=spn", None),
    ("--login=sms", Some("`--login` is one of devicecode, interactive")),
    ("-lspn", None),
    ("--client-id=a", None),
    ("--client-secret=a", None),
    ("--client-certificate-password=a", None),
    ("--username=a", None),
    ("--password=a", None),
    ("--identity-resource-id=a", None),
    ("--federated-token-file=a", None),
    ("--authority-host=https://127.0.0.1:1/", None),
    ("--authority-host=http://127.0.0.1:1/", Some("begins with `https://`")),
    ("--azure-pipelines-service-connection-id=a", None),
    ("--token-cache-dir=/tmp", None),
    ("--cache-dir=/tmp", None),
    ("--tenant-id=a", None),
    ("-t=a", None),
    ("--tenant-id=a/b", Some("the tenant is an ID or a domain")),
    ("--subscription=a", None),
    ("-s=a", None),
    ("--environment=AzurePublicCloud", None),
    ("-eAzureUSGovernmentCloud", None),
    ("--legacy=false", None),
    ("--legacy", Some("legacy integration")),
    ("--use-azurerm-env-vars", None),
    ("--pop-enabled=false", None),
    ("--pop-enabled", Some("proof-of-possession")),
    ("--pop-claims=u=/ARM/ID", Some("proof-of-possession")),
    ("--timeout=30s", None),
    ("--timeout=soon", Some("`--timeout` is a time such as `30s`")),
    ("--disable-environment-override", None),
    ("--disable-instance-discovery", None),
    ("--redirect-url=http://localhost:8400", None),
    ("--login-hint=a", None),
    ("--logtostderr", None),
    ("-v9", None),
    ("--v=9", None),
    ("--kubeconfig=/tmp/a", Some("keyward wrap --native")),
    ("--context=a", Some("keyward wrap --native")),
    ("--azure-config-dir=/tmp", Some("keyward wrap --native")),
];

/// Every flag is accepted, so that the refused connection is what remains to complain about, or refused with a
/// reason.
#[test]
fn every_documented_flag_is_accepted_or_refused_with_a_reason() {
    let stage = stage().named("kubelogin");
    for (flag, reason) in DOCUMENTED {
        let base = [
            "get-token",
            "--server-id=a",
            "--login=spn",
            "--tenant-id=t",
            "--client-id=c",
            "--client-secret=s",
            "--authority-host=https://127.0.0.1:1/",
        ];
        let outcome = stage.run(&[&base[..], &[flag]].concat());
        let expected = reason.unwrap_or("cannot use `https://127.0.0.1:1/");
        assert!(outcome.stderr.contains(expected), "`{flag}`: {}", outcome.stderr);
        let code = if reason.is_some() { 2 } else { 1 };
        assert_eq!(outcome.code, Some(code), "`{flag}`: {}", outcome.stderr);
    }
    let unknown = stage.run(&["get-token", "--server-di=a", "--login=spn"]);
    assert!(unknown.refusal(2).contains("there is `--server-id`"), "{unknown:?}");
    let cloud = ["get-token", "--server-id=a", "--login=spn", "--environment=AzureStackCloud"];
    assert!(stage.run(&cloud).refusal(2).contains("--authority-host"));
    let certificate =
        ["get-token", "--server-id=a", "--login=spn", "--tenant-id=t", "--client-id=c"];
    let outcome = stage.run(&[&certificate[..], &["--client-certificate=/none"]].concat());
    assert!(outcome.refusal(2).contains("the certificate `/none`: cannot be read"), "{outcome:?}");
}

/// Variables win over flags, `AZURE_` over `AAD_`, unless that is turned off.
#[test]
fn every_variable_of_kubelogin_wins_over_its_flag() {
    let flags = ["--client-id=f", "--client-secret=f"];
    let plain = ours(&stage(), "spn", &flags).token();
    for (first, second) in [
        ("AAD_SERVICE_PRINCIPAL_CLIENT_ID", "AZURE_CLIENT_ID"),
        ("AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", "AZURE_CLIENT_SECRET"),
        ("AZURE_TENANT_ID", "AZURE_TENANT_ID"),
    ] {
        let old = ours(&stage().variable(first, "e"), "spn", &flags).token();
        assert_ne!(old, plain, "{first}");
        let both = stage().variable(first, "x").variable(second, "e");
        assert_eq!(ours(&both, "spn", &flags).token(), old, "{second}");
        let off = [&flags[..], &["--disable-environment-override"]].concat();
        assert_eq!(ours(&both, "spn", &off).token(), plain, "{first}");
    }
    for (old, new) in [
        ("AAD_USER_PRINCIPAL_NAME", "AZURE_USERNAME"),
        ("AAD_USER_PRINCIPAL_PASSWORD", "AZURE_PASSWORD"),
    ] {
        let flags = ["--client-id=f", "--username=f", "--password=f"];
        let plain = ours(&stage(), "ropc", &flags).token();
        for name in [old, new] {
            assert_ne!(ours(&stage().variable(name, "e"), "ropc", &flags).token(), plain, "{name}");
        }
    }
    let method = stage().variable("AAD_LOGIN_METHOD", "spn");
    assert_eq!(ours(&method, "devicecode", &flags).token(), plain);
    let certificate = stage().variable("AZURE_CLIENT_CERTIFICATE_PATH", "/none");
    assert!(ours(&certificate, "spn", &flags).refusal(2).contains("/none"));
}

#[test]
fn kubelogin_is_told_apart_by_its_flags() {
    let stage = Stage::new().named("kubelogin");
    let int128 =
        stage.run(&["get-token", "--oidc-issuer-url=http://127.0.0.1:1", "--oidc-client-id=a"]);
    assert!(
        int128.refusal(1).contains("the provider `http://127.0.0.1:1` cannot be asked"),
        "{int128:?}"
    );
    let azure = stage.run(&["get-token", "--server-id=a", "--login", "msi", "--tenant-id=/"]);
    assert!(!azure.stderr.contains("oidc"), "{azure:?}");
    let neither = stage.run(&["get-token"]);
    let why = neither.refusal(2);
    assert!(why.contains("--oidc-issuer-url") && why.contains("--server-id"), "{why}");
    for (command, hint) in [
        ("convert-kubeconfig", "keyward wrap --native"),
        ("remove-cache-dir", "keyward logout --all"),
        ("remove-tokens", "keyward logout --all"),
    ] {
        assert!(stage.run(&[command]).refusal(2).contains(hint), "{command}");
    }
    let help = Stage::new().named("keyward-entra").run(&["--help"]);
    assert!(help.stdout.contains("Usage: keyward-entra"), "{help:?}");
    let version = Stage::new().named("keyward-entra").run(&["version"]);
    assert!(version.stdout.starts_with("keyward-entra "), "{version:?}");
}

#[test]
fn kubectl_works_with_kubelogins_entries_and_only_our_links_on_its_path() {
    let server = stand_in();
    // As `az aks get-credentials --format exec` and `kubelogin convert-kubeconfig` write them, with the stand-in.
    let entries = [
        format!(
            "[get-token, --environment, AzurePublicCloud, --server-id, {SERVER}, --client-id, {CLIENT}, --tenant-id, {TENANT}, --login, devicecode"
        ),
        format!(
            "[get-token, --login, spn, --environment, AzurePublicCloud, --tenant-id, {TENANT}, --server-id, {SERVER}, --client-id, app, --client-secret, s"
        ),
        format!("[get-token, --login, msi, --server-id, {SERVER}"),
    ];
    for (number, entry) in entries.iter().enumerate() {
        for version in ["v1beta1", "v1"] {
            let stage = stage().interactive();
            let links = stage.path("links");
            fs::create_dir(&links).unwrap();
            let install = Command::new(env!("CARGO_BIN_EXE_keyward-providers"))
                .args(["install", "--drop-in"])
                .arg(&links)
                .output()
                .unwrap();
            assert!(install.status.success(), "{install:?}");
            symlink(&keyward_testing::kubectl::installed().path, links.join("kubectl")).unwrap();
            let path = format!("/kube/{number}{version}");
            let config = stage.write(
                "config",
                &format!(
                    "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster:\n    \
                     server: {https}\n    certificate-authority: {ca}\ncontexts:\n- name: a\n  context: {{cluster: a, user: a}}\n\
                     users:\n- name: a\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/{version}\n      \
                     command: kubelogin\n      args: {entry}, --authority-host, \"{https}/\"]\n      env: null\n      \
                     interactiveMode: IfAvailable\n      provideClusterInfo: false\n",
                    https = server.https,
                    ca = server.ca,
                ),
            );
            let output = Command::new(links.join("kubectl"))
                .args(["get", "--raw", &path])
                .env_clear()
                .envs(stage.environment())
                .env_remove("KUBERNETES_EXEC_INFO")
                .env("AZURE_POD_IDENTITY_AUTHORITY_HOST", &server.http)
                // No terminal, but a screen: a device code is shown in a browser.
                .env("BROWSER", "/bin/true")
                .envs([("PATH", links.to_str().unwrap()), ("KUBECONFIG", &config)])
                .output()
                .unwrap();
            assert!(output.status.success(), "{entry}: {output:?}");
            let said = server.judge().ask(&json!({"operation": "bearer", "path": path}));
            let bearer = said["bearer"].as_str().unwrap();
            let expected = if number == 2 { "Bearer machine-" } else { "Bearer entra-" };
            assert!(bearer.starts_with(expected), "{entry}: {bearer}");
        }
    }
}
