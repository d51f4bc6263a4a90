//! Builds the programs that are shipped, the same way in every directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{capture, write_error};
use crate::{packages, sh};

/// The programs that are shipped. The other bridges and `kubectl-keyward` are links to `keyward`.
pub const PROGRAMS: [&str; 6] = [
    "keyward",
    "keyward-agent",
    "keyward-exec",
    "keyward-pkcs11",
    "keyward-provider-node",
    "keyward-providers",
];

/// The most bytes of programs: `keyward-exec` starts with every kubectl and `keyward-provider-node` with every pull, and
/// `keyward-providers` is copied to nodes.
const LARGEST: [(&str, u64); 3] = [
    ("keyward-exec", 600_000),
    ("keyward-provider-node", 3_000_000),
    ("keyward-providers", 20_000_000),
];

/// Where the built programs are, side by side as they are installed.
#[derive(Debug)]
pub struct Built {
    /// The directory of the programs.
    pub directory: PathBuf,
    /// The `keyward` that writes its manual pages, completions and unit.
    pub keyward: PathBuf,
    /// The `keyward-providers` that creates its links.
    pub providers: PathBuf,
    /// The target of all programs but `keyward-pkcs11`.
    pub target: String,
}

impl Built {
    fn new(directory: &Path, target: String) -> Self {
        Self {
            directory: directory.to_owned(),
            keyward: directory.join("keyward"),
            providers: directory.join("keyward-providers"),
            target,
        }
    }
}

/// One call of `cargo build`.
struct Step<'a> {
    profile: &'static str,
    target: &'a str,
    packages: &'static [&'static str],
    programs: &'static [&'static str],
    flags: &'static [&'static str],
}

/// Makes a program for glibc static. It starts faster, and must not look up names or load libraries.
pub const STATIC: &str = "-Ctarget-feature=+crt-static";

/// Builds the programs of the sources in `source` and puts them into `directory`.
pub fn build(source: &Path, target: &Path, directory: &Path, time: u64) -> Result<Built, String> {
    let host = host()?;
    let main = static_target(&host)?.unwrap_or_else(|| host.clone());
    let steps = [
        Step {
            profile: "release",
            target: &main,
            packages: &["keyward-cli", "keyward-agent"],
            programs: &["keyward", "keyward-agent"],
            flags: &[],
        },
        Step {
            profile: "exec",
            target: &main,
            packages: &["keyward-exec"],
            programs: &["keyward-exec"],
            flags: &[],
        },
        // The kubelet waits for it in every pull.
        Step {
            profile: "exec",
            target: &main,
            packages: &["keyward-node"],
            programs: &["keyward-provider-node"],
            flags: &[STATIC],
        },
        // A step of its own: features that its SDKs need must not get into the other programs.
        Step {
            profile: "release",
            target: &main,
            packages: &["keyward-providers"],
            programs: &["keyward-providers"],
            flags: &[],
        },
        // It loads a vendor's library, which a static program cannot.
        Step {
            profile: "release",
            target: &host,
            packages: &["keyward-pkcs11"],
            programs: &["keyward-pkcs11"],
            flags: &[],
        },
    ];
    fs::create_dir_all(directory).map_err(write_error(directory))?;
    for step in &steps {
        if !sh::run(&mut step.command(source, target, time))? {
            return Err(format!("cannot build {}", step.programs.join(", ")));
        }
        for program in step.programs {
            let built = target.join(step.target).join(step.profile).join(program);
            let place = directory.join(program);
            let size = fs::copy(&built, &place).map_err(write_error(&place))?;
            let most = LARGEST.iter().find(|(name, _)| name == program).map(|(_, most)| *most);
            if let Some(most) = most.filter(|most| size > *most) {
                return Err(format!("`{program}` has {size} bytes, more than {most}"));
            }
        }
    }
    Ok(Built::new(directory, main))
}

/// Copies programs that cargo has built for the tests: for tests of the packages themselves.
pub fn take(from: &Path, directory: &Path) -> Result<Built, String> {
    fs::create_dir_all(directory).map_err(write_error(directory))?;
    for program in PROGRAMS {
        let place = directory.join(program);
        fs::copy(from.join(program), &place)
            .map_err(|e| format!("cannot copy `{program}` from `{}`: {e}", from.display()))?;
    }
    Ok(Built::new(directory, host()?))
}

impl Step<'_> {
    fn command(&self, source: &Path, target: &Path, time: u64) -> Command {
        let mut command = sh::cargo();
        command.current_dir(source).args(["build", "--locked", "--profile", self.profile]);
        command.args(["--target", self.target, "--target-dir"]).arg(target);
        for package in self.packages {
            command.args(["--package", package]);
        }
        for program in self.programs {
            command.args(["--bin", program]);
        }
        // What a developer has set for the own builds.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PROFILE_") || FLAGS.contains(&text.as_ref()) {
                command.env_remove(&name);
            }
        }
        // The last prefix that fits counts.
        let prefixes = [
            (cargo_home(), "/cargo"),
            (source.to_owned(), "/keyward"),
            (target.to_owned(), "/target"),
        ];
        let rust: Vec<String> = prefixes
            .iter()
            .map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()))
            .chain(self.flags.iter().map(|flag| (*flag).to_owned()))
            .collect();
        let c: Vec<String> = prefixes
            .iter()
            .map(|(path, name)| format!("-ffile-prefix-map={}={name}", path.display()))
            .collect();
        // The separator of cargo, so that paths may have spaces.
        command.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f"));
        command.env("CFLAGS", c.join(" ")).env("SOURCE_DATE_EPOCH", time.to_string());
        // For `keyward version`. Sources outside of a repository have none.
        let mut git = Command::new("git");
        if let Ok(commit) = capture(git.current_dir(crate::root()).args(["rev-parse", "HEAD"])) {
            command.env("KEYWARD_COMMIT", commit.trim());
        }
        command
    }
}

/// Variables that change what cargo and the C compiler produce.
const FLAGS: [&str; 6] = [
    "RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CFLAGS",
    "TARGET_CFLAGS",
    "HOST_CFLAGS",
];

fn cargo_home() -> PathBuf {
    let home = || std::env::home_dir().unwrap_or_default().join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// The target that the toolchain builds for by default.
pub fn host() -> Result<String, String> {
    let text = capture(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc names no host".to_owned())
}

/// The target for static programs, if the toolchain has it and a C compiler for it is installed.
fn static_target(host: &str) -> Result<Option<String>, String> {
    let Some(target) = host.strip_suffix("-gnu").map(|machine| format!("{machine}-musl")) else {
        return Ok(None);
    };
    let print = ["--print", "target-libdir", "--target", &target];
    let libraries = capture(Command::new("rustc").args(print))?;
    if !Path::new(libraries.trim()).is_dir() {
        eprintln!("the programs will need glibc: `rustup target add {target}` makes them static");
        return Ok(None);
    }
    packages::install_these(&[("musl-gcc", "musl-tools")], &[])?;
    if !packages::on_path("musl-gcc") {
        eprintln!("the programs will need glibc: install the Debian package musl-tools");
        return Ok(None);
    }
    Ok(Some(target))
}
