//! `keyward man-pages`: writes the manual pages, for those who package this program.

use std::{fs, io, path::PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{args::Cli, bridge, failure::Failure};

/// Write a manual page for each command to a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory, which must exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages of `keyward`, of each command, and of the bridges that parse with clap.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut commands = vec![Cli::command()];
    commands.extend(bridge::commands());
    for mut command in commands {
        // Gives the commands inside their full names, such as `keyward-proxy-status`.
        command.build();
        write(&command, args)?;
    }
    Ok(())
}

fn write(command: &Command, args: &Args) -> Result<(), Failure> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write(inner, args)?;
    }
    let path = args.directory.join(format!("{}.1", full_name(command)));
    page(command)
        .and_then(|page| fs::write(&path, page))
        .map_err(|error| Failure::failed(format!("cannot write `{}`: {error}", path.display())))
}

/// `keyward-proxy` for the command `proxy`.
fn full_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    // Without this, flags that the short help leaves out would have no text.
    let man = Man::new(command.clone().mut_args(|arg| arg.hide_short_help(false)))
        .source(concat!("keyward ", env!("CARGO_PKG_VERSION")))
        .manual("Keyward manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    last_sections(command).to_writer(&mut page)?;
    Ok(page)
}

/// The usage line of the help. The generator's own synopsis would repeat thirty cluster flags.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).control("nf", []);
    for line in usage.trim_start_matches("Usage:").lines() {
        roff.text([roman(line.trim())]);
    }
    roff.control("fi", []);
    roff
}

/// The end of the help, as it is: its headings become sections. Then where to read on.
fn last_sections(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let mut inside = false;
    for line in text.lines() {
        match line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
            Some(heading) => {
                if inside {
                    roff.control("fi", []);
                }
                inside = true;
                roff.control("SH", [heading.to_uppercase().as_str()]).control("nf", []);
            }
            None => {
                roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
            }
        }
    }
    if inside {
        roff.control("fi", []);
    }
    if full_name(command) != "keyward" {
        roff.control("SH", ["SEE ALSO"]).text([roman("keyward(1)")]);
    }
    roff
}
