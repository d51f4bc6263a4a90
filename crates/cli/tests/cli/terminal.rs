//! Plugins that talk to a person: a real terminal, a real plugin, the program in between.

use keyward_testing::{
    pty::Pty,
    server::{Server, User},
};
use serde_json::json;

use crate::{
    image::answers,
    stage::{Run, Stage, config, exec, gives, gives_in},
};

/// Asks for a password without showing it and gives it back as the token.
const LOGIN: &str = r#"
stty -echo
printf 'password: ' >&2
read -r answer
stty echo
echo >&2
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s"}}' "$answer" "#;

/// A stage with one plugin in this mode.
fn stage(mode: &str, script: &str) -> Stage {
    let stage = Stage::new();
    stage.plugin("p", script);
    stage.kubeconfig(&exec("p").replace("Never", mode));
    stage
}

/// The program at a terminal, its stdout in the file `out`.
pub(crate) fn at_terminal(stage: &Stage, line: &str) -> Pty {
    let mut shell = stage.command([] as [&str; 0]);
    let program = shell.get_program().to_owned();
    shell = std::process::Command::new("env");
    shell.arg("-i").arg(format!("HOME={}", stage.path("home").display()));
    shell.arg(format!("PATH={}", stage.search_path())).args(["sh", "-c"]);
    shell.arg(format!("exec \"$0\" {line} > out")).arg(program).current_dir(stage.path(""));
    Pty::spawn(&shell).unwrap()
}

#[test]
fn a_person_answers_a_hidden_prompt() {
    for mode in ["Always", "IfAvailable"] {
        let stage = stage(mode, LOGIN);
        let mut pty = at_terminal(&stage, "credential");
        pty.wait_for("password: ");
        assert!(!pty.echoes().unwrap());
        pty.type_in("hunter2\n").unwrap();
        assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
        assert!(
            stage.read("out").contains("\"token\":\"hunter2\"")
                || stage.read("out").contains("\"token\": \"hunter2\"")
        );
        assert!(!pty.screen().contains("hunter2"), "{}", pty.screen());
        assert!(pty.echoes().unwrap());
    }
}

#[test]
fn doctor_lets_a_plugin_prompt() {
    let server = Server::setup().start().unwrap();
    server.users().token("hunter2", User::new("anna"));
    let stage = stage("Always", LOGIN);
    stage.kubeconfig(&server.kubeconfig(&json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "p",
        "interactiveMode": "Always",
    } })));
    let mut pty = at_terminal(&stage, "doctor");
    pty.wait_for("password: ");
    pty.type_in("hunter2\n").unwrap();
    pty.finish();
    let report = stage.read("out");
    assert!(report.contains("you are `anna`"), "{report} {}", pty.screen());
    assert!(!report.contains("hunter2"), "{report}");
}

#[test]
fn ctrl_c_ends_the_plugin_and_the_echo_comes_back() {
    let stage = stage("Always", LOGIN);
    let mut pty = at_terminal(&stage, "credential");
    pty.wait_for("password: ");
    assert!(!pty.echoes().unwrap());
    pty.type_in("\x03").unwrap();
    let status = pty.finish();
    assert!(!status.success(), "{}", pty.screen());
    assert_eq!(stage.read("out"), "");
    assert!(pty.echoes().unwrap(), "{}", pty.screen());
}

#[test]
fn the_echo_comes_back_when_the_plugin_is_killed() {
    let stage = stage("Always", "stty -echo; printf 'password: ' >&2; kill -9 $$");
    let mut pty = at_terminal(&stage, "credential");
    assert_eq!(pty.finish().code(), Some(1), "{}", pty.screen());
    assert!(pty.screen().contains("password: "));
    assert!(pty.echoes().unwrap(), "{}", pty.screen());
}

#[test]
fn the_echo_comes_back_when_the_time_is_up() {
    let stage = stage("Always", "stty -echo; printf 'password: ' >&2; exec sleep 300");
    // A busy machine may not let it come to its prompt in the first of these.
    for limit in ["1s", "5s", "25s"] {
        let mut pty = at_terminal(&stage, &format!("credential --plugin-timeout {limit}"));
        assert_eq!(pty.finish().code(), Some(1), "{}", pty.screen());
        assert!(pty.echoes().unwrap(), "{}", pty.screen());
        if pty.screen().contains("password: ") {
            return;
        }
    }
    panic!("it never came to its prompt");
}

#[test]
fn a_plugin_that_never_asks_gets_no_stdin_at_a_terminal_either() {
    let stage = stage("Never", &format!("test -t 0 && touch $STAGE/terminal; {}", gives("t")));
    let mut pty = at_terminal(&stage, "credential");
    assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
    assert!(!stage.path("terminal").exists());
}

/// The outer program is told `interactiveMode: Never`, so the inner one must not ask, although
/// there is a terminal.
#[test]
fn the_request_counts_and_not_the_terminal() {
    let stage = stage("Always", &format!("touch $STAGE/ran; {}", gives("t")));
    let inner = std::fs::rename(stage.path("home/.kube/config"), stage.path("inner"));
    inner.unwrap();
    for (mode, code) in [("Never", 1), ("Always", 0)] {
        stage.kubeconfig(&config(&format!(
            "
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: {}
        args: [credential, --kubeconfig, inner]
        interactiveMode: {mode}",
            env!("CARGO_BIN_EXE_keyward"),
        )));
        let mut pty = at_terminal(&stage, "credential");
        assert_eq!(pty.finish().code(), Some(code), "{mode}: {}", pty.screen());
        assert_eq!(stage.path("ran").exists(), code == 0, "{mode}");
    }
}

#[test]
fn the_plan_knows_that_a_person_is_there() {
    for (mode, stdin, limit) in
        [("Always", true, "10m0s"), ("IfAvailable", true, "10m0s"), ("Never", false, "1m0s")]
    {
        let stage = stage(mode, "touch $STAGE/ran");
        let mut pty = at_terminal(&stage, "plan -o json");
        assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
        let explained: serde_json::Value = serde_json::from_str(&stage.read("out")).unwrap();
        let plugin = &explained["plugin"];
        assert_eq!(plugin["interactive"]["stdin"], stdin, "{mode}: {plugin}");
        assert_eq!(plugin["attended"], stdin, "{mode}: {plugin}");
        assert_eq!(plugin["timeLimit"], limit, "{mode}: {plugin}");
        assert!(!stage.path("ran").exists());
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let stage = stage("Never", "exit 1");
    for (line, coloured) in [("credential", true), ("credential", false)] {
        let mut pty = if coloured {
            at_terminal(&stage, line)
        } else {
            let mut command = stage.command(line.split(' '));
            command.env("NO_COLOR", "1");
            Pty::spawn(&command).unwrap()
        };
        pty.finish();
        assert_eq!(pty.screen().contains("\x1b[1;31merror:"), coloured, "{}", pty.screen());
    }
}

/// Without a terminal at all the same plugin does not even start.
#[test]
fn always_without_a_terminal_runs_nothing() {
    let stage = stage("Always", &format!("touch $STAGE/ran; {LOGIN}"));
    stage.command(["credential"]).ran_with("hunter2\n").bad(3);
    assert!(!stage.path("ran").exists());
}

#[test]
fn a_person_is_told_whom_a_silent_plugin_keeps_waiting() {
    let script = format!("read -r go < go; {}", gives("late"));
    let stage = stage("Never", &script);
    let fifo = stage.path("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut pty = at_terminal(&stage, "credential");
    pty.wait_for("waiting for the plugin `p` of user `");
    std::fs::write(&fifo, "now\n").unwrap();
    assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
    assert!(stage.read("out").contains("late"));
}

#[test]
fn a_person_is_told_whom_an_attended_plugin_keeps_waiting_but_not_in_the_middle_of_its_prompt() {
    // As aws and gcloud write it: the run counts as attended, and the plugin says nothing.
    let silent = stage("", &format!("read -r go < go; {}", gives_in("v1beta1", "late")));
    let config = silent.read("home/.kube/config").replace("k8s.io/v1", "k8s.io/v1beta1");
    silent.kubeconfig(&config.replace("interactiveMode: \n", "\n"));
    let fifo = silent.path("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let asks = "printf 'user: ' >&2; read -r answer";
    let mut asking: Vec<_> = [LOGIN.to_owned(), format!("{asks}; {}", gives("$answer"))]
        .iter()
        .map(|script| {
            let stage = stage("IfAvailable", script);
            let mut pty = at_terminal(&stage, "credential");
            pty.wait_for(": ");
            (stage, pty)
        })
        .collect();
    let mut pty = at_terminal(&silent, "credential");
    // Those that ask were there before, so their two seconds are over too.
    pty.wait_for("waiting for the plugin `p` of user `");
    std::fs::write(&fifo, "now\n").unwrap();
    assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
    for (_stage, pty) in &mut asking {
        pty.type_in("anna\n").unwrap();
        assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
        assert!(!pty.screen().contains("waiting for"), "{}", pty.screen());
    }
}

#[test]
fn a_device_code_is_shown_at_once_where_the_plugin_has_no_terminal() {
    let script = format!(
        "echo 'open https://id.example.test and type ABCD' >&2; printf 'waiting ' >&2; \
         read -r go < go; echo done >&2; {}",
        gives("t")
    );
    let stage = stage("Never", &script);
    let fifo = stage.path("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut pty = at_terminal(&stage, "credential");
    pty.wait_for("open https://id.example.test and type ABCD\r\nwaiting ");
    std::fs::write(&fifo, "now\n").unwrap();
    assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
    assert!(pty.screen().contains("waiting done\r\n"), "{}", pty.screen());
}

#[test]
fn long_commands_show_what_they_are_doing() {
    let stage = stage("Never", &gives("t"));
    for (line, words) in [
        ("plugin test -- p", "testing: "),
        ("plugin test --signer -- p", "testing: certificate"),
        ("demo --break plan", "showing: plan"),
        ("demo --break plan -o json", "showing: plan"),
    ] {
        let mut pty = at_terminal(&stage, line);
        pty.wait_for(words);
        pty.finish();
        // The line is gone at the end.
        let shown = pty.screen();
        let rest = shown.rsplit_once(words.split(' ').next().unwrap()).unwrap().1;
        assert!(rest.contains("\r\x1b[K"), "`{line}`: {shown}");
    }
}

#[test]
fn a_person_is_told_of_providers_that_take_long() {
    let stage = Stage::new();
    let script = answers("slow", "Image", "r.io", "ann");
    stage.plugin("slow", &format!("read -r go < $STAGE/go\n{script}"));
    stage.write(
        "providers.yaml",
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
         - name: slow\n  matchImages: [r.io]\n  defaultCacheDuration: 10m\n  \
         apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
    );
    let fifo = stage.path("go");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for command in ["credentials", "explain"] {
        let line = format!("image {command} --config providers.yaml --bin-dir bin r.io/app");
        let mut pty = at_terminal(&stage, &line);
        pty.wait_for("waiting for the image credential providers, for `r.io/app`");
        std::fs::write(&fifo, "now\n").unwrap();
        assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
    }
}
