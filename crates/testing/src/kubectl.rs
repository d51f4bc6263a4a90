//! Finds the kubectl that tests, benchmarks and the conformance harness run beside Keyward.
//!
//! Google Cloud SDK installs a dispatcher as `kubectl`: it loads the kubeconfig, runs the credential plugin to
//! ask the server for its version, and then starts the `kubectl.1.NN` beside it that fits. A plugin runs twice
//! that way, so a dispatcher is never used. What earlier runs left in a cache is not looked at either.

use std::{
    env::{self, consts::EXE_SUFFIX},
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

/// Names the kubectl to use.
pub const VARIABLE: &str = "KEYWARD_KUBECTL";

/// A kubectl that is no dispatcher.
#[derive(Debug, Clone, PartialEq)]
pub struct Kubectl {
    /// Where it is.
    pub path: PathBuf,
    /// As it says itself, such as `v1.33.1`.
    pub version: String,
    /// The 33 of `v1.33.1`.
    pub minor: u32,
}

/// Why no kubectl was found.
#[derive(Debug, Clone, PartialEq)]
pub enum NotFound {
    /// `KEYWARD_KUBECTL` names something else: a mistake to mend, wherever it is seen.
    Named(String),
    /// The machine has none that is new enough.
    Absent(String),
}

/// Finds a kubectl of version 1.`least` or newer: the one that `KEYWARD_KUBECTL` names; or the first on `PATH` that is
/// no dispatcher; or the newest `kubectl.1.NN` beside a dispatcher.
#[expect(clippy::disallowed_methods, reason = "a test's own surroundings, outside of the product")]
pub fn find(least: u32) -> Result<Kubectl, NotFound> {
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(least, env::var_os(VARIABLE).as_deref(), &path)
}

/// The kubectl of this machine, found once.
///
/// # Panics
///
/// Without one, with the name of the Debian package.
pub fn installed() -> &'static Kubectl {
    static FOUND: OnceLock<Result<Kubectl, NotFound>> = OnceLock::new();
    match FOUND.get_or_init(|| find(0)) {
        Ok(kubectl) => kubectl,
        Err(why) => panic!("{why}"),
    }
}

fn find_in(least: u32, named: Option<&OsStr>, path: &OsStr) -> Result<Kubectl, NotFound> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let path = Path::new(named);
        let shown = path.display();
        let wrong = match Program::ask(path) {
            Some(Program::Kubectl(kubectl)) if kubectl.minor >= least => return Ok(kubectl),
            Some(Program::Kubectl(kubectl)) => {
                format!("{kubectl}, and 1.{least} or newer is needed")
            }
            Some(Program::Dispatcher) => format!(
                "`{shown}`, a dispatcher that runs plugins by itself; name the `kubectl.1.NN` beside it"
            ),
            None => format!("`{shown}`, which does not say a kubectl's version"),
        };
        return Err(NotFound::Named(format!("`{VARIABLE}` names {wrong}")));
    }
    let name = format!("kubectl{EXE_SUFFIX}");
    let mut too_old = None;
    let mut beside = Vec::new();
    for path in env::split_paths(path).map(|directory| directory.join(&name)) {
        match Program::ask(&path) {
            Some(Program::Kubectl(kubectl)) if kubectl.minor >= least => return Ok(kubectl),
            Some(Program::Kubectl(kubectl)) => too_old = Some(kubectl),
            Some(Program::Dispatcher) => beside.extend(versions_beside(&path)),
            None => {}
        }
    }
    beside.sort_by_key(|(minor, _)| *minor);
    let newest_first = beside.iter().rev().filter_map(|(_, path)| match Program::ask(path)? {
        Program::Kubectl(kubectl) => Some(kubectl),
        Program::Dispatcher => None,
    });
    for kubectl in newest_first {
        if kubectl.minor >= least {
            return Ok(kubectl);
        }
        too_old = too_old.or(Some(kubectl));
    }
    Err(NotFound::Absent(match too_old {
        Some(kubectl) => format!(
            "{kubectl} is too old: 1.{least} or newer is needed (`{VARIABLE}` names another)"
        ),
        None => format!(
            "no kubectl on `PATH`: install the Debian package `kubernetes-client`, or name one in `{VARIABLE}`"
        ),
    }))
}

/// The `kubectl.1.NN` beside a dispatcher, which may itself be a link into another directory.
fn versions_beside(dispatcher: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(dispatcher) = fs::canonicalize(dispatcher) else { return Vec::new() };
    let directory = dispatcher.parent().and_then(|directory| fs::read_dir(directory).ok());
    let entries = directory.into_iter().flatten().flatten();
    let minor = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_prefix("kubectl.1.")?;
        name.strip_suffix(EXE_SUFFIX)?.parse().ok()
    };
    entries.map(|entry| entry.path()).filter_map(|path| Some((minor(&path)?, path))).collect()
}

/// What a program of that name is.
enum Program {
    Kubectl(Kubectl),
    Dispatcher,
}

impl Program {
    /// Asks for its version; `None` when it is no kubectl.
    #[expect(clippy::disallowed_methods, reason = "a test's own start, outside of the product")]
    fn ask(path: &Path) -> Option<Self> {
        // A relative path would be looked up on `PATH`, or mean another file elsewhere.
        let path = std::path::absolute(path).ok().filter(|path| path.is_file())?;
        let output = Command::new(&path)
            .args(["version", "--client", "-o", "json"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
        let text = |field: &str| answer["clientVersion"][field].as_str().unwrap_or_default();
        let version = text("gitVersion").to_owned();
        if version.contains("dispatcher") {
            return Some(Self::Dispatcher);
        }
        let minor = text("minor").trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
        Some(Self::Kubectl(Kubectl { path, version, minor }))
    }
}

impl fmt::Display for Kubectl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.path.display(), self.version)
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Named(why) | Self::Absent(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for NotFound {}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// Directories with programs that say a version and do nothing else.
    struct Machine(TempDir);

    impl Machine {
        fn new(programs: &[(&str, &str)]) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            for (path, version) in programs {
                let path = machine.path(path);
                let minor = version.split('.').nth(1).unwrap();
                let answer = format!(
                    r#"{{"clientVersion":{{"major":"1","minor":"{minor}","gitVersion":"{version}"}}}}"#
                );
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                // Written by another process: a file that this one has open for writing is inherited by what
                // other tests start meanwhile, and cannot be executed as long as they have it.
                let script = r#"printf '#!/bin/sh\necho '"'%s'"'\n' "$1" >"$2" && chmod 755 "$2""#;
                let mut writer = Command::new("sh");
                writer.args(["-c", script, "sh", &answer]).arg(&path);
                assert!(writer.status().unwrap().success());
            }
            machine
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        /// What is found with these directories on `PATH`, as a path in this machine.
        fn finds(&self, least: u32, directories: &[&str]) -> Result<String, NotFound> {
            let path = env::join_paths(directories.iter().map(|name| self.path(name))).unwrap();
            let kubectl = find_in(least, None, &path)?;
            let inside = kubectl.path.strip_prefix(self.0.path().canonicalize().unwrap()).unwrap();
            Ok(inside.to_str().unwrap().to_owned())
        }
    }

    fn with_dispatcher() -> Machine {
        let machine = Machine::new(&[
            ("sdk/kubectl", "v1.32.4-dispatcher"),
            ("sdk/kubectl.1.9", "v1.9.3"),
            ("sdk/kubectl.1.33", "v1.33.1"),
            ("sdk/kubectl.1.32", "v1.32.5"),
            ("real/kubectl", "v1.28.2"),
            ("old/kubectl", "v1.20.2"),
        ]);
        fs::create_dir(machine.path("bin")).unwrap();
        symlink("../sdk/kubectl", machine.path("bin/kubectl")).unwrap();
        machine
    }

    #[test]
    fn the_newest_kubectl_beside_a_dispatcher_is_used_and_the_dispatcher_never() {
        let machine = with_dispatcher();
        assert_eq!(machine.finds(26, &["bin"]).unwrap(), "sdk/kubectl.1.33");
        fs::remove_file(machine.path("sdk/kubectl.1.33")).unwrap();
        fs::remove_file(machine.path("sdk/kubectl.1.32")).unwrap();
        assert!(matches!(machine.finds(26, &["bin"]), Err(NotFound::Absent(_))));
    }

    #[test]
    fn a_real_kubectl_on_path_goes_before_one_beside_a_dispatcher() {
        let machine = with_dispatcher();
        assert_eq!(machine.finds(26, &["bin", "real"]).unwrap(), "real/kubectl");
        assert_eq!(machine.finds(0, &["old", "real"]).unwrap(), "old/kubectl");
    }

    #[test]
    fn a_kubectl_that_is_too_old_is_passed_over_and_named_when_there_is_no_other() {
        let machine = with_dispatcher();
        assert_eq!(machine.finds(26, &["old", "bin"]).unwrap(), "sdk/kubectl.1.33");
        let Err(NotFound::Absent(why)) = machine.finds(26, &["old", "none"]) else { panic!() };
        assert!(why.contains("v1.20.2") && why.contains("1.26"), "{why}");
        let Err(NotFound::Absent(why)) = machine.finds(0, &["none"]) else { panic!() };
        assert!(why.contains("kubernetes-client"), "{why}");
    }

    #[test]
    fn a_named_kubectl_is_used_or_refused_and_never_replaced() {
        let machine = with_dispatcher();
        let path = machine.path("real");
        let find = |named: &str| {
            find_in(26, Some(machine.path(named).as_os_str()), path.as_os_str()).map(|k| k.minor)
        };
        assert_eq!(find("sdk/kubectl.1.32"), Ok(32));
        for named in ["sdk/kubectl", "old/kubectl", "none/kubectl"] {
            assert!(matches!(find(named), Err(NotFound::Named(_))), "{named}");
        }
        assert_eq!(find_in(26, Some(OsStr::new("")), path.as_os_str()).map(|k| k.minor), Ok(28));
    }
}
