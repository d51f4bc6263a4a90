//! Puts the pages where mdBook reads them: in the order of `docs/SUMMARY.md`, at the paths that they
//! have in the repository, with links that work on the site.
//!
//! In the summary a link to a directory means all its pages, in the order of their names, below a page
//! that lists them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Component, Path, PathBuf},
};

use super::remove;
use crate::pages::{files, is_external, links, read, rewrite_links};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Playground buttons would send code to somebody else's server.
const BOOK: &str = r#"[book]
title = "Keyward"
description = "How programs get Kubernetes credentials"
language = "en"
src = "src"

[build]
create-missing = false
use-default-preprocessors = false

[output.html]
smart-punctuation = false

[output.html.playground]
runnable = false

[output.html.print]
enable = false
"#;

/// Pages of `docs/` that the summary does not lead to.
pub fn missing_pages(root: &Path) -> Result<Vec<String>, String> {
    let book = Book::read(root)?;
    let pages = files(&root.join("docs"), "md")?;
    let pages = pages.iter().map(|page| page.strip_prefix(root).unwrap_or(page));
    Ok(pages
        .filter(|page| *page != Path::new(SUMMARY) && !book.pages.contains(*page))
        .map(|page| format!("{}: not in {SUMMARY}", page.display()))
        .collect())
}

/// Writes the book's configuration and its pages into a directory of their own.
pub(super) fn write(root: &Path, place: &Path) -> Result<(), String> {
    remove(place)?;
    let book = Book::read(root)?;
    let source = place.join("src");
    let mut copied = BTreeSet::new();
    for page in &book.pages {
        let text = rewrite_links(&read(&root.join(page))?, |link| {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if is_external(link) || path.is_empty() {
                return link.to_owned();
            }
            let target = resolve(page, path);
            if book.pages.contains(&target) {
                return link.to_owned();
            }
            let index = target.join("README.md");
            if book.pages.contains(&index) || book.lists.contains_key(&index) {
                let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
                return format!("{}/README.md{anchor}", path.trim_end_matches('/'));
            }
            copied.insert(target);
            link.to_owned()
        });
        put(&source.join(page), text.as_bytes())?;
    }
    for (path, text) in &book.lists {
        put(&source.join(path), text.as_bytes())?;
    }
    for file in copied {
        let from = root.join(&file);
        let bytes = fs::read(&from).map_err(|e| {
            format!(
                "a page of the site links to `{}`, which the site cannot show: {e}",
                file.display()
            )
        })?;
        put(&source.join(&file), &bytes)?;
    }
    put(&source.join("SUMMARY.md"), book.summary.as_bytes())?;
    put(&place.join("book.toml"), BOOK.as_bytes())
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let failed = |e| format!("cannot write `{}`: {e}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::write(path, bytes).map_err(failed)
}

/// The pages of the site.
struct Book {
    /// The summary for mdBook: paths from the root of the repository, directories in full.
    summary: String,
    /// Pages that exist, by their paths in the repository.
    pages: BTreeSet<PathBuf>,
    /// Pages that list the others of a directory.
    lists: BTreeMap<PathBuf, String>,
}

impl Book {
    fn read(root: &Path) -> Result<Self, String> {
        let mut book =
            Self { summary: String::new(), pages: BTreeSet::new(), lists: BTreeMap::new() };
        for line in read(&root.join(SUMMARY))?.lines() {
            match links(line).as_slice() {
                [link] if !is_external(link) => {
                    let target = resolve(Path::new(SUMMARY), link);
                    if root.join(&target).is_dir() {
                        book.directory(root, line, link, &target)?;
                    } else {
                        let there = target.display().to_string();
                        book.line(&line.replace(&format!("]({link})"), &format!("]({there})")));
                        book.pages.insert(target);
                    }
                }
                _ => book.line(line),
            }
        }
        Ok(book)
    }

    fn line(&mut self, line: &str) {
        self.summary.push_str(line);
        self.summary.push('\n');
    }

    /// Adds the pages of a directory below the line that names it.
    fn directory(
        &mut self,
        root: &Path,
        line: &str,
        named: &str,
        directory: &Path,
    ) -> Result<(), String> {
        let index = directory.join("README.md");
        let depth = line.len() - line.trim_start().len() + 2;
        let there = format!("]({})", index.display());
        self.line(&line.replace(&format!("]({named})"), &there));
        let title = line.split(['[', ']']).nth(1).unwrap_or_default();
        let mut list = format!("# {title}\n\n");
        for page in files(&root.join(directory), "md")? {
            let path = page.strip_prefix(root).unwrap_or(&page).to_owned();
            let text = read(&page)?;
            let title = text.lines().find_map(|line| line.strip_prefix("# "));
            let title = title.ok_or_else(|| format!("`{}` has no title", path.display()))?;
            self.line(&format!("{:depth$}- [{title}]({})", "", path.display()));
            let name = path.strip_prefix(directory).unwrap_or(&path).display();
            let _ = writeln!(list, "- [{title}]({name})");
            self.pages.insert(path);
        }
        self.lists.insert(index, list);
        Ok(())
    }
}

/// The path in the repository that a link in a page leads to.
fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::writer;

    #[test]
    fn every_page_of_the_documentation_is_on_the_site() {
        assert_eq!(missing_pages(crate::root()).unwrap(), [""; 0]);
    }

    #[test]
    fn the_pages_of_this_repository_can_be_put_together() {
        let place = tempfile::tempdir().unwrap();
        write(crate::root(), place.path()).unwrap();
        let summary = read(&place.path().join("src/SUMMARY.md")).unwrap();
        for link in links(&summary) {
            assert!(place.path().join("src").join(&link).is_file(), "{link}");
        }
        assert!(place.path().join("src/docs/performance.svg").is_file());
    }

    #[test]
    fn a_directory_becomes_a_list_and_links_to_it_lead_there() {
        let place = tempfile::tempdir().unwrap();
        let add = writer(place.path());
        add("docs/SUMMARY.md", "# Summary\n\n[Start](../README.md)\n\n- [Notes](notes)\n");
        add("README.md", "[notes](docs/notes), [one](docs/notes/1.md#a), [a](https://a.example)\n");
        add("docs/notes/1.md", "# One\n[back](../../README.md) ![p](../p.svg)\n");
        add("docs/p.svg", "<svg/>");
        let out = place.path().join("out");
        write(place.path(), &out).unwrap();
        let page = |name: &str| read(&out.join("src").join(name)).unwrap();
        assert_eq!(
            page("SUMMARY.md"),
            "# Summary\n\n[Start](README.md)\n\n- [Notes](docs/notes/README.md)\n  - [One](docs/notes/1.md)\n"
        );
        assert_eq!(page("docs/notes/README.md"), "# Notes\n\n- [One](1.md)\n");
        assert!(page("README.md").starts_with("[notes](docs/notes/README.md), [one](docs/notes/1"));
        assert_eq!(page("docs/p.svg"), "<svg/>");
        assert_eq!(missing_pages(place.path()).unwrap(), [""; 0]);
        add("docs/lost.md", "# Lost\n");
        assert_eq!(missing_pages(place.path()).unwrap(), ["docs/lost.md: not in docs/SUMMARY.md"]);
    }
}
