//! The credential chain: the identity or the refusal of botocore, in every environment below.

use serde_json::{Value, json};

use super::environments::{
    Case, ENVIRONMENT, FILES, MACHINES, PROCESSES, ROLES, SINGLE_SIGN_ON, WEB_IDENTITY,
};
use crate::{
    judge,
    program::Ended,
    stage::{Stage, access_key, url},
};

/// What our program does: the access key, or the class of its refusal.
fn ours(ended: Ended) -> Value {
    match ended.code {
        Some(0) => json!({"key": access_key(&url(ended))}),
        Some(2) if ended.stderr.contains("no AWS credentials are configured") => {
            json!({"refusal": "none"})
        }
        Some(2) => json!({"refusal": "config"}),
        Some(3) => json!({"refusal": "terminal"}),
        Some(1 | 4) => json!({"refusal": "source"}),
        _ => panic!("{ended:?}"),
    }
}

/// An identity without the name of a session that was made up.
fn without_session(who: &str) -> &str {
    match who.rsplit_once('/') {
        Some((role, session)) if session.contains("-session-") => role,
        _ => who,
    }
}

fn compare(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (name, prepare) in cases {
        let mut stage = Stage::new();
        prepare(&mut stage);
        let mut judge = judge::judge();
        // First ours: the judge may renew a file that both read.
        let ended = stage.run(&[]).run();
        let shown = format!("{ended:?}");
        let (ours, theirs) = (ours(ended), judge.ask(&stage.question()));
        let same = match (ours["key"].as_str(), theirs["key"].as_str()) {
            (Some(ours), Some(theirs)) if ours == theirs => true,
            (Some(ours), Some(_)) => {
                let who = judge.ask(&json!({"operation": "who", "key": ours}));
                let (who, theirs) = (who["who"].as_str().unwrap(), theirs["who"].as_str().unwrap());
                // Of keys that moto does not know it says nothing: only equal ones are the same.
                !who.ends_with(":user/moto") && without_session(who) == without_session(theirs)
            }
            (None, None) => ours["refusal"] == theirs["refusal"],
            _ => false,
        };
        if !same {
            wrong.push(format!("{name}:\n  ours {ours} ({shown})\n  theirs {theirs}"));
        }
    }
    println!(
        "{} of {} environments resolve as botocore does",
        cases.len() - wrong.len(),
        cases.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn keys_in_the_environment_count_as_for_botocore() {
    compare(ENVIRONMENT);
}

#[test]
fn keys_in_files_count_as_for_botocore() {
    compare(FILES);
}

#[test]
fn roles_of_profiles_are_assumed_as_by_botocore() {
    compare(ROLES);
}

#[test]
fn web_identities_count_as_for_botocore() {
    compare(WEB_IDENTITY);
}

#[test]
fn programs_that_print_keys_are_run_as_by_botocore() {
    compare(PROCESSES);
}

#[test]
fn single_sign_on_is_used_as_by_botocore() {
    compare(SINGLE_SIGN_ON);
}

#[test]
fn containers_and_instances_are_asked_as_by_botocore() {
    compare(MACHINES);
}

#[test]
fn there_are_at_least_sixty_environments() {
    let all = [ENVIRONMENT, FILES, ROLES, WEB_IDENTITY, PROCESSES, SINGLE_SIGN_ON, MACHINES];
    let count: usize = all.iter().map(|cases| cases.len()).sum();
    assert!(count >= 60, "{count}");
}
