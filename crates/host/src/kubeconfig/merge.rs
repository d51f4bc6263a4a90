//! Several files become one: the first to define something wins whole (KC-15, KC-16).

use std::collections::HashSet;

use super::{Kubeconfig, Named};

impl Kubeconfig {
    /// One configuration of several. Of entries with the same name the first is taken whole, fields
    /// of the others are not mixed in; so it is with `current-context`, if it is not empty.
    pub fn merge(configs: impl IntoIterator<Item = Self>) -> Self {
        let mut configs = configs.into_iter().peekable();
        let mut merged = configs.next().unwrap_or_default();
        // Most people have one file, and some of those are large.
        if configs.peek().is_none() {
            return merged;
        }
        let mut clusters = Names::of(&merged.clusters);
        let mut users = Names::of(&merged.users);
        let mut contexts = Names::of(&merged.contexts);
        let mut preferences = Names::of(&merged.preferences_extensions);
        let mut extensions = Names::of(&merged.extensions);
        for config in configs {
            merged.files.extend(config.files);
            merged.warnings.extend(config.warnings);
            if merged.current_context.is_empty() {
                merged.current_context = config.current_context;
                merged.current_context_place = config.current_context_place;
            }
            clusters.add(&mut merged.clusters, config.clusters);
            users.add(&mut merged.users, config.users);
            contexts.add(&mut merged.contexts, config.contexts);
            merged.preferences_colors |= config.preferences_colors;
            preferences.add(&mut merged.preferences_extensions, config.preferences_extensions);
            extensions.add(&mut merged.extensions, config.extensions);
        }
        merged
    }
}

/// The names taken so far in one list.
struct Names(HashSet<String>);

impl Names {
    fn of<T>(list: &[Named<T>]) -> Self {
        Self(list.iter().map(|named| named.name.clone()).collect())
    }

    fn add<T>(&mut self, list: &mut Vec<Named<T>>, more: Vec<Named<T>>) {
        list.extend(more.into_iter().filter(|named| self.0.insert(named.name.clone())));
    }
}
