//! The programs of others: built or installed once, kept until what they are made from changes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::sh;

/// Something in the cache.
pub struct Part {
    /// The part's directory in the cache.
    pub name: &'static str,
    /// The file it is made from, in the source; a copy of it in the directory says that it is complete.
    pub from: &'static str,
    /// Makes it from the directory of that file, into its own directory.
    pub build: fn(&Path, &Path) -> Result<bool, String>,
}

const PARTS: &[Part] = &[
    Part { name: "node", from: "node/package-lock.json", build: node },
    Part { name: "venv", from: "python/requirements.txt", build: venv },
    Part { name: "kubelogin", from: "programs/kubelogin/go.mod", build: go },
    Part {
        name: "aws-iam-authenticator",
        from: "programs/aws-iam-authenticator/go.mod",
        build: go,
    },
    Part { name: "kubernetes", from: "programs/kubernetes/go.mod", build: go },
    Part { name: "kubectl-old", from: "programs/kubectl-old/go.mod", build: go },
    Part { name: "helm3", from: "programs/helm3/go.mod", build: go },
    Part { name: "helm4", from: "programs/helm4/go.mod", build: go },
    Part { name: "k9s", from: "programs/k9s/go.mod", build: go },
    PYTHON,
    Part { name: "clients-node", from: "clients/node/package-lock.json", build: node },
    Part { name: "clients-java", from: "clients/java/pom.xml", build: java },
];

/// The Kubernetes clients for Python.
pub const PYTHON: Part =
    Part { name: "clients-python", from: "clients/python/requirements.txt", build: venv };

/// The parts that are not there, or made from something else.
pub fn stale(source: &Path, cache: &Path) -> Vec<String> {
    let stale = PARTS.iter().filter(|part| !part.is_complete(source, cache));
    stale.map(|part| part.name.to_owned()).collect()
}

/// Builds what is stale. Kubernetes takes its time.
pub fn build(source: &Path, cache: &Path) -> Result<(), String> {
    build_these(PARTS, source, cache)?;
    // The scripts are ours: always as they are in the tree.
    let scripts = [
        ("node/provider.mjs", "node/provider.mjs"),
        ("node/reviewer.mjs", "node/reviewer.mjs"),
        ("clients/node/client.mjs", "clients-node/client.mjs"),
    ];
    for (from, to) in scripts {
        fs::copy(source.join(from), cache.join(to)).map_err(failed)?;
    }
    classes(&source.join("clients/java"), &cache.join("clients-java"))
}

/// Builds those of these parts that are stale.
pub fn build_these(parts: &[Part], source: &Path, cache: &Path) -> Result<(), String> {
    for part in parts.iter().filter(|part| !part.is_complete(source, cache)) {
        let folder = cache.join(part.name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(failed)?;
        let from = source.join(part.from);
        let inputs = from.parent().unwrap_or(source);
        if !(part.build)(inputs, &folder)? {
            return Err(format!("`{}` could not be built", part.name));
        }
        fs::copy(&from, part.mark(cache)).map_err(failed)?;
    }
    Ok(())
}

/// The pinned version of Kubernetes, as its `go.mod` says.
pub fn version(source: &Path) -> Result<String, String> {
    let text = fs::read_to_string(source.join("programs/kubernetes/go.mod")).map_err(failed)?;
    text.lines()
        .find_map(|line| {
            line.trim().trim_start_matches("require ").strip_prefix("k8s.io/kubernetes ")
        })
        .and_then(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .ok_or_else(|| "`e2e/programs/kubernetes/go.mod` names no version".to_owned())
}

impl Part {
    /// Whether it is there, made from what is in the source now.
    pub fn is_complete(&self, source: &Path, cache: &Path) -> bool {
        let wanted = fs::read(source.join(self.from));
        let there = fs::read(self.mark(cache));
        matches!((wanted, there), (Ok(wanted), Ok(there)) if wanted == there)
    }

    fn mark(&self, cache: &Path) -> PathBuf {
        cache.join(self.name).join(".made-from")
    }
}

/// Builds every tool of a module, or the program that it is.
pub fn go(module: &Path, folder: &Path) -> Result<bool, String> {
    let package = if module.join("main.go").is_file() { "." } else { "tool" };
    go_build(module, package, folder)
}

/// Builds kubectl alone, from the module of Kubernetes.
pub fn kubectl(module: &Path, program: &Path) -> Result<bool, String> {
    go_build(module, "k8s.io/kubernetes/cmd/kubectl", program)
}

/// Builds kubelogin, from its module.
pub fn kubelogin(module: &Path, program: &Path) -> Result<bool, String> {
    go_build(module, "github.com/int128/kubelogin", program)
}

fn go_build(module: &Path, package: &str, output: &Path) -> Result<bool, String> {
    let mut flags = "-s -w".to_owned();
    if module.ends_with("kubernetes") {
        flags += &stamp(&version(module.parent().and_then(Path::parent).unwrap_or(module))?);
    }
    let mut command = Command::new("nice");
    command.args(["go", "build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]);
    command.arg(output).arg(package).current_dir(module);
    sh::run(&mut command)
}

/// What the release's own build writes into the programs, so that they say their version.
fn stamp(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or("0"), numbers.next().unwrap_or("0"));
    let values = [
        ("gitVersion", version),
        ("gitMajor", major),
        ("gitMinor", minor),
        ("gitTreeState", "clean"),
    ];
    let packages = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
    let flag =
        |package| values.map(|(name, value)| format!(" -X {package}.{name}={value}")).concat();
    packages.map(flag).concat()
}

/// Installs the modules of a lock file.
pub fn node(inputs: &Path, folder: &Path) -> Result<bool, String> {
    for file in ["package.json", "package-lock.json"] {
        fs::copy(inputs.join(file), folder.join(file)).map_err(failed)?;
    }
    let mut command = Command::new("npm");
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
    sh::run(&mut command)
}

fn venv(inputs: &Path, folder: &Path) -> Result<bool, String> {
    let made = sh::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let mut command = Command::new(folder.join("bin/pip"));
    command.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    Ok(made && sh::run(command.arg(inputs.join("requirements.txt")))?)
}

/// The libraries that the Java clients are made of.
fn java(inputs: &Path, folder: &Path) -> Result<bool, String> {
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode", "--file"]).arg(inputs.join("pom.xml"));
    command.arg("dependency:copy-dependencies");
    command.arg(format!("-DoutputDirectory={}", folder.join("lib").display()));
    sh::run(&mut command)
}

/// Compiles the Java clients, which are ours.
fn classes(inputs: &Path, folder: &Path) -> Result<(), String> {
    let sources = inputs.join("src/main/java/keyward/e2e");
    let mut command = Command::new("javac");
    command.arg("-cp").arg(format!("{}/lib/*", folder.display()));
    command.arg("-d").arg(folder.join("classes"));
    command.args(["Official.java", "Fabric8.java", "Work.java"].map(|file| sources.join(file)));
    if sh::run(&mut command)? { Ok(()) } else { Err("the Java clients do not compile".to_owned()) }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn failed(error: std::io::Error) -> String {
    format!("the cache cannot be used: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_version_is_read_from_the_module() {
        let version = version(&crate::root().join("e2e")).unwrap();
        assert!(version.starts_with("v1."), "{version}");
        let flags = stamp(&version);
        assert!(flags.contains(&format!("k8s.io/client-go/pkg/version.gitVersion={version}")));
    }

    #[test]
    fn a_part_is_complete_only_with_the_mark_of_what_it_is_made_from() {
        let (source, cache) = (crate::root().join("e2e"), tempfile::tempdir().unwrap());
        assert_eq!(stale(&source, cache.path()).len(), PARTS.len());
        let part = &PARTS[0];
        fs::create_dir(cache.path().join(part.name)).unwrap();
        fs::write(part.mark(cache.path()), "another").unwrap();
        assert!(!part.is_complete(&source, cache.path()));
        fs::copy(source.join(part.from), part.mark(cache.path())).unwrap();
        assert!(part.is_complete(&source, cache.path()));
    }
}
