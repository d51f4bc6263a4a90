//! Hides known secrets in everything the program says to people.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};

use keyward_protocol::Secret;

/// What stands in the place of a secret.
pub(crate) const HIDDEN: &str = "[hidden]";

/// Anything shorter is more likely to be a part of ordinary words than a secret worth the name.
const SHORTEST: usize = 4;

/// The same for values that are often no secret at all, such as the name of a region.
const SHORTEST_VALUE: usize = 8;

/// The secrets of this run. Cheap to clone; all clones know the same secrets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mask(Arc<Mutex<Vec<Secret>>>);

impl Mask {
    /// From now on the value of a plugin's variable is hidden. Short ones are not: `prod` is a part of
    /// too many names.
    pub(crate) fn learn_value(&self, value: &Secret) {
        if value.expose().len() >= SHORTEST_VALUE {
            self.learn(value);
        }
    }

    /// From now on this text is hidden; each line of it too, because a key in PEM may be told line
    /// by line.
    pub(crate) fn learn(&self, secret: &Secret) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = secret.expose().trim();
        for part in std::iter::once(text).chain(text.lines().map(str::trim)) {
            if part.len() < SHORTEST || part.starts_with("-----") {
                continue;
            }
            // The longest first: a secret that contains another must be replaced before it, or its
            // rest would show.
            let order =
                |k: &Secret| part.len().cmp(&k.expose().len()).then_with(|| k.expose().cmp(part));
            if let Err(place) = known.binary_search_by(order) {
                known.insert(place, Secret::new(part));
            }
        }
    }

    /// The text without any known secret.
    pub(crate) fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = Cow::Borrowed(text);
        for secret in known.iter() {
            if text.contains(secret.expose()) {
                text = Cow::Owned(text.replace(secret.expose(), HIDDEN));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use keyward_protocol::Secret;

    use super::Mask;

    #[test]
    fn the_longer_secret_is_hidden_first() {
        let mask = Mask::default();
        mask.learn(&Secret::new("token"));
        mask.learn(&Secret::new("token-and-more"));
        assert_eq!(mask.apply("a token-and-more b token c"), "a [hidden] b [hidden] c");
    }

    #[test]
    fn a_line_of_a_key_is_hidden_and_its_frame_is_not() {
        let mask = Mask::default();
        mask.learn(&Secret::new(
            "-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----\n",
        ));
        assert_eq!(mask.apply("x MIIabc y"), "x [hidden] y");
        assert_eq!(mask.apply("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
    }

    #[test]
    fn a_text_of_three_letters_is_left_alone() {
        let mask = Mask::default();
        mask.learn(&Secret::new("abc"));
        assert_eq!(mask.apply("abc"), "abc");
    }
}
