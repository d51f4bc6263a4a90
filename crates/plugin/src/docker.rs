//! Docker's credential helpers: the trait, and the main loop.

use std::{
    env,
    io::{self, Read, Write as _},
    process::ExitCode,
};

use keyward_protocol::{
    Secret,
    docker::{Credentials, NO_SERVER, NO_USERNAME, NOT_FOUND, Verb, list_json},
    image::Login,
    text::inline,
};
use zeroize::Zeroizing;

use crate::{
    Refusal,
    serve::{end, program, read_request},
    stdout::Stdout,
};

/// A credential helper of docker, podman, skopeo and others: returns the login for a registry.
/// [`serve_docker`] does the rest.
///
/// Closures that take a server and return its login implement it.
///
/// A helper that only returns logins leaves the other functions as they are: then `docker login` and
/// `docker logout` succeed and have no effect.
pub trait DockerHelper {
    /// The login for a server; `None` if the helper has none, so that docker continues without one.
    ///
    /// The server is in docker's words: a host with or without `https://` and a path, such as
    /// `registry.example:5000` or `https://index.docker.io/v1/`. It is never empty.
    fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal>;

    /// Stores a login. Does nothing unless you implement it.
    fn store(&self, server: &str, login: &DockerLogin) -> Result<(), Refusal> {
        let _ = (server, login);
        Ok(())
    }

    /// Removes the login for a server. Does nothing unless you implement it.
    fn erase(&self, server: &str) -> Result<(), Refusal> {
        let _ = server;
        Ok(())
    }

    /// The servers with their user names. None unless you implement it.
    fn list(&self) -> Result<Vec<(String, String)>, Refusal> {
        Ok(Vec::new())
    }

    /// The line that `version` prints: by default the name that the program was started by.
    fn version(&self) -> String {
        program()
    }
}

impl<F> DockerHelper for F
where
    F: Fn(&str) -> Result<Option<DockerLogin>, Refusal>,
{
    fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal> {
        self(server)
    }
}

/// A user name and a password for a registry, in docker's protocol.
///
/// ```
/// use keyward_plugin::DockerLogin;
///
/// let login = DockerLogin::new("jane", "s3cr3t");
/// assert_eq!(login.username(), "jane");
/// assert!(!format!("{login:?}").contains("s3cr3t"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerLogin(Login);

impl DockerLogin {
    /// A login with a password.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self(Login { username: username.into(), password: Secret::new(password) })
    }

    /// An identity token, which docker exchanges at the registry for an access token.
    pub fn identity_token(token: impl Into<String>) -> Self {
        Self::new("<token>", token)
    }

    /// The user name; `<token>` for an identity token.
    pub fn username(&self) -> &str {
        &self.0.username
    }

    /// The password or token.
    pub fn password(&self) -> &Secret {
        &self.0.password
    }
}

/// Answers docker: the whole `main` of a credential helper named `docker-credential-…`.
///
/// Reads the verb from the command line and the server from stdin, asks the helper, and prints the answer.
/// Until then stdout is redirected, as by [`serve`](crate::serve()).
///
/// Errors are printed to **stdout** as one line, because docker shows that to the person. A reason of more
/// than one line is also on stderr. The exit code of every failure is 1.
///
/// ```no_run
/// use std::process::ExitCode;
/// use keyward_plugin::{DockerLogin, serve_docker};
///
/// fn main() -> ExitCode {
///     serve_docker(|server: &str| match server {
///         "registry.example:5000" => Ok(Some(DockerLogin::new("jane", "s3cr3t"))),
///         _ => Ok(None),
///     })
/// }
/// ```
pub fn serve_docker(helper: impl DockerHelper) -> ExitCode {
    let mut args = env::args().skip(1);
    match (args.next().as_deref().and_then(Verb::parse), args.next()) {
        (Some(verb), None) => serve_docker_verb(verb, helper),
        _ => {
            let verbs: Vec<_> = Verb::ALL.into_iter().map(Verb::name).collect();
            // Docker's own helpers print this to stdout, too.
            let _ = writeln!(io::stdout(), "usage: {} {}", program(), verbs.join("|"));
            ExitCode::FAILURE
        }
    }
}

/// Answers docker like [`serve_docker`], for a program with a command line of its own.
///
/// ```no_run
/// use std::process::ExitCode;
/// use keyward_plugin::{DockerLogin, DockerVerb, serve_docker_verb};
///
/// fn main() -> ExitCode {
///     match std::env::args().nth(1).as_deref().and_then(DockerVerb::parse) {
///         Some(verb) => serve_docker_verb(verb, |_: &str| Ok(Some(DockerLogin::new("jane", "s3cr3t")))),
///         None => ExitCode::FAILURE, // the program's other commands
///     }
/// }
/// ```
#[expect(clippy::needless_pass_by_value, reason = "`serve_docker(Helper)` is the whole `main`")]
pub fn serve_docker_verb(verb: Verb, helper: impl DockerHelper) -> ExitCode {
    let mut stdout = match Stdout::take() {
        Ok(stdout) => stdout,
        Err(refusal) => return end(Err(refusal)),
    };
    let printed = match answer(verb, &helper, io::stdin().lock()) {
        Ok(answer) => stdout.print(answer.expose()).map(|()| ExitCode::SUCCESS),
        Err(refusal) => {
            let text = refusal.to_string();
            let (line, more) = text.split_once('\n').unwrap_or((&text, ""));
            if !more.is_empty() {
                let _ = writeln!(io::stderr(), "error: {text}");
            }
            stdout.print(&format!("{}\n", inline(line))).map(|()| ExitCode::FAILURE)
        }
    };
    printed.unwrap_or(ExitCode::FAILURE)
}

fn answer(verb: Verb, helper: &impl DockerHelper, stdin: impl Read) -> Result<Secret, Refusal> {
    match verb {
        Verb::Get => {
            let server = server(stdin)?;
            match helper.get(&server)? {
                Some(DockerLogin(login)) => Ok(Credentials { server, login }.to_json()),
                None => Err(Refusal::failed(NOT_FOUND)),
            }
        }
        Verb::Store => {
            let stored = Credentials::read(&input(stdin)?).map_err(|error| {
                Refusal::Failed(format!("cannot read the login on stdin: {error}"))
            })?;
            match (stored.server.trim(), stored.login.username.trim()) {
                ("", _) => return Err(Refusal::failed(NO_SERVER)),
                (_, "") => return Err(Refusal::failed(NO_USERNAME)),
                _ => helper.store(&stored.server, &DockerLogin(stored.login))?,
            }
            Ok(Secret::default())
        }
        Verb::Erase => helper.erase(&server(stdin)?).map(|()| Secret::default()),
        Verb::List => {
            let users = helper.list()?;
            let users = users.iter().map(|(server, user)| (server.as_str(), user.as_str()));
            Ok(Secret::new(list_json(users)))
        }
        Verb::Version => Ok(Secret::new(format!("{}\n", helper.version()))),
    }
}

/// The server on stdin. Docker joins lines, too.
fn server(stdin: impl Read) -> Result<String, Refusal> {
    let bytes = input(stdin)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| Refusal::failed("the server on stdin is not valid UTF-8"))?;
    let server: String = text.lines().collect();
    let server = server.trim();
    if server.is_empty() {
        return Err(Refusal::failed(NO_SERVER));
    }
    if server.starts_with('{') {
        return Err(Refusal::BadConfig(format!(
            "this is the kubelet's request, but `get` and `erase` are words of docker's protocol: start \
             `{}` without them",
            program()
        )));
    }
    Ok(server.to_owned())
}

fn input(stdin: impl Read) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let bytes = read_request(stdin)
        .map_err(|error| Refusal::Failed(format!("cannot read stdin: {error}")))?;
    bytes.ok_or_else(|| Refusal::failed("the request on stdin is too long"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{cell::RefCell, collections::BTreeMap};

    use super::*;

    /// A helper that stores logins.
    #[derive(Default)]
    struct Memory(RefCell<BTreeMap<String, DockerLogin>>);

    impl DockerHelper for Memory {
        fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal> {
            Ok(self.0.borrow().get(server).cloned())
        }

        fn store(&self, server: &str, login: &DockerLogin) -> Result<(), Refusal> {
            self.0.borrow_mut().insert(server.to_owned(), login.clone());
            Ok(())
        }

        fn erase(&self, server: &str) -> Result<(), Refusal> {
            self.0.borrow_mut().remove(server);
            Ok(())
        }

        fn list(&self) -> Result<Vec<(String, String)>, Refusal> {
            let logins = self.0.borrow();
            let users =
                logins.iter().map(|(server, login)| (server.clone(), login.username().to_owned()));
            Ok(users.collect())
        }
    }

    fn ask(helper: &impl DockerHelper, verb: Verb, stdin: &str) -> Result<String, String> {
        let answer = answer(verb, helper, stdin.as_bytes());
        answer.map(|text| text.expose().to_owned()).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn a_login_is_stored_returned_listed_and_erased() {
        let memory = Memory::default();
        let login = r#"{"ServerURL":"https://r.io/v1/","Username":"jane","Secret":"s3cr3t"}"#;
        assert_eq!(ask(&memory, Verb::Store, login).unwrap(), "");
        let list = ask(&memory, Verb::List, "unused").unwrap();
        assert_eq!(list, "{\"https://r.io/v1/\":\"jane\"}\n");
        // Docker's own helpers join lines.
        let got = ask(&memory, Verb::Get, "https://r.io\n/v1/\n").unwrap();
        assert_eq!(got, format!("{login}\n"));
        assert_eq!(ask(&memory, Verb::Erase, "https://r.io/v1/\n").unwrap(), "");
        assert_eq!(ask(&memory, Verb::Get, "https://r.io/v1/").unwrap_err(), NOT_FOUND);
    }

    #[test]
    fn errors_have_dockers_words_and_none_of_the_input() {
        let memory = Memory::default();
        for (verb, stdin, why) in [
            (Verb::Get, "", NO_SERVER),
            (Verb::Erase, " \n", NO_SERVER),
            (Verb::Store, r#"{"Username":"u","Secret":"hush"}"#, NO_SERVER),
            (Verb::Store, r#"{"ServerURL":"r.io","Secret":"hush"}"#, NO_USERNAME),
            (Verb::Store, "hush", "cannot read the login on stdin"),
            (
                Verb::Get,
                r#"{"kind":"CredentialProviderRequest","hush":1}"#,
                "the kubelet's request",
            ),
        ] {
            let error = ask(&memory, verb, stdin).unwrap_err();
            assert!(error.contains(why) && !error.contains("hush"), "{verb:?} {stdin}: {error}");
        }
        let long = "x".repeat(2 << 20);
        assert!(ask(&memory, Verb::Get, &long).unwrap_err().contains("too long"));
    }

    #[test]
    fn a_helper_that_only_returns_logins_lets_docker_store_and_erase() {
        let helper = |_: &str| Ok(Some(DockerLogin::identity_token("t")));
        let login = r#"{"ServerURL":"r.io","Username":"jane","Secret":"s3cr3t"}"#;
        assert_eq!(ask(&helper, Verb::Store, login).unwrap(), "");
        assert_eq!(ask(&helper, Verb::Erase, "r.io").unwrap(), "");
        assert_eq!(ask(&helper, Verb::List, "").unwrap(), "{}\n");
        let got = ask(&helper, Verb::Get, "r.io").unwrap();
        assert!(got.contains("\\u003ctoken\\u003e"), "{got}");
    }
}
