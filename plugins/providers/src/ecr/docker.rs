//! Docker's protocol: a verb, the server on stdin, and the answer, or the error, on stdout.

use std::{
    io::{self, Read as _},
    process::ExitCode,
};

use keyward_plugin::{Question, Refusal, Version};
use serde_json::json;

use super::{api, registry::Registry};
use crate::{Call, aws::Aws, explain::Explain};

/// The message by which docker recognises that there is no login; it continues without one.
const NOT_FOUND: &str = "credentials not found in native keychain";

/// A server's URL, or a login to store, is short.
const MOST: u64 = 64 * 1024;

pub(super) fn run(call: &Call, verb: &str) -> ExitCode {
    let mut input = String::new();
    let outcome = match io::stdin().lock().take(MOST).read_to_string(&mut input) {
        Err(error) => Err(Refusal::Failed(format!("cannot read stdin: {error}"))),
        Ok(_) => match verb {
            "get" => get(call, input.trim()),
            "list" => call.print("{}\n"),
            // `docker login` stores what it has just got from here, and must not fail.
            _ => Ok(()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            // Docker shows stdout alone, as one line.
            let text = refusal.to_string();
            _ = call.print(&format!("{}\n", text.lines().next().unwrap_or_default()));
            if text == NOT_FOUND { ExitCode::FAILURE } else { call.finish(Err(refusal)) }
        }
    }
}

fn get(call: &Call, server: &str) -> Result<(), Refusal> {
    if server.is_empty() {
        return Err(Refusal::failed("no credentials server URL"));
    }
    if server.starts_with('{') {
        return Err(Refusal::BadConfig(
            "this is the kubelet's request, but `get` is docker's: start `keyward-ecr` without a word".into(),
        ));
    }
    let registry = Registry::parse(server).ok_or_else(|| Refusal::failed(NOT_FOUND))?;
    let (nobody, explain) = (Question::from_env_or(Version::V1Beta1)?, Explain::default());
    let aws = Aws::open(call, &nobody, &explain, None, Some(registry.region()))?;
    let keys = aws.keys()?;
    let login = api::token(&aws, &registry, &keys, call.clock.now())?;
    let answer =
        json!({"ServerURL": server, "Username": login.user, "Secret": login.password.expose()});
    call.print(&format!("{answer}\n"))
}
