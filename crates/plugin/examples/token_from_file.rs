//! `token_from_file PATH`

use std::{env, fs, process::ExitCode, time::Duration};

use keyward_plugin::{Credential, Plugin, Question, Refusal, serve};

/// Returns the token in a file that another program keeps up to date.
struct TokenFromFile;

impl Plugin for TokenFromFile {
    fn credential(&self, _question: &Question) -> Result<Credential, Refusal> {
        let path = env::args_os()
            .nth(1)
            .ok_or_else(|| Refusal::BadConfig("usage: token_from_file PATH".into()))?;
        let token = fs::read_to_string(&path).map_err(Refusal::file(&path))?;
        // The client asks again in a minute.
        Ok(Credential::token(token.trim()).expires_in(Duration::from_secs(60)))
    }
}

fn main() -> ExitCode {
    serve(TokenFromFile)
}
