//! Image credential providers that misbehave in every way of the table, and providers that tell
//! secrets on every channel they have: the kind of the error, how it is counted, that nothing is left
//! behind, and that nothing tells a secret, at the most talkative level.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use keyward_host::{Error, Kind, Observer};
use keyward_image::{
    Account, Accounts, Config, Images, Lookup, Outcome, Pod, Settings, TokenRequest,
};
use keyward_process::{
    clock::SystemClock,
    surroundings::{Fixed, Surroundings},
};
use keyward_protocol::Secret;
use keyward_testing::misbehaviour::{self, Call, Class, Misbehaviour, TABLE, children};
use serde_json::{Value, json};

/// Stands in every secret of these tests.
const MARK: &str = "s3cr3tm4rk";
const VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";
const ROLE: &str = "example.com/role";

/// One test at a time: each counts the children of this process.
static ALONE: Mutex<()> = Mutex::new(());

fn log() -> Arc<Mutex<Vec<u8>>> {
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    Arc::clone(LOG.get_or_init(keyward_testing::log::listen))
}

fn no_secret_in_the_log() {
    let log = log();
    let log = log.lock().expect("whole");
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains("running a plugin"), "the log was listened to");
    assert!(!log.contains(MARK), "{log}");
}

/// Counts runs: those that ended well, and those that did not.
#[derive(Default)]
struct Counter(Mutex<(usize, usize)>);

impl Observer for Counter {
    fn provided(&self, _provider: &str, _took: Duration, failed: bool) {
        let mut counts = self.0.lock().expect("whole");
        if failed { counts.1 += 1 } else { counts.0 += 1 }
    }
}

/// A cluster whose one service account has an annotation of this size.
struct Cluster(usize);

impl Accounts for Cluster {
    fn account(&self, _pod: &Pod) -> Result<Account, Box<dyn StdError + Send + Sync>> {
        let annotations = BTreeMap::from([(ROLE.to_owned(), "r".repeat(self.0))]);
        Ok(Account { uid: "uid".into(), annotations })
    }

    fn token(
        &self,
        _request: &TokenRequest<'_>,
    ) -> Result<Secret, Box<dyn StdError + Send + Sync>> {
        Ok(Secret::new(format!("{MARK}-of-the-account")))
    }
}

fn pod() -> Pod {
    Pod { namespace: "n".into(), name: "p".into(), uid: "u".into(), service_account: "s".into() }
}

/// A provider `plug`, told everything that is secret, in a directory that has a link of that name.
struct Stage {
    folder: tempfile::TempDir,
    settings: Settings,
    counter: Arc<Counter>,
}

impl Stage {
    fn new(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        symlink(program, folder.path().join("plug")).expect("a link");
        let settings = Settings {
            bin_dir: Some(folder.path().into()),
            retries: Vec::new(),
            budget: Duration::from_secs(30),
            ..Settings::default()
        };
        Self { folder, settings, counter: Arc::default() }
    }

    /// The outcome of asking, and all that people and logs could see of it.
    fn ask(
        &self,
        args: &[String],
        env: Vec<(String, String)>,
        severity: usize,
    ) -> (Outcome, String) {
        let env: Vec<Value> =
            env.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": [{
                "name": "plug",
                "apiVersion": VERSION,
                "matchImages": ["r.io"],
                "defaultCacheDuration": "0s",
                "args": args,
                "env": env,
                "tokenAttributes": {
                    "serviceAccountTokenAudience": "a",
                    "cacheType": "ServiceAccount",
                    "requireServiceAccount": true,
                    "requiredServiceAccountAnnotationKeys": [ROLE],
                },
            }],
        });
        let path = self.folder.path().join("config.json");
        fs::write(&path, config.to_string()).expect("a file");
        let config = Config::load(&path).expect("a configuration");
        let surroundings = Surroundings::fixed(Fixed {
            vars: vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                ("SESSION_TOKEN".into(), format!("{MARK}-ours").into()),
            ],
            cwd: "/".into(),
            ..Fixed::default()
        });
        let observer = Arc::clone(&self.counter) as _;
        let images =
            Images::new(self.settings.clone(), surroundings, Arc::new(SystemClock), observer);
        let images = Arc::new(images.with_accounts(Arc::new(Cluster(severity))));
        let found = images.lookup(&config, "r.io/app", Some(&pod())).expect("an image");
        let mut seen = format!("{config:?} {:?} {found:?}", config.lint(false, Some(20)));
        for error in found.failures() {
            write!(seen, "{error} {error:#} {error:?} {:?}", error.stderr()).expect("a text");
        }
        let Lookup { mut results, .. } = found;
        let outcome = results.remove(0).outcome;
        if let Some(answer) = outcome.answer() {
            write!(seen, "{answer:?} {}", answer.stderr).expect("a text");
        }
        (outcome, seen)
    }
}

fn answer(user: &str, password: &str) -> String {
    json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": VERSION,
        "cacheKeyType": "Image",
        "auth": { "r.io": { "username": user, "password": password } },
    })
    .to_string()
}

#[test]
fn every_misbehaviour_has_its_kind_and_count_leaves_nothing_and_tells_no_secret() {
    let _alone = ALONE.lock();
    log();
    for case in TABLE {
        let bad = misbehaviour::Stage::new();
        let call = bad.prepare(case);
        let (outcome, seen, counts) = run(case, &call);
        bad.check(case, &call);
        let kind = outcome.failure().map(Error::kind);
        assert_eq!(kind, expected(case.class), "{}: {outcome:#?}", case.name);
        let failed = !matches!(case.class, Class::Good | Class::BadAnswer);
        assert_eq!(counts, (usize::from(!failed), usize::from(failed)), "{}", case.name);
        assert!(!seen.contains(MARK), "{}: {seen}", case.name);
        drop(call);
        assert_eq!(children(), Vec::<u32>::new(), "{}: zombies", case.name);
    }
    no_secret_in_the_log();
}

fn run(case: &Misbehaviour, call: &Call) -> (Outcome, String, (usize, usize)) {
    let mut stage = Stage::new(&call.program);
    if call.hangs {
        stage.settings.budget = Duration::from_secs(1);
    }
    let text = |text: &std::ffi::OsString| text.to_str().expect("UTF-8").to_owned();
    let mut env: Vec<_> = call.env.iter().map(|(n, v)| (text(n), text(v))).collect();
    env.push(("PASSWORD".into(), format!("{MARK}-configured")));
    env.push(("KEYWARD_TEST_ANSWER".into(), answer("u", &format!("{MARK}-answered"))));
    let args: Vec<_> = call.args.iter().map(text).collect();
    // The request is as long as the case wants what the provider is given to read.
    let severity = call.stdin.as_ref().map_or(10, Vec::len);
    let (outcome, seen) = stage.ask(&args, env, severity);
    let counts = *stage.counter.0.lock().expect("whole");
    assert!(case.class != Class::Good || outcome.answer().is_some(), "{}: {outcome:?}", case.name);
    (outcome, seen, counts)
}

fn expected(class: Class) -> Option<Kind> {
    match class {
        Class::Good => None,
        Class::BadAnswer | Class::TooMuchOutput => Some(Kind::BadAnswer),
        Class::NotFound => Some(Kind::NotFound),
        Class::Nul => Some(Kind::BadConfig),
        // Nobody ends a run because its caller went away: it finishes for the next one.
        Class::TimedOut | Class::Stopped => Some(Kind::TimedOut),
        _ => Some(Kind::Failed),
    }
}

#[test]
fn no_secret_is_shown_whatever_a_provider_does_with_it() {
    let _alone = ALONE.lock();
    log();
    let password = format!("{MARK}.of-the-registry");
    let good = format!("echo '{}'", answer("u", &password));
    let tell = format!(
        "request=$(cat)\necho \"$request\" >&2\n\
         echo \"I have $PASSWORD and $SESSION_TOKEN and {password}, args: $*\" >&2"
    );
    // Nobody can know a password that is told and not handed out.
    let echo = tell.replace(&password, &format!("x{MARK}-of-the-accountx"));
    for (what, script) in [
        ("answers", good.clone()),
        ("answers and tells", format!("{tell}\n{good}")),
        ("fails", format!("{tell}\n{good}\nexit 1")),
        ("crashes", format!("{tell}\n{good}\nkill -9 $$")),
        ("answers another version", format!("{tell}\n{}", good.replace("io/v1", "io/v1beta1"))),
        (
            "answers another kind",
            format!("{tell}\n{}", good.replace("CredentialProviderResponse", MARK)),
        ),
        (
            "answers half",
            format!("{tell}\necho '{{\"auth\":{{\"r.io\":{{\"password\":\"{password}'"),
        ),
        ("answers what is no JSON", format!("{tell}\necho '{password}: : : {{'")),
        (
            "answers a wrong type",
            format!(
                "{tell}\n{}",
                good.replace(&format!("\"{password}\""), &format!("[\"{password}\"]"))
            ),
        ),
        (
            "answers an unknown cache key",
            format!("{tell}\n{}", good.replace("\"Image\"", &format!("\"{MARK}\""))),
        ),
        (
            "answers an unknown field",
            format!("{tell}\n{}", good.replace("\"auth\"", &format!("\"{MARK}\":1,\"auth\""))),
        ),
        (
            "answers with the account's token inside",
            format!("{echo}\necho '{}'", answer("u", &format!("x{MARK}-of-the-accountx"))),
        ),
        (
            "answers with the account's token as the name",
            format!("{echo}\necho '{}'", answer(&format!("{MARK}-of-the-account"), "p")),
        ),
    ] {
        let stage = Stage::new(Path::new("/bin/sh"));
        let args = [
            "-c".to_owned(),
            script,
            format!("--client-secret={MARK}-argument"),
            "--token".to_owned(),
            format!("{MARK}-other"),
        ];
        let env = vec![("PASSWORD".to_owned(), format!("{MARK}-configured"))];
        let (outcome, seen) = stage.ask(&args, env, 10);
        assert_eq!(
            outcome.answer().is_some(),
            matches!(what, "answers" | "answers and tells"),
            "{what}"
        );
        assert!(!seen.contains(MARK), "{what}: {seen}");
    }
    no_secret_in_the_log();
}
