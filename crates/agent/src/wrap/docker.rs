//! Replaces the credential helpers in docker's `config.json` with Keyward's own, and restores them.
//!
//! Only the names of helpers change; docker and others may change the rest of the file meanwhile.

use std::path::Path;

use keyward_protocol::{
    Node,
    node::{Place, Value},
};

use super::{
    Document, Edit, Edited, Journal, Part, Refusal, Splice,
    file::{Failure, Open, Outcome},
};
use crate::record::{quoted, text};

/// The helpers that Keyward has a provider for, with the provider's name. Docker's name for a helper is that of its
/// program without `docker-credential-`.
pub const HELPERS: [(&str, &str); 4] = [
    ("ecr-login", "keyward-ecr"),
    ("acr-env", "keyward-acr"),
    ("gcr", "keyward-gcr"),
    ("gcloud", "keyward-gcloud"),
];

/// The setting that names the helper of all other servers.
const STORE: &str = "credsStore";

/// The helpers that a configuration names and Keyward has a provider for: server, helper and provider.
pub fn replaceable(bytes: &[u8]) -> Result<Vec<(String, String, &'static str)>, Refusal> {
    let found = Document::read_json(bytes)?.helpers();
    let known = |(server, _, helper): (String, Place, String)| {
        let provider = provider_of(&helper)?;
        Some((server, helper, provider))
    };
    Ok(found.into_iter().filter_map(known).collect())
}

fn provider_of(helper: &str) -> Option<&'static str> {
    HELPERS.iter().find(|(known, _)| *known == helper).map(|(_, provider)| *provider)
}

/// Replaces the helpers of a configuration that `chosen` selects, by the provider's name. With `dry`, nothing is written.
pub fn wrap_docker(
    path: &Path,
    journals: &Path,
    chosen: impl Fn(&str) -> bool,
    dry: bool,
) -> Result<Outcome, Failure> {
    let open = Open::new(path, dry)?;
    let journal = Journal::load(journals, &open.target);
    let base = journal.as_ref().map_or_else(
        || Ok(open.bytes.to_vec()),
        |journal| restore(&open.bytes, &journal.edits).map(|edited| edited.bytes),
    );
    let edited = base.and_then(|base| replace(&base, chosen)).map_err(Failure::Refused)?;
    let earlier = journal.map(|journal| journal.users).unwrap_or_default();
    let (unchanged, changed) =
        edited.users.iter().cloned().partition(|server| earlier.contains(server));
    if !dry && !edited.edits.is_empty() {
        Journal::of_docker(&open.target, &edited).write(journals)?;
        open.replace(&edited.bytes)?;
    }
    Ok(Outcome { changed, unchanged, ..outcome(&open, edited) })
}

/// Restores the helpers of a configuration. With `dry`, nothing is written.
pub fn unwrap_docker(path: &Path, journals: &Path, dry: bool) -> Result<Outcome, Failure> {
    let open = Open::new(path, dry)?;
    let Some(journal) = Journal::load(journals, &open.target) else {
        let (file, bytes) = (open.target.clone(), open.bytes.to_vec());
        return Ok(Outcome { file, bytes, ..Outcome::default() });
    };
    let edited = restore(&open.bytes, &journal.edits).map_err(Failure::Refused)?;
    if !dry {
        open.replace(&edited.bytes)?;
        Journal::remove(journals, &open.target)?;
    }
    Ok(Outcome { changed: edited.users.clone(), ..outcome(&open, edited) })
}

fn outcome(open: &Open, edited: Edited) -> Outcome {
    let Edited { bytes, edits, .. } = edited;
    Outcome { file: open.target.clone(), edits, bytes, ..Outcome::default() }
}

/// Replaces helpers.
fn replace(bytes: &[u8], chosen: impl Fn(&str) -> bool) -> Result<Edited, Refusal> {
    edit(bytes, |_, _, helper| provider_of(helper).filter(|provider| chosen(provider)).map(quoted))
}

/// Puts back the helpers that these edits replaced, where they still are what the edits made of them.
fn restore(bytes: &[u8], edits: &[Edit]) -> Result<Edited, Refusal> {
    edit(bytes, |server, written, _| {
        let stands = |edit: &&Edit| edit.user == server && written == edit.new.as_bytes();
        edits.iter().find(stands).map(|edit| edit.old.clone())
    })
}

/// Replaces the helpers that `new` has another text for, by their server, their bytes and their name.
fn edit(
    bytes: &[u8],
    new: impl Fn(&str, &[u8], &str) -> Option<String>,
) -> Result<Edited, Refusal> {
    let document = Document::read_json(bytes)?;
    let (mut splices, mut servers) = (Vec::new(), Vec::new());
    for (server, place, helper) in document.helpers() {
        let (range, line) = (document.layout.span(place), document.layout.line(place));
        let written = bytes.get(range.clone()).unwrap_or_default();
        if let Some(new) = new(&server, written, &helper) {
            splices.push(Splice { user: server.clone(), part: Part::Helper, range, new, line });
            servers.push(server);
        }
    }
    document.apply(splices, servers)
}

impl<'a> Document<'a> {
    fn read_json(bytes: &'a [u8]) -> Result<Self, Refusal> {
        Self::of(bytes, Node::from_json(bytes), "it is empty")
    }

    /// The helpers: server, position and name. `credsStore` is under its own name.
    fn helpers(&self) -> Vec<(String, Place, String)> {
        let root = self.layout.root();
        let mut found = Vec::new();
        if let Some(Value::Map(servers)) = self.node.get("credHelpers").map(|node| &node.value)
            && let Some((_, place)) = self.layout.entry(root, "credHelpers")
        {
            for server in servers {
                if let Some(helper) = text(&server.value)
                    && let Some((_, place)) = self.layout.entry(place, &server.key)
                {
                    found.push((server.key.clone(), place, helper));
                }
            }
        }
        if let Some(helper) = self.node.get(STORE).and_then(text)
            && let Some((_, place)) = self.layout.entry(root, STORE)
        {
            found.push((STORE.to_owned(), place, helper));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const CONFIG: &str = "{\n\t\"auths\": {\"r.io\": {}},\n\t\"credHelpers\": {\n\t\t\"1.dkr.ecr.eu-west-1.amazonaws.com\": \"ecr-login\",\n\
        \t\t\"gcr.io\":\"gcloud\",\n\t\t\"other.example\": \"pass\"\n\t},\n\t\"credsStore\": \"ecr-login\"\n}";

    #[test]
    fn only_the_names_of_known_helpers_change_and_come_back() {
        let edited = replace(CONFIG.as_bytes(), |_| true).unwrap();
        let text = String::from_utf8(edited.bytes.clone()).unwrap();
        let expected =
            CONFIG.replace("ecr-login", "keyward-ecr").replace("gcloud", "keyward-gcloud");
        assert_eq!(text, expected);
        let back = restore(&edited.bytes, &edited.edits).unwrap();
        assert_eq!((back.bytes.as_slice(), back.users.len()), (CONFIG.as_bytes(), 3));
        let some = replace(CONFIG.as_bytes(), |provider| provider == "keyward-gcloud").unwrap();
        assert_eq!(some.users, ["gcr.io"]);
    }

    #[test]
    fn what_docker_wrote_meanwhile_stays() {
        let edited = replace(CONFIG.as_bytes(), |_| true).unwrap();
        let text = String::from_utf8(edited.bytes).unwrap();
        let later = text
            .replace("{\"r.io\": {}}", "{\"r.io\": {}, \"s.io\": {}}")
            .replace("\"gcr.io\":\"keyward-gcloud\"", "\"gcr.io\":\"own\"");
        let back = restore(later.as_bytes(), &edited.edits).unwrap();
        let back = String::from_utf8(back.bytes).unwrap();
        assert_eq!(back, later.replace("keyward-ecr", "ecr-login"));
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_line() {
        assert_eq!(replace(b"{\n\"credHelpers\": [}", |_| true).unwrap_err().line, 2);
        assert!(replace(b"[]", |_| true).unwrap().edits.is_empty());
        assert!(replace(b"{\"credHelpers\": {\"a\": 1}}", |_| true).unwrap().edits.is_empty());
    }
}
