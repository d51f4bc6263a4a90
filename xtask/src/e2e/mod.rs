//! `cargo xtask e2e`: builds the programs of a real cluster once, then runs the steps on it.

mod needs;
pub mod parts;

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
};

use crate::{chart, dist, sh};

/// Flags for us; the steps get the others.
const FLAGS: [&str; 3] = ["--if-cached", "--build-only", "--no-build"];

/// Whose programs the steps run.
const PACKAGES: [&str; 8] = [
    "keyward-cli",
    "keyward-agent",
    "keyward-exec",
    "keyward-node",
    "keyward-providers",
    "keyward-testing",
    "keyward-pkcs11",
    "keyward-e2e",
];

/// Runs it; other words of `args` go to it. With `--if-cached` nothing is built that takes long: one
/// line says whether it ran.
pub fn run(args: &[String]) -> Result<bool, String> {
    let (flags, rest): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|arg| FLAGS.contains(&arg.as_str()));
    let has = |flag: &str| flags.iter().any(|arg| *arg == flag);
    let source = crate::root().join("e2e");
    let cache = cache(&source)?;
    fs::create_dir_all(&cache).map_err(|e| format!("cannot make `{}`: {e}", cache.display()))?;
    // Two runs at once would build the same thing twice, into one place.
    let lock =
        File::create(cache.join("lock")).map_err(|e| format!("cannot lock the cache: {e}"))?;
    lock.lock().map_err(|e| format!("cannot lock the cache: {e}"))?;

    let missing = needs::missing(&source);
    let stale = parts::stale(&source, &cache);
    if has("--if-cached") && !(missing.is_empty() && stale.is_empty()) {
        let why = if missing.is_empty() { stale.join(", ") } else { missing.join("; ") };
        println!("e2e: not run; not there: {why} (`cargo xtask e2e` says more)");
        return Ok(true);
    }
    if !missing.is_empty() {
        return Err(format!("e2e needs more than there is:\n  {}", missing.join("\n  ")));
    }
    parts::build(&source, &cache)?;
    if has("--build-only") {
        return Ok(true);
    }
    drop(lock);

    let mut build = sh::cargo();
    build.args(["build", "--quiet", "--bins"]);
    for package in PACKAGES {
        build.args(["--package", package]);
    }
    let is_built = has("--no-build") || sh::run(&mut build)?;
    if !is_built || !chart::check()? {
        return Ok(false);
    }
    if !rest.iter().any(|arg| *arg == "--without-nodes") {
        dist::debug_image(&sh::target().join("e2e/keyward.oci.tar"))?;
    }
    // Started by itself: `cargo run` would build it once more, for itself alone and so with fewer features.
    let program = sh::target().join("debug/e2e");
    let ok = sh::run(sh::program(program).arg("--cache").arg(&cache).args(rest))?;
    if has("--if-cached") {
        println!("e2e: ran, {}", if ok { "all of it passed" } else { "and failed" });
    }
    Ok(ok)
}

/// The kubectl of the pinned version of Kubernetes: the one that was built for the cluster, or one built alone into the
/// target directory. `None` when there is no Go to build it, or the build fails.
pub fn kubectl() -> Result<Option<PathBuf>, String> {
    let source = crate::root().join("e2e");
    let cached = cache(&source).map(|cache| cache.join("kubernetes/kubectl"));
    if let Ok(cached) = cached
        && cached.is_file()
    {
        return Ok(Some(cached));
    }
    if !sh::has("go") {
        return Ok(None);
    }
    let built = sh::target().join("kubectl");
    Ok(parts::kubectl(&source.join("programs/kubernetes"), &built)?.then_some(built))
}

/// Helm: the one that was built for the cluster, or one built alone into the target directory; only if `build` says so.
/// `None` when there is none, and no Go to build it.
pub fn helm(build: bool) -> Result<Option<PathBuf>, String> {
    let source = crate::root().join("e2e");
    let own = sh::target().join("helm4");
    let cached = cache(&source).map(|cache| cache.join("helm4/helm"));
    let found = cached.into_iter().chain([own.join("helm")]).find(|helm| helm.is_file());
    if found.is_some() || !build || !sh::has("go") {
        return Ok(found);
    }
    fs::create_dir_all(&own).map_err(|e| format!("cannot make `{}`: {e}", own.display()))?;
    Ok(parts::go(&source.join("programs/helm4"), &own)?.then(|| own.join("helm")))
}

/// A Python with the Kubernetes clients: the one that was made for the cluster, or one in the target directory.
pub fn python() -> Result<PathBuf, String> {
    let source = crate::root().join("e2e");
    let (cached, part) = (cache(&source)?, parts::PYTHON);
    let place = if part.is_complete(&source, &cached) { cached } else { sh::target() };
    parts::build_these(&[part], &source, &place)?;
    Ok(place.join(parts::PYTHON.name).join("bin/python3"))
}

/// Builds int128's kubelogin, in the version that the cluster's steps use.
pub fn kubelogin(program: &Path) -> Result<bool, String> {
    parts::kubelogin(&crate::root().join("e2e/programs/kubelogin"), program)
}

/// Outside of the tree, so that a clean tree need not build Kubernetes again.
fn cache(source: &Path) -> Result<PathBuf, String> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(home)
        .ok_or("neither `XDG_CACHE_HOME` nor `HOME` says where a cache may be")?;
    Ok(folder.join("keyward/e2e").join(parts::version(source)?))
}
