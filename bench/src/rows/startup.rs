//! What the program adds to the bare start of a process.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use crate::measure::{Bar, Row, Variant};

/// Starts in one round; the figure is their mean.
const STARTS: u32 = 40;

/// `keyward --version` beside `/bin/true`.
pub fn version() -> Row {
    let keyward = keyward();
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: "/bin/true", run: Box::new(|| start(&mut Command::new("/bin/true"))) },
            Variant {
                label: "ours",
                run: Box::new(move || start(Command::new(&keyward).arg("--version"))),
            },
        ],
        bars: vec![Bar {
            promise: "--version adds under 2 ms to /bin/true",
            judge: |r| (r.median("ours") - r.median("/bin/true"), 2.0),
        }],
    }
}

/// `keyward credential` and `keyward plan` beside the plugin they are about.
pub fn commands() -> Row {
    let folder = Folder::new();
    let plugin = folder.plugin.clone();
    let command = |verb: &'static str| {
        let config = folder.config.clone();
        let keyward = keyward();
        Box::new(move || start(Command::new(&keyward).arg(verb).arg("--kubeconfig").arg(&config)))
    };
    let (plan, credential) = (command("plan"), command("credential"));
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: "the plugin alone",
                run: Box::new(move || {
                    let _kept = &folder;
                    start(&mut Command::new(&plugin))
                }),
            },
            Variant { label: "ours: credential", run: credential },
            Variant { label: "ours: plan", run: plan },
        ],
        bars: vec![
            Bar {
                promise: "credential adds under 5 ms to the plugin's own time",
                judge: |r| (r.median("ours: credential") - r.median("the plugin alone"), 5.0),
            },
            Bar {
                promise: "plan, which runs nothing, takes under 5 ms more than the plugin",
                judge: |r| (r.median("ours: plan") - r.median("the plugin alone"), 5.0),
            },
        ],
    }
}

/// Milliseconds for one start, output thrown away.
fn start(command: &mut Command) -> Result<f64, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let name = command.get_program().display().to_string();
    let begin = Instant::now();
    for _ in 0..STARTS {
        let status = command.status().map_err(|e| format!("`{name}`: {e}"))?;
        if !status.success() {
            return Err(format!("`{name}` ended with {status}"));
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(STARTS))
}

/// The program under test: beside us in the target folder.
pub fn keyward() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("keyward")
}

/// A kubeconfig whose user is a shell plugin.
pub struct Folder {
    /// Removed when dropped.
    _folder: tempfile::TempDir,
    /// The kubeconfig.
    pub config: PathBuf,
    /// The plugin.
    pub plugin: PathBuf,
}

impl Folder {
    /// Writes both.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plugin = folder.path().join("plugin");
        write(&plugin, PLUGIN);
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).expect("a mode");
        let config = folder.path().join("config");
        write(&config, &CONFIG.replace("PLUGIN", &plugin.display().to_string()));
        Self { _folder: folder, config, plugin }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file in a temporary folder");
}

const PLUGIN: &str = r#"#!/bin/sh
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'
"#;

const CONFIG: &str = "apiVersion: v1
kind: Config
current-context: bench
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
clusters: [{name: bench, cluster: {server: 'https://127.0.0.1:1'}}]
users:
- name: bench
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: PLUGIN
      interactiveMode: Never
";
