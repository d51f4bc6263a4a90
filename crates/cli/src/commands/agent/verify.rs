//! `keyward verify-credential`: asks an API server whether it accepts a credential of the agent.

use std::{
    io::{self, Read as _},
    sync::Arc,
    time::Duration,
};

use http::StatusCode;
use keyward::self_subject_reviews;
use keyward_host::{Credential, Fetched, Occasion, Pair, Source, Target, kubeconfig::User};
use keyward_process::clock::SystemClock;
use keyward_protocol::exec::{Answer, Version};
use zeroize::Zeroizing;

use crate::{failure::Failure, globals::Globals, output, server};

/// Even for a slow server: a person may be waiting at a terminal.
const PATIENCE: Duration = Duration::from_secs(2);
/// The agent takes no larger answer from a plugin.
const MOST: u64 = 2 << 20;

/// Ask the server of a context whether it accepts the credential on standard input
///
/// Sends a `SelfSubjectReview`. Prints `accepted`, `rejected`, or nothing if the server cannot be asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server that the kubeconfig named when the plugin was registered; no other one is asked
    #[arg(long, value_name = "URL")]
    registered_server: String,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let mut text = Zeroizing::new(Vec::with_capacity(64 << 10));
    io::stdin().lock().take(MOST).read_to_end(&mut text)?;
    let answer = Answer::read(&text, Version::V1)
        .map_err(|error| Failure::usage(format!("standard input is no credential: {error}")))?;
    let target = globals.target()?;
    // The credential goes only to the server that was configured when the plugin was
    // registered.
    if target.cluster.value.server == args.registered_server
        && let Some(accepted) = is_accepted(target, &answer)
    {
        output::print(if accepted { "accepted\n" } else { "rejected\n" })?;
    }
    Ok(())
}

fn is_accepted(mut target: Target, answer: &Answer) -> Option<bool> {
    target.user.value = User::default();
    let token = answer.token.clone();
    let pair = answer.pair.as_ref().map(|pem| Pair::parse(&pem.certificate, &pem.key));
    let pair = pair.transpose().ok()?.map(Arc::new);
    let fetch = move |_: &Occasion| {
        let value = Credential::of(token.clone(), pair.clone(), None)?;
        Ok(Fetched { value, expires: None })
    };
    let source = Source::from_fetch(fetch, Arc::new(SystemClock));
    let client = server::builder().response_timeout(PATIENCE).build(&target, source).ok()?;
    let runtime = server::runtime().ok()?;
    let request = self_subject_reviews().next()?;
    let answer = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, client.send(request)).await.ok()?.ok()
    })?;
    match answer.status() {
        StatusCode::UNAUTHORIZED => Some(false),
        // A user who may not ask, or whose old server does not know the API, is still
        // authenticated.
        status if status.is_success() => Some(true),
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Some(true),
        _ => None,
    }
}
