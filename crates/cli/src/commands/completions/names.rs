//! The names of a kubeconfig, as candidates for a flag's value.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use clap_complete::CompletionCandidate;
use keyward_host::{Kubeconfig, kubeconfig::Named};
use keyward_process::surroundings::Surroundings;

/// The words of the command line that is completed: clap's candidates are functions without arguments.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Remembers the words, which may name a kubeconfig.
pub(super) fn remember(words: &[OsString]) {
    // There is one command line per process.
    let _ = WORDS.set(words.to_vec());
}

pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    names(|config| &config.contexts)
}

pub(crate) fn clusters() -> Vec<CompletionCandidate> {
    names(|config| &config.clusters)
}

pub(crate) fn users() -> Vec<CompletionCandidate> {
    names(|config| &config.users)
}

/// The grants in force.
#[cfg(target_os = "linux")]
pub(crate) fn grants() -> Vec<CompletionCandidate> {
    let all = keyward_proxy::grants::StoredGrant::all(&Surroundings::process());
    all.into_iter().map(|grant| CompletionCandidate::new(grant.name)).collect()
}

/// The names in a list of the command line's kubeconfig, if it can be read. Nobody can be told if not.
fn names<T>(list: impl Fn(&Kubeconfig) -> &Vec<Named<T>>) -> Vec<CompletionCandidate> {
    let surroundings = Surroundings::process();
    let explicit = explicit(WORDS.get().map(Vec::as_slice).unwrap_or_default());
    let explicit = explicit.map(|path| expand(path, &surroundings));
    let config = Kubeconfig::load(&surroundings, explicit.as_deref()).unwrap_or_default();
    list(&config).iter().map(|named| CompletionCandidate::new(&named.name)).collect()
}

/// The value of `--kubeconfig`.
fn explicit(words: &[OsString]) -> Option<&Path> {
    const FLAG: &str = "--kubeconfig";
    let after = |at: usize| words.get(at + 1).map(Path::new);
    words.iter().enumerate().find_map(|(at, word)| match word.to_str()?.strip_prefix(FLAG)? {
        "" => after(at),
        value => value.strip_prefix('=').map(Path::new),
    })
}

/// A path as the shell would pass it: words that are completed are not expanded yet.
fn expand(path: &Path, surroundings: &Surroundings) -> PathBuf {
    match (path.strip_prefix("~"), surroundings.var("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::Path};

    use super::explicit;

    #[test]
    fn the_kubeconfig_is_the_one_on_the_command_line() {
        for (line, path) in [
            ("plan --kubeconfig a --context x", Some("a")),
            ("plan --kubeconfig=a --context x", Some("a")),
            ("plan --kubeconfigs a", None),
            ("plan --kubeconfig", None),
            ("plan", None),
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            assert_eq!(explicit(&words), path.map(Path::new), "{line}");
        }
    }
}
