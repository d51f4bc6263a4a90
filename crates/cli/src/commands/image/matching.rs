//! `keyward image match PATTERN IMAGE`: tells whether a pattern matches an image.

use std::process::ExitCode;

use keyward_image::{Name, Pattern, Reading, normalise};
use serde::Serialize;

use crate::{
    failure::Failure,
    flags,
    output::{self, Format, Output, inline},
};

/// Exit 0 if the pattern matches the image
///
/// 0 if it does, 1 if it does not or if either of the two cannot be parsed, with the reason on
/// stderr. The image is completed as for a pull: `nginx:1.27` is `docker.io/library/nginx`.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # Whether a provider with this pattern is asked for this image.
  keyward image match '*.dkr.ecr.*.amazonaws.com' 1.dkr.ecr.eu-west-1.amazonaws.com/app:2

  # The same, but `/team` does not match `/teammates`.
  keyward image match --segments registry.example/team registry.example/team/app")]
pub(crate) struct Args {
    /// The pattern, as in `matchImages`
    pattern: String,

    /// The image
    image: String,

    /// Match whole path segments, which is stricter than the kubelet
    #[arg(long, conflicts_with = "proposal")]
    segments: bool,

    /// Match as in the original proposal: a port counts only if the pattern has one
    #[arg(long)]
    proposal: bool,

    /// Use the image as given, without completing its name
    #[arg(long)]
    literal: bool,

    #[command(flatten)]
    output: Output,
}

/// The result. Documented in `docs/cli.md`.
#[derive(Serialize)]
struct Verdict<'a> {
    pattern: &'a str,
    /// The image as given.
    image: &'a str,
    /// The name that was matched.
    name: &'a str,
    matches: bool,
    /// Why the pattern does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
}

/// Matches; the result is the exit code, and JSON on stdout if requested.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let reading = match (args.segments, args.proposal) {
        (true, _) => Reading::Segments,
        (_, true) => Reading::Proposal,
        _ => Reading::Kubelet,
    };
    let no_pattern = format!("`{}` is not a pattern", inline(&args.pattern));
    let pattern = Pattern::parse(&args.pattern).map_err(Failure::of(no_pattern))?;
    let no_image = || format!("`{}` is not an image", inline(&args.image));
    let name = if args.literal {
        args.image.clone()
    } else {
        normalise(&args.image).map_err(Failure::of(no_image()))?
    };
    let parsed = Name::parse(&name)
        .ok_or("use the form `host[:port][/path]`")
        .map_err(Failure::of(no_image()))?;
    let because = pattern.mismatch(&parsed, reading);
    let matches = because.is_none();
    match (args.output.format, because) {
        (Format::Json, because) => {
            let (pattern, image) = (args.pattern.as_str(), args.image.as_str());
            output::print_json(&Verdict { pattern, image, name: &name, matches, because })?;
        }
        (Format::Text, Some(reason)) => {
            let (pattern, name) = (inline(&args.pattern), inline(&name));
            output::tell(&format!("`{pattern}` does not match `{name}`: {reason}\n"));
        }
        (Format::Text, None) => {}
    }
    Ok(if matches { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
