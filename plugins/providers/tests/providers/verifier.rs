//! EKS tokens before the verifier of aws-iam-authenticator, the code that EKS clusters run. `cargo xtask judges` builds
//! it and runs this.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use keyward_process::{
    clock::ManualClock,
    surroundings::{Fixed, Surroundings},
};
use keyward_providers::{Call, eks};
use serde_json::{Value, json};

use crate::program;

const PREFIX: &str = "k8s-aws-v1.";

/// Where tokens are made and checked.
const PLACES: [(&str, &str); 8] = [
    ("aws", "us-east-1"),
    ("aws", "eu-central-1"),
    ("aws", "ap-southeast-2"),
    ("aws-cn", "cn-north-1"),
    ("aws-cn", "cn-northwest-1"),
    ("aws-us-gov", "us-gov-west-1"),
    ("aws-iso", "us-iso-east-1"),
    ("aws-iso-b", "us-isob-east-1"),
];

struct Verifier {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Verifier {
    fn start() -> Self {
        let program = program::judge("eks-verifier");
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let questions = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, questions, answers }
    }

    fn ask(&mut self, case: &Value) -> Value {
        writeln!(self.questions, "{case}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A token, made so long ago.
fn token(
    cluster: &str,
    region: &str,
    session: &str,
    age: SignedDuration,
    more: &[(&str, &str)],
) -> String {
    let mut vars = vec![("AWS_ACCESS_KEY_ID", "AKIATEST"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t/+")];
    if !session.is_empty() {
        vars.push(("AWS_SESSION_TOKEN", session));
    }
    vars.extend(more);
    let vars = vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let surroundings = Surroundings::fixed(Fixed { vars, cwd: "/".into(), ..Fixed::default() });
    #[expect(clippy::disallowed_methods, reason = "the verifier lives by the real clock")]
    let now = Timestamp::now().checked_sub(age).unwrap();
    let args = ["--cluster-name", cluster, "--region", region].map(Into::into).to_vec();
    let call =
        Call::with("keyward-eks".into(), args, surroundings, Arc::new(ManualClock::new(now)));
    eks::token(&call).unwrap().text.expose().to_owned()
}

fn case(token: &str, cluster: &str, (partition, region): (&str, &str), session: &str) -> Value {
    json!({"Token": token, "Cluster": cluster, "Partition": partition, "Region": region,
        "Key": "AKIATEST", "Secret": "s3cr3t/+", "Session": session})
}

#[test]
fn the_verifier_accepts_our_tokens() {
    let mut verifier = Verifier::start();
    let mut accepted = 0;
    for place in PLACES {
        for cluster in ["dev", "prod-eu.1", "with a blank"] {
            for session in ["", "FwoGZXIvYXdzEBYaDK//+="] {
                let token = token(cluster, place.1, session, SignedDuration::ZERO, &[]);
                let said = verifier.ask(&case(&token, cluster, place, session));
                assert_eq!(
                    said["arn"], "arn:aws:iam::123456789012:user/AKIATEST",
                    "{place:?} {cluster}: {said}"
                );
                accepted += 1;
            }
        }
    }
    for more in [[("AWS_USE_FIPS_ENDPOINT", "true")], [("AWS_USE_DUALSTACK_ENDPOINT", "true")]] {
        let token = token("c", "us-east-2", "", SignedDuration::ZERO, &more);
        let said = verifier.ask(&case(&token, "c", ("aws", "us-east-2"), ""));
        assert!(said["arn"].is_string(), "{said}");
        accepted += 1;
    }
    println!("{accepted} tokens were accepted");
}

#[test]
fn the_verifier_refuses_another_cluster_region_or_partition_and_old_tokens() {
    let mut verifier = Verifier::start();
    let place = ("aws", "us-east-1");
    let good = token("dev", "us-east-1", "", SignedDuration::ZERO, &[]);
    let url = URL_SAFE_NO_PAD.decode(good.strip_prefix(PREFIX).unwrap()).unwrap();
    let url = String::from_utf8(url).unwrap();
    let moved = url.replacen("sts.us-east-1.", "sts.eu-west-1.", 1);
    let moved = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(moved));
    let old = token("dev", "us-east-1", "", SignedDuration::from_mins(16), &[]);
    let almost_old = token("dev", "us-east-1", "", SignedDuration::from_mins(14), &[]);
    for (what, case, why) in [
        ("another cluster", case(&good, "prod", place, ""), "signature does not fit"),
        ("another region", case(&moved, "dev", place, ""), "not for eu-west-1"),
        (
            "another partition",
            case(&good, "dev", ("aws-cn", "cn-north-1"), ""),
            "does not support hostname",
        ),
        ("another session", case(&good, "dev", place, "x"), "another session"),
        ("an old token", case(&old, "dev", place, ""), "expired"),
    ] {
        let said = verifier.ask(&case);
        assert!(said["refusal"].as_str().is_some_and(|text| text.contains(why)), "{what}: {said}");
    }
    for token in [good, almost_old] {
        assert!(verifier.ask(&case(&token, "dev", place, ""))["arn"].is_string());
    }
}
