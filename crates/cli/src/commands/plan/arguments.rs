//! Arguments of a plugin with their values hidden, so that a plan can be pasted into an issue.

use keyward_host::redact::HIDDEN;

/// Keeps the names of flags and hides everything that may be a value.
pub(super) fn mask(args: &[String]) -> Vec<String> {
    args.iter().map(|arg| mask_one(arg)).collect()
}

fn mask_one(arg: &str) -> String {
    if matches!(arg, "-" | "--") {
        return arg.to_owned();
    }
    let (flag, value) = match arg.split_once('=') {
        Some((flag, _)) => (flag, true),
        None => (arg, false),
    };
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let shown = match flag.strip_prefix("--") {
        Some(name) => is_name(name),
        // After one dash more than a letter may be a value glued to its flag (`-psecret`).
        None => flag.strip_prefix('-').is_some_and(|name| name.len() == 1 && is_name(name)),
    };
    match (shown, value) {
        (true, true) => format!("{flag}={HIDDEN}"),
        (true, false) => flag.to_owned(),
        (false, _) => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::mask_one;

    #[test]
    fn names_are_kept_and_values_hidden() {
        for (arg, shown) in [
            ("--region", "--region"),
            ("--region=eu", "--region=[hidden]"),
            ("-i", "-i"),
            ("-i=x", "-i=[hidden]"),
            ("-isecret", "[hidden]"),
            ("token", "[hidden]"),
            ("key=value", "[hidden]"),
            ("-----BEGIN KEY", "[hidden]"),
            ("--", "--"),
            ("-", "-"),
            ("", "[hidden]"),
        ] {
            assert_eq!(mask_one(arg), shown, "{arg}");
        }
    }
}
