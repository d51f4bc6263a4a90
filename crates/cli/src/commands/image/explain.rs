//! `keyward image explain IMAGE…`: explains how an image gets its login.

mod explanation;
mod text;

use std::process::ExitCode;

use self::explanation::Explanation;
use super::{
    answer::OfImages,
    pod::PodArgs,
    setup::{Place, Setup},
};
use crate::{
    failure::Failure,
    globals::Globals,
    output::{Format, Output, Style},
};

/// Explain every decision on the way from an image to a login
///
/// Asks the providers as `credentials` does. Shows the name that is matched, why each pattern
/// matches or not, the cache key of the answer, each provider's exit code, stderr and duration,
/// which login wins, and whether a kubelet would have pulled anonymously. Shows no password.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # Why there is no login for this image, or this one.
  keyward image explain --config providers.yaml --bin-dir /opt/providers registry.example/app

  # As a pod's kubelet would see it.
  keyward image explain --config providers.yaml -n web --pod web-0 registry.example/app")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// The images, looked up one after the other
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<String>,

    #[command(flatten)]
    pod: PodArgs,

    #[command(flatten)]
    output: Output,
}

/// Explains how these images get their logins from the providers of this place, as [`run`] does.
pub(crate) fn check(
    place: Place,
    images: &[String],
    globals: &Globals,
) -> Result<ExitCode, Failure> {
    let output = Output { format: Format::Text };
    run(&Args { place, images: images.to_vec(), pod: PodArgs::default(), output }, globals)
}

/// Prints the explanation; the exit code is 1 if an image has no login.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let setup = Setup::open_for(&args.place, &args.pod, globals)?;
    let mut explanations = Vec::new();
    for image in &args.images {
        let config = setup.config()?;
        let _waiting = Setup::waiting(std::slice::from_ref(image));
        let found = setup.images().lookup(&config, image, setup.pod.as_ref());
        explanations.push(match &found {
            Ok(found) => Explanation::of(image, &config, found, &setup),
            Err(error) => Explanation::refused(image, &config, error),
        });
    }
    args.output.print_redacted(&OfImages { images: &explanations }, || {
        let style = Style::of_stdout(globals);
        let texts: Vec<_> = explanations.iter().map(|e| text::layout(e, style)).collect();
        texts.join("\n")
    })?;
    let good = explanations.iter().all(|explanation| !explanation.logins.is_empty());
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
