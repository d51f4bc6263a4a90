//! The Debian packages that the tests need.

use std::{path::Path, process::Command};

use keyward_testing::kubectl::{self, NotFound};

use crate::{judges, logins, sh};

/// A program the tests start, and the package it comes in.
const NEEDED: &[(&str, &str)] = &[
    ("openssl", "openssl"),
    ("curl", "curl"),
    ("setpriv", "util-linux"),
    ("gcore", "gdb"),
    ("systemd-analyze", "systemd"),
    ("python3", "python3-minimal"),
    ("softhsm2-util", "softhsm2"),
    ("pkcs11-tool", "opensc"),
    ("swtpm", "swtpm"),
    ("skopeo", "skopeo"),
    ("docker-registry", "docker-registry"),
    ("htpasswd", "apache2-utils"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("p11-kit", "p11-kit"),
    ("man", "man-db"),
    ("promtool", "prometheus"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("chromium-headless-shell", "chromium-headless-shell"),
    ("dbus-daemon", "dbus-daemon"),
    ("dbus-send", "dbus-bin"),
    ("gnome-keyring-daemon", "gnome-keyring"),
];

/// A library the tests load, and the package it comes in.
const LIBRARIES: &[(&str, &str)] = &[
    ("pkcs11-spy.so", "opensc-pkcs11"),
    ("p11-kit-client.so", "p11-kit-modules"),
    ("libtpm2_pkcs11.so", "libtpm2-pkcs11-1"),
];

/// Installs what is missing when we may (root, or sudo without a password); otherwise names it.
/// The tests that need it then fail, each with the package's name.
pub fn install() -> Result<(), String> {
    let mut missing = absent(NEEDED, LIBRARIES);
    // A dispatcher of that name is no kubectl.
    match kubectl::find(0) {
        Ok(kubectl) => println!("kubectl: the tests run {kubectl}"),
        Err(NotFound::Absent(_)) => missing.push("kubernetes-client"),
        Err(why) => return Err(why.to_string()),
    }
    install_missing(&missing)?;
    judges::install_python()?;
    logins::install_modules()
}

/// Installs these packages, as [`install`] does.
pub fn install_packages(packages: &[&str]) -> Result<(), String> {
    install_missing(packages)
}

/// What the bench starts beside ours.
const BENCH: &[(&str, &str)] = &[("nginx", "nginx-light"), ("curl", "curl")];

/// Installs what the bench needs, as [`install`] does for the tests.
pub fn install_for_bench() -> Result<(), String> {
    let mut missing = absent(BENCH, &[]);
    if matches!(kubectl::find(0), Err(NotFound::Absent(_))) {
        missing.push("kubernetes-client");
    }
    install_missing(&missing)
}

/// Installs what is missing of these programs and libraries, each named with its package.
pub fn install_these(
    programs: &[(&str, &'static str)],
    libraries: &[(&str, &'static str)],
) -> Result<(), String> {
    install_missing(&absent(programs, libraries))
}

/// The packages of those that are not there.
fn absent(
    programs: &[(&str, &'static str)],
    libraries: &[(&str, &'static str)],
) -> Vec<&'static str> {
    let programs = programs.iter().filter(|(program, _)| !on_path(program));
    let libraries = libraries.iter().filter(|(library, _)| !is_library(library));
    programs.chain(libraries).map(|(_, package)| *package).collect()
}

fn install_missing(missing: &[&str]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    let Some(prefix) = privilege() else {
        eprintln!("missing Debian packages, and neither root nor sudo: {}", missing.join(" "));
        return Ok(());
    };
    let apt = |args: &[&str]| {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["apt-get", "-qq"]).chain(args.iter().copied()).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        sh::run(&mut command)
    };
    apt(&["update"])?;
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(missing);
    if !apt(&args)? {
        eprintln!("could not install: {}", missing.join(" "));
    }
    Ok(())
}

/// Whether a program of this name is in a directory of `PATH`.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_library(file: &str) -> bool {
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [machine.clone(), format!("{machine}/pkcs11"), "/usr/lib".to_owned()];
    folders.iter().any(|folder| Path::new(folder).join(file).is_file())
}

/// How to become root: not at all, by sudo, or `None` when there is no way.
fn privilege() -> Option<Vec<&'static str>> {
    let output = |program: &str, args: &[&str]| Command::new(program).args(args).output().ok();
    let id = output("id", &["-u"])?;
    if id.stdout.trim_ascii() == b"0" {
        return Some(Vec::new());
    }
    output("sudo", &["-n", "true"])?.status.success().then(|| vec!["sudo", "-n"])
}
