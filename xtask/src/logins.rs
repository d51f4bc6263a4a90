//! The OpenID providers that the tests log in to, and what judges pages, in `target/judges`.

use std::{fs, path::Path, process::Command};

use crate::{
    e2e::parts::{self, Part},
    packages, sh,
};

const PARTS: &[Part] = &[
    Part { name: "node", from: "e2e/node/package-lock.json", build: parts::node },
    Part { name: "axe", from: "crates/cli/judges/axe/package-lock.json", build: parts::node },
];

/// Installs npm's oidc-provider, and axe-core, which judges the dashboard. Without npm, the tests that
/// need them fail with the names of the packages.
pub fn install_modules() -> Result<(), String> {
    if !packages::on_path("npm") {
        eprintln!(
            "`npm` is missing: the tests of `keyward-oidc` and of the dashboard need the Debian \
             packages nodejs and npm"
        );
        return Ok(());
    }
    parts::build_these(PARTS, crate::root(), &sh::target().join("judges"))
}

const KEYCLOAK: Part =
    Part { name: "keycloak", from: "plugins/providers/judges/keycloak/artifact", build: unpack };

/// What Keycloak and its test need.
const NEEDED: &[(&str, &str)] = &[
    ("mvn", "maven"),
    ("java", "default-jre-headless"),
    ("node", "nodejs"),
    ("curl", "curl"),
    ("openssl", "openssl"),
];

/// `cargo xtask keycloak`: installs Keycloak and runs the logins against it.
pub fn keycloak() -> Result<bool, String> {
    packages::install_these(NEEDED, &[])?;
    parts::build_these(&[KEYCLOAK], crate::root(), &sh::target().join("judges"))?;
    let mut command = sh::cargo();
    sh::run(command.args(["test", "--workspace", "--test", "keycloak"]))
}

/// Downloads an archive with Maven and unpacks it.
fn unpack(inputs: &Path, folder: &Path) -> Result<bool, String> {
    let artifact = fs::read_to_string(inputs.join("artifact")).map_err(|e| e.to_string())?;
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode", "dependency:unpack"]);
    command.arg(format!("-Dartifact={}", artifact.trim()));
    command.arg(format!("-DoutputDirectory={}", folder.display()));
    sh::run(&mut command)
}
