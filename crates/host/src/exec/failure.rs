//! Errors for people: each way a plugin can fail has its own words.

use std::time::Duration;

use keyward_protocol::{
    Node,
    exec::{AnswerError, REQUEST_VARIABLE},
};

use keyward_process::runner::{Failure, Output, Part, Status, Stderr};

use crate::{
    Error, Kind,
    error::inline,
    observer::CallStatus,
    plan::{Origin, Plugin, Turn},
    redact::{Redactor, without_first_line},
};

/// How a run that did not end by itself is counted (ME-01, D8).
pub(super) fn counted(failure: &Failure) -> (i32, CallStatus, Duration) {
    match failure {
        Failure::NotFound => (1, CallStatus::PluginNotFoundError, Duration::ZERO),
        _ => match failure.left() {
            Some(left) => (-1, CallStatus::PluginExecutionError, left.took),
            None => (1, CallStatus::ClientInternalError, Duration::ZERO),
        },
    }
}

/// A plugin that was not started, or that we ended.
pub(super) fn not_run(plugin: &Plugin, turn: &Turn, failure: Failure) -> Error {
    let name = inline(plugin.command());
    let stderr = failure.left().map(|left| masked(plugin, turn, &left.stderr, &[]));
    let error = match &failure {
        Failure::NotFound => {
            return Error::new(Kind::NotFound, format!("plugin `{name}` was not found"));
        }
        Failure::TimedOut(_) => Error::new(
            Kind::TimedOut,
            format!("plugin `{name}` did not answer within {:?}", turn.budget),
        ),
        Failure::Changed => Error::new(
            Kind::NotAllowed,
            format!("the file of plugin `{name}` was changed after it was checked"),
        ),
        Failure::TooMuchOutput(_) => {
            Error::new(Kind::BadAnswer, format!("plugin `{name}` printed too much"))
                .note("allowed are", format!("{} bytes", turn.limits.stdout))
        }
        Failure::Cancelled(_) => {
            Error::new(Kind::Failed, format!("plugin `{name}` was ended with this program"))
        }
        Failure::Nul(_) => {
            Error::new(Kind::BadConfig, format!("plugin `{name}` cannot be started"))
        }
        _ => Error::new(Kind::Failed, format!("plugin `{name}` cannot be started")),
    };
    let error = match &failure {
        Failure::TooBig { part, .. } => too_big(error, part, turn),
        _ => error,
    };
    let error = match stderr {
        Some(stderr) if !stderr.is_empty() => {
            error.with_stderr(stderr).with_stderr_shown(shown(turn))
        }
        _ => error,
    };
    // What the words above say already is not said again as their cause.
    match failure {
        Failure::TimedOut(_)
        | Failure::Changed
        | Failure::Cancelled(_)
        | Failure::TooMuchOutput(_) => error,
        other => error.because(other),
    }
}

/// Says which field makes the request too big for the environment.
fn too_big(error: Error, part: &Part, turn: &Turn) -> Error {
    let Some(cluster) = turn.request.cluster.as_ref().filter(|_| {
        matches!(part, Part::Variable(name) if name == REQUEST_VARIABLE)
            || *part == Part::Everything
    }) else {
        return error;
    };
    let authority = cluster.certificate_authority_data.len();
    let config = cluster.config.as_ref().map_or(0, |config| config.to_json().len());
    let (field, size) = if authority >= config {
        ("certificate-authority-data", authority)
    } else {
        ("the extension `client.authentication.k8s.io/exec`", config)
    };
    error
        .note("largest field", format!("{field} of the cluster, {size} bytes"))
        .with_hint("the request has it because of `provideClusterInfo`; most plugins work without")
}

/// A plugin that ended by itself, and not well.
pub(super) fn ended(plugin: &Plugin, turn: &Turn, output: &Output) -> Error {
    let name = inline(plugin.command());
    let what = match output.status {
        Status::Code(code) => format!("plugin `{name}` failed with exit code {code}"),
        Status::Signal(signal) => {
            format!("plugin `{name}` was ended by signal {signal}{}", signal_name(signal))
        }
    };
    with_stderr(Error::new(Kind::Failed, what), plugin, turn, output)
}

/// A plugin whose answer is not one. The cause has the details.
pub(super) fn bad_answer(
    plugin: &Plugin,
    turn: &Turn,
    output: &Output,
    wrong: AnswerError,
) -> Error {
    let what = match &wrong {
        AnswerError::Empty => "answered nothing",
        AnswerError::Decode { .. } => "answered something that is not an `ExecCredential`",
        AnswerError::VersionMismatch { .. } => "answered in another version than it was asked in",
        _ => "answered without a credential",
    };
    let mismatch = matches!(wrong, AnswerError::VersionMismatch { .. });
    let error = wrong_answer(plugin, turn, output, what).because(wrong);
    if mismatch {
        error.with_hint("set `apiVersion` of the user's `exec` to what the plugin speaks")
    } else {
        error
    }
}

/// A plugin that answered, but nothing that can be used.
pub(super) fn wrong_answer(plugin: &Plugin, turn: &Turn, output: &Output, what: &str) -> Error {
    let error =
        Error::new(Kind::BadAnswer, format!("plugin `{}` {what}", inline(plugin.command())));
    with_stderr(error, plugin, turn, output)
}

fn with_stderr(error: Error, plugin: &Plugin, turn: &Turn, output: &Output) -> Error {
    let said = masked(plugin, turn, &output.stderr, &output.stdout);
    if said.trim().is_empty() {
        return error;
    }
    error.with_stderr(said).with_stderr_shown(shown(turn))
}

/// Whether somebody has seen the plugin's stderr already.
fn shown(turn: &Turn) -> bool {
    !matches!(turn.stderr, Stderr::Kept)
}

/// What a plugin wrote to stderr, without any secret we know of: those of the run, and of its own answer.
fn masked(plugin: &Plugin, turn: &Turn, stderr: &[u8], stdout: &[u8]) -> String {
    let mut redactor = redactor(plugin, turn);
    redactor.add_answer(stdout);
    let cut = stderr.len() >= turn.limits.stderr;
    redactor.apply(if cut { without_first_line(stderr) } else { stderr })
}

/// Hides what a plugin was told, beside what this process handed out before: its configured variables,
/// those of ours that are called secret, its arguments, the passwords and extension of its cluster.
pub(super) fn redactor(plugin: &Plugin, turn: &Turn) -> Redactor {
    let mut redactor = Redactor::default();
    for variable in &turn.environment {
        let (name, value) = (variable.name.to_string_lossy(), variable.value.to_string_lossy());
        match variable.origin {
            Origin::Inherited => redactor.add_inherited(&name, &value),
            Origin::Configured | Origin::Set => redactor.add_configured(&value),
            Origin::Request => {}
        }
    }
    for address in turn.request.cluster.iter().flat_map(|c| [&c.server, &c.proxy_url]) {
        redactor.add_urls(address);
    }
    for secret in turn.request.cluster.iter().flat_map(|c| &c.config).flat_map(Node::secrets) {
        redactor.add(secret.expose());
    }
    redactor.add_args(plugin.args());
    redactor
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
