//! Providers that are given the token of a service account.

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use keyward_image::{Account, Accounts, Images, Outcome, Pod, Settings, TokenRequest};
use keyward_protocol::Secret;

use crate::stage::{Stage, answering};

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
        assert!(matches!(found.results[0].outcome, Outcome::Skipped(_)));
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
