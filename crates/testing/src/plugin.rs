//! Finds the misbehaving test plugin, building it where needed.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::SystemTime,
};

const NAME: &str = "keyward-test-plugin";

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
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let folder = profile_folder();
        let path = folder.join(format!("{NAME}{}", env::consts::EXE_SUFFIX));
        if !is_fresh(&path) {
            build(&folder);
        }
        assert!(path.exists(), "cargo has not built {}", path.display());
        path
    })
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

fn is_fresh(path: &Path) -> bool {
    let Ok(built) = fs::metadata(path).and_then(|metadata| metadata.modified()) else {
        return false;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin").join(NAME);
    newest(&source).is_none_or(|newest| newest < built)
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let files = fs::read_dir(folder).ok()?;
    files.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok()).max()
}

#[expect(clippy::disallowed_methods, reason = "a test's own start, outside of the product")]
fn build(folder: &Path) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let built = Command::new(cargo)
        .args(["build", "--quiet", "-p", "keyward-testing", "--bin", NAME])
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent().unwrap_or(folder))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .status();
    assert!(built.is_ok_and(|status| status.success()), "`{NAME}` could not be built");
}
