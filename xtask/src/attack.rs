//! `cargo xtask attack`: builds the programs, unless others are named, and attacks them.

use std::path::PathBuf;

use crate::{packages, sh};

/// A program that the attacks start, and the package it comes in.
const NEEDED: &[(&str, &str)] = &[
    ("setpriv", "util-linux"),
    ("openssl", "openssl"),
    ("cc", "gcc"),
    ("setfacl", "acl"),
    ("bindfs", "bindfs"),
    ("fusermount3", "fuse3"),
    ("gcore", "gdb"),
    ("faketime", "faketime"),
    ("strace", "strace"),
    ("softhsm2-util", "softhsm2"),
];

/// A library that they load.
const LIBRARIES: &[(&str, &str)] = &[("pkcs11-spy.so", "opensc-pkcs11")];

/// Attacks; `--binary PATH` names a `keyward` that was built before, with its companions beside it,
/// and `--release` builds the optimised ones. Everything else goes to the suite.
pub fn run(args: &[String]) -> Result<bool, String> {
    packages::install_these(NEEDED, LIBRARIES)?;
    let mut rest: Vec<&str> = args.iter().map(String::as_str).collect();
    let release = rest.contains(&"--release");
    rest.retain(|arg| *arg != "--release");
    let mut build = sh::cargo();
    build.args(["build", "--quiet", "--package", "keyward-attack"]);
    if !sh::run(&mut build)? {
        return Ok(false);
    }
    let named = rest.contains(&"--binary");
    let binary: PathBuf =
        sh::target().join(if release { "release" } else { "debug" }).join("keyward");
    if !named {
        let mut build = sh::cargo();
        build.args(["build", "--quiet", "--package", "keyward-cli", "--package", "keyward-pkcs11"]);
        if !sh::run(build.args(release.then_some("--release")))? {
            return Ok(false);
        }
    }
    let mut attack = std::process::Command::new(sh::target().join("debug/attack"));
    attack.args(rest);
    if !named {
        attack.arg("--binary").arg(binary);
    }
    sh::run(&mut attack)
}
