//! `keyward-ecr`, as the kubelet and docker start it.

use std::path::Path;

use keyward_image::{Config, Files, Name, Pattern, Reading};
use serde_json::{Value, json};

use crate::{
    judge,
    program::{Ended, Run},
    stage::Stage,
};

const HOST: &str = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";

/// A stage with keys, where the stand-in is ECR and STS.
pub(crate) fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.env_keys("alice").env("AWS_ENDPOINT_URL_STS", "{standIn}");
    stage.env("AWS_ENDPOINT_URL_ECR", "{standIn}").env("AWS_ENDPOINT_URL_ECR_PUBLIC", "{standIn}");
    stage
}

fn run(stage: &Stage, name: &str, args: &[&str], input: &str) -> Ended {
    Run::named(name).envs(&stage.environment).args(args).with_input(input.as_bytes())
}

/// The kubelet's request for an image.
pub(crate) fn request(image: &str, more: &Value) -> String {
    let mut request = json!({"kind": "CredentialProviderRequest", "image": image,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1"});
    for (name, value) in more.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    request.to_string()
}

fn kubelet(stage: &Stage, image: &str, more: &Value) -> Value {
    let ended = run(stage, "ecr-credential-provider", &[], &request(image, more));
    serde_json::from_str(&ended.printed()).unwrap()
}

/// The password that the stand-in derives for this key, region and service.
fn password(key: &str, region: &str, service: &str, target: &str) -> String {
    let text = [key, region, service, target].join("\0");
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let hex = digest.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    hex[16..56].to_owned()
}

fn private(key: &str, region: &str) -> String {
    password(key, region, "ecr", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
}

/// The password for the private registries of a region that the stand-in derives for a user.
pub(crate) fn expected(user: &str, region: &str) -> String {
    private(&judge::prepared().users[user].0, region)
}

#[test]
fn the_kubelet_gets_a_login_for_the_registry() {
    let alice = &judge::prepared().users["alice"].0;
    let answer = kubelet(&stage(), &format!("{HOST}/team/app"), &json!({}));
    assert_eq!(answer["cacheKeyType"], "Registry");
    assert_eq!(answer["auth"][HOST]["username"], "AWS");
    assert_eq!(answer["auth"][HOST]["password"], private(alice, "eu-west-1"));
    assert!(answer["cacheDuration"].as_str().is_some_and(|time| time.contains('h')), "{answer}");
}

#[test]
fn the_password_of_an_endpoint_is_shown_nowhere() {
    let mut stage = stage();
    // Nothing listens there.
    stage.env("AWS_ENDPOINT_URL_ECR", "http://u:m4rk3d@127.0.0.1:1");
    let ended = run(&stage, "keyward-ecr", &["--explain", HOST], "");
    let shown = format!("{}{}", ended.stdout, ended.stderr);
    assert!(shown.contains("127.0.0.1:1") && !shown.contains("m4rk3d"), "{shown}");
}

#[test]
fn pitfall_39_public_registries_answer_with_an_object() {
    let alice = &judge::prepared().users["alice"].0;
    let answer = kubelet(&stage(), "public.ecr.aws/team/app", &json!({}));
    let target = "SpencerFrontendService.GetAuthorizationToken";
    let expected = password(alice, "us-east-1", "ecr-public", target);
    assert_eq!(answer["auth"]["public.ecr.aws"]["password"], expected);
}

#[test]
fn a_pod_pulls_with_its_own_role() {
    let stage = stage();
    let role = "arn:aws:iam::1:role/PodPull";
    let more = json!({"serviceAccountToken": "header.claims.signature",
        "serviceAccountAnnotations": {"eks.amazonaws.com/ecr-role-arn": role}});
    let node = kubelet(&stage, &format!("{HOST}/a"), &json!({}));
    let pod = kubelet(&stage, &format!("{HOST}/a"), &more);
    assert_ne!(pod["auth"][HOST]["password"], node["auth"][HOST]["password"]);
    assert_eq!(judge::judge().count(&format!("AssumeRoleWithWebIdentity {role}")), 1);
    // The variable is for nodes whose pods share a role.
    let ended = Run::named("keyward-ecr")
        .envs(&stage.environment)
        .env("AWS_ECR_ROLE_ARN", "arn:aws:iam::1:role/Shared")
        .with_input(
            request(&format!("{HOST}/a"), &json!({"serviceAccountToken": "header.claims.x"}))
                .as_bytes(),
        );
    ended.printed();
    assert_eq!(judge::judge().count("AssumeRoleWithWebIdentity arn:aws:iam::1:role/Shared"), 1);
    // Without a role, the node's credentials are used, and that is said.
    let token = json!({"serviceAccountToken": "header.claims.y"});
    let ended = run(&stage, "keyward-ecr", &[], &request(&format!("{HOST}/a"), &token));
    assert!(ended.stderr.contains("warning: the pod's token is not used"), "{ended:?}");
    ended.printed();
}

#[test]
fn docker_gets_a_login() {
    let alice = &judge::prepared().users["alice"].0;
    for server in [HOST.to_owned(), format!("https://{HOST}"), format!("https://{HOST}/v1/")] {
        let ended = run(&stage(), "docker-credential-ecr-login", &["get"], &server);
        let answer: Value = serde_json::from_str(&ended.printed()).unwrap();
        let expected =
            json!({"ServerURL": server, "Username": "AWS", "Secret": private(alice, "eu-west-1")});
        assert_eq!(answer, expected);
    }
    assert_eq!(run(&stage(), "keyward-ecr", &["list"], "unused").printed(), "{}\n");
}

#[test]
fn pitfall_13_storing_and_erasing_succeed_and_foreign_servers_have_no_login() {
    let stage = stage();
    let login = json!({"ServerURL": HOST, "Username": "AWS", "Secret": "s3cr3t"}).to_string();
    for (verb, input) in [("store", login.as_str()), ("erase", HOST)] {
        let ended = run(&stage, "docker-credential-ecr-login", &[verb], input);
        assert_eq!(ended.printed(), "");
    }
    let ended = run(&stage, "docker-credential-ecr-login", &["get"], "https://index.docker.io/v1/");
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stdout, "credentials not found in native keychain\n");
    let ended = run(&stage, "docker-credential-ecr-login", &["get"], "");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), "no credentials server URL\n"));
}

#[test]
fn pitfall_14_the_other_protocol_on_stdin_is_recognised() {
    let kubelet = request(&format!("{HOST}/a"), &json!({}));
    let ended = run(&stage(), "docker-credential-ecr-login", &["get"], &kubelet);
    assert!(ended.stdout.contains("this is the kubelet's request"), "{ended:?}");
    let ended = run(&stage(), "ecr-credential-provider", &[], HOST);
    assert!(ended.code == Some(2) && ended.stderr.contains("cannot read the request"), "{ended:?}");
}

/// Regions of every partition, with the domains of their registries and of the dual-stack ones.
const DOMAINS: [(&str, &str, &str); 10] = [
    ("us-east-1", "amazonaws.com", "on.aws"),
    ("eu-west-1", "amazonaws.com", "on.aws"),
    ("ap-south-1", "amazonaws.com", "on.aws"),
    ("us-gov-west-1", "amazonaws.com", "on.aws"),
    ("cn-north-1", "amazonaws.com.cn", "on.amazonwebservices.com.cn"),
    ("us-iso-east-1", "c2s.ic.gov", ""),
    ("us-isob-east-1", "sc2s.sgov.gov", ""),
    ("eu-isoe-west-1", "cloud.adc-e.uk", ""),
    ("us-isof-south-1", "csp.hci.ic.gov", ""),
    ("eusc-de-east-1", "amazonaws.eu", "on.amazonwebservices.eu"),
];

/// A registry of each kind and partition, with the question to botocore.
fn registries() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (region, single, dual) in DOMAINS {
        for fips in [false, true] {
            let name = if fips { "-fips" } else { "" };
            let host = format!("123456789012.dkr.ecr{name}.{region}.{single}");
            found.push((host, json!([region, fips, false])));
            if !dual.is_empty() {
                let host = format!("123456789012.dkr-ecr{name}.{region}.{dual}");
                found.push((host, json!([region, fips, true])));
            }
        }
    }
    found
}

#[test]
fn pitfall_15_the_api_is_where_botocore_finds_it_in_every_partition() {
    let (registries, cases): (Vec<_>, Vec<_>) = registries().into_iter().unzip();
    let theirs = judge::judge().ask(&json!({"operation": "hosts", "cases": cases}));
    for (registry, theirs) in registries.iter().zip(theirs["hosts"].as_array().unwrap()) {
        let ours = keyward_providers::ecr::api_host(registry);
        assert_eq!(ours.as_deref(), theirs.as_str(), "{registry}");
    }
}

#[test]
fn pitfall_16_the_generated_configuration_matches_every_registry_and_has_no_fault() {
    let stage = stage();
    for more in [&["config"][..], &["config", "--pod-identity"]] {
        let text = run(&stage, "keyward-ecr", more, "").printed();
        let files = Files::from_bytes(Path::new("config"), text.into_bytes());
        let (config, problems) = Config::review(&files, Reading::default());
        assert!(problems.is_empty(), "{problems:?}");
        let faults = config.lint(false, None);
        assert!(faults.iter().all(|fault| fault.field != "matchImages"), "{faults:?}");
        let provider = &config.providers[0];
        assert_eq!(provider.tokens.is_some(), more.len() > 1);
        let hosts = registries().into_iter().map(|(host, _)| host);
        for host in hosts.chain(["public.ecr.aws".into(), "ecr-public.aws.com".into()]) {
            let image = format!("{host}/team/app");
            let name = Name::parse(&image).unwrap();
            let matches = |p: &Pattern| p.matches(&name, provider.reading());
            assert!(provider.patterns.iter().any(matches), "{host}");
        }
    }
    assert_eq!(run(&stage, "keyward-ecr", &["config", "--odd"], "").code, Some(2));
}

#[test]
fn pitfall_18_no_token_leaves_for_a_foreign_host() {
    let stage = stage();
    for host in [
        "registry.example",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.example",
        "12345678901.dkr.ecr.eu-west-1.amazonaws.com",
        "123456789012.dkr.ecr.evil.amazonaws.com",
        "123456789012.dkr.ecrx.eu-west-1.amazonaws.com",
        "user@123456789012.dkr.ecr.eu-west-1.amazonaws.com",
    ] {
        let ended =
            run(&stage, "ecr-credential-provider", &[], &request(&format!("{host}/a"), &json!({})));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{host}");
        assert!(keyward_providers::ecr::api_host(host).is_none(), "{host}");
    }
}

#[test]
fn a_refusal_is_said_with_its_reason() {
    let mut stage = stage();
    stage.env("AWS_ACCESS_KEY_ID", "AKIAFORBIDDEN");
    let ended =
        run(&stage, "ecr-credential-provider", &[], &request(&format!("{HOST}/a"), &json!({})));
    assert!(
        ended.code == Some(4) && ended.stderr.contains("AccessDeniedException no"),
        "{ended:?}"
    );
    let ended = run(&stage, "keyward-ecr", &["get"], HOST);
    assert!(ended.stdout.contains("AccessDeniedException no"), "{ended:?}");
    let ended = run(&stage, "keyward-ecr", &["--explain", HOST], "");
    assert!(ended.stdout.contains("used     environment"), "{ended:?}");
}
