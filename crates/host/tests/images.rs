//! Image credentials with real providers: shell scripts that count their runs.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use jiff::Timestamp;
use keyward_host::{
    Kind, Surroundings,
    clock::HandClock,
    image::{
        Account, Accounts, Config, Found, Images, Outcome, Pod, Scope, Settings, TokenRequest,
    },
    observer::Observer,
};
use keyward_protocol::Secret;

struct Stage {
    folder: tempfile::TempDir,
    clock: Arc<HandClock>,
    counts: Arc<Counts>,
    providers: String,
}

#[derive(Default)]
struct Counts {
    ran: AtomicUsize,
    failed: AtomicUsize,
}

impl Observer for Counts {
    fn provided(&self, _provider: &str, _took: Duration, failed: bool) {
        self.ran.fetch_add(1, Ordering::SeqCst);
        self.failed.fetch_add(usize::from(failed), Ordering::SeqCst);
    }
}

impl Stage {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(HandClock::new("2026-01-01T00:00:00Z".parse().unwrap())),
            counts: Arc::default(),
            providers: String::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a provider whose program is this script. Each run adds a line to the file `NAME.runs`.
    fn provider(&mut self, name: &str, patterns: &str, more: &str, script: &str) {
        let here = self.folder.path().display();
        let text =
            format!("#!/bin/sh\nhere='{here}'\necho run >>\"$here/{name}.runs\"\n{script}\n");
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        let _ = write!(
            self.providers,
            "- name: {name}\n  matchImages: [{patterns}]\n  defaultCacheDuration: 1m\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1\n{more}"
        );
    }

    fn config(&self) -> Config {
        let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";
        let path = self.path("config.yaml");
        fs::write(&path, format!("{head}providers:\n{}", self.providers)).unwrap();
        Config::load(&path).unwrap()
    }

    fn images(&self) -> Arc<Images> {
        Arc::new(self.images_with(&Settings { retries: Vec::new(), ..Settings::default() }))
    }

    fn images_with(&self, settings: &Settings) -> Images {
        let settings = Settings { bin_dir: Some(self.folder.path().into()), ..settings.clone() };
        let clock = Arc::clone(&self.clock);
        Images::new(settings, Surroundings::process(), clock, Arc::clone(&self.counts) as _)
    }

    fn runs(&self, name: &str) -> usize {
        fs::read_to_string(self.path(&format!("{name}.runs"))).unwrap_or_default().lines().count()
    }
}

/// A script that answers one login for `key`.
fn answering(scope: &str, duration: &str, key: &str) -> String {
    format!(
        "cat >\"$here/told\"\ncat <<'X'\n{}\nX",
        serde_json::json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": scope,
            "cacheDuration": duration,
            "auth": { key: { "username": "u", "password": "pass-word" } },
        })
    )
}

fn users(found: &Found) -> Vec<String> {
    let show = |l: &keyward_host::image::FoundLogin| {
        format!("{} {}:{}", l.key, l.login.username, l.login.password.expose())
    };
    found.logins.iter().map(show).collect()
}

#[test]
fn an_image_is_normalised_matched_asked_for_and_kept() {
    let mut stage = Stage::new();
    stage.provider("one", "r.io", "", &answering("Image", "5m", "r.io"));
    stage.provider("other", "s.io", "", &answering("Image", "5m", "s.io"));
    let (config, images) = (stage.config(), stage.images());
    let found = images.lookup(&config, "r.io/team/app:1.2", None).unwrap();
    assert_eq!(users(&found), ["r.io u:pass-word"]);
    assert!(matches!(found.asked[1].outcome, Outcome::NoMatch));
    let told = fs::read_to_string(stage.path("told")).unwrap();
    assert_eq!(
        told,
        "{\"kind\":\"CredentialProviderRequest\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"r.io/team/app\"}\n"
    );
    let again = images.lookup(&config, "r.io/team/app@sha256:00", None);
    assert_eq!(again.unwrap_err().kind(), Kind::BadConfig);
    let again = images.lookup(&config, "r.io/team/app:9", None).unwrap();
    assert!(matches!(again.asked[0].outcome, Outcome::Kept(_, Scope::Image)));
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
    assert!(matches!(found.asked[0].outcome, Outcome::LastGood(..)));
    assert_eq!(found.logins.len(), 1);
    stage.clock.advance(Duration::from_secs(3600));
    let found = images.lookup(&config, "r.io/a", None).unwrap();
    assert!(matches!(found.asked[0].outcome, Outcome::Failed(_)) && found.logins.is_empty());
}

#[derive(Default)]
struct Cluster {
    annotations: Mutex<BTreeMap<String, String>>,
    tokens: AtomicUsize,
}

impl Accounts for Cluster {
    fn account(&self, pod: &Pod) -> Result<Account, Box<dyn StdError + Send + Sync>> {
        let annotations = self.annotations.lock().unwrap().clone();
        Ok(Account { uid: format!("uid-{}", pod.service_account), annotations })
    }

    fn token(&self, request: &TokenRequest<'_>) -> Result<Secret, Box<dyn StdError + Send + Sync>> {
        let number = self.tokens.fetch_add(1, Ordering::SeqCst);
        Ok(Secret::new(format!("token-{}-{number}-for-{}", request.pod.name, request.audience)))
    }
}

fn pod(name: &str, account: &str) -> Pod {
    Pod {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        service_account: account.into(),
    }
}

fn with_tokens(cache: &str, script: &str) -> (Stage, Arc<Cluster>, Arc<Images>) {
    let mut stage = Stage::new();
    let more = format!(
        "  tokenAttributes:\n    serviceAccountTokenAudience: aud\n    requireServiceAccount: true\n    \
         cacheType: {cache}\n    requiredServiceAccountAnnotationKeys: [need]\n    \
         optionalServiceAccountAnnotationKeys: [may]\n"
    );
    stage.provider("p", "r.io", &more, script);
    let cluster = Arc::new(Cluster::default());
    let settings = Settings { retries: Vec::new(), ..Settings::default() };
    let images = stage.images_with(&settings).with_accounts(Arc::clone(&cluster) as _);
    (stage, cluster, Arc::new(images))
}

fn annotate(cluster: &Cluster, names: &[&str]) {
    let mut annotations = cluster.annotations.lock().unwrap();
    *annotations = names.iter().map(|n| ((*n).to_owned(), "x".repeat(70_000))).collect();
}

#[test]
fn pods_of_one_account_share_and_no_token_is_requested_for_what_is_kept() {
    let (stage, cluster, images) =
        with_tokens("ServiceAccount", &answering("Registry", "1m", "r.io"));
    annotate(&cluster, &["need", "may", "never"]);
    let config = stage.config();
    for name in ["one", "two"] {
        let found = images.lookup(&config, "r.io/a", Some(&pod(name, "sa"))).unwrap();
        assert_eq!(found.logins[0].account, Some(("ns".into(), "sa".into())));
    }
    images.lookup(&config, "r.io/a", Some(&pod("one", "other"))).unwrap();
    assert_eq!((stage.runs("p"), cluster.tokens.load(Ordering::SeqCst)), (2, 2));
    let told = fs::read_to_string(stage.path("told")).unwrap();
    assert!(told.contains("\"serviceAccountToken\":\"token-one-1-for-aud\""));
    assert!(told.contains("\"need\":") && told.contains("\"may\":") && !told.contains("never"));
}

#[test]
fn with_the_cache_type_token_every_pod_has_its_own_answer() {
    let (stage, cluster, images) = with_tokens("Token", &answering("Registry", "1m", "r.io"));
    annotate(&cluster, &["need"]);
    let config = stage.config();
    for name in ["one", "two", "one", "two"] {
        images.lookup(&config, "r.io/a", Some(&pod(name, "sa"))).unwrap();
    }
    assert_eq!((stage.runs("p"), cluster.tokens.load(Ordering::SeqCst)), (2, 2));
}

#[test]
fn a_missing_account_or_annotation_passes_the_provider_over() {
    let (stage, cluster, images) = with_tokens("Token", &answering("Image", "1m", "r.io"));
    let config = stage.config();
    for pod in [None, Some(pod("one", "")), Some(pod("one", "sa"))] {
        let found = images.lookup(&config, "r.io/a", pod.as_ref()).unwrap();
        assert!(matches!(found.asked[0].outcome, Outcome::Skipped(_)));
    }
    assert_eq!((stage.runs("p"), cluster.tokens.load(Ordering::SeqCst)), (0, 0));
}

#[test]
fn a_token_inside_the_answer_is_refused_unless_it_is_cached_by_token() {
    let echo = |inside: &str| {
        format!(
            "token=$(sed 's/.*serviceAccountToken\":\"\\([^\"]*\\)\".*/\\1/')\n{}",
            answering("Image", "1m", "r.io")
                .replace("cat >\"$here/told\"\n", "")
                .replace("<<'X'", "<<X")
                .replace("pass-word", inside)
        )
    };
    for (cache, inside, accepted) in [
        ("ServiceAccount", "$token", false),
        ("ServiceAccount", "prefix-$token-suffix", false),
        ("Token", "$token", true),
    ] {
        let (stage, cluster, images) = with_tokens(cache, &echo(inside));
        annotate(&cluster, &["need"]);
        let found = images.lookup(&stage.config(), "r.io/a", Some(&pod("one", "sa"))).unwrap();
        assert_eq!(found.logins.len(), usize::from(accepted), "{cache} {inside}");
        if let Some(error) = found.failures().next() {
            assert!(error.hint().unwrap().contains("cacheType"), "{error:#}");
            assert!(!format!("{error:?}{error:#}").contains("token-one"), "{error:#}");
        }
    }
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
    let surroundings = Surroundings::fixed(keyward_host::surroundings::Fixed {
        vars: vec![("PATH".into(), path.into())],
        cwd: Path::new("/").into(),
        ..Default::default()
    });
    let clock = Arc::new(HandClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
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
fn a_token_that_says_how_long_it_lives_is_used_again_until_it_is_old() {
    use base64::Engine as _;

    struct Issuer(Mutex<i64>, AtomicUsize);

    impl Accounts for Issuer {
        fn account(&self, _pod: &Pod) -> Result<Account, Box<dyn StdError + Send + Sync>> {
            let annotations = BTreeMap::from([("need".to_owned(), "x".to_owned())]);
            Ok(Account { uid: "u".into(), annotations })
        }

        fn token(&self, _: &TokenRequest<'_>) -> Result<Secret, Box<dyn StdError + Send + Sync>> {
            let number = self.1.fetch_add(1, Ordering::SeqCst);
            let claims = format!("{{\"exp\":{},\"jti\":{number}}}", self.0.lock().unwrap());
            let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims);
            Ok(Secret::new(format!("eyJh.{encoded}.sig")))
        }
    }

    let (stage, _, _) = with_tokens("Token", &answering("Image", "2h", "r.io"));
    let start = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap().as_second();
    let issuer = Arc::new(Issuer(Mutex::new(start + 3600), AtomicUsize::new(0)));
    let settings = Settings { retries: Vec::new(), ..Settings::default() };
    let images = stage.images_with(&settings).with_accounts(Arc::clone(&issuer) as _);
    let (config, images) = (stage.config(), Arc::new(images));
    let ask = |image: &str| images.lookup(&config, image, Some(&pod("one", "sa"))).unwrap();
    for image in ["r.io/a", "r.io/b", "r.io/a", "r.io/b"] {
        assert_eq!(ask(image).logins.len(), 1);
    }
    assert_eq!((stage.runs("p"), issuer.1.load(Ordering::SeqCst)), (2, 1));
    stage.clock.advance(Duration::from_secs(2881));
    *issuer.0.lock().unwrap() = start + 7200;
    ask("r.io/a");
    assert_eq!((stage.runs("p"), issuer.1.load(Ordering::SeqCst)), (3, 2), "per token");
}

#[test]
fn a_provider_sees_as_much_of_our_environment_as_it_may() {
    use keyward_host::plan::Environment;
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
