//! The command lines of the tools that `keyward-eks` replaces.

use crate::{
    judge,
    program::{Ended, Run},
    stage::{Stage, access_key, url},
};

fn keys(run: Run) -> Run {
    run.env("AWS_ACCESS_KEY_ID", "AKIATEST")
        .env("AWS_SECRET_ACCESS_KEY", "s3cr3t")
        .env("AWS_REGION", "us-east-1")
}

fn eks(args: &[&str]) -> Ended {
    keys(Run::named("keyward-eks").args(args)).run()
}

fn authenticator(args: &[&str]) -> Ended {
    keys(Run::named("aws-iam-authenticator").args(args)).run()
}

/// Whether a run accepts its flags: it prints a token, or fails later than at reading them.
fn accepts(ended: &Ended) -> bool {
    ended.code == Some(0)
}

#[test]
fn every_flag_of_aws_eks_get_token_is_accepted_or_refused_with_a_reason() {
    // `aws eks get-token help` and `aws help`, version 1 and 2.
    for flag in [
        &["--region", "eu-west-1"][..],
        &["--output", "json"],
        &["--endpoint-url", "https://x.example"],
        &["--color", "off"],
        &["--cli-read-timeout", "5"],
        &["--cli-connect-timeout", "5"],
        &["--cli-binary-format", "base64"],
        &["--no-paginate"],
        &["--no-cli-pager"],
        &["--cli-auto-prompt"],
        &["--no-cli-auto-prompt"],
        &["--debug"],
        &["--query", "status.token"],
        &["--query", "status.token", "--output", "text"],
    ] {
        let args = [&["eks", "get-token", "--cluster-name", "c"], flag].concat();
        let ended = eks(&args);
        assert!(accepts(&ended), "{flag:?}: {ended:?}");
    }
    for (flag, why) in [
        (&["--no-verify-ssl"][..], "AWS_CA_BUNDLE"),
        (&["--no-sign-request"], "a token is a signed request"),
        (&["--ca-bundle", "x"], "AWS_CA_BUNDLE"),
        (&["--output", "yaml"], "`--output` is `json`"),
        (&["--query", "status"], "can only be `status.token`"),
    ] {
        let args = [&["--cluster-name", "c"], flag].concat();
        let ended = eks(&args);
        assert!(ended.code == Some(2) && ended.stderr.contains(why), "{flag:?}: {ended:?}");
    }
}

#[test]
fn every_flag_of_aws_iam_authenticator_is_accepted() {
    for flag in [
        &["-i", "c"][..],
        &["--cluster-id=c"],
        &["-i", "c", "--region", "eu-west-1"],
        &["-i", "c", "--cache"],
        &["-i", "c", "--token-only"],
        &["-i", "c", "-l", "json", "-v", "3"],
        &["-i", "c", "-c", "/no/file", "--feature-gates", "A=true"],
        &["-i", "c", "--session-name", "me", "-e", "id"],
    ] {
        let ended = authenticator(&[&["token"], flag].concat());
        assert!(accepts(&ended), "{flag:?}: {ended:?}");
    }
    let ended = authenticator(&["server"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("belongs to the server"), "{ended:?}");
    let ended = authenticator(&["token", "-i", "c", "--forward-session-name", "-s", "x"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("not both"), "{ended:?}");
    assert!(authenticator(&["version"]).printed().contains("\"Version\""));
}

#[test]
fn the_cluster_and_the_role_come_from_variables_too() {
    let ended = keys(Run::named("aws-iam-authenticator").args(["token"]))
        .env("KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID", "c")
        .run();
    assert!(accepts(&ended), "{ended:?}");
    let mut stage = Stage::new();
    stage.env_keys("alice").env("AWS_ENDPOINT_URL_STS", "{standIn}");
    let run =
        Run::named("aws-iam-authenticator").envs(&stage.environment).args(["token", "-i", "c"]);
    let key = access_key(&url(run.env("DEFAULT_ROLE", "arn:aws:iam::1:role/X").run()));
    assert!(key.starts_with("ASIA"), "{key}");
}

#[test]
fn a_token_alone_is_one_line() {
    for ended in [
        eks(&["--cluster-name", "c", "--token-only"]),
        eks(&["--cluster-name", "c", "--query", "status.token", "--output", "text"]),
        authenticator(&["token", "-i", "c", "--token-only"]),
    ] {
        let printed = ended.printed();
        assert!(printed.starts_with("k8s-aws-v1.") && printed.ends_with('\n'), "{printed}");
        assert_eq!(printed.lines().count(), 1);
    }
}

#[test]
fn the_answer_has_the_version_that_was_asked_for_and_v1beta1_by_hand() {
    let printed = eks(&["--cluster-name", "c"]).printed();
    assert!(printed.contains("\"client.authentication.k8s.io/v1beta1\""), "{printed}");
    let info = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;
    let run = keys(Run::named("keyward-eks").args(["--cluster-name", "c"]));
    let printed = run.env("KUBERNETES_EXEC_INFO", info).run().printed();
    assert!(printed.contains("\"client.authentication.k8s.io/v1\""), "{printed}");
}

#[test]
fn explain_names_every_source_and_prints_no_token() {
    let mut stage = Stage::new();
    stage.config("[default]\nregion = eu-west-1\n").credentials(
        "[default]\naws_access_key_id = {alice.key}\naws_secret_access_key = {alice.secret}\n",
    );
    let printed = stage.run(&["--explain"]).run().printed();
    assert!(!printed.contains("k8s-aws-v1."), "{printed}");
    assert!(!printed.contains(&judge::prepared().users["alice"].1), "{printed}");
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.contains(&"skipped  environment: `AWS_ACCESS_KEY_ID` is not set"), "{printed}");
    assert!(
        lines.iter().any(|line| line.starts_with("used     keys of the profile `default`")),
        "{printed}"
    );
    assert_eq!(lines.last(), Some(&"result   a credential"));
}

#[test]
fn refusals_name_the_profile_the_file_and_what_to_do() {
    let mut stage = Stage::new();
    stage.config("[default]\nsso_account_id = 1\nsso_role_name = R\nsso_start_url = https://a.example\nsso_region = us-east-1\n");
    let ended = stage.run(&[]).run();
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("hint: run `aws sso login --profile default`"), "{ended:?}");
    let ended = Run::named("keyward-eks").args(["--cluster-name", "c"]).run();
    assert!(ended.stderr.contains("no AWS region is configured"), "{ended:?}");
    let ended = eks(&[]);
    assert!(ended.code == Some(2) && ended.stderr.contains("no cluster is given"), "{ended:?}");
}

#[test]
fn verify_asks_sts_who_signed_a_token() {
    let mut stage = Stage::new();
    stage.env_keys("alice").env("AWS_ENDPOINT_URL_STS", "{standIn}");
    let token = stage.run(&["--token-only"]).run().printed();
    let verify = |cluster: &str| {
        let run = Run::named("aws-iam-authenticator").envs(&stage.environment);
        run.args(["verify", "-t", token.trim(), "-i", cluster, "-o", "json"]).run()
    };
    let caller: serde_json::Value = serde_json::from_str(&verify("c").printed()).unwrap();
    assert_eq!(
        caller["ARN"],
        format!("arn:aws:iam::1:user/{}", judge::prepared().users["alice"].0)
    );
    let ended = verify("another");
    assert!(ended.code == Some(4) && ended.stderr.contains("STS refuses the token"), "{ended:?}");
    let ended = Run::named("aws-iam-authenticator").args(["verify", "-t", "x", "-i", "c"]).run();
    assert!(ended.code == Some(4) && ended.stderr.contains("does not begin with"), "{ended:?}");
}

#[test]
fn the_authenticators_command_line_works_under_our_name() {
    for args in [&["token", "-i", "c"][..], &["token", "--cluster-id=c", "--cache"]] {
        let url = url(eks(args));
        assert!(url.starts_with("https://sts.us-east-1.amazonaws.com/"), "{args:?}: {url}");
    }
    let ended = eks(&["token", "--cluster-name", "c"]);
    assert!(ended.stderr.contains("there is no flag `--cluster-name`"), "{ended:?}");
}

#[test]
fn a_command_line_is_checked_without_looking_for_credentials() {
    let check =
        |args: &[&str]| Run::named("keyward-eks").args(args).args(["--check-arguments"]).run();
    let args = ["--region", "eu-west-1", "eks", "get-token", "--cluster-name", "c"];
    assert_eq!(check(&args).printed(), "");
    assert_eq!(check(&["token", "-i", "c"]).printed(), "");
    let ended = check(&["eks", "get-token", "--cluster-name", "c", "--no-verify-ssl"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("AWS_CA_BUNDLE"), "{ended:?}");
    assert_eq!(check(&["s3", "ls"]).code, Some(2));
}
