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

/// The programs that are attacked.
const PROGRAMS: &[&str] =
    &["keyward", "keyward-pkcs11", "docker-credential-keyward", "keyward-provider-docker"];

/// Attacks; `--binary PATH` names a `keyward` that was built before, with its companions beside it,
/// and `--release` builds the optimised ones. Everything else goes to the suite.
pub fn run(args: &[String]) -> Result<bool, String> {
    packages::install_these(NEEDED, LIBRARIES)?;
    let mut rest: Vec<&str> = args.iter().map(String::as_str).collect();
    let release = rest.contains(&"--release");
    rest.retain(|arg| *arg != "--release");
    let named = rest.contains(&"--binary");
    // As members of the whole workspace, as the tests build them: other features would be built anew.
    let mut build = sh::cargo();
    build.args(["build", "--quiet", "--workspace", "--bin", "attack"]);
    if !named && !release {
        build.args(PROGRAMS.iter().flat_map(|name| ["--bin", name]));
    }
    if !sh::run(&mut build)? {
        return Ok(false);
    }
    if !named && release {
        // As they are installed.
        let mut build = sh::cargo();
        build.args(["build", "--quiet", "--release", "-p", "keyward-cli", "-p", "keyward-pkcs11"]);
        if !sh::run(&mut build)? {
            return Ok(false);
        }
    }
    let binary: PathBuf =
        sh::target().join(if release { "release" } else { "debug" }).join("keyward");
    let mut attack = sh::program(sh::target().join("debug/attack"));
    attack.args(rest);
    if !named {
        attack.arg("--binary").arg(binary);
    }
    sh::run(&mut attack)
}
