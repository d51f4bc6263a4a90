//! What must be on the machine, and the package it comes in.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::packages;

/// A program and its Debian package.
const NEEDED: &[(&str, &str)] = &[
    ("etcd", "etcd-server"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3-minimal"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("softhsm2-util", "softhsm2"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("java", "default-jre-headless"),
    ("javac", "default-jdk-headless"),
    ("mvn", "maven"),
    ("ruby", "ruby"),
    ("tmux", "tmux"),
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("busybox", "busybox-static"),
    ("skopeo", "skopeo"),
    ("docker-registry", "docker-registry"),
    ("htpasswd", "apache2-utils"),
];

/// The oldest node that runs the provider of logins.
const NODE: u32 = 20;

/// What is not there, a line each.
pub fn missing(source: &Path) -> Vec<String> {
    let mut missing: Vec<String> = NEEDED
        .iter()
        .filter(|(program, _)| !packages::on_path(program))
        .map(|(program, package)| format!("`{program}`: Debian package {package}"))
        .collect();
    missing.extend(go(source));
    if packages::on_path("node") {
        missing.extend(node());
    }
    let venv = said(Command::new("python3").args(["-c", "import ensurepip, venv"]));
    if packages::on_path("python3") && venv.is_none() {
        missing.push("`pip` in a `venv` of python3: Debian package python3-venv".to_owned());
    }
    let kubeclient = said(Command::new("ruby").args(["-e", "require 'kubeclient'"]));
    if packages::on_path("ruby") && kubeclient.is_none() {
        missing.push("`kubeclient` of ruby: Debian package ruby-kubeclient".to_owned());
    }
    missing
}

fn go(source: &Path) -> Option<String> {
    const WHERE: &str = "Debian 12's own package golang-go is too old; take a current Go from its project, or \
                         from a newer Debian's package golang-go";
    if !packages::on_path("go") {
        return Some(format!("`go`: {WHERE}"));
    }
    // Where the module is, so that a Go that fetches the one it needs answers for that.
    let module = source.join("programs/kubernetes");
    let needed = std::fs::read_to_string(module.join("go.mod")).unwrap_or_default();
    let needed = needed.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or_default();
    let there = said(Command::new("go").args(["env", "GOVERSION"]).current_dir(module));
    let there = there.unwrap_or_default();
    if minor(there.trim().trim_start_matches("go")) >= minor(needed) {
        return None;
    }
    let there = if there.trim().is_empty() { "an older one" } else { there.trim() };
    Some(format!("`go` {needed} or newer, there is {there}: {WHERE}"))
}

fn node() -> Option<String> {
    let there = said(Command::new("node").arg("--version")).unwrap_or_default();
    let major = there.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    let old = major.parse::<u32>().is_ok_and(|major| major < NODE);
    old.then(|| {
        format!(
            "`node` {NODE} or newer, there is {}: a newer Debian's package nodejs",
            there.trim()
        )
    })
}

/// Major and minor number.
fn minor(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// What a program printed, if it succeeded.
fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(minor("1.26.8") >= minor("1.26.0"));
        assert!(minor("1.19.8") < minor("1.26.0"));
        assert!(minor("1.9") < minor("1.26"));
        assert!(minor("") < minor("1.26"));
    }
}
