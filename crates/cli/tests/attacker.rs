//! Another user, or another process of the same one, against the program.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::{
    env, fs,
    io::Read as _,
    os::unix::{
        fs::{PermissionsExt as _, lchown, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use tempfile::TempDir;

/// Somebody whom no system knows.
const OTHER: u32 = 424_242;

struct Stage(TempDir);

impl Stage {
    fn new() -> Self {
        let stage = Self(tempfile::tempdir().unwrap());
        stage.mode("", 0o755);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn script(&self, name: &str, text: &str) {
        // By another process: one that this one starts meanwhile would keep it busy.
        let draft = self.path(&format!("{name}.txt"));
        fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
        let mut install = Command::new("install");
        install.args(["-m", "755"]).arg(draft).arg(self.path(name));
        assert!(install.status().unwrap().success());
    }

    fn kubeconfig(&self, command: &Path) {
        let command = command.display();
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
             users: [{{name: u, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, \
             command: '{command}', interactiveMode: Never}}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        fs::write(self.path("config"), text).unwrap();
        self.mode("config", 0o644);
    }

    fn keyward(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).arg("--kubeconfig").arg(self.path("config"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path("home"));
        command.env("KEYWARD_AGENT", "off");
        command.stdin(Stdio::null());
        command
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn attempts() -> usize {
    env::var("KEYWARD_RACE_ATTEMPTS").map_or(300, |number| number.parse().unwrap())
}

/// Puts one link after the other in one place, without a moment in which there is none.
fn swap(place: &Path, targets: &[PathBuf], over: &AtomicBool) {
    let beside = place.with_extension("new");
    for target in targets.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        symlink(target, &beside).unwrap();
        if is_root() {
            lchown(&beside, Some(OTHER), Some(OTHER)).unwrap();
        }
        fs::rename(&beside, place).unwrap();
    }
}

#[test]
fn a_plugin_behind_a_link_that_others_swap_never_runs() {
    let stage = Stage::new();
    let answer = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}"#;
    stage.script("good", &format!("echo '{answer}'"));
    stage.script("evil", &format!("touch '{}'", stage.path("ran").display()));
    fs::create_dir(stage.path("shared")).unwrap();
    // Root can make links of another user; anybody else lets everybody into the directory.
    stage.mode("shared", if is_root() { 0o1777 } else { 0o777 });
    let place = stage.path("shared/plugin");
    stage.kubeconfig(&place);
    symlink(stage.path("good"), &place).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let targets = [stage.path("good"), stage.path("evil"), "/bin/true".into()];
        let (place, flag) = (&place, &over);
        let swapping = scope.spawn(move || swap(place, &targets, flag));
        for attempt in 0..attempts() {
            let mut keyward =
                stage.keyward(env!("CARGO_BIN_EXE_keyward").as_ref(), &["credential"]);
            let ran = keyward.output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            // The first links may be those of the test itself, which root may make.
            if ran.status.success() && attempt < 5 {
                continue;
            }
            assert_eq!(ran.status.code(), Some(4), "attempt {attempt}: {said}");
            assert!(said.contains("others could change it"), "attempt {attempt}: {said}");
            assert!(!stage.path("ran").exists(), "attempt {attempt}: the swapped program ran");
        }
        over.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
    });
}

/// A process that ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs as an ordinary user, whoever runs the tests.
fn ordinary(command: &mut Command) -> &mut Command {
    if is_root() { command.uid(OTHER).gid(OTHER) } else { command }
}

#[test]
fn the_memory_of_a_process_with_secrets_is_closed_to_the_same_user() {
    let stage = Stage::new();
    // Where that user can reach it.
    let program = stage.path("keyward");
    keyward_testing::plugin::copy(Path::new(env!("CARGO_BIN_EXE_keyward")), &program);
    let pipe = stage.path("pipe");
    assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status().unwrap().success());
    // Opening the pipe waits for the plugin, and the plugin for its end.
    stage.script("plugin", &format!("echo $PPID $$ >'{0}'; cat '{0}'", pipe.display()));
    stage.kubeconfig(&stage.path("plugin"));
    let mut keyward = stage.keyward(&program, &["credential"]);
    ordinary(&mut keyward).stdout(Stdio::null()).stderr(Stdio::null());
    let _keyward = Started(keyward.spawn().unwrap());
    let mut pids = String::new();
    fs::File::open(&pipe).unwrap().read_to_string(&mut pids).unwrap();
    let (ours, theirs) = pids.trim().split_once(' ').unwrap();
    let reads = |pid: &str, file: &str| {
        let mut cat = Command::new("head");
        cat.args(["-c", "1"]).arg(format!("/proc/{pid}/{file}"));
        ordinary(&mut cat).output().unwrap()
    };
    // The plugin is an ordinary process, so this user could have done it.
    assert!(reads(theirs, "environ").status.success());
    for file in ["environ", "mem", "maps", "auxv"] {
        let refused = reads(ours, file);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("ermission denied"), "{file}: {said}");
    }
    // What a plugin may see of limits is as it was.
    let limits = |pid: &str| fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let of = |pid: &str, name: &str| {
        limits(pid).lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    for name in ["Max core file size", "Max open files"] {
        assert_eq!(of(theirs, name), of(&std::process::id().to_string(), name));
    }
    fs::write(&pipe, "").unwrap();
}

#[test]
fn too_few_descriptors_are_an_error_with_the_reason() {
    let stage = Stage::new();
    stage.script("plugin", "exit 1");
    stage.kubeconfig(&stage.path("plugin"));
    for limit in ["6", "8", "14"] {
        for words in ["plan", "credential", "get --raw /version", "proxy -- true"] {
            let keyward = env!("CARGO_BIN_EXE_keyward");
            let (command, rest) = words.split_once(' ').unwrap_or((words, ""));
            let line = format!(
                "ulimit -n {limit}; exec {keyward} {command} --kubeconfig {} {rest}",
                stage.path("config").display()
            );
            let ran = Command::new("bash").args(["-c", &line]).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.code(), Some(1), "{limit} {words}: {said}");
            let wanted = format!("only {limit} files may be open at once");
            assert!(said.contains(&wanted), "{limit} {words}: {said}");
        }
    }
}
