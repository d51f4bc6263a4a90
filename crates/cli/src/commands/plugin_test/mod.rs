//! `keyward plugin`: for authors of plugins. `test` sends every kind of request that a client may
//! send, and reports where the plugin violates the protocol.

mod answer;
mod exam;
mod findings;
mod image;
mod judge;
mod outcome;
mod question;
mod report;
mod run;
mod signer;
mod terminal;

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Subcommand;
use keyward_host::Environment;
use keyward_process::file::{self, Limits};
use keyward_protocol::Secret;
use zeroize::Zeroizing;

use self::{exam::ExecExam, run::Plugin};
use crate::{
    failure::Failure,
    flags,
    globals::Globals,
    output::{Output, Style},
    progress::Progress,
    signals,
};

/// For authors of plugins
#[derive(Debug, clap::Args)]
#[command(args = flags::no_cluster())]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Test(TestArgs),
}

/// Check that a plugin follows its protocol: exec credential, unless a flag says otherwise
///
/// Runs the plugin about twenty times: in every version of the protocol, with and without a
/// terminal, many at once, and with missing or unknown fields in the request. Reports each fault;
/// the exit code is 1 if there is any. The plugin has to return real credentials; they are not
/// shown. A signer has to return its certificate and a signature in every scheme of its key, each
/// of which is verified, in both of its modes; `--config` is its configuration.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # A plugin that needs nobody.
  keyward plugin test -- my-plugin --account dev

  # A plugin that asks a person: each line of the file is typed at a prompt.
  keyward plugin test --answers login.txt -- my-login

  # An image credential provider, as the kubelet runs it.
  keyward plugin test --image registry.example/team/app -- my-provider

  # An external signer, told what a kubeconfig would tell it.
  keyward plugin test --signer --config uri=pkcs11:token=lab -- keyward-pkcs11

  # A plugin of the original proposals: `kind: ExecInfo`, or an image and nothing else.
  keyward plugin test --proposal-form -- my-old-plugin

  # For a build: one object on stdout, see docs/plugin-authors.md.
  keyward plugin test -o json -- ./target/release/my-plugin")]
struct TestArgs {
    /// What to type when the plugin prompts at a terminal, one line per prompt
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,

    /// Check an image credential provider, with an image that it has a login for
    #[arg(long, value_name = "IMAGE", conflicts_with = "answers")]
    image: Option<String>,

    /// Check an external signer
    #[arg(long, conflicts_with_all = ["answers", "image"])]
    signer: bool,

    /// The signer's configuration, as a kubeconfig would contain it; can be repeated. Every user of
    /// the machine can read a command line: leave PINs to a file or a prompt
    #[arg(long, value_name = "NAME=VALUE", requires = "signer", value_parser = entry)]
    config: Vec<(String, Secret)>,

    /// How many runs to start at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=256))]
    at_once: u16,

    #[command(flatten)]
    output: Output,

    /// Become the command on this terminal; the test itself uses this to give the plugin a terminal
    #[arg(long, hide = true, value_name = "TERMINAL")]
    on_terminal: Option<PathBuf>,

    /// The plugin and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How long one run may take by default. Longer than any client should wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the subcommand.
pub(crate) fn run(args: Args, globals: &Globals) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Test(args) => test(&args, globals),
    }
}

fn test(args: &TestArgs, globals: &Globals) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.on_terminal {
        return Err(terminal::become_on(path, &args.command));
    }
    signals::watch();
    let plugin = plugin(args, globals)?;
    let report = match &args.image {
        Some(image) => {
            let proposal = globals.flags.proposal_form;
            image::ImageExam::new(&plugin, image, proposal)?.run()
        }
        None if args.signer => {
            if !plugin.args.is_empty() {
                return Err(Failure::usage("a signer is started without arguments")
                    .hint("configure it with `--config NAME=VALUE`"));
            }
            signer::SignerExam::new(&plugin, &args.config, globals)?.run()
        }
        None => ExecExam::new(&plugin).run(),
    };
    plugin.progress.clear();
    let style = Style::of_stdout(globals);
    args.output.print_redacted(&report.document(), || report.text(style))?;
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plugin as a client would find it, by the same rules.
fn plugin(args: &TestArgs, globals: &Globals) -> Result<Plugin, Failure> {
    let Some((name, rest)) = args.command.split_first() else {
        return Err(Failure::usage("no plugin was named"));
    };
    let command =
        name.to_str().ok_or_else(|| Failure::usage("the name of the plugin is not UTF-8"))?;
    let program = globals.rules()?.admit(command, &globals.surroundings)?;
    let answers = match &args.answers {
        None => Vec::new(),
        Some(path) => {
            let unread = |because: String| {
                Failure::failed(format!("`{}` could not be read", path.display()))
                    .note("because", because)
            };
            let bytes = file::read(path, &Limits::GIVEN).map_err(|e| unread(file::reason(&e)))?;
            let text = str::from_utf8(&bytes).map_err(|e| unread(e.to_string()))?;
            text.lines().map(|line| Zeroizing::new(line.to_owned())).collect()
        }
    };
    Ok(Plugin {
        program: program.path,
        name: name.clone(),
        args: rest.to_vec(),
        env: environment(globals),
        budget: globals.flags.plugin_timeout.unwrap_or(PATIENCE),
        at_once: usize::from(args.at_once),
        form: globals.flags.form(),
        progress: Progress::new("testing"),
        answers,
    })
}

/// An entry of a signer's configuration.
fn entry(text: &str) -> Result<(String, Secret), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), Secret::new(value))),
        _ => Err("use the form `NAME=VALUE`".to_owned()),
    }
}

/// What the plugin sees of our environment, according to `--plugin-env`.
pub(super) fn environment(globals: &Globals) -> Vec<(OsString, OsString)> {
    let mut vars = globals.surroundings.vars();
    match globals.environment() {
        Environment::Inherit => {}
        Environment::Clean => vars.clear(),
        Environment::Only(names) => {
            vars.retain(|(name, _)| names.iter().any(|n| OsStr::new(n) == name));
        }
    }
    vars
}
