//! One run for many: what is kept, and for whom.

use crate::stage::{Stage, exec, request, said, token};

#[test]
fn the_next_process_gets_the_credential_without_a_run() {
    for stage in [Stage::new(), Stage::unregistered()] {
        assert_eq!(stage.token(), "t0ken");
        assert_eq!(stage.token(), "t0ken");
        assert_eq!(stage.token(), "t0ken");
        assert_eq!(stage.runs(), 1);
        let kept = stage.kept();
        assert_eq!(kept["state"], "good");
        assert_eq!(kept["hits"], 2);
        assert_eq!(kept["runs"], 1);
    }
}

#[test]
fn the_answer_is_of_the_version_that_was_asked_for() {
    let stage = Stage::new();
    let asked = request(false).replace("io/v1", "io/v1beta1");
    stage.set("answer", r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"old"}}"#);
    let output = stage.kubectl_with(&asked).output().unwrap();
    assert_eq!(token(&output), "old");
    assert!(String::from_utf8_lossy(&output.stdout).contains("io/v1beta1"), "{output:?}");
}

#[test]
fn a_variable_that_may_select_an_identity_makes_another_credential() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    stage.answer("other");
    let output = stage.kubectl().env("ACCOUNT", "other").output().unwrap();
    assert_eq!(token(&output), "other");
    // A harmless one does not.
    assert_eq!(token(&stage.kubectl().env("SHLVL", "3").output().unwrap()), "t0ken");
    assert_eq!(stage.runs(), 2);
}

#[test]
fn the_same_process_that_asks_again_was_answered_401() {
    let stage = Stage::new();
    let twice = |pause: &str| {
        let script = format!("\"$@\" >/dev/null; sleep {pause}; \"$@\"; exit $?");
        let mut command = stage.command("sh");
        command.args(["-c", &script, "kubectl"]).arg(exec()).arg("--").args(stage.words());
        command.env("KUBERNETES_EXEC_INFO", request(false));
        token(&command.output().unwrap())
    };
    twice("0.1");
    assert_eq!(stage.runs(), 2);
    // A server that refuses everything costs no run for each request.
    for _ in 0..5 {
        twice("0.1");
    }
    assert!(stage.runs() <= 4, "{} runs", stage.runs());
}

#[test]
fn a_policy_holds_for_the_plugin_behind_the_wrapper() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let kuberc = stage.dir.path().join("home/.kube/kuberc");
    std::fs::create_dir_all(kuberc.parent().unwrap()).unwrap();
    let policy = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    std::fs::write(&kuberc, policy).unwrap();
    for agent in ["on", "off"] {
        let output = stage.kubectl().env("KEYWARD_AGENT", agent).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(said(&output).contains("not allowed by policy"), "{output:?}");
    }
    std::fs::remove_file(kuberc).unwrap();
    assert_eq!(stage.token(), "t0ken");
}

#[test]
fn the_status_names_kubeconfigs_that_another_program_overwrote() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let kube = stage.dir.path().join("home/.kube");
    std::fs::create_dir_all(&kube).unwrap();
    let text = "users: [{name: ann, user: {exec: {command: sh}}}]\n";
    std::fs::write(kube.join("config"), text).unwrap();
    let wrapper = exec().to_str().unwrap();
    let output = stage.keyward(&["wrap", "--all", "--wrapper", wrapper]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stage.status()["overwritten"], serde_json::json!([]));
    std::fs::write(kube.join("config"), text).unwrap();
    assert_eq!(stage.status()["overwritten"][0]["users"], serde_json::json!(["ann"]));
    let told = stage.keyward(&["agent", "status"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("no longer wrapped: `ann`"), "{told:?}");
}

#[test]
fn a_locked_agent_keeps_and_gives_nothing() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    assert!(stage.keyward(&["agent", "lock"]).status.success());
    let output = stage.ask();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("locked"), "{output:?}");
    assert_eq!(stage.status()["credentials"].as_array().unwrap().len(), 0);
    assert!(stage.keyward(&["agent", "unlock"]).status.success());
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 2);
}
