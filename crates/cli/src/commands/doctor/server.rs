//! The server's response, its clock, and who it says you are.

use http::StatusCode;
use jiff::SignedDuration;
use keyward_host::Target;
use serde_json::Value;

use super::{
    answer::span,
    network::{Reached, Responded},
    step::{Check, Report, State, Step},
};
use crate::{failure::Failure, output::inline};

/// Clocks differ a little, and `Date` has whole seconds.
const CLOSE: SignedDuration = SignedDuration::from_secs(5);

/// From here on fresh credentials look expired, or not valid yet.
const FAR: SignedDuration = SignedDuration::from_secs(60);

/// Adds the steps of the response.
pub(super) fn check(report: &mut Report, target: &Target, reached: &Reached) {
    let Some(response) = &reached.response else {
        let connected = !report.steps.iter().any(|step| step.check == Check::Response);
        if let (Err(failure), true) = (&reached.review, connected) {
            report.add(Step::failed(Check::Response, failure).at(&target.cluster.place));
            report.skip(&[Check::Clock, Check::Identity], Check::Response);
        }
        return;
    };
    report.add(responded(target, reached, response));
    if let Some(offset) = response.offset {
        report.add(clock(offset));
    }
    identity(report, reached, response);
}

fn responded(target: &Target, reached: &Reached, response: &Responded) -> Step {
    let status = response.status;
    let step = match &reached.review {
        _ if reached.anonymous => {
            Step::ok(Check::Response, format!("the server answers ({status} without a credential)"))
        }
        Err(failure) if is_fault(status) || status.is_success() => {
            Step::failed(Check::Response, failure).at(&target.user.place)
        }
        _ => Step::ok(Check::Response, format!("the server answered {status}")),
    };
    step.took(response.took)
}

/// Other refusals say that the question is not allowed or not known.
fn is_fault(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status.is_server_error() || status.is_redirection()
}

fn clock(offset: SignedDuration) -> Step {
    let far = span(offset);
    let side = if offset.is_negative() { "ahead of" } else { "behind" };
    let message = format!("this clock is {far} {side} the server's");
    if offset.abs() < CLOSE {
        Step::ok(Check::Clock, "within seconds of the server's")
    } else if offset.abs() < FAR {
        Step::note(Check::Clock, message)
    } else {
        Step::fault(Check::Clock, message)
            .fix("sudo timedatectl set-ntp true")
            .advice("if this machine's clock is right, the server's is wrong")
    }
}

fn identity(report: &mut Report, reached: &Reached, response: &Responded) {
    let user = match &reached.review {
        Ok(review) if !reached.anonymous => &review["status"]["userInfo"],
        Err(failure) if !is_fault(response.status) => {
            return report.add(unknown(failure));
        }
        Ok(_) => return report.skip(&[Check::Identity], Check::Answer),
        Err(_) => return report.skip(&[Check::Identity], Check::Response),
    };
    let name = user["username"].as_str().unwrap_or_default();
    let groups: Vec<&str> =
        user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    report.names.add("name", name);
    for group in groups.iter().filter(|group| !group.starts_with("system:")) {
        report.names.add("group", group);
    }
    let step = Step::ok(Check::Identity, format!("you are `{}`", inline(name)));
    report.add(match groups.as_slice() {
        [] => step,
        groups => step.detail("groups", inline(&groups.join(", "))),
    });
}

fn unknown(failure: &Failure) -> Step {
    let message = format!("the server does not say who you are: {}", failure.message());
    Step::failed(Check::Identity, failure).turned(State::Note, message)
}
