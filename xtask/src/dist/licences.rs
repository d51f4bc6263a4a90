//! The licences of the crates inside the programs, with the texts that their sources have.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use super::{
    dependencies::{Dependency, Id},
    read_error,
};

/// The document. Texts that many crates share are printed once.
pub fn write(source: &Path, dependencies: &BTreeMap<Id, Dependency>) -> Result<String, String> {
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((name, version), dependency) in dependencies.iter().filter(|(_, one)| !one.is_own()) {
        let place = dependency.repository.as_deref().unwrap_or("no repository named");
        let _ = writeln!(list, "  {name} {version}: {} ({place})", dependency.license);
        let mut own = texts_in(&dependency.directory)?;
        if own.is_empty() {
            own.push(standard(source, name, &dependency.license)?);
        }
        for text in own {
            texts.entry(text).or_default().push(format!("{name} {version}"));
        }
    }
    let mut document = format!(
        "Libraries inside Keyward's programs, and their licences\n\
         =======================================================\n\n{list}\n{RUNTIME}"
    );
    for (text, users) in texts {
        let line = "-".repeat(80);
        let _ = write!(document, "\n{line}\n{}\n{line}\n\n{}\n", users.join(", "), text.trim_end());
    }
    Ok(document)
}

/// What is inside every program without being a crate of cargo's.
const RUNTIME: &str = "\
The Rust standard library is in every program: MIT OR Apache-2.0, https://github.com/rust-lang/rust. Static programs
also contain musl, copyright 2005-2020 Rich Felker and others, under the MIT licence: https://musl.libc.org.
";

/// The texts in a crate's directory.
fn texts_in(directory: &Path) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for name in super::sums::file_names(directory)? {
        let upper = name.to_uppercase();
        let is_text = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|start| upper.starts_with(start));
        if is_text {
            let path = directory.join(&name);
            let bytes = fs::read(&path).map_err(read_error(&path))?;
            texts.push(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}

/// The usual text, for a crate whose sources have none.
fn standard(source: &Path, name: &str, license: &str) -> Result<String, String> {
    let own = source.join(format!("packaging/licences/{name}.txt"));
    let path = if own.is_file() {
        own
    } else if license.contains("Apache-2.0") {
        source.join("LICENSE-APACHE")
    } else {
        return Err(format!(
            "`{name}` ({license}) comes without the text of its licence; add it as \
             `packaging/licences/{name}.txt`"
        ));
    };
    fs::read_to_string(&path).map_err(read_error(&path))
}
