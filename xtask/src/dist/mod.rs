//! `cargo xtask dist`: builds everything that people install (decision 0049).
//!
//! ```text
//! programs ──► trees of files ──► tar.gz, deb, rpm, OCI ──► SHA256SUMS
//! compile      contents           archive, deb, rpm_package, oci   sums
//! ```

mod archive;
pub mod compile;
mod contents;
mod deb;
mod dependencies;
mod install;
mod licences;
mod manifests;
mod oci;
mod package;
mod rpm_package;
mod sbom;
mod sums;
#[cfg(test)]
mod tests;
mod tree;
mod verify;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

pub use self::install::run_empty_root;
use self::{
    compile::Built,
    contents::Documents,
    oci::Layer,
    package::{Libraries, Package, Release},
    tree::Tree,
};
use crate::sh::{self, capture};

/// Builds the packages into `target/dist`, or where `--out` says.
pub fn run(args: &[String]) -> Result<bool, String> {
    let options = Options::read(args)?;
    let root = fs::canonicalize(crate::root()).map_err(read_error(crate::root()))?;
    let release = Release::find(&root)?;
    let out = options.out.unwrap_or_else(|| sh::target().join("dist"));
    let is_made = match options.make {
        Make::Nothing => true,
        Make::Twice => verify::run(&root, &out, &release)?,
        Make::Release | Make::Debug => {
            note_changes(&root)?;
            let stage = sh::target().join("dist-programs");
            let built = if options.make == Make::Debug {
                compile::take(&sh::target().join("debug"), &stage)?
            } else {
                compile::build(&root, &sh::target(), &stage, release.time)?
            };
            pack(&root, &built, &out, &release)?;
            true
        }
    };
    Ok(is_made && (!options.test || install::run(&out, &release)?))
}

#[derive(Default)]
struct Options {
    out: Option<PathBuf>,
    make: Make,
    test: bool,
}

/// What to make packages of.
#[derive(Default, PartialEq)]
enum Make {
    /// An optimised build.
    #[default]
    Release,
    /// Two optimised builds, which are compared.
    Twice,
    /// The programs of `target/debug`.
    Debug,
    /// Nothing: an earlier run has made them.
    Nothing,
}

impl Options {
    fn read(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--out" => {
                    let directory = args.next().ok_or("`--out` needs a directory")?;
                    options.out = Some(std::path::absolute(directory).map_err(|e| e.to_string())?);
                }
                "--debug" => options.make = Make::Debug,
                "--verify" => options.make = Make::Twice,
                "--only-test" => (options.make, options.test) = (Make::Nothing, true),
                "--test" => options.test = true,
                other => return Err(format!("`dist` has no option `{other}`")),
            }
        }
        Ok(options)
    }
}

impl Release {
    fn find(root: &Path) -> Result<Self, String> {
        let mut command = sh::cargo();
        command.current_dir(root);
        command.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&capture(&mut command)?)
            .map_err(|e| format!("cannot read cargo's metadata: {e}"))?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let own = packages.into_iter().find(|package| package["name"] == "keyward-cli");
        let own = own.ok_or("cargo's metadata has no `keyward-cli`")?;
        let text = |name: &str| own[name].as_str().unwrap_or_default().to_owned();
        let host = compile::host()?;
        Ok(Self {
            version: text("version"),
            repository: text("repository"),
            license: text("license"),
            arch: host.split('-').next().unwrap_or_default().to_owned(),
            time: time(root)?,
        })
    }
}

/// `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn time(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(given) => given,
        Err(_) => {
            capture(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))?
        }
    };
    text.trim().parse().map_err(|_| format!("`{}` is no time of a commit", text.trim()))
}

/// Others cannot build the same packages from what is not committed.
fn note_changes(root: &Path) -> Result<(), String> {
    let changes = capture(Command::new("git").current_dir(root).args(["status", "--porcelain"]))?;
    if !changes.is_empty() {
        eprintln!("note: the packages contain changes that are not committed");
    }
    Ok(())
}

/// Makes every package of these programs.
fn pack(source: &Path, built: &Built, out: &Path, release: &Release) -> Result<(), String> {
    if out.exists() {
        fs::remove_dir_all(out).map_err(write_error(out))?;
    }
    fs::create_dir_all(out).map_err(write_error(out))?;
    let dependencies = dependencies::find(source, &built.target)?;
    let documents = Documents {
        licences: licences::write(source, &dependencies)?,
        sbom: sbom::write(&dependencies, release)?,
    };
    let programs = contents::keyward(source, built, &documents)?;
    let signer = contents::pkcs11(source, built, &documents)?;
    let providers = contents::providers(source, built, &documents)?;
    put(out, &format!("keyward-{}.cdx.json", release.version), documents.sbom.as_bytes())?;

    let failed = |e: io::Error| format!("cannot pack: {e}");
    let mut all = programs.clone();
    all.extend(signer.clone());
    all.extend(providers.clone());
    let name = format!("keyward-{}-{}", release.version, built.target);
    let tarball = archive::tar(&all.under(&name), release.time).map_err(failed)?;
    let tarball = archive::gzip(&tarball).map_err(failed)?;
    put(out, &format!("{name}.tar.gz"), &tarball)?;
    manifests::write(source, out, release, built, &documents, &name, &tarball)?;

    let libraries = |programs: &[&str]| -> Result<Option<Libraries>, String> {
        let mut newest = None;
        for program in programs {
            let path = built.directory.join(program);
            newest = newest.max(Libraries::of(&fs::read(&path).map_err(read_error(&path))?));
        }
        Ok(newest)
    };
    let mut main = Package {
        name: "keyward",
        summary: "runs Kubernetes credential plugins once and shares the result",
        description: "Keyward runs each Kubernetes credential plugin once, shares the credential with kubectl, helm \
                      and other clients, and renews it before it expires.",
        tree: programs,
        libraries: libraries(&["keyward", "keyward-agent", "keyward-exec"])?,
    };
    let mut image = main.tree.clone();
    image.extend(providers.clone());
    let loaded = if main.libraries.is_some() { loaded_by(built)? } else { Tree::default() };
    let image = oci::build(&image, &loaded, release, Layer::Compressed)?;
    put(out, &oci::file_name(release), &image)?;
    main.tree.extend(contents::units(built)?);
    let signer = Package {
        name: "keyward-pkcs11",
        summary: "signs Kubernetes handshakes with keys in smart cards, TPMs and HSMs",
        description: "keyward-pkcs11 is an external signer for Keyward: it signs TLS handshakes with a key that a \
                      PKCS#11 library reaches and that never leaves its token.",
        tree: signer,
        libraries: libraries(&["keyward-pkcs11"])?,
    };
    let providers = Package {
        name: "keyward-providers",
        summary: "logs in to clusters and registries of clouds and with OpenID Connect",
        description: "keyward-providers replaces the credential plugins of clouds, registries and OpenID providers \
                      with one program; its name or first argument selects the provider.",
        tree: providers,
        libraries: libraries(&["keyward-providers"])?,
    };
    for package in [&main, &signer, &providers] {
        put(
            out,
            &deb::file_name(package, release),
            &deb::build(package, release).map_err(failed)?,
        )?;
        put(
            out,
            &rpm_package::file_name(package, release),
            &rpm_package::build(package, release)?,
        )?;
    }
    put(out, sums::FILE, sums::of_directory(out)?.as_bytes())?;
    for file in sums::file_names(out)? {
        let size = fs::metadata(out.join(&file)).map_err(read_error(out))?.len();
        println!("{size:>12}  {}", out.join(file).display());
    }
    Ok(())
}

/// Makes the image of the programs in `target/debug`, for tests that run it: without documents and debug information,
/// and not compressed, because this program is not optimised either.
pub fn debug_image(path: &Path) -> Result<(), String> {
    let root = fs::canonicalize(crate::root()).map_err(read_error(crate::root()))?;
    let stage = sh::target().join("e2e/programs");
    let built = compile::take(&sh::target().join("debug"), &stage)?;
    for program in compile::PROGRAMS {
        capture(Command::new("strip").arg(stage.join(program)))?;
    }
    let documents = Documents { licences: String::new(), sbom: String::new() };
    let mut image = contents::keyward(&root, &built, &documents)?;
    image.extend(contents::providers(&root, &built, &documents)?);
    let loaded = loaded_by(&built)?;
    let bytes = oci::build(&image, &loaded, &Release::find(&root)?, Layer::Plain)?;
    fs::write(path, bytes).map_err(write_error(path))
}

/// The libraries that dynamic programs load, at the paths where they look for them.
fn loaded_by(built: &Built) -> Result<Tree, String> {
    let mut tree = Tree::default();
    for program in ["keyward", "keyward-agent", "keyward-exec", "keyward-providers"] {
        let text = capture(Command::new("ldd").arg(built.directory.join(program)))?;
        for path in text.split_whitespace().filter(|word| word.starts_with('/')) {
            tree.program(path.trim_start_matches('/'), Path::new(path))?;
        }
    }
    Ok(tree)
}

fn put(out: &Path, name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = out.join(name);
    fs::write(&path, bytes).map_err(write_error(&path))
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("cannot read `{}`: {error}", path.display())
}

fn write_error(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("cannot write `{}`: {error}", path.display())
}
