//! Finds all stored texts that are a prefix of another text, with one search.

/// Sorted texts, each linked to the longest other one that is its prefix.
#[derive(Debug)]
pub(super) struct Chain<T>(Vec<Link<T>>);

#[derive(Debug)]
struct Link<T> {
    text: Vec<u8>,
    parent: Option<usize>,
    value: T,
}

impl<T> Chain<T> {
    /// Takes texts in ascending order, each once.
    pub(super) fn new(sorted: impl IntoIterator<Item = (Vec<u8>, T)>) -> Self {
        let mut links: Vec<Link<T>> = Vec::new();
        for (text, value) in sorted {
            // A prefix of this text is also a prefix of the text before it, or is that text.
            let mut parent = links.len().checked_sub(1);
            while let Some(at) = parent.filter(|at| !text.starts_with(&links[*at].text)) {
                parent = links[at].parent;
            }
            links.push(Link { text, parent, value });
        }
        Self(links)
    }

    /// Calls `found` for every stored text that is a prefix of `text`, the longest first.
    pub(super) fn each_prefix<'t, I>(&self, text: &I, mut found: impl FnMut(&[u8], &T))
    where
        I: Iterator<Item = &'t u8> + Clone,
    {
        let after = self.0.partition_point(|link| link.text.iter().le(text.clone()));
        let mut at = after.checked_sub(1);
        while let Some(link) = at.map(|at| &self.0[at]) {
            let mut bytes = text.clone();
            if link.text.iter().all(|byte| bytes.next() == Some(byte)) {
                found(&link.text, &link.value);
            }
            at = link.parent;
        }
    }
}

impl<T> Default for Chain<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_is_found_longest_first() {
        let texts = ["", "a", "ab", "abc", "abd", "b"];
        let chain = Chain::new(texts.map(|t| (t.as_bytes().to_vec(), ())));
        let begin = |text: &str| {
            let mut found = Vec::new();
            chain.each_prefix(&text.as_bytes().iter(), |t, ()| {
                found.push(String::from_utf8_lossy(t).into_owned());
            });
            found
        };
        assert_eq!(begin("abcz"), ["abc", "ab", "a", ""]);
        assert_eq!(begin("ac"), ["a", ""]);
        assert_eq!(begin("c"), [""]);
    }
}
