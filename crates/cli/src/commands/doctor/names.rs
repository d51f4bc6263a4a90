//! Placeholders for names and addresses: the same name gets the same placeholder everywhere.

use std::net::IpAddr;

/// The names of a report, each with its placeholder.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<(String, String)>);

/// Shorter names occur in ordinary texts, so they are hidden only between quotes.
const SHORT: usize = 3;

impl Names {
    /// Hides `name` as one of this `kind`: `user-1`, `user-2`, …
    pub(super) fn add(&mut self, kind: &str, name: &str) {
        let known = self.0.iter().any(|(known, _)| known == name);
        if known || name.is_empty() {
            return;
        }
        let prefix = format!("{kind}-");
        let number = 1 + self.0.iter().filter(|(_, shown)| shown.starts_with(&prefix)).count();
        self.0.push((name.to_owned(), format!("{prefix}{number}")));
    }

    /// Hides `name` behind a given text.
    pub(super) fn add_as(&mut self, name: &str, shown: &str) {
        if !name.is_empty() {
            self.0.push((name.to_owned(), shown.to_owned()));
        }
    }

    /// Learns the addresses in a text that no step has named.
    pub(super) fn learn(&mut self, text: &str) {
        let part_of_address = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        for word in text.split(|c: char| !part_of_address(c)) {
            let word = word.trim_matches(['.', ':']);
            let address = word.parse::<IpAddr>().is_ok();
            match word.rsplit_once(':') {
                _ if address => self.add("address", word),
                Some((host, _)) if host.parse::<IpAddr>().is_ok() => self.add("address", host),
                _ => {}
            }
        }
        for word in text.split(|c: char| c.is_whitespace() || "`'\"<>()[]{},;".contains(c)) {
            if let Some((name, domain)) = word.split_once('@')
                && !name.is_empty()
                && domain.contains('.')
                && !word.contains("://")
            {
                self.add("name", word.trim_end_matches(['.', ':']));
            }
            if let Some((_, rest)) = word.split_once("://") {
                let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = host.rsplit('@').next().unwrap_or_default();
                let bare = host.rsplit_once(':').map_or(host, |(name, _)| name);
                // Not the `HOST` of an advice.
                if !bare.chars().all(|c| c.is_ascii_uppercase()) {
                    self.add("host", bare);
                }
            }
        }
    }

    /// The text with every name replaced, where it is a whole word.
    pub(super) fn hide(&self, text: &str) -> String {
        let mut names: Vec<&(String, String)> = self.0.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut out = String::new();
        let (mut rest, mut before) = (text, None);
        while let Some(next) = rest.chars().next() {
            let found = names.iter().find(|(name, _)| {
                rest.strip_prefix(name.as_str())
                    .is_some_and(|after| ends_word(before, name, after.chars().next()))
            });
            let (taken, shown) = match found {
                Some((name, shown)) => (name.len(), shown.as_str()),
                None => (next.len_utf8(), &rest[..next.len_utf8()]),
            };
            out.push_str(shown);
            before = rest[..taken].chars().next_back();
            rest = &rest[taken..];
        }
        out
    }
}

/// Whether a name stands by itself between these characters.
fn ends_word(before: Option<char>, name: &str, after: Option<char>) -> bool {
    if name.len() < SHORT {
        return [before, after].iter().all(|c| c.is_some_and(|c| "`'\"".contains(c)));
    }
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let joins = |edge: Option<char>, c: Option<char>| word(edge) && word(c);
    !joins(name.chars().next(), before) && !joins(name.chars().next_back(), after)
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn the_same_name_gets_the_same_placeholder_and_words_stay() {
        let mut names = Names::default();
        names.add("user", "ann");
        names.add("user", "ann-admin");
        names.add("user", "ann");
        names.add("cluster", "prod");
        names.add("user", "u");
        names.add_as("/home/ann", "~");
        assert_eq!(
            names.hide("user `ann`, `ann-admin`, `u` of prod: /home/ann/.kube/config; u, product"),
            "user `user-1`, `user-2`, `user-3` of cluster-1: ~/.kube/config; u, product"
        );
    }

    #[test]
    fn addresses_and_mail_are_found_by_their_form() {
        let mut names = Names::default();
        let text = "10.0.0.1:443 refused, [2001:db8::1]:6443, ann@corp.example, \
                    https://api.corp.example:6443/x at 12:30:45";
        names.learn(text);
        assert_eq!(
            names.hide(text),
            "address-1:443 refused, [address-2]:6443, name-1, https://host-1:6443/x at 12:30:45"
        );
    }
}
