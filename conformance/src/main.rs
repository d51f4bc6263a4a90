//! `cargo xtask conformance`: see `docs/conformance.md`.

use std::{path::Path, process::ExitCode};

use keyward_conformance::{
    areas::{AREAS, Area},
    obstacle::Obstacle,
    reference::{self, Reference},
    trial::{self, Only, Part, Settings},
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("conformance: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<bool, String> {
    let settings = settings(args)?;
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    // A panic of ours is a difference like any other and is reported as one.
    std::panic::set_hook(Box::new(|_| ()));
    let mut reference = match Reference::start(root, &reference::target(root)) {
        Ok(reference) => reference,
        Err(Obstacle::Absent(why)) if settings.lenient => {
            println!("conformance: did not run: {why}");
            return Ok(true);
        }
        Err(why) => return Err(why.to_string()),
    };
    let ok = trial::run(root, &settings, &mut reference)?;
    println!("conformance: ran with {} cases of seed {}", settings.cases, settings.seed);
    Ok(ok)
}

fn settings(args: &[String]) -> Result<Settings, String> {
    let mut settings = Settings { cases: 20_000, seed: 1, only: None, lenient: false };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or(format!("`{name}` needs a value"));
        let number = |text: &String| {
            text.replace('_', "").parse::<u64>().map_err(|_| format!("`{text}` is no number"))
        };
        match name.as_str() {
            "--cases" => {
                settings.cases = usize::try_from(number(value()?)?).map_err(|e| e.to_string())?;
            }
            "--if-possible" => settings.lenient = true,
            "--seed" => settings.seed = number(value()?)?,
            "--area" => {
                let value = value()?;
                settings.only = Some(match value.as_str() {
                    "kubectl" => Only::Judge(Part::Kubectl),
                    "transport" => Only::Judge(Part::Transport),
                    "terminal" => Only::Judge(Part::Terminal),
                    name => Only::Area(
                        Area::named(name)
                            .ok_or_else(|| format!("no area `{name}`\n{}", usage()))?,
                    ),
                });
            }
            other => return Err(format!("`{other}` is not known\n{}", usage())),
        }
    }
    if settings.cases == 0 {
        return Err("`--cases` is at least 1".to_owned());
    }
    Ok(settings)
}

fn usage() -> String {
    let names: Vec<_> = AREAS.iter().map(|area| area.name).collect();
    format!(
        "usage: cargo xtask conformance [--cases N] [--seed N] [--area NAME] [--if-possible]\n\n\
         Puts the same made-up cases to the reference and to us, and shows what differs.\n  \
         --cases N      over all areas; 20000\n  \
         --seed N       the same seed makes the same cases; 1\n  \
         --area NAME    all the cases in one: {}, kubectl, transport, terminal\n  \
         --if-possible  no failure where there is no Go, no kubectl or no module\n  \
         --mutations    breaks three rules of ours, one at a time, and shows that it is noticed",
        names.join(", ")
    )
}
