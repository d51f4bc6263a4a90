//! `keyward whoami`: asks the server who it authenticates us as.

use http::{Request, StatusCode};
use keyward::{Body, self_subject_reviews};
use serde_json::Value;

use crate::{
    failure::Failure,
    globals::Globals,
    output,
    server::{self, Server},
};

/// Show who the server authenticates you as
///
/// Prints what `kubectl auth whoami` prints: name, groups and extra attributes of the credential's
/// user, after impersonation.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # In the current context.
  keyward whoami

  # After impersonation, as JSON.
  keyward whoami --as ann -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    server: server::Args,

    #[command(flatten)]
    output: output::Output,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let server = Server::open(&args.server, globals)?;
    let send = |request| server.ask_bytes(request);
    let review = review(send, |status, failure| server.identify(status, failure))?;
    args.output.print(&review, || table(&review["status"]["userInfo"]))
}

/// Asks for the user. `send` sends a request and returns status and body; `refused` says more about a
/// refusal.
pub(super) fn review(
    mut send: impl FnMut(Request<Body>) -> Result<(StatusCode, Vec<u8>), Failure>,
    refused: impl Fn(StatusCode, Failure) -> Failure,
) -> Result<Value, Failure> {
    for request in self_subject_reviews() {
        let (status, body) = send(request)?;
        if status == StatusCode::NOT_FOUND {
            continue;
        }
        if !status.is_success() {
            return Err(refused(status, server::refusal(status, &body)));
        }
        return serde_json::from_slice(&body)
            .map_err(Failure::of("the server's answer is not JSON"));
    }
    Err(Failure::failed("the server does not know the SelfSubjectReview API")
        .hint("it exists since Kubernetes 1.28, and before that if enabled"))
}

/// Attributes and values in two columns, as kubectl lays them out.
fn table(user: &Value) -> String {
    let mut rows = vec![("ATTRIBUTE".to_owned(), "VALUE".to_owned())];
    let mut add = |name: String, value: &Value| match value {
        Value::String(text) if !text.is_empty() => rows.push((name, output::inline(text))),
        Value::Array(items) if !items.is_empty() => {
            let words: Vec<String> = items
                .iter()
                .map(|item| output::inline(item.as_str().unwrap_or_default()))
                .collect();
            rows.push((name, format!("[{}]", words.join(" "))));
        }
        _ => {}
    };
    add("Username".to_owned(), &user["username"]);
    add("UID".to_owned(), &user["uid"]);
    add("Groups".to_owned(), &user["groups"]);
    for (key, value) in user["extra"].as_object().into_iter().flatten() {
        add(format!("Extra: {}", output::inline(key)), value);
    }
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    rows.iter()
        .fold(String::new(), |text, (name, value)| text + &format!("{name:<width$}   {value}\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::table;

    #[test]
    fn the_table_is_laid_out_as_kubectl_does() {
        let user = json!({
            "username": "ann",
            "groups": ["dev", "system:authenticated"],
            "extra": { "scopes": ["a"] },
        });
        assert_eq!(
            table(&user),
            "ATTRIBUTE       VALUE\n\
             Username        ann\n\
             Groups          [dev system:authenticated]\n\
             Extra: scopes   [a]\n"
        );
    }
}
