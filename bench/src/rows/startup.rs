//! What the program adds to the bare start of a process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::Instant,
};

use super::scene::Folder;
use crate::measure::{Bar, Row, Variant};

/// Starts in one round; the figure is their mean.
const STARTS: u32 = 40;

const PLUGIN: &str = "the plugin alone";

/// `keyward --version` beside `/bin/true`.
pub fn version() -> Row {
    let keyward = keyward();
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: "/bin/true", run: Box::new(|| start(&mut Command::new("/bin/true"))) },
            Variant {
                label: "kubectl version --client",
                run: Box::new(|| starts(10, Command::new(kubectl()).args(["version", "--client"]))),
            },
            Variant {
                label: "ours",
                run: Box::new(move || start(Command::new(&keyward).arg("--version"))),
            },
        ],
        bars: vec![
            Bar {
                promise: "--version adds under 2 ms to /bin/true",
                judge: |r| (r.middle(["/bin/true", "ours"], |[bare, ours]| ours - bare), 2.0),
            },
            Bar {
                promise: "--version vs kubectl's",
                judge: |r| (r.ratio("ours", "kubectl version --client"), 1.0),
            },
        ],
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
                label: PLUGIN,
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
                judge: |r| {
                    (r.middle([PLUGIN, "ours: credential"], |[bare, ours]| ours - bare), 5.0)
                },
            },
            Bar {
                promise: "plan, which runs nothing, takes under 5 ms more than the plugin",
                judge: |r| (r.middle([PLUGIN, "ours: plan"], |[bare, ours]| ours - bare), 5.0),
            },
        ],
    }
}

/// The size of a file.
pub fn megabytes(path: &Path) -> Result<f64, String> {
    #[expect(clippy::cast_precision_loss, reason = "a file's size in megabytes")]
    let size = |meta: fs::Metadata| meta.len() as f64 / 1e6;
    fs::metadata(path).map(size).map_err(|e| format!("`{}`: {e}", path.display()))
}

/// How large the program is, beside kubectl.
pub fn size() -> Row {
    Row {
        unit: "MB",
        variants: vec![
            Variant { label: "kubectl", run: Box::new(move || megabytes(&kubectl())) },
            Variant { label: "ours", run: Box::new(move || megabytes(&keyward())) },
        ],
        bars: vec![Bar {
            promise: "the program is no larger than kubectl",
            judge: |r| (r.ratio("ours", "kubectl"), 1.0),
        }],
    }
}

/// Milliseconds for one start, output thrown away.
pub fn start(command: &mut Command) -> Result<f64, String> {
    starts(STARTS, command)
}

/// Milliseconds for one start, averaged over `times`: for programs too slow for [`start`].
pub fn starts(times: u32, command: &mut Command) -> Result<f64, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let name = command.get_program().display().to_string();
    let begin = Instant::now();
    for _ in 0..times {
        let status = command.status().map_err(|e| format!("`{name}`: {e}"))?;
        if !status.success() {
            return Err(format!("`{name}` ended with {status}"));
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(times))
}

/// The program under test: beside us in the target directory.
pub fn keyward() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("keyward")
}

/// The kubectl of this machine; without one, a name whose start says what is missing.
pub fn kubectl() -> PathBuf {
    static FOUND: LazyLock<PathBuf> = LazyLock::new(|| {
        keyward_testing::kubectl::find(0).map_or_else(|_| "kubectl".into(), |kubectl| kubectl.path)
    });
    FOUND.clone()
}
