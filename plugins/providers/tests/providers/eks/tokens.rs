//! Tokens beside those of awscli, at a frozen clock.

use std::sync::Arc;

use jiff::Timestamp;
use keyward_process::{
    clock::ManualClock,
    surroundings::{Fixed, Surroundings},
};
use keyward_providers::{Call, eks};
use serde_json::{Value, json};

use crate::judge;

const CLUSTERS: [&str; 5] =
    ["dev", "prod-eu.1", "with a blank", "UPPER_and_lower", "0123456789abcdef/x"];

const REGIONS: [&str; 15] = [
    "us-east-1",
    "eu-central-1",
    "ap-southeast-7",
    "cn-north-1",
    "us-gov-west-1",
    "us-west-2",
    "cn-northwest-1",
    "us-gov-east-1",
    "us-iso-east-1",
    "us-isob-east-1",
    "eu-isoe-west-1",
    "us-isof-south-1",
    "eusc-de-east-1",
    "aws-global",
    "xx-nowhere-9",
];

const SESSIONS: [&str; 3] = ["", "FwoGZXIvYXdzEBYaDK//+=", "short"];

/// What makes endpoints differ.
const SETTINGS: [(&str, &str); 4] = [
    ("AWS_STS_REGIONAL_ENDPOINTS", "regional"),
    ("AWS_STS_REGIONAL_ENDPOINTS", "legacy"),
    ("AWS_USE_FIPS_ENDPOINT", "true"),
    ("AWS_USE_DUALSTACK_ENDPOINT", "true"),
];

fn cases() -> Vec<Value> {
    (0..260)
        .map(|number| {
            let mut environment = vec![
                ("AWS_ACCESS_KEY_ID".to_owned(), format!("AKIA{number:016}")),
                ("AWS_SECRET_ACCESS_KEY".to_owned(), format!("secret/+{number}")),
                ("AWS_EC2_METADATA_DISABLED".to_owned(), "true".to_owned()),
            ];
            let session = SESSIONS[number % SESSIONS.len()];
            if !session.is_empty() {
                environment.push(("AWS_SESSION_TOKEN".to_owned(), session.repeat(1 + number % 7)));
            }
            let region = REGIONS[number % REGIONS.len()];
            let (mut name, mut value) = SETTINGS[number / 7 % SETTINGS.len()];
            // The SDK knows dual-stack hosts in isolated regions that botocore does not know yet.
            if region.contains("-iso") && name == "AWS_USE_DUALSTACK_ENDPOINT" {
                (name, value) = SETTINGS[0];
            }
            environment.push((name.to_owned(), value.to_owned()));
            let role = (number % 4 == 3).then(|| format!("arn:aws:iam::123456789012:role/path/Role-{number}"));
            json!({
                "time": 1_700_000_000 + number * 86_413,
                "region": region,
                "cluster": CLUSTERS[number % CLUSTERS.len()],
                "role": role,
                "environment": environment.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            })
        })
        .collect()
}

/// Our token for a case, or why there is none.
fn ours(case: &Value) -> Result<String, String> {
    let text = |name: &str| case[name].as_str().map(str::to_owned);
    let mut args = vec!["--cluster-name".to_owned(), text("cluster").unwrap()];
    args.extend(["--region".to_owned(), text("region").unwrap()]);
    if let Some(role) = text("role") {
        args.extend(["--role-arn".to_owned(), role]);
    }
    let environment = case["environment"].as_object().unwrap().iter();
    let mut vars: Vec<_> =
        environment.map(|(name, value)| (name.into(), value.as_str().unwrap().into())).collect();
    vars.push(("AWS_ENDPOINT_URL_STS".into(), (&judge::prepared().stand_in).into()));
    let surroundings = Surroundings::fixed(Fixed { vars, cwd: "/".into(), ..Fixed::default() });
    let now = Timestamp::from_second(case["time"].as_i64().unwrap()).unwrap();
    let args = args.into_iter().map(Into::into).collect();
    let call =
        Call::with("keyward-eks".into(), args, surroundings, Arc::new(ManualClock::new(now)));
    let token = eks::token(&call).map_err(|refusal| refusal.to_string())?;
    assert_eq!(token.expires.as_second(), now.as_second() + 14 * 60);
    Ok(token.text.expose().to_owned())
}

#[test]
fn two_hundred_tokens_are_the_same_to_the_byte_as_those_of_awscli() {
    let cases = cases();
    let theirs = judge::judge().ask(&json!({"operation": "tokens", "cases": cases}));
    let (mut equal, mut refused, mut roles) = (0, 0, 0);
    for (case, theirs) in cases.iter().zip(theirs["tokens"].as_array().unwrap()) {
        let theirs = theirs.as_str().unwrap();
        match (ours(case), theirs.starts_with("k8s-aws-v1.")) {
            (Ok(ours), true) => {
                assert_eq!(ours, theirs, "{case}");
                equal += 1;
                roles += usize::from(case["role"].is_string());
            }
            (Err(_), false) => refused += 1,
            (ours, _) => panic!("{case}: ours is {ours:?}, theirs is {theirs}"),
        }
    }
    println!("{equal} tokens are equal, {roles} of them of roles; both refuse {refused} cases");
    assert!(equal >= 200 && roles >= 40, "{equal} {roles}");
}
