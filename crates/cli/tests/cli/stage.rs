//! A directory of its own for each test: a home, plugins, kubeconfigs, and the real program.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// The directory. Gone when dropped.
pub(crate) struct Stage {
    folder: TempDir,
}

/// A finished run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(stage.path("home/.kube")).unwrap();
        fs::create_dir_all(stage.path("bin")).unwrap();
        stage
    }

    /// A path below the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// What a file says; empty when it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes the kubeconfig in its usual place.
    pub(crate) fn kubeconfig(&self, text: &str) -> PathBuf {
        self.write("home/.kube/config", text)
    }

    /// Makes a shell plugin that `PATH` finds. `$STAGE` is this directory.
    ///
    /// Another process writes it: a test that forks in another thread at this moment would hold the
    /// file open for writing, and the system executes no such file.
    pub(crate) fn plugin(&self, name: &str, script: &str) -> PathBuf {
        let stage = self.folder.path().display();
        let text =
            self.write(&format!("{name}.txt"), &format!("#!/bin/sh\nSTAGE='{stage}'\n{script}\n"));
        let path = self.path(&format!("bin/{name}"));
        let done =
            Command::new("install").args(["-m", "755"]).arg(text).arg(&path).status().unwrap();
        assert!(done.success());
        path
    }

    /// The program with nothing of the tester's environment.
    pub(crate) fn command<A: AsRef<str>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyward"));
        command
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", self.search_path())
            // Tests count runs, whatever the tester's agent has.
            .env("KEYWARD_AGENT", "off")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        for arg in args {
            command.arg(arg.as_ref());
        }
        command
    }

    /// What `PATH` is here.
    pub(crate) fn search_path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.path("bin").display())
    }

    /// Runs the program with these words.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.command(line.split_whitespace()).ran()
    }

    /// Replaces what differs from run to run.
    pub(crate) fn steady(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "[STAGE]")
    }

    /// Compares with the file of this name in `tests/snapshots`, which `KEYWARD_BLESS=1` writes anew.
    pub(crate) fn matches_snapshot(&self, name: &str, text: &str) {
        let text = self.steady(text);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
        if std::env::var_os("KEYWARD_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(text == expected, "{} differs; it is now:\n{text}", path.display());
    }
}

/// To the end, at last with everything it said.
pub(crate) trait Run {
    fn ran(&mut self) -> Ran;
    /// Runs the command with this stdin.
    fn ran_with(&mut self, stdin: &str) -> Ran;
}

impl Run for Command {
    fn ran(&mut self) -> Ran {
        self.output().unwrap().into()
    }

    fn ran_with(&mut self, stdin: &str) -> Ran {
        self.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// The stdout of a successful run.
    pub(crate) fn good(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:#?}");
        &self.stdout
    }

    /// The stderr of a run that exited with this code and printed no data.
    pub(crate) fn bad(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:#?}");
        &self.stderr
    }

    /// The stdout of a successful run, as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.good()).unwrap()
    }
}

/// A kubeconfig with one context, `here`, whose user is this YAML (indented by 6).
pub(crate) fn config(user: &str) -> String {
    let user = user.trim_matches('\n');
    format!(
        "apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: {{cluster: c, user: u}}
clusters:
- name: c
  cluster: {{server: 'https://api.example.test:6443'}}
users:
- name: u
  user:
{user}
"
    )
}

/// A user with this plugin, run without a terminal.
pub(crate) fn exec(command: &str) -> String {
    config(&format!(
        "
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: {command}
        interactiveMode: Never"
    ))
}

/// A script that prints this token in v1.
pub(crate) fn gives(token: &str) -> String {
    gives_in("v1", token)
}

/// A script that prints this token in a version.
pub(crate) fn gives_in(version: &str, token: &str) -> String {
    format!(
        r#"echo '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/{version}","status":{{"token":"{token}"}}}}'"#
    )
}
