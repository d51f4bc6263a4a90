//! The crates that people get: everything in the workspace that may be published.

use std::{collections::BTreeSet, process::Stdio};

use serde_json::Value;

use crate::sh;

/// A crate of the workspace that may be published.
pub struct Crate {
    /// The crate's name.
    pub name: String,
    /// Whether others can depend on it.
    pub is_library: bool,
    features: Vec<String>,
}

/// All of them, by name.
pub fn crates() -> Result<Vec<Crate>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut crates: Vec<Crate> = packages()?
        .iter()
        // An empty list is how cargo writes `publish = false`.
        .filter(|package| package["publish"].is_null())
        .map(|package| Crate {
            name: text(&package["name"]),
            is_library: is_library(package)
                && !PROGRAMS.contains(&package["name"].as_str().unwrap_or_default()),
            features: package["features"]
                .as_object()
                .map(|features| {
                    features.keys().filter(|name| *name != "default").cloned().collect()
                })
                .unwrap_or_default(),
        })
        .collect();
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

/// The names of the programs that the workspace builds.
pub fn programs() -> Result<BTreeSet<String>, String> {
    let packages = packages()?;
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let programs = targets.filter(|target| is_kind(target, "bin"));
    Ok(programs.filter_map(|target| target["name"].as_str()).map(str::to_owned).collect())
}

/// The packages of the workspace, as cargo describes them.
fn packages() -> Result<Vec<Value>, String> {
    let output = sh::cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let mut metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Err("cargo metadata names no packages".into()),
    }
}

/// Crates whose libraries exist only for their own programs and tests.
const PROGRAMS: [&str; 5] =
    ["keyward-cli", "keyward-exec", "keyward-node", "keyward-pkcs11", "keyward-providers"];

fn is_library(package: &Value) -> bool {
    package["targets"].as_array().into_iter().flatten().any(|target| is_kind(target, "lib"))
}

fn is_kind(target: &Value, kind: &str) -> bool {
    target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|known| known == kind))
}

/// Whether each crate with features compiles without any, and with each one alone.
pub fn check_features() -> Result<bool, String> {
    let mut ok = true;
    for one in crates()?.iter().filter(|one| !one.features.is_empty()) {
        let check = |features: &[&str]| {
            let arguments = ["check", "--quiet", "--package", &one.name, "--no-default-features"];
            sh::run(sh::cargo().args(arguments).args(features))
        };
        ok &= check(&[])?;
        for feature in &one.features {
            ok &= check(&["--features", feature])?;
        }
    }
    Ok(ok)
}

/// Whether cargo can make a package of each crate, in the order of their dependencies. Nothing is sent.
pub fn check_packages() -> Result<bool, String> {
    let mut package = sh::cargo();
    package.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    for one in crates()? {
        package.args(["--package", &one.name]);
    }
    sh::run(&mut package)
}
