//! A plugin whose answers and failures a test chooses while it runs.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::authority::Issued;

const WRITABLE: &str = "a temporary folder can be written";

/// Counts its runs, keeps what it was told, waits where it is told to, prints its answer.
const SCRIPT: &str = r#"here=$(dirname "$0")
echo run >>"$here/runs"
printf %s "$KUBERNETES_EXEC_INFO" >"$here/told"
while [ -e "$here/hold" ]; do sleep 0.02; done
[ -e "$here/fail" ] && exit 1
exec cat "$here/answer"
"#;

/// A real program in a directory of its own.
#[derive(Debug)]
pub struct Script {
    folder: TempDir,
    version: &'static str,
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// One that speaks `client.authentication.k8s.io/v1`.
    pub fn new() -> Self {
        Self::speaking("client.authentication.k8s.io/v1")
    }

    /// One that speaks the version with this `apiVersion`.
    ///
    /// # Panics
    ///
    /// As all of this type where the temporary directory cannot be used.
    pub fn speaking(version: &'static str) -> Self {
        let folder = TempDir::new().expect(WRITABLE);
        fs::write(folder.path().join("plugin"), SCRIPT).expect(WRITABLE);
        Self { folder, version }
    }

    /// Answers this from now on.
    ///
    /// # Panics
    ///
    /// Where the temporary directory cannot be used.
    pub fn answer(&self, token: Option<&str>, pair: Option<&Issued>) {
        self.answer_with(json!({}), token, pair);
    }

    /// Answers this token, which expires at a time in RFC 3339, from now on.
    ///
    /// # Panics
    ///
    /// Where the temporary directory cannot be used.
    pub fn answer_until(&self, token: &str, end: &str) {
        self.answer_with(json!({ "expirationTimestamp": end }), Some(token), None);
    }

    fn answer_with(&self, mut status: Value, token: Option<&str>, pair: Option<&Issued>) {
        if let Some(token) = token {
            status["token"] = token.into();
        }
        if let Some(pair) = pair {
            status["clientCertificateData"] = pair.certificate_pem().into();
            status["clientKeyData"] = pair.key_pem().into();
        }
        let answer = json!({
            "kind": "ExecCredential",
            "apiVersion": self.version,
            "status": status,
        });
        // A run may be reading the old one.
        let new = self.path("new");
        fs::write(&new, answer.to_string()).expect(WRITABLE);
        fs::rename(new, self.path("answer")).expect(WRITABLE);
    }

    /// Fails, or does not any more.
    pub fn fail(&self, fail: bool) {
        self.switch("fail", fail);
    }

    /// Hangs, or does not any more.
    pub fn hold(&self, hold: bool) {
        self.switch("hold", hold);
    }

    /// How often it was run.
    pub fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).map_or(0, |runs| runs.lines().count())
    }

    /// What it was told at its last run.
    ///
    /// # Panics
    ///
    /// Where the temporary directory cannot be used, or it was never run.
    pub fn told(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("told")).expect(WRITABLE)).expect(WRITABLE)
    }

    /// The kubeconfig's user: nobody is asked anything.
    pub fn user(&self) -> Value {
        self.user_in("Never")
    }

    /// The kubeconfig's user, with this `interactiveMode`.
    pub fn user_in(&self, mode: &str) -> Value {
        // The shell reads it. Executed itself, it could be found busy: another test's child may
        // still hold the file as it was written.
        json!({ "exec": {
            "apiVersion": self.version,
            "command": "/bin/sh",
            "args": [self.path("plugin")],
            "interactiveMode": mode,
        } })
    }

    fn switch(&self, name: &str, on: bool) {
        if on {
            fs::write(self.path(name), "").expect(WRITABLE);
        } else {
            let _ = fs::remove_file(self.path(name));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// One that hangs must not outlive its test.
impl Drop for Script {
    fn drop(&mut self) {
        self.hold(false);
    }
}
