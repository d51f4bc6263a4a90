//! gcloud's own logins, with a stand-in for gcloud that writes down how it was called.

use super::stage::{Stage, authorized_user, printed};

const PRINTS: &str = r#"echo "$*" >> "$HOME/calls"
/bin/cat "$HOME/says""#;

fn login(token: &str, end: &str) -> String {
    format!(
        r#"{{"configuration":{{"active_configuration":"default"}},"credential":{{"access_token":"{token}","token_expiry":"{end}"}}}}"#
    )
}

const LATER: &str = "2099-01-01T00:00:00Z";

/// A stage where gcloud has a login.
fn logged_in(mut stage: Stage) -> Stage {
    stage.program("bin/gcloud", PRINTS).file("says", &login("of-gcloud", LATER));
    stage
        .file(".config/gcloud/credentials.db", "ann")
        .file(".config/gcloud/active_config", "default");
    stage.file(".config/gcloud/configurations/config_default", "[core]\naccount = ann\n");
    stage
}

fn calls(stage: &Stage) -> Vec<String> {
    let calls = std::fs::read_to_string(stage.path("calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

/// That an end is about five minutes away.
fn assert_soon(end: Option<i64>) {
    let left = end.unwrap() - jiff::Timestamp::now().as_second();
    assert!((1..=300).contains(&left), "{left}");
}

fn token(stage: &Stage, name: &str, args: &[&str]) -> String {
    printed(&stage.named(name).args(args).run()).0
}

#[test]
fn under_the_old_name_gcloud_is_asked_as_the_old_plugin_asks_it() {
    let mut stage = logged_in(Stage::new());
    // It is there, and not used: the old plugin needs a flag for that.
    stage.adc(&authorized_user());
    let old = "gke-gcloud-auth-plugin";
    let ended = stage.named(old).run();
    assert_eq!(printed(&ended), ("of-gcloud".to_owned(), Some(4_070_908_800)));
    token(&stage, old, &["--project=p", "--account", "bob", "--impersonate_service_account=r@x"]);
    assert!(token(&stage, old, &["--use_application_default_credentials"]).starts_with("ya29."));
    assert_eq!(
        calls(&stage),
        [
            "config config-helper --format=json",
            "config config-helper --format=json --project=p --account=bob --impersonate-service-account=r@x",
        ]
    );
}

#[test]
fn the_identity_does_not_change_with_the_name_and_sources_can_be_chosen() {
    let mut stage = logged_in(Stage::new());
    let auto = ["--source=auto"];
    assert_eq!(token(&stage, "keyward-gke", &auto), "of-gcloud");
    stage.adc(&authorized_user());
    assert!(token(&stage, "keyward-gke", &auto).starts_with("ya29."));
    for args in [&[][..], &["--account=bob"], &["--source=gcloud"]] {
        assert_eq!(token(&stage, "keyward-gke", args), "of-gcloud");
    }
    assert!(token(&stage, "keyward-gke", &["--source=adc"]).starts_with("ya29."));
    std::fs::remove_file(stage.path("bin/gcloud")).unwrap();
    let explained = stage.named("gke-gcloud-auth-plugin").args(["--explain"]).run().printed();
    assert!(explained.contains("skipped  gcloud: it is not on `PATH`"), "{explained}");
    assert!(explained.contains("used     `GOOGLE_APPLICATION_CREDENTIALS`"), "{explained}");
    assert!(!explained.contains("ya29."), "{explained}");
}

#[test]
fn pitfall_02_a_token_whose_end_is_unknown_is_for_five_minutes() {
    let mut stage = logged_in(Stage::new());
    stage.env("CLOUDSDK_AUTH_ACCESS_TOKEN", "from-the-environment");
    for name in ["gke-gcloud-auth-plugin", "keyward-gke"] {
        let (token, end) = printed(&stage.named(name).run());
        assert_eq!(token, "from-the-environment");
        assert_soon(end);
    }
    assert_eq!(calls(&stage), [""; 0]);
    stage.unset("CLOUDSDK_AUTH_ACCESS_TOKEN").file("says", &login("of-gcloud", ""));
    let (token, end) = printed(&stage.named("keyward-gke").run());
    assert_eq!(token, "of-gcloud");
    assert_soon(end);
}

#[test]
fn clusters_of_distributed_cloud_get_their_token_from_gcloud() {
    let mut stage = logged_in(Stage::new());
    stage.file("says", &format!(r#"{{"accessToken":"of-the-edge","expireTime":"{LATER}"}}"#));
    let all = ["--use_edge_cloud", "--project=p", "--location=l", "--cluster=c"];
    assert_eq!(token(&stage, "gke-gcloud-auth-plugin", &all), "of-the-edge");
    let call =
        "edge-cloud container clusters print-access-token c --project=p --location=l --format=json";
    assert_eq!(calls(&stage), [call]);
    for missing in 1..4 {
        let mut args = all.to_vec();
        args.remove(missing);
        let ended = stage.named("gke-gcloud-auth-plugin").args(args).run();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(
            ended.stderr.contains("needs `--project`, `--location` and `--cluster`"),
            "{ended:?}"
        );
    }
}

#[test]
fn pitfall_35_what_gcloud_prints_without_a_token_is_an_error() {
    let mut stage = logged_in(Stage::new());
    for (says, why) in [
        (login("", LATER), "has no token"),
        ("{}".to_owned(), "has no token"),
        ("s3cr3t".to_owned(), "is no JSON"),
        (login("s3cr3t", "2001-01-01T00:00:00Z"), "has expired"),
    ] {
        let ended = stage.file("says", &says).named("gke-gcloud-auth-plugin").run();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(
            ended.stderr.contains(why) && ended.stderr.contains("gcloud auth login"),
            "{ended:?}"
        );
        assert!(!ended.stderr.contains("s3cr3t"), "{ended:?}");
    }
    stage.program("bin/gcloud", "echo 'ERROR: reauth needed' >&2; exit 1");
    let ended = stage.named("gke-gcloud-auth-plugin").run();
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("ERROR: reauth needed"), "{ended:?}");
    assert!(ended.stderr.contains("exit code 1"), "{ended:?}");
}

#[test]
fn pitfall_32_a_login_of_gcloud_is_kept_until_its_logout() {
    let mut stage = logged_in(Stage::with_agent());
    let name = "gke-gcloud-auth-plugin";
    for _ in 0..3 {
        assert_eq!(token(&stage, name, &[]), "of-gcloud");
    }
    assert_eq!(calls(&stage).len(), 1, "the agent keeps it");
    // `gcloud auth revoke` changes the database, and gcloud has no token to give then.
    stage.file(".config/gcloud/credentials.db", "").program("bin/gcloud", "exit 1");
    let ended = stage.named(name).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
}

#[test]
fn pitfall_33_accounts_configurations_and_variables_never_share_a_token() {
    let mut stage = logged_in(Stage::with_agent());
    let name = "gke-gcloud-auth-plugin";
    let mut asked = 0;
    let mut fresh = |stage: &Stage, what: &str, args: &[&str]| {
        token(stage, name, args);
        token(stage, name, args);
        asked += 1;
        assert_eq!(calls(stage).len(), asked, "{what}");
    };
    fresh(&stage, "the first", &[]);
    fresh(&stage, "another account", &["--account=bob"]);
    fresh(&stage, "another service account", &["--impersonate_service_account=r@x"]);
    stage.file(".config/gcloud/configurations/config_default", "[core]\naccount = bob\n");
    fresh(&stage, "another account in the configuration", &[]);
    stage.file(".config/gcloud/properties", "[core]\naccount = eve\n");
    fresh(&stage, "another account for all configurations", &[]);
    stage.file(".config/gcloud/active_config", "work");
    fresh(&stage, "another configuration", &[]);
    stage.env("CLOUDSDK_CORE_ACCOUNT", "carol");
    fresh(&stage, "an account in the environment", &[]);
    stage.file(".config/gcloud/credentials.db", "dave");
    fresh(&stage, "another login", &[]);
    // Nothing is written beside the kubeconfig.
    assert!(!stage.path(".kube").exists());
}

#[test]
fn a_login_from_another_file_is_never_kept() {
    let mut stage = logged_in(Stage::with_agent());
    stage.file(".config/gcloud/configurations/config_default", "[auth]\naccess_token_file = /x\n");
    for _ in 0..2 {
        token(&stage, "gke-gcloud-auth-plugin", &[]);
    }
    assert_eq!(calls(&stage).len(), 2);
}
