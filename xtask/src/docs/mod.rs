//! `cargo xtask docs`: the pages as a site, made by mdBook (decision 0051).

mod built;
mod stage;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{pages, sh};

pub use stage::missing_pages;

/// The version of mdBook that makes the site.
const MDBOOK: &str = "0.5.4";

/// Checks the pages, builds the site into `target/docs/site`, and checks the links of the result.
pub fn run(args: &[String]) -> Result<bool, String> {
    if let Some(arg) = args.first() {
        return Err(format!("`docs` takes no arguments, but got `{arg}`"));
    }
    if !pages::check(crate::root())? {
        return Ok(false);
    }
    let place = sh::target().join("docs");
    let (source, site) = (place.join("source"), place.join("site"));
    stage::write(crate::root(), &source)?;
    remove(&site)?;
    let mut build = Command::new(mdbook(&place.join("tools"))?);
    if !sh::run(build.arg("build").arg("--dest-dir").arg(&site).arg(&source))? {
        return Ok(false);
    }
    let broken = built::broken_links(&site)?;
    for line in &broken {
        println!("{line}");
    }
    if broken.is_empty() {
        println!("docs: {}", site.join("index.html").display());
    }
    Ok(broken.is_empty())
}

/// The program `mdbook`, which is built when it is not here yet. Nothing of it is installed elsewhere.
fn mdbook(place: &Path) -> Result<PathBuf, String> {
    let place = place.join(MDBOOK);
    let program = place.join("bin/mdbook");
    // Not optimised: it compiles in half the time, and the site takes seconds either way.
    let install = ["install", "--quiet", "--locked", "--debug", "--no-default-features"];
    let mut cargo = sh::cargo();
    cargo.args(install).args(["--features", "search", "--version", MDBOOK, "mdbook"]);
    if !program.exists() && !sh::run(cargo.arg("--root").arg(&place))? {
        return Err(format!("mdBook {MDBOOK} could not be built"));
    }
    Ok(program)
}

fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove `{}`: {e}", directory.display()))
        }
        _ => Ok(()),
    }
}
