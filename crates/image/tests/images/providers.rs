//! Whom an image is asked of, and for how long an answer serves.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use keyward_host::Kind;
use keyward_image::{Config, Images, Outcome, Scope, Settings};
use keyward_process::{clock::ManualClock, surroundings::Surroundings};

use crate::stage::{Counts, Stage, answering, users};

#[test]
fn an_image_is_normalised_matched_asked_for_and_kept() {
    let mut stage = Stage::new();
    stage.provider("one", "r.io", "", &answering("Image", "5m", "r.io"));
    stage.provider("other", "s.io", "", &answering("Image", "5m", "s.io"));
    let (config, images) = (stage.config(), stage.images());
    let found = images.lookup(&config, "r.io/team/app:1.2", None).unwrap();
    assert_eq!(users(&found), ["r.io u:pass-word"]);
    assert!(matches!(found.results[1].outcome, Outcome::NoMatch));
    let told = fs::read_to_string(stage.path("told")).unwrap();
    assert_eq!(
        told,
        "{\"kind\":\"CredentialProviderRequest\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"r.io/team/app\"}\n"
    );
    let again = images.lookup(&config, "r.io/team/app@sha256:00", None);
    assert_eq!(again.unwrap_err().kind(), Kind::BadConfig);
    let again = images.lookup(&config, "r.io/team/app:9", None).unwrap();
    assert!(matches!(again.results[0].outcome, Outcome::Kept(_, Scope::Image)));
    assert_eq!((stage.runs("one"), stage.runs("other")), (1, 0));
}

#[test]
fn an_answer_serves_what_its_key_says_and_for_as_long() {
    for (scope, runs) in [("Image", 3), ("Registry", 2), ("Global", 1)] {
        let mut stage = Stage::new();
        stage.provider("p", "r.io, s.io", "", &answering(scope, "1m", "r.io"));
        let (config, images) = (stage.config(), stage.images());
        for image in ["r.io/a", "r.io/b", "s.io/a", "r.io/a"] {
            images.lookup(&config, image, None).unwrap();
        }
        assert_eq!(stage.runs("p"), runs, "{scope}");
        stage.clock.advance(Duration::from_secs(60));
        images.lookup(&config, "r.io/a", None).unwrap();
        assert_eq!(stage.runs("p"), runs, "{scope}: still good at its very end");
        stage.clock.advance(Duration::from_secs(1));
        images.lookup(&config, "r.io/a", None).unwrap();
        assert_eq!(stage.runs("p"), runs + 1, "{scope}: not after");
    }
}

#[test]
fn zero_and_negative_durations_are_not_kept_and_none_is_the_default() {
    for (duration, runs) in [("0s", 2), ("-1m", 2), ("null", 1)] {
        let mut stage = Stage::new();
        let script = answering("Global", "D", "r.io").replace("\"D\"", &quoted(duration));
        stage.provider("p", "r.io", "", &script);
        let (config, images) = (stage.config(), stage.images());
        for _ in 0..2 {
            assert_eq!(images.lookup(&config, "r.io/a", None).unwrap().logins.len(), 1);
        }
        assert_eq!(stage.runs("p"), runs, "{duration}");
    }
}

fn quoted(duration: &str) -> String {
    if duration == "null" { duration.to_owned() } else { format!("\"{duration}\"") }
}

#[test]
fn fifty_images_of_one_registry_are_one_run_once_it_answered_registry() {
    let mut stage = Stage::new();
    let slow = format!("sleep 0.3\n{}", answering("Registry", "1m", "r.io"));
    stage.provider("p", "r.io, s.io", "", &slow);
    let (config, images) = (stage.config(), stage.images());
    images.lookup(&config, "s.io/first", None).unwrap();
    at_once(&config, &images, (0..50).map(|n| format!("r.io/image-{n}")).collect());
    assert_eq!(stage.runs("p"), 2, "one to learn from, one for fifty images");
}

#[test]
fn a_thousand_images_over_ten_registries_are_ten_runs_when_the_configuration_says_so() {
    let mut stage = Stage::new();
    let slow = format!("sleep 0.3\n{}", answering("Registry", "1m", "*.io"));
    let more = "  env: [{name: KEYWARD_CACHE_KEY_TYPE, value: Registry}]\n";
    stage.provider("p", "'*.io'", more, &slow);
    let (config, images) = (stage.config(), stage.images());
    let all = (0..1000).map(|n| format!("r{}.io/image-{n}", n % 10)).collect();
    at_once(&config, &images, all);
    assert_eq!(stage.runs("p"), 10);
}

#[test]
fn a_failure_for_one_image_is_none_for_another_of_its_registry() {
    let mut stage = Stage::new();
    let more = "  env: [{name: KEYWARD_CACHE_KEY_TYPE, value: Registry}]\n";
    let bad = "case $(cat) in *r.io/bad*) while [ ! -e \"$here/go\" ]; do sleep 0.02; done; exit 1;; esac";
    let script = format!("{bad}\n{}", answering("Registry", "1m", "r.io"));
    stage.provider("p", "r.io", more, &script);
    let (config, images) = (Arc::new(stage.config()), stage.images());
    let begin = |image: &str| images.begin(&config, image.to_owned(), None);
    let bad = begin("r.io/bad");
    while stage.runs("p") == 0 {
        thread::yield_now();
    }
    let good = begin("r.io/good");
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(good.wait(None).unwrap().unwrap().logins.len(), 1);
    assert_eq!(bad.wait(None).unwrap().unwrap().logins.len(), 0);
}

/// Asks for all images at the same time; each must get a login.
fn at_once(config: &Config, images: &Arc<Images>, all: Vec<String>) {
    thread::scope(|scope| {
        for image in all {
            scope.spawn(move || {
                let found = images.lookup(config, &image, None).unwrap();
                assert_eq!(found.logins.len(), 1, "{image}");
            });
        }
    });
}

#[test]
fn a_provider_that_changes_its_mind_still_answers_every_image() {
    let mut stage = Stage::new();
    let more = "  env: [{name: KEYWARD_CACHE_KEY_TYPE, value: Registry}]\n";
    let slow = format!("sleep 0.2\n{}", answering("Image", "0s", "r.io"));
    stage.provider("p", "r.io", more, &slow);
    let (config, images) = (stage.config(), stage.images());
    at_once(&config, &images, (0..5).map(|n| format!("r.io/image-{n}")).collect());
    assert_eq!(stage.runs("p"), 5, "each for its own image");
}

#[test]
fn providers_are_asked_in_order_and_the_earlier_wins_under_one_key() {
    let mut stage = Stage::new();
    let named = |user: &str, key: &str| {
        answering("Image", "1m", key).replace("\"u\"", &format!("\"{user}\""))
    };
    stage.provider("first", "r.io", "", &named("first", "r.io"));
    stage.provider("second", "r.io", "", &named("second", "r.io"));
    stage.provider("third", "r.io", "", &named("third", "r.io/team"));
    let found = stage.images().lookup(&stage.config(), "r.io/team/app", None).unwrap();
    assert_eq!(
        users(&found),
        ["r.io/team third:pass-word", "r.io first:pass-word", "r.io second:pass-word"]
    );
    assert_eq!(found.logins[0].provider.name, "third");
}

#[test]
fn a_provider_that_fails_does_not_fail_the_others_and_its_words_are_kept_and_masked() {
    let mut stage = Stage::new();
    let more = "  env: [{name: API_TOKEN, value: very-secret}]\n";
    stage.provider("bad", "r.io", more, "echo \"no way: $API_TOKEN\" >&2; exit 3");
    stage.provider("good", "r.io", "", &answering("Image", "1m", "r.io"));
    let found = stage.images().lookup(&stage.config(), "r.io/a", None).unwrap();
    assert_eq!(found.logins.len(), 1);
    let error = found.failures().next().unwrap();
    assert_eq!(error.to_string(), "plugin `bad` failed with exit code 3");
    assert_eq!(error.stderr(), Some("no way: [hidden]\n"));
    assert!(format!("{error:#}").contains("config.yaml`, line 4"), "{error:#}");
    assert_eq!(stage.counts.failed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_provider_that_fails_once_is_run_again_inside_its_minute() {
    let mut stage = Stage::new();
    let script = format!(
        "[ \"$(wc -l <\"$here/p.runs\")\" -lt 3 ] && exit 1\n{}",
        answering("Image", "1m", "r.io")
    );
    stage.provider("p", "r.io", "", &script);
    let pauses = vec![Duration::from_millis(1); 2];
    let settings = Settings { retries: pauses, ..Settings::default() };
    let images = Arc::new(stage.images_with(&settings));
    assert_eq!(images.lookup(&stage.config(), "r.io/a", None).unwrap().logins.len(), 1);
    assert_eq!(stage.runs("p"), 3);
}

#[test]
fn a_hanging_provider_is_ended_with_its_group() {
    let mut stage = Stage::new();
    stage.provider("p", "r.io", "", "sleep 600 & wait");
    let settings =
        Settings { budget: Duration::from_millis(300), retries: Vec::new(), ..Settings::default() };
    let images = Arc::new(stage.images_with(&settings));
    let found = images.lookup(&stage.config(), "r.io/a", None).unwrap();
    assert_eq!(found.failures().next().unwrap().kind(), Kind::TimedOut);
}

#[test]
fn the_last_answer_serves_while_its_own_token_is_valid() {
    use base64::Engine as _;
    let mut stage = Stage::new();
    let exp = "2026-01-01T01:00:00Z".parse::<Timestamp>().unwrap().as_second();
    let payload =
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}"));
    let jwt = format!("eyJh.{payload}.sig");
    let answer = answering("Image", "1m", "r.io").replace("pass-word", &jwt);
    stage.provider("p", "r.io", "", &format!("[ -e \"$here/fail\" ] && exit 1\n{answer}"));
    let (config, images) = (stage.config(), stage.images());
    images.lookup(&config, "r.io/a", None).unwrap();
    fs::write(stage.path("fail"), "").unwrap();
    stage.clock.advance(Duration::from_secs(120));
    let found = images.lookup(&config, "r.io/a", None).unwrap();
    assert!(matches!(found.results[0].outcome, Outcome::LastGood(..)));
    assert_eq!(found.logins.len(), 1);
    stage.clock.advance(Duration::from_secs(3600));
    let found = images.lookup(&config, "r.io/a", None).unwrap();
    assert!(matches!(found.results[0].outcome, Outcome::Failed(_)) && found.logins.is_empty());
}

#[test]
fn the_proposals_own_sample_runs_ecr_creds_from_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("ecr-creds");
    let script = "#!/bin/sh\n[ \"$1\" = get-credentials ] || exit 9\nread -r request\n\
                  printf '{\"username\":\"AWS\",\"password\":\"%s %s\",\
                  \"expirationTimestamp\":\"2026-01-01T12:00:00Z\"}' \"$REGION\" \
                  \"$(echo \"$request\" | sed 's/\"//g')\"\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = folder.path().join("config.yaml");
    fs::write(
        &config,
        "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n-\n  name: ecr-creds\n  \
         imageMatchers:\n  - \"*.dkr.ecr.*.amazonaws.com\"\n  - \"*.dkr.ecr.*.amazonaws.com.cn\"\n  \
         extraArgs:\n    region: us-west-2\n",
    )
    .unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let surroundings = Surroundings::fixed(keyward_process::surroundings::Fixed {
        vars: vec![("PATH".into(), path.into())],
        cwd: Path::new("/").into(),
        ..Default::default()
    });
    let clock = Arc::new(ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
    let counts = Arc::new(Counts::default());
    let images =
        Arc::new(Images::new(Settings::default(), surroundings, clock.clone(), counts.clone()));
    let config = Config::load(&config).unwrap();
    let image = "012345678910.dkr.ecr.us-east-1.amazonaws.com/my-image";
    for _ in 0..2 {
        let found = images.lookup(&config, image, None).unwrap();
        let registry = "012345678910.dkr.ecr.us-east-1.amazonaws.com";
        assert_eq!(users(&found), [format!("{registry} AWS:us-west-2 {{image:{image}}}")]);
    }
    assert_eq!(counts.ran.load(Ordering::SeqCst), 1, "kept until it expires");
    clock.advance(Duration::from_secs(12 * 3600 + 1));
    images.lookup(&config, image, None).unwrap();
    assert_eq!(counts.ran.load(Ordering::SeqCst), 2);
}

#[test]
fn a_provider_sees_as_much_of_our_environment_as_it_may() {
    use keyward_host::Environment;
    for (environment, expected) in [
        (Environment::Inherit, "path home"),
        (Environment::Only(vec!["HOME".into()]), " home"),
        (Environment::Clean, " "),
    ] {
        let mut stage = Stage::new();
        // A shell without PATH has one of its own, which it does not pass on.
        let see = "/usr/bin/env >\"$here/seen\"";
        stage.provider("p", "r.io", "", &format!("{see}\n{}", answering("Image", "1m", "r.io")));
        let settings = Settings { environment, retries: Vec::new(), ..Settings::default() };
        let images = Arc::new(stage.images_with(&settings));
        images.lookup(&stage.config(), "r.io/a", None).unwrap();
        let seen = fs::read_to_string(stage.path("seen")).unwrap();
        let has =
            |name: &str, word| if seen.lines().any(|l| l.starts_with(name)) { word } else { "" };
        assert_eq!(
            format!("{} {}", has("PATH=", "path"), has("HOME=", "home")),
            expected,
            "{seen}"
        );
    }
}
