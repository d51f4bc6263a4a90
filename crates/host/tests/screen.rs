//! A program with a screen of its own: what a plugin writes arrives as events, and the terminal's
//! bytes are the program's alone.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, reason = "tests")]

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::{Arc, Mutex},
};

use keyward_host::{
    Kind, Kubeconfig, Overrides, Plan, PlanSettings, Sources, StderrMode, rules::Rules,
};
use keyward_process::{runner::Sink, surroundings::Surroundings};
use keyward_testing::pty::Pty;

/// Tells the inner run of this test binary that it is the program with the screen.
const INSIDE: &str = "KEYWARD_TEST_SCREEN";

/// Writes where it can: to its stderr, and to the terminal itself.
const PLUGIN: &str = r#"#!/bin/sh
printf 'open https://id.example.test and type \033[1mABCD\033[0m\n' >&2
echo scribble > /dev/tty
stty -echo < /dev/tty
printf 'waiting ' >&2
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}'
"#;

#[test]
fn a_sink_gets_the_words_and_the_terminal_keeps_its_bytes() {
    if env::var_os(INSIDE).is_some() {
        return program();
    }
    for (mode, code) in [("IfAvailable", "ok"), ("Never", "ok"), ("Always", "NeedsTerminal")] {
        let folder = tempfile::tempdir().unwrap();
        let plugin = folder.path().join("plugin");
        fs::write(&plugin, PLUGIN).unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("config"), config(mode)).unwrap();

        let mut inner = Command::new(env::current_exe().unwrap());
        inner.args(["--exact", "a_sink_gets_the_words_and_the_terminal_keeps_its_bytes"]);
        inner.arg("--nocapture").env(INSIDE, "1").env("KUBECONFIG", folder.path().join("config"));
        inner.env("KUBERC", "off");
        let mut pty = Pty::spawn(&inner).unwrap();
        pty.finish();

        let screen = pty.screen();
        let (_, rest) = screen.split_once("[drawn]").unwrap_or_else(|| panic!("{screen}"));
        let (during, after) =
            rest.split_once("[drawn again]").unwrap_or_else(|| panic!("{screen}"));
        assert_eq!(during, "", "{mode}: something else wrote on the screen");
        assert!(after.contains(&format!("outcome {code}")), "{mode}: {screen}");
        assert!(pty.echoes().unwrap(), "{mode}: the terminal was changed");
        if code == "ok" {
            let told = "open https://id.example.test and type U+001B[1mABCDU+001B[0m";
            assert!(after.contains(told), "{mode}: {screen}");
            assert!(!after.contains("scribble"), "{mode}: {screen}");
        } else {
            assert!(after.contains("0 lines"), "{mode}: it ran: {screen}");
        }
    }
}

/// What an author of a program with a screen writes.
fn program() {
    #[derive(Default)]
    struct Panel(Mutex<Vec<String>>);
    impl Sink for Panel {
        fn line(&self, _plugin: &str, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }

    let panel = Arc::new(Panel::default());
    let surroundings = Surroundings::process();
    let mut settings = PlanSettings::default();
    settings.stderr = StderrMode::Sink(Arc::clone(&panel) as Arc<dyn Sink>);
    let config = Kubeconfig::load(&surroundings, None).unwrap();
    let target = config.resolve(&Overrides::default(), &surroundings).unwrap();
    let rules = Rules::load(&surroundings, None).unwrap();

    print!("[drawn]");
    flush();
    let outcome = Plan::new(target, &rules, &surroundings, settings)
        .and_then(|plan| Sources::global().open(&plan).credential_blocking());
    print!("[drawn again]");
    let lines = panel.0.lock().unwrap();
    println!("outcome {}", outcome.map_or_else(|error| name(error.kind()), |_| "ok".to_owned()));
    println!("{} lines: {}", lines.len(), lines.join("|"));
}

fn name(kind: Kind) -> String {
    format!("{kind:?}")
}

fn flush() {
    use std::io::Write;
    std::io::stdout().flush().unwrap();
}

fn config(mode: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: {{cluster: c, user: u}}
clusters:
- name: c
  cluster: {{server: 'https://api.example.test'}}
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./plugin
      interactiveMode: {mode}
"
    )
}
