//! `cargo xtask bench`: ours, the peers and the bare limit on the same work, in one run.
//!
//! A figure alone says more about the machine than about us, so every row measures its variants in
//! turn, round after round, and the table shows medians, their spread, and the ratio to the row's
//! first variant, the limit. A bar is a promise about such a figure.

mod load;
mod measure;
mod page;
mod peer;
mod plot;
mod rows;
mod scene;
mod table;

use std::{io::IsTerminal as _, process::ExitCode};

fn main() -> ExitCode {
    // The signer of the rows about signed handshakes is this program.
    if std::env::var_os(keyward_protocol::signer::REQUEST_VARIABLE).is_some() {
        return keyward_testing::filekey::serve();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|a| a == "--help" || a == "-h") {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let json = args.iter().any(|a| a == "--json");
    let (flags, only): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|word| word.starts_with('-'));
    let unknown = |word: &&&String| match word.as_str() {
        "--json" | "--write" => false,
        word => !rows::ALL.iter().any(|(name, ..)| name.contains(word)),
    };
    if let Some(word) = flags.iter().chain(&only).find(unknown) {
        eprintln!("bench: there is no row `{word}`\n{}", usage());
        return ExitCode::from(2);
    }
    let mut reports = Vec::new();
    for (name, rounds, make) in rows::ALL {
        if !only.is_empty() && !only.iter().any(|o| name.contains(o.as_str())) {
            continue;
        }
        if std::io::stderr().is_terminal() {
            eprint!("measuring: {name}");
        }
        let report = measure::run(name, *rounds, make());
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        if !json {
            print!("{}", table::text(&report));
        }
        reports.push(report);
    }
    rows::close();
    if json {
        println!("{}", table::json(&reports));
    }
    if args.iter().any(|a| a == "--write") {
        match page::write(&reports) {
            Ok(page) => eprintln!("wrote `{}`", page.display()),
            Err(error) => {
                eprintln!("bench: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let broken = reports.iter().flat_map(|r| &r.bars).filter(|b| !b.holds && !b.open).count();
    eprintln!("{broken} bars broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> String {
    let names: Vec<&str> = rows::ALL.iter().map(|(name, ..)| *name).collect();
    format!(
        "usage: cargo xtask bench [--json] [--write] [ROW]…\n\n\
         Measures every row, or those named (a part of a name is enough), and fails if a bar is broken.\n  \
         --json   one JSON document: medians, ratios, spread, rounds in their order, bars, load\n  \
         --write  docs/performance.md and its picture\n\nrows:\n  {}",
        names.join("\n  ")
    )
}
