//! int128/kubelogin with a token in its cache: a plugin that keeps its answer in a file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::super::startup;

/// A token of a subject `bench` that expires in 2099. It comes from the cache, and kubelogin checks no
/// more of it than its expiry.
pub const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEiLCJzdWIiOiJiZW5jaCIsImV4cCI6NDA3MDkwODgwMH0.x";

/// Nobody listens there, and with a token in the cache nobody is asked.
const ISSUER: &str = "http://127.0.0.1:1";

/// Built by `cargo xtask bench` where Go is at hand.
pub fn program() -> PathBuf {
    startup::keyward().with_file_name("kubelogin")
}

/// The arguments of a plugin whose cache is in this directory.
pub fn args(cache: &Path) -> Vec<String> {
    args_for(ISSUER, cache)
}

/// The arguments for another issuer.
pub fn args_for(issuer: &str, cache: &Path) -> Vec<String> {
    let fixed = ["get-token", "--oidc-client-id=bench", "--grant-type=password"];
    let fixed = fixed.into_iter().chain(["--username=bench", "--password=none"]).map(str::to_owned);
    let issuer = format!("--oidc-issuer-url={issuer}");
    fixed.chain([issuer, format!("--token-cache-dir={}", cache.display())]).collect()
}

/// Puts the token where kubelogin looks for it. Only kubelogin knows the name of the file, and its log
/// says it.
pub fn warm(cache: &Path) -> Result<(), String> {
    let missing = |error| format!("needs a current Go to be built ({error})");
    let output = Command::new(program()).args(args(cache)).arg("-v1").output().map_err(missing)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let prefix = format!("{}/", cache.display());
    let name = said.split(&prefix).nth(1).and_then(|rest| rest.split(':').next());
    let name = name.ok_or_else(|| format!("kubelogin did not say where its cache is: {said}"))?;
    fs::create_dir_all(cache)
        .and_then(|()| fs::write(cache.join(name), format!("{{\"id_token\":\"{TOKEN}\"}}")))
        .map_err(|error| error.to_string())
}
