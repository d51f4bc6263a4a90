//! `keyward wrap` and `keyward unwrap` on real files, with the real kubectl as the reader.

use std::{fs, path::PathBuf, process::Command};

use crate::stage::{Ran, Run, Stage, config, exec, gives};

const KUBERC: &str = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";

/// A stage with a plugin, and something in the place of `keyward-exec` that only runs what follows.
fn stage(kubeconfig: &str) -> Stage {
    let stage = Stage::new();
    stage.plugin("p", &format!("echo run >> $STAGE/runs; {}", gives("t0ken")));
    stage.plugin("keyward-exec", "shift; exec \"$@\"");
    stage.kubeconfig(kubeconfig);
    stage
}

impl Stage {
    fn wrap(&self, more: &str) -> Ran {
        let wrapper = self.path("bin/keyward-exec");
        self.run(&format!("wrap --wrapper {} {more}", wrapper.display()))
    }

    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("home/.config/keyward/entries"));
        entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }
}

#[test]
fn a_wrapped_kubeconfig_works_and_comes_back_byte_for_byte() {
    let text = exec("p # mine").replace('\n', "\r\n");
    let stage = stage(&text);
    let before = stage.run("credential").good().to_owned();
    assert!(stage.wrap("").good().contains("wrapped `u`"));
    let wrapped = stage.read("home/.kube/config");
    assert!(wrapped.contains("bin/keyward-exec # mine\r\n"), "{wrapped}");
    assert_eq!(stage.entries().len(), 1);
    assert_eq!(stage.run("credential").good(), before);
    assert!(stage.wrap("").good().contains("already wrapped: `u`"));
    assert_eq!(stage.read("home/.kube/config"), wrapped);
    assert!(stage.run("unwrap").good().contains("restored `u`"));
    assert_eq!(stage.read("home/.kube/config"), text);
    assert_eq!(stage.entries().len(), 0);
    assert_eq!(stage.run("unwrap --all").good(), "nothing is wrapped\n");
}

#[test]
fn kubectl_reads_the_same_but_for_the_command() {
    let stage = stage(&config(
        "
      exec:
        apiVersion: client.authentication.k8s.io/v1
        args: ['a: b', \"c\\n\", # odd
          d]
        env: [{name: A, value: s3cr3t}]
        command: >-
          p
        interactiveMode: Never",
    ));
    let view = || {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["config", "view", "--raw", "-o", "json"]).env("HOME", stage.path("home"));
        let ran = kubectl.env_remove("KUBECONFIG").output();
        let out = ran.expect("kubectl is missing: Debian package kubernetes-client").stdout;
        serde_json::from_slice::<serde_json::Value>(&out).unwrap()
    };
    let mut before = view();
    stage.wrap("").good();
    let mut after = view();
    let stanza = |view: &mut serde_json::Value| view["users"][0]["user"]["exec"].take();
    let (own, mut new) = (stanza(&mut before), stanza(&mut after));
    assert_eq!(before, after);
    assert_eq!(new["command"], stage.path("bin/keyward-exec").display().to_string());
    assert_eq!(new["args"], serde_json::json!(["--", "p", "a: b", "c\n", "d"]));
    assert!(new["installHint"].as_str().unwrap().contains("keyward unwrap"));
    for key in ["command", "args", "installHint"] {
        new[key] = own[key].clone();
    }
    assert_eq!(own.to_string(), new.to_string().replace("\"installHint\":null,", ""));
}

#[test]
fn the_policy_judges_the_plugin_and_not_its_wrapper() {
    let stage = stage(&exec("p"));
    stage.wrap("").good();
    let list = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: ";
    stage.write("home/.kube/kuberc", &format!("{KUBERC}{list}keyward-exec\n"));
    let refused = stage.run("credential");
    assert!(refused.bad(4).contains("`p`"), "{refused:?}");
    assert!(!stage.path("runs").exists(), "the plugin ran behind the back of the policy");
    stage.write("home/.kube/kuberc", &format!("{KUBERC}{list}p\n"));
    stage.run("credential").good();
}

#[test]
fn a_policy_that_would_stop_kubectl_is_told_before_anything_changes() {
    let stage = stage(&exec("p"));
    let list = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: p\n";
    stage.write("home/.kube/kuberc", &format!("{KUBERC}{list}"));
    let refused = stage.wrap("");
    let told = stage.steady(refused.bad(4));
    assert!(told.contains("- command: [STAGE]/bin/keyward-exec"), "{told}");
    assert_eq!(stage.read("home/.kube/config"), exec("p"));
    assert!(stage.entries().is_empty());
}

#[test]
fn what_cannot_be_spliced_is_refused_with_its_line() {
    let text = exec("p").replace("exec:\n", "exec:\n        <<: {command: p}\n");
    let text = text.replace("        command: p\n", "");
    let stage = stage(&text);
    let refused = stage.wrap("");
    let told = refused.bad(1);
    assert!(told.contains("line 11") && told.contains("`u`"), "{told}");
    assert_eq!(stage.read("home/.kube/config"), text);
}

#[test]
fn a_dry_run_shows_the_change_and_no_secret() {
    let text = config("      exec: {command: p, env: [{name: A, value: canary}]}");
    let stage = stage(&text);
    let told = stage.wrap("--dry-run").good().to_owned();
    assert!(told.contains("keyward-exec") && told.contains("line 13"), "{told}");
    assert!(!told.contains("canary"), "{told}");
    assert_eq!(stage.read("home/.kube/config"), text);
    assert!(stage.entries().is_empty());
}

#[test]
fn an_overlay_leaves_the_kubeconfig_alone() {
    let stage = stage(&exec("p"));
    let overlay = stage.path("home/overlay.json");
    let told = stage.wrap(&format!("--overlay {}", overlay.display())).good().to_owned();
    assert!(told.contains("export KUBECONFIG="), "{told}");
    assert_eq!(stage.read("home/.kube/config"), exec("p"));
    let list = format!("{}:{}", overlay.display(), stage.path("home/.kube/config").display());
    let plan = stage.command(["credential"]).env("KUBECONFIG", &list).ran();
    plan.good();
    assert!(stage.read("home/overlay.json").contains("keyward-exec"));
    assert_eq!(stage.entries().len(), 1);
}

#[test]
fn only_the_asked_users_are_wrapped() {
    let text =
        exec("p").replace("users:\n", "users:\n- {name: other, user: {exec: {command: p}}}\n");
    let text = text.replace("contexts:\n", "contexts:\n- {name: there, context: {user: other}}\n");
    let stage = stage(&text);
    assert!(stage.wrap("--context there").good().contains("wrapped `other`"));
    assert!(stage.wrap("--context nowhere").bad(2).contains("`nowhere`"));
    assert!(stage.wrap("--all").good().contains("already wrapped: `other`"));
    assert_eq!(stage.entries().len(), 2);
    assert!(stage.run("unwrap --all").good().contains("restored `other`, `u`"));
    assert_eq!(stage.read("home/.kube/config"), text);
}

#[test]
fn the_account_of_a_shell_can_be_pinned() {
    let text =
        exec("aws").replace("interactiveMode", "args: [eks, get-token]\n        interactiveMode");
    let stage = stage(&text);
    let wrapper = stage.path("bin/keyward-exec").display().to_string();
    let mut command = stage.command(["wrap", "--pin", "--wrapper", &wrapper]);
    command.env("AWS_PROFILE", "shop").env("AWS_SECRET_ACCESS_KEY", "canary").ran().good();
    let pinned = stage.read("home/.kube/config");
    assert!(pinned.contains("\"AWS_PROFILE\", \"value\": \"shop\""), "{pinned}");
    assert!(!pinned.contains("canary"));
    stage.run("unwrap").good();
    assert_eq!(stage.read("home/.kube/config"), text);
}
