//! `keyward image credentials IMAGE…`: prints the logins that a pull would try.

use std::{process::ExitCode, sync::Arc};

use clap::ValueEnum;
use keyward_image::{Lookup, Outcome};

use super::{
    answer::{Answer, OfImages, basic},
    docker,
    pod::PodArgs,
    setup::{Place, Setup},
    stream,
};
use crate::{
    failure::Failure,
    globals::Globals,
    output::{self, Width, inline},
};

/// Print the logins that a pull of these images would try, best first
///
/// Asks the providers whose patterns match the images. All images are looked up at the same time.
/// The exit code is 1 if one of the images has no login: a kubelet would pull it anonymously.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The logins for an image, in the order in which they are tried.
  keyward image credentials --config providers.yaml --bin-dir /opt/providers registry.example/app

  # A configuration for docker, podman or skopeo.
  keyward image credentials --config providers.yaml -o docker registry.example/app > config.json

  # As many images as come, each answered by one line of JSON.
  keyward image credentials --config providers.yaml -")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// The images; `-` reads them from stdin, one per line, and prints each answer as a line of
    /// JSON as soon as it is ready
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<String>,

    #[command(flatten)]
    pod: PodArgs,

    /// How to print the logins
    #[arg(short, long, value_name = "FORMAT", default_value = "json")]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// All logins, with their providers; docs/cli.md has the schema
    Json,
    /// The best login of each image, as docker's `config.json`
    Docker,
    /// The best login of each image as `name:password`, one per line
    Basic,
}

/// Looks up all images at once and prints their logins.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let from_stdin = args.images.iter().any(|image| image == "-");
    if from_stdin && (args.images.len() > 1 || args.output != Form::Json) {
        return Err(Failure::usage("`-` must be the only image, and needs `-o json`"));
    }
    let setup = Setup::open_for(&args.place, &args.pod, globals)?;
    if from_stdin {
        return stream::run(setup);
    }
    let found = all(&setup, &args.images)?;
    if args.output != Form::Json {
        found.iter().try_for_each(|found| speakable(found))?;
    }
    match args.output {
        Form::Json => {
            let pairs = args.images.iter().zip(&found);
            let images: Vec<_> = pairs.map(|(image, found)| Answer::found(image, found)).collect();
            output::print_secret(&OfImages { images }, Width::Indented)?;
        }
        Form::Docker => output::print_secret(&docker::config(&found), Width::Indented)?,
        Form::Basic => {
            for best in found.iter().filter_map(|found| found.best()) {
                output::print(&basic(&best.login, "\n"))?;
            }
        }
    }
    // JSON shows empty logins as they are; the other formats cannot use them.
    let lacks = |found: &Lookup| match args.output {
        Form::Json => found.logins.is_empty(),
        Form::Docker | Form::Basic => found.best().is_none(),
    };
    match args.images.iter().zip(&found).find(|(_, found)| lacks(found)) {
        None => Ok(ExitCode::SUCCESS),
        Some((image, found)) => Err(nothing(image, found)),
    }
}

/// A colon or a line break in the name would split it from the password in the wrong place.
fn speakable(found: &Lookup) -> Result<(), Failure> {
    let Some(best) = found.best() else { return Ok(()) };
    let odd = |c: char| c == ':' || c.is_control();
    if !best.login.username.contains(odd)
        && !best.login.password.expose().contains(char::is_control)
    {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the login for `{}` has a character that `name:password` cannot contain",
        inline(&found.image)
    ))
    .hint("`-o json` shows it as it is"))
}

/// Looks up all images at the same time.
fn all(setup: &Setup, images: &[String]) -> Result<Vec<Arc<Lookup>>, Failure> {
    let config = setup.config()?;
    let begin = |image: &String| setup.images().begin(&config, image.clone(), setup.pod.clone());
    let looking: Vec<_> = images.iter().map(begin).collect();
    let _waiting = Setup::waiting(images);
    let lost = || Failure::failed("a lookup was lost");
    looking.into_iter().map(|looking| Ok(looking.wait(None).ok_or_else(lost)??)).collect()
}

/// Why an image has no login: the message of the only provider asked, or a line for each.
fn nothing(image: &str, found: &Lookup) -> Failure {
    let failures: Vec<_> = found.failures().collect();
    if let [only] = failures[..] {
        return Failure::from(only.clone()).note("image", inline(image));
    }
    let mut failure = Failure::failed(format!("there is no login for `{}`", inline(image)))
        .note("matched as", inline(&found.image));
    for asked in &found.results {
        let name = format!("provider `{}`", inline(&asked.provider.name));
        failure = match &asked.outcome {
            Outcome::NoMatch => continue,
            Outcome::Skipped(reason) => failure.note(name, format!("skipped: {reason}")),
            Outcome::Failed(error) | Outcome::LastGood(_, error) => {
                failure.note(name, error.to_string())
            }
            _ if found.logins.iter().any(|login| login.provider.name == asked.provider.name) => {
                failure.note(name, "its login for this image has no user name or no password")
            }
            _ => failure.note(name, "its answer has no login for this image"),
        };
    }
    if failure.notes().count() == 1 {
        failure = failure.note("because", "no provider has a pattern that matches it");
    }
    failure.hint("`keyward image explain` shows every decision")
}
