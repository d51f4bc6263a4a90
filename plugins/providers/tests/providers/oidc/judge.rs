//! npm's oidc-provider as a process.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use serde_json::Value;

/// How long anything may take before the test is called hung.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A provider that runs. It ends with this value.
pub(crate) struct Judge {
    child: Child,
    lines: Receiver<String>,
    pub(crate) issuer: String,
}

impl Judge {
    /// Starts a provider with these options; see `judges/node/provider.mjs`.
    pub(crate) fn start(options: &Value) -> Self {
        let mut child = Command::new("node")
            .arg(script())
            .arg(options.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`node` starts; it is in the Debian package nodejs");
        let stdout = child.stdout.take().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let first = lines.recv_timeout(PATIENCE).expect("the provider prints its address");
        let issuer = first.strip_prefix("issuer ").expect(&first).to_owned();
        Self { child, lines, issuer }
    }

    /// What has happened since the last call: a line for each page and each grant.
    pub(crate) fn events(&self) -> Vec<String> {
        // A request answers only after its line was written; the last one is a marker of our own.
        self.get("/test/mark");
        let mut events = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE).unwrap().as_str() {
                "mark" => return events,
                event => events.push(event.to_owned()),
            }
        }
    }

    /// Lets all refresh tokens be refused from now on.
    pub(crate) fn revoke(&self) {
        self.get("/test/revoke");
    }

    fn get(&self, path: &str) {
        let address = format!("{}{path}", self.issuer);
        let status = Command::new("curl")
            .args(["--silent", "--fail", "--insecure", "--output", "/dev/null", &address])
            .status()
            .expect("`curl` starts; it is in the Debian package curl");
        assert!(status.success(), "{address}");
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The script, next to the modules that `cargo xtask test` has installed.
fn script() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("judges/node/provider.mjs");
    let target = Path::new(env!("CARGO_BIN_EXE_keyward-providers")).ancestors().nth(2).unwrap();
    let root = target.join("judges/node");
    assert!(
        root.join("node_modules/oidc-provider").is_dir(),
        "npm's oidc-provider is not in `{}`: `cargo xtask test` installs it, with the Debian packages \
         nodejs (20 or newer) and npm",
        root.display()
    );
    let script = root.join("provider.mjs");
    let text = fs::read(own).unwrap();
    if fs::read(&script).is_ok_and(|there| there == text) {
        return script;
    }
    // Tests run at the same time: the name appears with the whole text.
    let mut new = tempfile::NamedTempFile::new_in(&root).unwrap();
    new.write_all(&text).unwrap();
    new.persist(&script).unwrap();
    script
}
