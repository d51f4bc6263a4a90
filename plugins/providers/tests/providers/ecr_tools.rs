//! `keyward-ecr` beside the tools in Go that it replaces, with the same stand-in: it derives passwords from requests,
//! so equal passwords mean equal requests. `cargo xtask judges` builds the tools and runs this.

use serde_json::{Value, json};

use crate::{
    ecr::{request, stage},
    program::{self, Run},
    stage::Stage,
};

const HOSTS: [&str; 7] = [
    "123456789012.dkr.ecr.us-east-1.amazonaws.com",
    "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
    "210987654321.dkr.ecr.ap-southeast-2.amazonaws.com",
    "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn",
    "123456789012.dkr.ecr.us-gov-west-1.amazonaws.com",
    "123456789012.dkr-ecr.us-west-2.on.aws",
    "public.ecr.aws",
];

/// What both programs print, as JSON.
fn both(stage: &Stage, name: &str, args: &[&str], input: &str) -> (Value, Value) {
    let read = |run: Run| {
        let run = run.envs(&stage.environment).args(args);
        let printed = run.with_input(input.as_bytes()).printed();
        serde_json::from_str(&printed).unwrap()
    };
    (read(Run::named(name)), read(Run::of(&program::judge(name))))
}

/// Environments that lead to different credentials.
fn stages() -> Vec<Stage> {
    let mut with_session = stage();
    with_session.env("AWS_SESSION_TOKEN", "session");
    let mut profile = stage();
    profile.unset("AWS_ACCESS_KEY_ID").unset("AWS_SECRET_ACCESS_KEY").env("AWS_PROFILE", "bob");
    profile.credentials(
        "[bob]\naws_access_key_id = {bob.key}\naws_secret_access_key = {bob.secret}\n",
    );
    let mut container = stage();
    container.unset("AWS_ACCESS_KEY_ID").unset("AWS_SECRET_ACCESS_KEY");
    container.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "{standIn}/container/node");
    container.env("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer pod");
    vec![stage(), with_session, profile, container]
}

#[test]
fn the_kubelet_gets_the_same_logins() {
    let mut equal = 0;
    for stage in stages() {
        for host in HOSTS {
            let input = request(&format!("{host}/team/app"), &json!({}));
            let (ours, theirs) = both(&stage, "ecr-credential-provider", &[], &input);
            for name in ["apiVersion", "kind", "cacheKeyType", "auth"] {
                assert_eq!(ours[name], theirs[name], "{host}: {name}");
            }
            equal += 1;
        }
    }
    println!("{equal} answers for the kubelet are equal");
}

#[test]
fn pods_pull_with_the_same_roles() {
    let stage = stage();
    let more = json!({"serviceAccountToken": "header.claims.signature", "serviceAccountAnnotations":
        {"eks.amazonaws.com/ecr-role-arn": "arn:aws:iam::123456789012:role/Pod"}});
    for host in &HOSTS[..3] {
        let input = request(&format!("{host}/team/app"), &more);
        let (ours, theirs) = both(&stage, "ecr-credential-provider", &[], &input);
        assert_eq!(ours["auth"], theirs["auth"], "{host}");
    }
}

#[test]
fn docker_gets_the_same_logins() {
    let mut equal = 0;
    for mut stage in stages() {
        stage.env("AWS_ECR_DISABLE_CACHE", "true");
        for host in HOSTS {
            for server in [host.to_owned(), format!("https://{host}")] {
                let (ours, theirs) = both(&stage, "docker-credential-ecr-login", &["get"], &server);
                assert_eq!(ours, theirs, "{server}");
                equal += 1;
            }
        }
    }
    println!("{equal} answers for docker are equal");
}
