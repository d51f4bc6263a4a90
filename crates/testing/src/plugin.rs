//! Finds the programs of this workspace that tests run, building them where needed.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::SystemTime,
};

const NAME: &str = "keyward-test-plugin";

/// The variable that a test sets for a process that may build nothing: programs are used as they are.
pub const AS_BUILT: &str = "KEYWARD_TEST_AS_BUILT";

/// The path of the test plugin. Its first argument says how it misbehaves; see its source for the
/// list.
///
/// Cargo builds it for this package's own tests only, so for others it is built here, once, unless
/// it is there and newer than its source.
///
/// # Panics
///
/// When it is not there and cannot be built.
pub fn path() -> &'static Path {
    static BUILT: Built = Built::program("keyward-testing", NAME, &["src/bin/keyward-test-plugin"]);
    BUILT.path()
}

/// The path of the program `keyward`, for tests of other programs that work with it.
///
/// # Panics
///
/// When it is not there and cannot be built.
pub fn keyward() -> &'static Path {
    static BUILT: Built = Built::program(
        "keyward-cli",
        "keyward",
        &[
            "../agent/src",
            "../cli/src",
            "../image/src",
            "../node/src",
            "../proxy/src",
            "../keyward/src",
            "../host/src",
            "../process/src",
            "../protocol/src",
        ],
    );
    BUILT.path()
}

/// The path of the program `keyward-agent`, which `keyward` and `keyward-exec` look for beside
/// themselves.
///
/// # Panics
///
/// When it does not exist and cannot be built.
pub fn agent() -> &'static Path {
    static BUILT: Built = Built::program(
        "keyward-agent",
        "keyward-agent",
        &["../agent/src", "../host/src", "../process/src", "../protocol/src"],
    );
    BUILT.path()
}

/// The path of the program `keyward-exec`, which `keyward wrap` puts in front of plugins.
///
/// # Panics
///
/// When it does not exist and cannot be built.
pub fn exec() -> &'static Path {
    static BUILT: Built =
        Built::program("keyward-exec", "keyward-exec", &["../exec/src", "../protocol/src"]);
    BUILT.path()
}

/// The path of the program `keyward-provider-node`, which `keyward` looks for beside itself.
///
/// # Panics
///
/// When it does not exist and cannot be built.
pub fn provider_node() -> &'static Path {
    static BUILT: Built = Built::program(
        "keyward-node",
        "keyward-provider-node",
        &[
            "../node/src",
            "../agent/src",
            "../image/src",
            "../plugin/src",
            "../host/src",
            "../process/src",
            "../protocol/src",
        ],
    );
    BUILT.path()
}

/// The path of the program `keyward-pkcs11`, which `keyward demo` looks for beside `keyward`.
///
/// # Panics
///
/// When it does not exist and cannot be built.
pub fn pkcs11() -> &'static Path {
    static BUILT: Built = Built::program(
        "keyward-pkcs11",
        "keyward-pkcs11",
        &["../../plugins/pkcs11/src", "../plugin/src", "../protocol/src"],
    );
    BUILT.path()
}

/// The path of the program `keyward-providers`, which packages ask for its links.
///
/// # Panics
///
/// When it does not exist and cannot be built.
pub fn providers() -> &'static Path {
    static BUILT: Built = Built::program(
        "keyward-providers",
        "keyward-providers",
        &["../../plugins/providers/src", "../plugin/src", "../protocol/src"],
    );
    BUILT.path()
}

/// The path of an example of the plugin crate.
///
/// # Panics
///
/// When it is not there and cannot be built.
pub fn example(name: &'static str) -> PathBuf {
    const SOURCES: &[&str] =
        &["../plugin/examples", "../plugin/tests/plugins", "../plugin/src", "../protocol/src"];
    Built::example("keyward-plugin", name, SOURCES).find()
}

/// The path of an example of a client library: `keyward` or `keyward-kube`.
///
/// # Panics
///
/// When it does not exist and cannot be built.
pub fn client_example(package: &'static str, name: &'static str) -> PathBuf {
    const SOURCES: &[&str] = &[
        "../keyward/examples",
        "../keyward/src",
        "../kube/examples",
        "../kube/src",
        "../host/src",
        "../process/src",
        "../plugin/src",
        "../protocol/src",
    ];
    Built::example(package, name, SOURCES).find()
}

/// Copies a program that is run afterwards.
///
/// Another process copies it. A copy made here would be open for writing, and a program that another test starts
/// meanwhile would inherit that open file; while it has it, the copy cannot be run ("text file busy").
///
/// # Panics
///
/// When it cannot be copied.
#[expect(clippy::disallowed_methods, reason = "a test's own start, outside of the product")]
pub fn copy(from: &Path, to: &Path) {
    let copied =
        Command::new("cp").arg(from).arg(to).status().expect("`cp` is part of every Linux");
    assert!(copied.success(), "cannot copy {} to {}", from.display(), to.display());
}

/// A program of this workspace that tests run.
pub(crate) struct Built {
    package: &'static str,
    /// `--bin` or `--example`.
    flag: &'static str,
    name: &'static str,
    /// Where it is in the profile's directory.
    folder: &'static str,
    /// The directories it is built from, from this package's own.
    sources: &'static [&'static str],
    found: OnceLock<PathBuf>,
}

impl Built {
    const fn program(
        package: &'static str,
        name: &'static str,
        sources: &'static [&'static str],
    ) -> Self {
        Self { package, flag: "--bin", name, folder: "", sources, found: OnceLock::new() }
    }

    pub(crate) const fn example(
        package: &'static str,
        name: &'static str,
        sources: &'static [&'static str],
    ) -> Self {
        Self {
            package,
            flag: "--example",
            name,
            folder: "examples",
            sources,
            found: OnceLock::new(),
        }
    }

    /// Where it is, found once.
    pub(crate) fn path(&self) -> &Path {
        self.found.get_or_init(|| self.find())
    }

    /// Finds it, and builds it where it is not there or older than its source.
    fn find(&self) -> PathBuf {
        let folder = profile_folder();
        let file = format!("{}{}", self.name, env::consts::EXE_SUFFIX);
        let path = folder.join(self.folder).join(file);
        if may_build() && !is_fresh(&path, self) {
            build(&folder, self);
        }
        assert!(path.exists(), "cargo has not built {}", path.display());
        path
    }
}

#[expect(clippy::disallowed_methods, reason = "a word from one test to another")]
fn may_build() -> bool {
    env::var_os(AS_BUILT).is_none()
}

/// `target/debug`, or where else this test was built.
fn profile_folder() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    let deps = own.parent().unwrap_or(Path::new("."));
    if deps.ends_with("deps") || deps.ends_with("examples") {
        deps.parent().unwrap_or(deps).to_owned()
    } else {
        deps.to_owned()
    }
}

fn is_fresh(path: &Path, program: &Built) -> bool {
    let Ok(built) = fs::metadata(path).and_then(|metadata| metadata.modified()) else {
        return false;
    };
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let changed = program.sources.iter().filter_map(|folder| newest(&own.join(folder)));
    changed.max().is_none_or(|newest| newest < built)
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let files = fs::read_dir(folder).ok()?;
    let times = files.filter_map(|file| {
        let file = file.ok()?;
        let metadata = file.metadata().ok()?;
        if metadata.is_dir() { newest(&file.path()) } else { metadata.modified().ok() }
    });
    times.max()
}

#[expect(clippy::disallowed_methods, reason = "a test's own start, outside of the product")]
fn build(folder: &Path, program: &Built) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let built = Command::new(cargo)
        .args(["build", "--quiet", "-p", program.package, program.flag, program.name])
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent().unwrap_or(folder))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .status();
    assert!(built.is_ok_and(|status| status.success()), "`{}` could not be built", program.name);
}
