//! Codes of the reference's behaviours, such as EX-03, that comments cite.

use std::{collections::BTreeSet, path::Path};

use super::{files, read};

/// Codes such as EX-03 or D8 that a comment cites and no page explains.
pub(super) fn unexplained_codes(root: &Path) -> Result<Vec<String>, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_a_comment_cites_is_explained() {
        assert_eq!(unexplained_codes(crate::root()).unwrap(), [""; 0]);
    }

    #[test]
    fn codes_are_found_in_comments_alone_and_ranges_count_whole() {
        let source = "/// See (EX-03, D8).\n// SA-01 to\n// SA-03\nlet x = \"KC-77\"; UTF-16";
        let found: Vec<_> = cited(source).into_iter().collect();
        assert_eq!(found, ["D8", "EX-03", "SA-01", "SA-02", "SA-03"]);
    }

    #[test]
    fn a_code_that_no_page_explains_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let write = super::super::writer(place.path());
        write("docs/reference-behaviour.md", "| EX-01 | it runs |\n");
        write("docs/conformance.md", "| D1 | hangs |\n");
        write("src/lib.rs", "// EX-01, EX-02, D1\n");
        let codes = unexplained_codes(place.path()).unwrap();
        assert!(codes.len() == 1 && codes[0].contains("cites EX-02"), "{codes:?}");
    }
}
