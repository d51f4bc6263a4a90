//! The servers that are registries of Google. No token goes anywhere else.

/// Patterns of all registries, for answers that hold for every image.
pub(super) const PATTERNS: [&str; 5] =
    ["gcr.io", "*.gcr.io", "*.pkg.dev", "*.*.rep.pkg.dev", "container.cloud.google.com"];

/// The host of a server in docker's words, with or without a scheme, a port and a path; `None` if it is not one
/// of Google's, or not reached by TLS.
pub(super) fn parse(server: &str) -> Option<String> {
    let rest = match server.split_once("://") {
        Some(("https", rest)) => rest,
        Some(_) => return None,
        None => server,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.strip_suffix(":443").unwrap_or(authority).to_ascii_lowercase();
    let labels: Vec<&str> = host.split('.').collect();
    let plain = |label: &&str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if !labels.iter().all(plain) {
        return None;
    }
    let ours = matches!(
        labels.as_slice(),
        ["gcr", "io"]
            | [_, "gcr", "io"]
            | [_, "pkg", "dev"]
            | [_, _, "rep", "pkg", "dev"]
            | ["container", "cloud", "google", "com"]
    );
    ours.then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitfall_18_only_registries_of_google_get_a_token() {
        for server in [
            "gcr.io",
            "https://gcr.io",
            "https://eu.gcr.io/v2/",
            "GCR.io:443/project/image",
            "europe-west1-docker.pkg.dev",
            "docker.europe-west1.rep.pkg.dev/project",
            "container.cloud.google.com",
        ] {
            assert!(parse(server).is_some(), "{server}");
        }
        for server in [
            "",
            "docker.io",
            "http://gcr.io",
            "gcr.io.example.com",
            "example.com/gcr.io",
            "evilgcr.io",
            "gcr.io:5000",
            "gcr.io@example.com",
            "user@gcr.io",
            "a.b.gcr.io",
            "pkg.dev",
            ".pkg.dev",
            "x.pkg.dev.",
            "oci://gcr.io",
            "gcr.io\\.example.com",
            "https://index.docker.io/v1/",
        ] {
            assert_eq!(parse(server), None, "{server}");
        }
    }
}
