//! Checks the path of one request in ARCHITECTURE.md: its files exist and its figures are right.

use std::path::Path;

use super::read;

const PAGE: &str = "ARCHITECTURE.md";
const SECTION: &str = "## One request, file by file";

/// A request that passes more files is hard to follow.
const MOST_FILES: usize = 60;

/// A longer file is two files.
const MOST_LINES: usize = 500;

/// What the section says that is not so.
pub(super) fn wrong_trace(root: &Path) -> Result<Vec<String>, String> {
    let page = read(&root.join(PAGE))?;
    let section = section(&page).ok_or(format!("`{PAGE}` has no section `{SECTION}`"))?;
    let (mut wrong, mut files, mut longest) = (Vec::new(), 0, 0);
    for (directory, stated, names) in tables(section) {
        if stated != names.len() {
            wrong.push(format!("{PAGE}: `{directory}` has {} files, not {stated}", names.len()));
        }
        files += names.len();
        for name in names {
            match read(&root.join(directory).join(name)) {
                Ok(text) => longest = longest.max(text.lines().count()),
                Err(error) => wrong.push(format!("{PAGE}: {error}")),
            }
        }
    }
    let figures = format!("{files} files, none over {MOST_LINES} lines; the longest has {longest}");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words(section).contains(&figures) {
        wrong.push(format!("{PAGE}: `{SECTION}` does not say `{figures}`"));
    }
    if files > MOST_FILES || longest > MOST_LINES {
        let limit = format!("{MOST_FILES} files of {MOST_LINES} lines");
        wrong.push(format!(
            "{PAGE}: a request passes {files} files of up to {longest} lines, more than {limit}"
        ));
    }
    Ok(wrong)
}

fn section(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(SECTION)?;
    Some(rest.split_once("\n## ").map_or(rest, |(section, _)| section))
}

/// Each directory with the number of files that its heading states, and the files in its table.
fn tables(section: &str) -> Vec<(&str, usize, Vec<&str>)> {
    let mut tables: Vec<(&str, usize, Vec<&str>)> = Vec::new();
    for line in section.lines() {
        let heading = line.strip_prefix('`').and_then(|line| line.split_once("` ("));
        let row = line.strip_prefix("| `").and_then(|line| line.split_once("` |"));
        if let Some((directory, stated)) = heading {
            let stated = stated.split_once(" files):").and_then(|(count, _)| count.parse().ok());
            tables.push((directory, stated.unwrap_or_default(), Vec::new()));
        } else if let (Some((name, _)), Some((_, _, names))) = (row, tables.last_mut()) {
            names.push(name);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::{PAGE, SECTION, wrong_trace};
    use crate::pages::writer;

    fn wrong(intro: &str, count: &str) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        let write = writer(place.path());
        write("crates/a/src/one.rs", "1\n2\n3\n");
        write("crates/a/src/two.rs", "1\n");
        let rows = "| file | what it does |\n|---|---|\n| `one.rs` | one |\n| `two.rs` | two |\n";
        let after = "\n## Later\n\n| `gone.rs` | is not in the section |\n";
        write(
            PAGE,
            &format!("{SECTION}\n\n{intro}\n\n`crates/a/src` ({count} files):\n\n{rows}{after}"),
        );
        wrong_trace(place.path()).unwrap()
    }

    #[test]
    fn right_figures_are_clean() {
        let intro = "It passes through 2 files, none over\n500 lines; the longest has 3.";
        assert_eq!(wrong(intro, "2"), [] as [&str; 0]);
    }

    #[test]
    fn wrong_figures_are_named() {
        let wrong =
            wrong("It passes through 2 files, none over 500 lines; the longest has 4.", "3");
        assert_eq!(
            wrong,
            [
                "ARCHITECTURE.md: `crates/a/src` has 2 files, not 3",
                "ARCHITECTURE.md: `## One request, file by file` does not say \
                 `2 files, none over 500 lines; the longest has 3`",
            ]
        );
    }

    #[test]
    fn files_that_do_not_exist_are_named() {
        let place = tempfile::tempdir().unwrap();
        let rows = "`src` (1 files):\n\n| `gone.rs` | was here |\n";
        let figures = "1 files, none over 500 lines; the longest has 0";
        writer(place.path())(PAGE, &format!("{SECTION}\n\n{figures}\n\n{rows}"));
        let wrong = wrong_trace(place.path()).unwrap();
        assert!(wrong.len() == 1 && wrong[0].contains("src/gone.rs"), "{wrong:?}");
    }
}
