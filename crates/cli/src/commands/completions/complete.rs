//! `keyward __complete`: prints what may stand at the cursor, for the completion scripts.
//!
//! One candidate per line; a tab separates it from its description. The scripts depend on nothing else,
//! so that one that was installed long ago works with a newer program.

use std::{ffi::OsString, iter};

use clap_complete::engine;
use keyward_process::surroundings::Surroundings;

use super::names;
use crate::{failure::Failure, globals::Globals, output};

/// Print what may follow on a command line, for completion scripts
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of the word to complete, for shells that cannot pass an empty last word
    #[arg(long)]
    index: Option<usize>,

    /// The words of the command line after the program's name, up to the cursor
    #[arg(last = true)]
    words: Vec<OsString>,
}

/// The name under which kubectl asks a plugin for completions.
pub(crate) const KUBECTL: &str = "kubectl_complete-keyward";

pub(crate) fn run(mut args: Args, globals: &Globals) -> Result<(), Failure> {
    if let Some(index) = args.index {
        args.words.truncate(index.saturating_add(1));
        if args.words.len() <= index {
            args.words.push(OsString::new());
        }
    }
    let found = candidates(args.words, &globals.surroundings);
    output::print(&found.iter().map(Candidate::line).collect::<String>())
}

/// Answers kubectl, which runs us under the name [`KUBECTL`] with the words after `kubectl keyward`. It
/// wants to know in the last line what the shell should do with the candidates.
pub(crate) fn for_kubectl(words: &[OsString]) -> Result<(), Failure> {
    const NO_SPACE: u8 = 2;
    const NO_FILES: u8 = 4;
    let found = candidates(words.to_vec(), &Surroundings::process());
    let open = found.iter().any(|candidate| candidate.value.ends_with(['/', '=']));
    let directive = if open { NO_FILES | NO_SPACE } else { NO_FILES };
    let lines: String = found.iter().map(Candidate::line).collect();
    output::print(&format!("{lines}:{directive}\n"))
}

struct Candidate {
    value: String,
    help: String,
}

impl Candidate {
    fn line(&self) -> String {
        match self.help.as_str() {
            "" => format!("{}\n", self.value),
            help => format!("{}\t{help}\n", self.value),
        }
    }
}

/// What may stand in place of the last word.
fn candidates(mut words: Vec<OsString>, surroundings: &Surroundings) -> Vec<Candidate> {
    if words.is_empty() {
        words.push(OsString::new());
    }
    let is_new = words.last().is_some_and(|word| word.is_empty());
    names::remember(&words);
    let words: Vec<_> = iter::once("keyward".into()).chain(words).collect();
    let (last, directory) = (words.len() - 1, surroundings.cwd().ok());
    let found = engine::complete(&mut crate::command(), words, last, directory.as_deref());
    let mut found: Vec<_> = found.unwrap_or_default().iter().filter_map(read).collect();
    // Flags are offered from the first dash on, unless nothing else can follow.
    if is_new && found.iter().any(|candidate| !candidate.value.starts_with('-')) {
        found.retain(|candidate| !candidate.value.starts_with('-'));
    }
    found
}

/// A candidate, unless it would not stay on its line.
fn read(candidate: &engine::CompletionCandidate) -> Option<Candidate> {
    // The engine offers what is hidden if there is nothing else.
    if candidate.is_hide_set() {
        return None;
    }
    let value = candidate.get_value().to_str().filter(|value| !value.contains(char::is_control))?;
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    let help = output::inline(help.lines().next().unwrap_or_default());
    Some(Candidate { value: value.to_owned(), help })
}
