//! `keyward grant log`.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
};

use clap_complete::ArgValueCandidates;
use keyward_protocol::text::escape_json;
use keyward_proxy::grants;
use serde_json::{Value, json};

use crate::{
    commands::completions::names,
    failure::Failure,
    flags,
    globals::Globals,
    output::{Format, Output, inline},
};

/// Show every request of a grant, also after it has ended
///
/// The log has neither bodies nor secrets, and is rotated: the last five files of 16 MiB are kept. The JSON
/// output is one object per line.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general())]
pub(super) struct Args {
    /// The name of the grant
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(names::grants))]
    name: String,

    /// Only requests that were not allowed
    #[arg(long)]
    denied: bool,

    #[command(flatten)]
    output: Output,
}

/// Prints the lines, the oldest first.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let files = grants::log_files(&globals.surroundings, &args.name);
    if files.is_empty() {
        let name = inline(&args.name);
        return Err(Failure::failed(format!("grant `{name}` has no log: it was never used"))
            .hint("`keyward grant list` shows the grants in force"));
    }
    let mut out = std::io::stdout().lock();
    for file in files {
        let failed = Failure::of(format!("`{}` cannot be read", file.display()));
        for line in BufReader::new(File::open(&file).map_err(&failed)?).split(b'\n') {
            let line = line.map_err(&failed)?;
            if line.is_empty() {
                continue;
            }
            // Part of a line, from when the disk was full.
            let broken = |_| json!({ "unreadable": String::from_utf8_lossy(&line) });
            let entry: Value = serde_json::from_slice(&line).unwrap_or_else(broken);
            if args.denied && entry["allowed"] == true {
                continue;
            }
            match args.output.format {
                Format::Json => writeln!(out, "{}", escape_json(&entry.to_string()))?,
                Format::Text => writeln!(out, "{}", text(&entry))?,
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn text(entry: &Value) -> String {
    if let Some(part) = entry["unreadable"].as_str() {
        return format!("unreadable: {}", inline(part));
    }
    let word = |name: &str| entry[name].as_str().map(inline).unwrap_or_default();
    let status = entry["status"].as_u64().map_or("-".to_owned(), |status| status.to_string());
    // Not the value itself, which ignores a width.
    let ms = entry["ms"].to_string();
    let mut line = format!("{} {status:>3} {ms:>5} ms {:<6}", word("time"), word("verb"));
    let object = [word("resource"), word("path")].concat();
    let place = [word("namespace"), word("name")].into_iter().filter(|part| !part.is_empty());
    for part in [object].into_iter().filter(|part| !part.is_empty()).chain(place) {
        line.push(' ');
        line += &part;
    }
    if entry["allowed"] == false {
        line += " (denied)";
    }
    line
}
