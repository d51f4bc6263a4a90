//! The project's gates and chores: `cargo xtask COMMAND`.

mod api;
mod attack;
mod bench;
mod chart;
mod check;
mod conformance;
mod dist;
mod docs;
mod e2e;
mod fuzz;
mod judges;
mod kubectl;
mod logins;
mod packages;
mod pages;
mod sh;
mod shipped;
mod soak;
mod storm;
mod test;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = match command.as_str() {
        "test" => test::run(&rest),
        "check" => check::run(),
        "chart" => chart::run(&rest),
        "api" => api::run(&rest),
        "advisories" => check::advisories(),
        "vectors" => vectors(rest.first()),
        "conformance" => conformance::run(&rest),
        "judges" => judges::run(&rest),
        "bench" => bench::run(&rest),
        "fuzz-match" => bench::fuzz_match(&rest),
        "fuzz" => fuzz::readers(&rest),
        "fuzz-proxy" => fuzz::proxy(&rest),
        "attack" => attack::run(&rest),
        "soak" => soak::run(&rest),
        "storm" => storm::run(&rest),
        "e2e" => e2e::run(&rest),
        "keycloak" => logins::keycloak(),
        "spire" => judges::spire(),
        "dist" => dist::run(&rest),
        "docs" => docs::run(&rest),
        "dist-empty-root" => dist::run_empty_root(&rest),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

const USAGE: &str = "usage: cargo xtask COMMAND

  test [FILTER]    install what the tests need, run all of them and the vectors
  check            format, lints, documentation, pages, features, packages, chart, dependencies, licences and sources
  chart            compare the plain manifests with what Helm renders from the chart [--write]
  api              compare the public API of the libraries with docs/public-api.txt [--write]
  advisories       known vulnerabilities of the dependencies
  vectors [DIR]    run the reference's cases through the real code
  conformance      run generated cases through the reference and through Keyward [--cases N] [--seed N] [--area A]
                   [--if-possible] [--mutations]
  judges           let the tools in Go that the providers replace judge them [--if-possible]
  bench [ROW…]     measure Keyward against its limits and its peers [--json] [--write]
  fuzz [TARGET…]   every reader of untrusted input, or those named [--seconds N | --runs N]
  fuzz-match       compare the index of image patterns with the plain rules [--pairs N] [--seed N]
  e2e [OPTION…]    a real cluster on loopback, next to kubectl [--if-cached] [--build-only] [--limit SECONDS]
                   [--without-nodes] [--no-build] [--keep] [WORD…]
  keycloak         install Keycloak and log in to it with `keyward-oidc`
  spire            build SPIRE and get a token and a certificate from it with `keyward-spiffe`
  dist [OPTION…]   programs, tarball, deb, rpm, image, manifests and sums [--out DIR] [--debug] [--verify] [--test]
                   [--only-test]
  docs             the site of all pages, in target/docs/site; checks every link and command line
  attack [OPTION…] every known attack on the built programs [--binary PATH] [--release] [--short]
                   [--attempts N] [--jobs N] [--keep] [WORD]
  soak [OPTION…]   rotate, revoke and restart under load [--proxy | --agent] [--seconds N | --rounds N --asks N] [--seed N]
  storm            random starts, stops, crashes, upgrades and edits of a background proxy under kubectl, Helm and Python
                   [--changes N] [--seed N]
  fuzz-proxy       odd requests through the proxy [--seconds N] [--seed N]";

/// What the usage says about a command and its flags.
fn usage_of(command: &str) -> Option<&'static str> {
    let start = USAGE.find(&format!("\n  {command} "))?;
    let entry = &USAGE[start + 1..];
    // The lines of one entry are indented further.
    let end = entry.match_indices("\n  ").find(|(at, _)| !entry[at + 3..].starts_with(' '));
    Some(end.map_or(entry, |(at, _)| &entry[..at]))
}

fn vectors(folder: Option<&String>) -> Result<bool, String> {
    let count = keyward_conformance::areas::run(
        &folder.map_or_else(|| root().join("vectors"), PathBuf::from),
    )?;
    Ok(count.failed == 0 && count.passed > 0)
}

/// The workspace's directory.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
