//! `cargo xtask bench`: builds everything optimised and measures it.

use std::{fs, process::Command};

use keyward_testing::kubectl::VARIABLE;

use crate::{
    dist::compile::{STATIC, host},
    e2e, judges, kubectl, packages, sh,
};

/// Builds the program, the bench and, where Go is at hand, the peers in Go; then runs the bench;
/// `args` go to it.
pub fn run(args: &[String]) -> Result<bool, String> {
    packages::install_for_bench()?;
    build_peers()?;
    judges::install_python()?;
    let packages = ["keyward-agent", "keyward-bench", "keyward-cli", "keyward-providers"];
    let packages = packages.into_iter().flat_map(|name| ["--package", name]);
    if !sh::run(sh::cargo().args(["build", "--release"]).args(packages))? {
        return Ok(false);
    }
    // As it is shipped.
    if !sh::run(sh::cargo().args(["build", "--profile", "exec", "--package", "keyward-exec"]))? {
        return Ok(false);
    }
    if !build_node()? {
        return Ok(false);
    }
    // Not by `cargo run`: of this package alone it would build much again, with fewer features.
    let mut bench = sh::program(sh::target().join("release/keyward-bench"));
    bench.current_dir(crate::root()).args(args);
    if let Some(kubectl) = kubectl::choose(0)? {
        bench.env(VARIABLE, kubectl);
    }
    sh::run(&mut bench)
}

/// Builds `keyward-provider-node` as it is shipped, beside `keyward-exec`.
fn build_node() -> Result<bool, String> {
    let host = host()?;
    let mut build = sh::cargo();
    // With a target, the flag does not reach build scripts and macros.
    build.args(["build", "--profile", "exec", "--package", "keyward-node", "--target", &host]);
    if !sh::run(build.env("CARGO_ENCODED_RUSTFLAGS", STATIC))? {
        return Ok(false);
    }
    let (program, target) = ("exec/keyward-provider-node", sh::target());
    let copied = fs::copy(target.join(host).join(program), target.join(program));
    copied.map(|_| true).map_err(|e| format!("cannot copy `{program}`: {e}"))
}

/// Compares the compiled index of image patterns with the rules taken one by one.
pub fn fuzz_match(args: &[String]) -> Result<bool, String> {
    sh::run(
        sh::cargo()
            .args(["run", "--quiet", "--release", "--package", "keyward-bench"])
            .args(["--bin", "fuzz-match", "--"])
            .args(args),
    )
}

/// The reference's own code, put beside the bench. Without it the bench names its variants as missing.
fn build_peers() -> Result<(), String> {
    if !sh::has("go") {
        eprintln!("no Go: the rows go without client-go and the kubelet's code");
        return Ok(());
    }
    let mut build = Command::new("go");
    build.current_dir(crate::root().join("conformance/go")).arg("build").arg("-o");
    if !sh::run(build.arg(sh::target().join("release/keyward-pace")).arg("./pace"))? {
        eprintln!("the peers in Go cannot be built: the rows go without them");
    }
    if !e2e::kubelogin(&sh::target().join("release/kubelogin"))? {
        eprintln!("kubelogin cannot be built: the rows go without it");
    }
    if !judges::build_authenticator()? {
        eprintln!("aws-iam-authenticator cannot be built: the rows go without it");
    }
    if !judges::build_ecr_tools()? {
        eprintln!("the tools for ECR cannot be built: the rows go without them");
    }
    if !judges::build_kubelogin()? {
        eprintln!("Azure's kubelogin cannot be built: the rows go without it");
    }
    if !judges::build_gcr_helper()? {
        eprintln!("docker-credential-gcr cannot be built: the rows go without it");
    }
    Ok(())
}
