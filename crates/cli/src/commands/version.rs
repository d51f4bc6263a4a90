//! `keyward version`: what was built, from what and for which system.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{failure::Failure, flags, output::Output};

/// Show the version and how the program was built
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # For a bug report.
  keyward version

  # For a script.
  keyward version -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
}

/// How the program was built. Documented in `docs/cli.md`.
#[derive(Serialize)]
struct Build {
    version: &'static str,
    /// The commit, if the build was told: it is not read from the repository, because the same sources
    /// have to give the same program wherever they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    target: &'static str,
    features: Vec<&'static str>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let build = Build {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("KEYWARD_COMMIT").filter(|commit| !commit.is_empty()),
        target: env!("KEYWARD_TARGET"),
        features: features(),
    };
    args.output.print(&build, || build.text())
}

/// The parts that only some systems have.
fn features() -> Vec<&'static str> {
    let features = [
        (cfg!(target_os = "linux"), "agent"),
        (cfg!(unix), "demo"),
        (cfg!(target_os = "linux"), "jemalloc"),
        (cfg!(unix), "proxy"),
        (cfg!(unix), "wrap"),
    ];
    features.into_iter().filter(|(is_built, _)| *is_built).map(|(_, name)| name).collect()
}

impl Build {
    fn text(&self) -> String {
        let mut text = format!("keyward {}\n", self.version);
        if let Some(commit) = self.commit {
            let _ = writeln!(text, "commit    {commit}");
        }
        let _ = writeln!(text, "target    {}", self.target);
        let _ = writeln!(text, "features  {}", self.features.join(", "));
        text
    }
}
