//! Names of registries, and the mirrors that stand in for others.

use keyward_plugin::Refusal;

use crate::flags::wrong_value;

/// The domains of Azure's registries.
const DOMAINS: [&str; 4] = ["azurecr.io", "azurecr.cn", "azurecr.us", "azurecr.de"];

/// The host of an image or a server, if it is a registry of Azure. No token may go to another one.
pub(super) fn host<'a>(image: &'a str, own: Option<&str>) -> Option<&'a str> {
    let image = image.strip_prefix("https://").unwrap_or(image);
    let host = image.split('/').next()?;
    let (name, domain) = host.split_once('.')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let known = DOMAINS.into_iter().chain(own).any(|known| known.eq_ignore_ascii_case(domain));
    (is_name && known).then_some(host)
}

/// Registries whose images come from another registry.
#[derive(Debug, Default)]
pub(super) struct Mirrors(Vec<(String, String)>);

impl Mirrors {
    /// Reads `FROM:TO,…`. A number after a colon is a port.
    pub(super) fn parse(values: &[String]) -> Result<Self, Refusal> {
        let mappings = values.iter().flat_map(|value| value.split(',')).map(str::trim);
        let mappings = mappings.filter(|mapping| !mapping.is_empty());
        let mut mirrors = mappings.map(mapping).collect::<Result<Vec<_>, _>>()?;
        // The longest prefix of an image wins, whatever the order.
        mirrors.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Ok(Self(mirrors))
    }

    /// The image's name in the mirror, and the prefix of its own name that the mirror replaces.
    pub(super) fn find(&self, image: &str) -> Option<(String, &str)> {
        self.0.iter().find_map(|(from, to)| {
            let rest = image.strip_prefix(from.as_str())?;
            // Only whole parts: `mcr.microsoft.com.evil` is another registry.
            let whole = rest.is_empty() || rest.starts_with('/');
            whole.then(|| (format!("{to}{rest}"), from.as_str()))
        })
    }
}

fn mapping(text: &str) -> Result<(String, String), Refusal> {
    let mut places: Vec<String> = Vec::new();
    for part in text.split(':').map(str::trim) {
        match places.last_mut() {
            Some(place) if is_port(part) => {
                place.push(':');
                place.push_str(part);
            }
            _ => places.push(part.trim_end_matches('/').to_owned()),
        }
    }
    match <[String; 2]>::try_from(places) {
        Ok([from, to]) if !from.is_empty() && !to.is_empty() => Ok((from, to)),
        _ => {
            let right = "`FROM:TO`, such as `mcr.microsoft.com:abc.azurecr.io`";
            Err(wrong_value("--registry-mirror", right, text))
        }
    }
}

fn is_port(text: &str) -> bool {
    text.split('/').next().is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn pitfall_18_only_hosts_of_azure_are_registries() {
        for image in
            ["a.azurecr.io/b", "a.azurecr.io", "https://A-1.azurecr.cn/v2/", "x.azurecr.us/a"]
        {
            assert!(host(image, None).is_some(), "{image}");
        }
        for image in [
            "evil.example/a.azurecr.io/b",
            "a.azurecr.io.evil.example/b",
            "a.azurecr.io@evil.example/b",
            "a.azurecr.io:443/b",
            "evilazurecr.io/b",
            "azurecr.io/b",
            "a.b.azurecr.io/c",
            "mcr.microsoft.com/a",
            "",
        ] {
            assert!(host(image, None).is_none(), "{image}");
        }
        assert_eq!(
            host("a.azurecr.stack.local/b", Some("azurecr.stack.local")),
            Some("a.azurecr.stack.local")
        );
    }

    #[test]
    fn pitfall_20_the_longest_prefix_wins_and_ports_are_allowed() {
        let text = "mcr.microsoft.com:a.azurecr.io, mcr.microsoft.com/oss:b.azurecr.io,localhost:5000:c.azurecr.io";
        let mirrors = Mirrors::parse(&[text.to_owned()]).unwrap();
        for (image, expected) in [
            ("mcr.microsoft.com/x:1", Some("a.azurecr.io/x:1")),
            ("mcr.microsoft.com/oss/x", Some("b.azurecr.io/x")),
            ("mcr.microsoft.com/osss/x", Some("a.azurecr.io/osss/x")),
            ("localhost:5000/x", Some("c.azurecr.io/x")),
            ("localhost/x", None),
            ("mcr.microsoft.com.evil/x", None),
        ] {
            let found = mirrors.find(image).map(|(target, _)| target);
            assert_eq!(found.as_deref(), expected, "{image}");
        }
        for text in ["a", "a:b:c", ":a", "a:", "a:5000"] {
            assert!(Mirrors::parse(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
