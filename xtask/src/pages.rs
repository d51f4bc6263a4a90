//! Checks that the pages and the source agree: cited codes are explained, and links lead somewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Runs both checks and prints what is wrong.
pub fn check(root: &Path) -> Result<bool, String> {
    let wrong: Vec<String> =
        unexplained_codes(root)?.into_iter().chain(broken_links(root)?).collect();
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

/// Codes such as EX-03 or D8 that a comment cites and no page explains.
fn unexplained_codes(root: &Path) -> Result<Vec<String>, String> {
    let mut explained = BTreeSet::new();
    for page in ["docs/reference-behaviour.md", "docs/conformance.md"] {
        let rows = read(&root.join(page))?;
        explained.extend(rows.lines().filter_map(|row| {
            let cell = row.strip_prefix("| ")?.split(" |").next()?;
            is_code(cell).then(|| cell.to_owned())
        }));
    }
    let mut wrong = Vec::new();
    for file in files(root, "rs")? {
        for code in cited(&read(&file)?) {
            if !explained.contains(&code) {
                let file = file.strip_prefix(root).unwrap_or(&file).display();
                wrong.push(format!(
                    "{file}: cites {code}, which docs/reference-behaviour.md does not explain"
                ));
            }
        }
    }
    Ok(wrong)
}

/// The codes in the comments of a source file, with all codes between the ends of a range.
fn cited(source: &str) -> BTreeSet<String> {
    let comments = source.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let text = comments.map(|comment| comment.trim_start_matches(['/', '!'])).collect::<Vec<_>>();
    let text = text.join(" ");
    let words: Vec<_> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
        .collect();
    let mut codes: BTreeSet<_> =
        words.iter().filter(|word| is_code(word)).map(|word| (*word).to_owned()).collect();
    for range in words.windows(3).filter(|words| words[1] == "to") {
        if let (Some((area, first)), Some((other, last))) =
            (range[0].split_once('-'), range[2].split_once('-'))
            && is_code(range[0])
            && is_code(range[2])
            && area == other
            && let (Ok(first), Ok(last)) = (first.parse::<u8>(), last.parse::<u8>())
        {
            codes.extend((first..=last).map(|number| format!("{area}-{number:02}")));
        }
    }
    codes
}

/// Whether a word is a code: an area with two digits (`EX-03`), or the number of a defect (`D8`).
fn is_code(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match word.split_once('-') {
        Some((area, number)) => AREAS.contains(&area) && number.len() == 2 && digits(number),
        None => word.strip_prefix('D').is_some_and(|number| number.len() <= 2 && digits(number)),
    }
}

/// The areas of docs/reference-behaviour.md.
const AREAS: [&str; 15] =
    ["KC", "EV", "IN", "EN", "EX", "OD", "IT", "IH", "ME", "PP", "LC", "LE", "IM", "LK", "SA"];

/// Links of the pages to files or headings that do not exist.
fn broken_links(root: &Path) -> Result<Vec<String>, String> {
    let root = &root.canonicalize().map_err(|e| format!("`{}`: {e}", root.display()))?;
    let mut headings = BTreeMap::new();
    for page in files(root, "md")? {
        let text = read(&page)?;
        headings.insert(page, (anchors(&text), text));
    }
    let mut wrong = Vec::new();
    for (page, (_, text)) in &headings {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = page.with_file_name("").join(path);
            let target = if path.is_empty() { page.clone() } else { target };
            let Ok(target) = target.canonicalize() else {
                wrong.push(broken(root, page, link, "no such file"));
                continue;
            };
            let exists = headings.get(&target).is_some_and(|(anchors, _)| anchors.contains(anchor));
            if !anchor.is_empty() && !exists {
                wrong.push(broken(root, page, link, "no such heading"));
            }
        }
    }
    Ok(wrong)
}

fn broken(root: &Path, page: &Path, link: &str, why: &str) -> String {
    format!("{}: `{link}`: {why}", page.strip_prefix(root).unwrap_or(page).display())
}

/// The targets of the links in a page, outside of code blocks.
fn links(text: &str) -> Vec<&str> {
    let lines = outside_code(text);
    let starts = lines.flat_map(|line| line.split("](").skip(1));
    starts.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// The anchors of a page's headings, formed as on GitHub.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = outside_code(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

fn outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// All files below `directory` with this extension, without hidden and build directories.
fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
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

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("`{}`: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_a_comment_cites_is_explained() {
        assert_eq!(unexplained_codes(crate::root()).unwrap(), [""; 0]);
    }

    #[test]
    fn every_link_of_a_page_leads_somewhere() {
        assert_eq!(broken_links(crate::root()).unwrap(), [""; 0]);
    }

    #[test]
    fn codes_are_found_in_comments_alone_and_ranges_count_whole() {
        let source = "/// See (EX-03, D8).\n// SA-01 to\n// SA-03\nlet x = \"KC-77\"; UTF-16";
        let found: Vec<_> = cited(source).into_iter().collect();
        assert_eq!(found, ["D8", "EX-03", "SA-01", "SA-02", "SA-03"]);
    }

    #[test]
    fn an_unexplained_code_and_a_broken_link_are_reported() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("docs/reference-behaviour.md", "## A b\n| EX-01 | it runs |\n[b](#a-b) [c](#c)\n");
        write("docs/conformance.md", "| D1 | hangs |\n[gone](gone.md)\n");
        write("src/lib.rs", "// EX-01, EX-02, D1\n");
        let codes = unexplained_codes(place.path()).unwrap();
        assert!(codes.len() == 1 && codes[0].contains("cites EX-02"), "{codes:?}");
        let links = broken_links(place.path()).unwrap();
        assert!(links.len() == 2 && links[0].contains("gone.md"), "{links:?}");
        assert!(links[1].contains("`#c`: no such heading"), "{links:?}");
    }
}
