//! Links between the pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{files, outside_code, read};

/// Links of the pages to files or headings that do not exist.
pub(super) fn broken_links(root: &Path) -> Result<Vec<String>, String> {
    let root = &root.canonicalize().map_err(|e| format!("`{}`: {e}", root.display()))?;
    let mut headings = BTreeMap::new();
    for page in files(root, "md")? {
        let text = read(&page)?;
        headings.insert(page, (anchors(&text), text));
    }
    let mut wrong = Vec::new();
    for (page, (_, text)) in &headings {
        for link in links(text) {
            if is_external(&link) {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = page.with_file_name("").join(path);
            let target = if path.is_empty() { page.clone() } else { target };
            let Ok(target) = target.canonicalize() else {
                wrong.push(broken(root, page, &link, "no such file"));
                continue;
            };
            let exists = headings.get(&target).is_some_and(|(anchors, _)| anchors.contains(anchor));
            if !anchor.is_empty() && !exists {
                wrong.push(broken(root, page, &link, "no such heading"));
            }
        }
    }
    Ok(wrong)
}

fn broken(root: &Path, page: &Path, link: &str, why: &str) -> String {
    format!("{}: `{link}`: {why}", page.strip_prefix(root).unwrap_or(page).display())
}

/// Whether a link leads out of the pages.
pub fn is_external(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// The targets of the links in a page, outside of code blocks.
pub fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    rewrite_links(text, |link| {
        found.push(link.to_owned());
        link.to_owned()
    });
    found
}

/// A page with other targets in its links, outside of code blocks.
pub fn rewrite_links(text: &str, mut target: impl FnMut(&str) -> String) -> String {
    let mut code = super::Fences::default();
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        if !code.covers(line) {
            while let Some((before, after)) = rest.split_once("](")
                && let Some((link, after)) = after.split_once(')')
            {
                out.extend([before, "](", target(link).as_str(), ")"]);
                rest = after;
            }
        }
        out.push_str(rest);
    }
    out
}

/// The anchors of a page's headings, formed as on GitHub and by mdBook.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_a_page_leads_somewhere() {
        assert_eq!(broken_links(crate::root()).unwrap(), [""; 0]);
    }

    #[test]
    fn a_link_to_no_file_or_heading_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let write = super::super::writer(place.path());
        write("a.md", "## A b\n[b](#a-b) [c](#c)\n```sh\n[d](#d)\n```\n");
        write("b.md", "[gone](gone.md) [a](a.md#a-b)\n");
        let links = broken_links(place.path()).unwrap();
        assert!(links.len() == 2 && links[0].contains("`#c`: no such heading"), "{links:?}");
        assert!(links[1].contains("gone.md"), "{links:?}");
    }

    #[test]
    fn only_the_targets_of_links_are_rewritten() {
        let text = "[a](b.md), `c` and [d](e#f)\n```text\n[g](h)\n```\n(i)";
        let out = rewrite_links(text, |link| format!("<{link}>"));
        assert_eq!(out, "[a](<b.md>), `c` and [d](<e#f>)\n```text\n[g](h)\n```\n(i)");
        assert_eq!(links(text), ["b.md", "e#f"]);
    }
}
