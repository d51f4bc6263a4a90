//! Docker's credential helper protocol: a verb on the command line, the server or a login on stdin, and the
//! answer or the error on stdout.

use crate::{Node, Secret, image::Login, json, node::DecodeError};

/// The message by which docker, podman and others recognise that a helper has no login for a server; they
/// continue without one.
pub const NOT_FOUND: &str = "credentials not found in native keychain";

/// The message by which docker recognises a request without a server.
pub const NO_SERVER: &str = "no credentials server URL";

/// The message by which docker recognises a login without a user name.
pub const NO_USERNAME: &str = "no credentials username";

/// What a client asks of a helper: its only argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The login for the server on stdin.
    Get,
    /// Stores the login on stdin.
    Store,
    /// Removes the login for the server on stdin.
    Erase,
    /// The user names of all logins, by server.
    List,
    /// The helper's name and version.
    Version,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 5] = [Self::Get, Self::Store, Self::Erase, Self::List, Self::Version];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Store => "store",
            Self::Erase => "erase",
            Self::List => "list",
            Self::Version => "version",
        }
    }

    /// The verb with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == word)
    }
}

/// A login and its server, as `get` prints them and `store` reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The server, in the client's words: `https://index.docker.io/v1/`, `registry.example:5000`.
    pub server: String,
    /// The login. The user name `<token>` marks an identity token, which only docker can exchange.
    pub login: Login,
}

impl Credentials {
    /// Reads a login: a helper's answer to `get`, or what a client stores. Missing fields are empty. Errors
    /// contain none of the text.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let node = Node::from_json(bytes)?;
        node.map("login")?;
        let field = |name| node.text_of(name).map(Option::unwrap_or_default);
        Ok(Self {
            server: field("ServerURL")?.to_owned(),
            login: Login {
                username: field("Username")?.to_owned(),
                password: Secret::new(field("Secret")?),
            },
        })
    }

    /// The login as one line of JSON, newline included.
    pub fn to_json(&self) -> Secret {
        Secret::new(json::line(|object| {
            object.text("ServerURL", &self.server);
            object.text("Username", &self.login.username);
            object.text("Secret", self.login.password.expose());
        }))
    }
}

/// The answer to `list`: user names by server, as one line of JSON, newline included.
pub fn list_json<'a>(users: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    json::line(|object| {
        for (server, user) in users {
            object.text(server, user);
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_login_is_read_as_it_was_written() {
        let login = Login { username: "<token>".into(), password: Secret::new("a\"b") };
        let credentials = Credentials { server: "https://r.io/v1/".into(), login };
        let text = credentials.to_json();
        assert_eq!(Credentials::read(text.expose().as_bytes()).unwrap(), credentials);
        let start = r#"{"ServerURL":"https://r.io/v1/","Username":"#;
        assert!(text.expose().starts_with(start) && text.expose().ends_with("}\n"));
        let empty = Credentials::read(b"{\"new\":1}").unwrap();
        assert!(empty.server.is_empty() && empty.login.username.is_empty());
        for wrong in ["", "[]", "{\"Secret\":{\"hush\":1}}", "hush"] {
            let error = Credentials::read(wrong.as_bytes()).unwrap_err();
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }

    #[test]
    fn verbs_are_known_by_their_names_and_lists_are_objects() {
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.name()), Some(verb));
        }
        assert_eq!(Verb::parse("GET"), None);
        assert_eq!(list_json([]), "{}\n");
        assert_eq!(list_json([("a", "u"), ("b\"", "v")]), "{\"a\":\"u\",\"b\\\"\":\"v\"}\n");
    }
}
