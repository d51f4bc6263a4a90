//! Suggestions for mistyped names of contexts, clusters and users.

use std::cmp::Reverse;

use strsim::osa_distance;

use crate::error::inline;

/// How many names are suggested.
const MOST: usize = 3;

/// How many names are listed if none is close.
const LISTED: usize = 10;

/// Longer names are not compared: the work grows with the square of the length.
const LONGEST: usize = 256;

/// What to do about a name that does not exist: the closest of the existing ones or, if none is close,
/// how to choose one. `None` if there is nothing to choose from.
pub(super) fn hint(what: &str, wanted: &str, names: &[&str]) -> Option<String> {
    let quoted = |name: &&str| format!("`{}`", inline(name));
    let close: Vec<_> = closest(wanted, names).iter().map(quoted).collect();
    if let Some((last, others)) = close.split_last() {
        return Some(match others {
            [] => format!("did you mean {last}?"),
            _ => format!("did you mean {} or {last}?", others.join(", ")),
        });
    }
    let mut listed: Vec<_> = names.iter().take(LISTED).map(quoted).collect();
    if names.len() > LISTED {
        listed.push(format!("and {} more", names.len() - LISTED));
    }
    (!listed.is_empty()).then(|| format!("choose a {what} with `--{what}`: {}", listed.join(", ")))
}

/// The closest name, if there is just one.
pub(super) fn only<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    match closest(wanted, names).as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

/// The names that are a few typing errors away, the closest first; if there is none, those that
/// contain the wanted text, as `arn:aws:eks:eu-west-1:1234:cluster/prod` contains `prod`.
fn closest<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let length = wanted.chars().count();
    if length == 0 || length > LONGEST {
        return Vec::new();
    }
    let most = (length / 3).clamp(1, 4);
    let mut near: Vec<(usize, &str)> = names
        .iter()
        .filter(|name| name.chars().count().abs_diff(length) <= most)
        .map(|name| (osa_distance(&wanted, &name.to_lowercase()), *name))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort_by_key(|(distance, name)| (*distance, Reverse(shared_start(&wanted, name))));
    // A name that is much closer than the others is the one.
    let best = near.first().map_or(0, |(distance, _)| *distance);
    near.retain(|(distance, _)| *distance == best);
    if near.is_empty() && length > 2 {
        let containing = names.iter().filter(|name| name.to_lowercase().contains(&wanted));
        near = containing.map(|name| (name.len(), *name)).collect();
        near.sort_by_key(|(length, _)| *length);
    }
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// How many characters two names have in common before they differ.
fn shared_start(wanted: &str, name: &str) -> usize {
    wanted.chars().zip(name.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
}

#[cfg(test)]
mod tests {
    use super::{closest, hint};

    #[test]
    fn the_closest_name_comes_first() {
        let many: Vec<String> = (0..300).map(|n| format!("prod-cluster-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (wanted, names, expected) in [
            ("prod-clster-250", many.as_slice(), &["prod-cluster-250"][..]),
            ("PROD-cluster-250", &many, &["prod-cluster-250"]),
            ("heer", &["there", "here"], &["here"]),
            ("uu", &["u", "v"], &["u"]),
            ("dev-1", &["dev-3", "xev-1", "dev-2"], &["dev-3", "dev-2", "xev-1"]),
            (
                "prod",
                &["stage", "arn:aws:eks:eu:1:cluster/prod"],
                &["arn:aws:eks:eu:1:cluster/prod"],
            ),
            ("minikube", &["here"], &[]),
            ("", &["here"], &[]),
        ] {
            assert_eq!(closest(wanted, names), expected, "`{wanted}`");
        }
    }

    #[test]
    fn without_a_close_name_the_first_ones_are_listed() {
        let names: Vec<String> = (0..12).map(|n| format!("c{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            hint("user", "minikube", &names).as_deref(),
            Some(
                "choose a user with `--user`: `c0`, `c1`, `c2`, `c3`, `c4`, `c5`, `c6`, `c7`, `c8`, \
                 `c9`, and 2 more"
            )
        );
        assert_eq!(hint("user", "minikube", &[]), None);
    }

    #[test]
    fn a_name_of_a_stranger_stays_on_its_line() {
        assert_eq!(hint("context", "ab", &["a\nb"]).as_deref(), Some("did you mean `a b`?"));
    }

    #[test]
    fn long_names_take_no_time() {
        let long = "x".repeat(1 << 20);
        assert!(closest(&long, &[&long]).is_empty());
        assert!(closest("x", &[&long]).is_empty());
    }
}
