//! The links of the built site: each must lead to a file and, where it names one, an element.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::pages::{files, is_external, read};

/// Links of the site's pages to files or elements that do not exist.
pub(super) fn broken_links(site: &Path) -> Result<Vec<String>, String> {
    let site = &site.canonicalize().map_err(|e| format!("`{}`: {e}", site.display()))?;
    let mut pages = BTreeMap::new();
    for page in files(site, "html")? {
        let text = read(&page)?;
        let ids: BTreeSet<String> = attributes(&text, "id").map(str::to_owned).collect();
        pages.insert(page, (ids, text));
    }
    let mut wrong = Vec::new();
    for (page, (_, text)) in &pages {
        let name = page.strip_prefix(site).unwrap_or(page).display();
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            // The page for addresses that do not exist knows the site's own address only.
            if is_external(link) || link.is_empty() || page.ends_with("404.html") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.with_file_name(path) };
            let Ok(target) = target.canonicalize() else {
                wrong.push(format!("{name}: `{link}`: no such file"));
                continue;
            };
            let exists = pages.get(&target).is_some_and(|(ids, _)| ids.contains(anchor));
            if !anchor.is_empty() && !exists {
                wrong.push(format!("{name}: `{link}`: no such element"));
            }
        }
    }
    Ok(wrong)
}

/// The values of an attribute, as mdBook writes it.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(start.as_str())?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::writer;

    #[test]
    fn a_link_of_the_site_to_no_file_or_element_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let add = writer(place.path());
        add("a.html", "<h1 id=\"x\"><a href=\"b/c.html#y\"></a><a href=\"#x\"></a><img src=\"p\">");
        add("b/c.html", "<h1 id=\"y\"><a href=\"../a.html#z\"></a><a href=\"https://e.example\">");
        let wrong = broken_links(place.path()).unwrap();
        let expected = ["a.html: `p`: no such file", "b/c.html: `../a.html#z`: no such element"];
        assert_eq!(wrong, expected);
    }
}
