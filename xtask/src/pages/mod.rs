//! Checks that the pages, the programs and the source agree: links lead somewhere, command lines work,
//! cited codes are explained, the path of a request is as described, and the site has every page.

mod codes;
mod commands;
mod links;
mod trace;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use links::{is_external, links, rewrite_links};

use crate::docs;

/// Runs all checks and prints what is wrong.
pub fn check(root: &Path) -> Result<bool, String> {
    let mut wrong = codes::unexplained_codes(root)?;
    wrong.extend(links::broken_links(root)?);
    wrong.extend(docs::missing_pages(root)?);
    wrong.extend(trace::wrong_trace(root)?);
    wrong.extend(commands::wrong_commands(root)?);
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

/// Follows a page line by line and knows what is a code block.
#[derive(Default)]
struct Fences<'a> {
    language: Option<&'a str>,
}

impl<'a> Fences<'a> {
    /// Whether this line is in a code block, or begins or ends one.
    fn covers(&mut self, line: &'a str) -> bool {
        match (line.trim().strip_prefix("```"), self.language) {
            (None, language) => language.is_some(),
            (Some(language), None) => {
                self.language = Some(language);
                true
            }
            (Some(_), Some(_)) => {
                self.language = None;
                true
            }
        }
    }
}

/// The lines of a page that are not in code blocks.
fn outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut code = Fences::default();
    text.lines().filter(move |line| !code.covers(line))
}

/// All files below `directory` with this extension, without hidden and build directories.
pub fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |e: std::io::Error| format!("`{}`: {e}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name());
        let hidden = name.as_encoded_bytes().starts_with(b".");
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !hidden && name != "target" {
            found.extend(files(&path, extension)?);
        } else if kind.is_file() && path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("`{}`: {e}", path.display()))
}

/// Writes files below a directory, for tests.
#[cfg(test)]
pub fn writer(place: &Path) -> impl Fn(&str, &str) {
    move |name, text| {
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
