//! Asks a person for name and password: `interactive_login ACCOUNTS`.
//!
//! A file with lines of `NAME:PASSWORD:TOKEN` stands in for the identity service that a real plugin
//! would call in [`look_up`].

use std::{env, fs, process::ExitCode, time::Duration};

use keyward_plugin::{Credential, Plugin, Question, Refusal, Secret, Terminal, serve};

struct InteractiveLogin;

impl Plugin for InteractiveLogin {
    fn credential(&self, question: &Question) -> Result<Credential, Refusal> {
        let accounts = env::args()
            .nth(1)
            .ok_or_else(|| Refusal::BadConfig("usage: interactive_login ACCOUNTS".into()))?;
        // Fails with a helpful message if the client says that no prompt is possible.
        let mut terminal = Terminal::open(question)?;
        if question.rejected().is_some() {
            terminal.say("The server did not accept the last login.")?;
        }
        let name = terminal.ask("Name: ")?;
        let password = terminal.ask_hidden("Password: ")?;
        let token = look_up(&accounts, &name, &password)?;
        Ok(Credential::token(token.expose()).expires_in(Duration::from_secs(3600)))
    }
}

/// The token of a person who knows the password.
fn look_up(accounts: &str, name: &str, password: &Secret) -> Result<Secret, Refusal> {
    let accounts = fs::read_to_string(accounts)
        .map_err(|e| Refusal::Failed(format!("cannot read `{accounts}`: {e}")))?;
    for line in accounts.lines() {
        let mut fields = line.splitn(3, ':');
        if fields.next() == Some(name) && fields.next() == Some(password.expose()) {
            return Ok(Secret::new(fields.next().unwrap_or_default()));
        }
    }
    // Do not reveal which of the two was wrong.
    Err(Refusal::NotAllowed("name or password is wrong".into()))
}

fn main() -> ExitCode {
    serve(InteractiveLogin)
}
