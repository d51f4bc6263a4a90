//! Completion in real shells at a real terminal: Tab is typed, and the shell's line is read.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use keyward_testing::{kubectl, pty::Pty};

use crate::stage::{Run, Stage};

/// Names as real clusters have them: with the characters at which bash splits words.
const CONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: arn:aws:eks:eu-west-1:123456789012:cluster/prod, context: {cluster: metal-1, user: kubernetes-admin}}
- {name: kind-dev, context: {cluster: metal-1, user: kubernetes-admin}}
- {name: ann@kube, context: {cluster: metal-1, user: kubernetes-admin}}
clusters:
- {name: metal-1, cluster: {server: 'https://localhost:1'}}
users:
- {name: kubernetes-admin, user: {token: t}}
";

fn stage() -> Stage {
    let stage = Stage::new();
    stage.kubeconfig(CONFIG);
    stage.write(
        "other",
        "apiVersion: v1\nkind: Config\ncontexts:\n- {name: elsewhere, context: {}}\n",
    );
    symlink(env!("CARGO_BIN_EXE_keyward"), stage.path("bin/keyward")).unwrap();
    stage
}

/// The candidates for the last of these words.
fn candidates(stage: &Stage, words: &[&str]) -> Vec<String> {
    let ran = stage.command(["__complete", "--"].iter().chain(words)).ran();
    ran.good().lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn names_commands_flags_and_paths_are_candidates() {
    let stage = stage();
    for (words, expected) in [
        (&["--context", "k"][..], &["kind-dev"][..]),
        (
            &["plan", "--context", "arn:aws:eks"],
            &["arn:aws:eks:eu-west-1:123456789012:cluster/prod"],
        ),
        (&["plan", "--context=k"], &["--context=kind-dev"]),
        (&["plan", "--kubeconfig", "other", "--context", ""], &["elsewhere"]),
        (&["plan", "--kubeconfig=other", "--context", ""], &["elsewhere"]),
        (&["plan", "--kubeconfig", "~/../other", "--context", ""], &["elsewhere"]),
        (&["plan", "--kubeconfig", "nowhere", "--context", ""], &[]),
        (&["--cluster", ""], &["metal-1"]),
        (&["--user", "kube"], &["kubernetes-admin"]),
        (&["enroll", "--bootstrap-user", ""], &["kubernetes-admin"]),
        (&["cred"], &["credential"]),
        (&["image", "ex"], &["explain"]),
        (&["plan", "--kubeconfig", "ot"], &["other"]),
        (&["plan", "--plugin-t"], &["--plugin-timeout"]),
        (&["completions", "--plugin-t"], &[]),
        (&["plan", "-o", ""], &["text", "json"]),
    ] {
        assert_eq!(candidates(&stage, words), expected, "{words:?}");
    }
    let commands = candidates(&stage, &[""]);
    assert!(commands.iter().any(|word| word == "plan"), "{commands:?}");
    let odd = |word: &String| word.starts_with('-') || word.starts_with("demo-");
    assert!(!commands.iter().any(odd), "{commands:?}");
}

/// A shell that cannot pass an empty word says which word it is about.
#[test]
fn an_empty_word_can_be_given_by_its_number() {
    let stage = stage();
    let ran = stage.run("__complete --index 2 -- plan --context");
    assert_eq!(ran.good(), "arn:aws:eks:eu-west-1:123456789012:cluster/prod\nkind-dev\nann@kube\n");
    let ran = stage.run("__complete --index 1 -- plan --kubeconf");
    assert!(ran.good().starts_with("--kubeconfig\t"), "{ran:?}");
}

#[test]
fn kubectl_asks_its_plugin_for_candidates() {
    let stage = stage();
    let program = stage.path("bin/kubectl_complete-keyward");
    symlink(env!("CARGO_BIN_EXE_keyward"), &program).unwrap();
    for (words, expected) in [
        (&["plan", "--context", "k"][..], "kind-dev\n:4\n"),
        (&["plan", "--kubeconfig", "ho"], "home/\n:6\n"),
    ] {
        let mut command = Command::new(&program);
        command.args(words).env("HOME", stage.path("home")).current_dir(stage.path(""));
        command.env_remove("KUBECONFIG");
        assert_eq!(command.ran().good(), expected, "{words:?}");
    }
}

#[test]
fn kubectl_runs_us_as_its_command() {
    let stage = stage();
    symlink(env!("CARGO_BIN_EXE_keyward"), stage.path("bin/kubectl-keyward")).unwrap();
    let program = &kubectl::installed().path;
    let ask = |words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env("HOME", stage.path("home")).env("PATH", stage.search_path());
        command.env_remove("KUBECONFIG").current_dir(stage.path("")).ran()
    };
    let plan = ask(&["keyward", "plan", "--context", "kind-dev"]);
    assert!(plan.good().contains("context    kind-dev\n"), "{plan:?}");
    let help = ask(&["keyward", "plan", "--help"]);
    assert!(help.good().contains("Usage: kubectl keyward plan"), "{help:?}");
}

/// A shell at a terminal, with nothing of the tester's set-up.
fn shell(stage: &Stage, package: &str, words: &[&str]) -> Pty {
    let program = words[0];
    let found = ["/usr/bin", "/bin", "/usr/local/bin"].map(|dir| Path::new(dir).join(program));
    let program: &PathBuf = found.iter().find(|path| path.exists()).unwrap_or_else(|| {
        panic!("`{program}` is missing: install the Debian package `{package}`")
    });
    let mut command = Command::new("env");
    command.arg("-i").arg(format!("HOME={}", stage.path("home").display()));
    command.arg(format!("PATH={}", stage.search_path())).args(["TERM=dumb", "PS1=ready> "]);
    command.arg(program).args(&words[1..]).current_dir(stage.path(""));
    let pty = Pty::spawn(&command).unwrap();
    pty.resize(50, 200).unwrap();
    pty
}

/// Completes each line in a shell that has loaded its script, runs it, and looks at the arguments that
/// the program got.
fn completes(pty: &mut Pty, stage: &Stage) {
    // From now on `keyward` is a program that notes its arguments, unless it is asked for candidates.
    stage.plugin(
        "noting",
        &format!(
            "[ \"$1\" = __complete ] && exec {} \"$@\"\nprintf '%s|' \"$@\" > $STAGE/args\necho noted",
            env!("CARGO_BIN_EXE_keyward")
        ),
    );
    fs::rename(stage.path("bin/noting"), stage.path("bin/keyward")).unwrap();
    for (typed, expected) in [
        ("keyward --context ki\t", "--context|kind-dev|"),
        (
            "keyward plan --context arn:aws:e\t",
            "plan|--context|arn:aws:eks:eu-west-1:123456789012:cluster/prod|",
        ),
        ("keyward plan --context an\t", "plan|--context|ann@kube|"),
        ("keyward plan --context ann@\t", "plan|--context|ann@kube|"),
        ("keyward plan --context=ki\t", "plan|--context=kind-dev|"),
        (
            "keyward plan --kubeconfig other --context \t",
            "plan|--kubeconfig|other|--context|elsewhere|",
        ),
        ("keyward plan --user k\t--cluster \t", "plan|--user|kubernetes-admin|--cluster|metal-1|"),
        ("keyward cred\t", "credential|"),
    ] {
        pty.type_in(typed).unwrap();
        pty.type_in("\n").unwrap();
        pty.wait_for("noted");
        assert_eq!(stage.read("args"), expected, "{typed:?}: {}", pty.screen());
    }
}

#[test]
fn bash_completes_names() {
    let stage = stage();
    let mut pty = shell(&stage, "bash", &["bash", "--norc", "--noprofile", "-i"]);
    pty.wait_for("ready> ");
    pty.type_in("source <(keyward completions bash); echo loa''ded\n").unwrap();
    pty.wait_for("loaded");
    completes(&mut pty, &stage);
}

#[test]
fn zsh_completes_names() {
    let stage = stage();
    let mut pty = shell(&stage, "zsh", &["zsh", "-f", "-i"]);
    pty.type_in(
        "autoload -U compinit; compinit -D -u; source <(keyward completions zsh); echo loa''ded\n",
    )
    .unwrap();
    pty.wait_for("loaded");
    completes(&mut pty, &stage);
}

#[test]
fn fish_completes_names() {
    let stage = stage();
    let mut pty = shell(&stage, "fish", &["fish", "--no-config", "-i"]);
    pty.type_in("keyward completions fish | source; echo loa''ded\n").unwrap();
    pty.wait_for("loaded");
    completes(&mut pty, &stage);
}
