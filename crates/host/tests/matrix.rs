//! Every misbehaviour of the table, from a plan to an error: its kind, how it is counted, and that
//! nothing of it tells a secret, at the most talkative level.
#![cfg(unix)]

mod support;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyward_host::{CallStatus, Error, Kind, Observer, Source};
use keyward_protocol::{Secret, exec::REQUEST_VARIABLE};
use keyward_testing::misbehaviour::{self, Call, Class, Misbehaviour, TABLE};
use support::Stage;

/// Stands in every secret of these tests.
const MARK: &str = "s3cr3tm4rk";

type Counts = BTreeMap<(i32, &'static str), usize>;

#[derive(Default)]
struct Counter(Mutex<Counts>);

impl Observer for Counter {
    fn ran(&self, _plugin: &str, code: i32, status: CallStatus, _took: Duration) {
        *self.0.lock().expect("whole").entry((code, status.label())).or_default() += 1;
    }
}

#[test]
fn every_misbehaviour_has_its_kind_its_count_and_no_secret() {
    let log = keyward_testing::log::listen();
    let counter = Arc::new(Counter::default());
    let mut expected = Counts::new();
    for case in TABLE.iter().filter(|case| !reads(case)) {
        let mut seen = String::new();
        let result = run(case, &counter, &mut seen);
        let found = result.as_ref().map(drop).map_err(Error::kind);
        assert_eq!(found, kind(case.class), "{}: {:#?}", case.name, result.err());
        *expected.entry(label(case.class)).or_default() += 1;
        assert_eq!(*counter.0.lock().expect("whole"), expected, "{}", case.name);
        assert!(!seen.contains(MARK), "{}: {seen}", case.name);
    }
    let log = log.lock().expect("whole");
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains("running a plugin"), "the log was listened to");
    assert!(!log.contains(MARK), "{log}");
}

/// Whether the case is about a request on stdin, which plugins of this protocol do not get.
fn reads(case: &Misbehaviour) -> bool {
    misbehaviour::Stage::new().prepare(case).stdin.is_some()
}

/// Runs the case through a source. What people and logs could see of it goes to `seen`.
fn run(case: &Misbehaviour, counter: &Arc<Counter>, seen: &mut String) -> Result<(), Error> {
    let bad = misbehaviour::Stage::new();
    let mut stage = Stage::new();
    let call = bad.prepare(case);
    stage.settings.unattended = Duration::from_secs(if call.hangs { 1 } else { 30 });
    stage.vars.push(("SESSION_TOKEN".into(), format!("{MARK}-ours")));

    // A plan is made for a plugin that is fine; what it finds when it runs is another one.
    let link = stage.path("plug");
    support::text(&link).clone_into(&mut stage.command);
    stage.rules.trusted = vec![link.clone()];
    lead(&link, Path::new("/bin/true"));
    let source = open(&stage, &call, counter, seen);
    lead(&link, &call.program);

    let result = source.credential_blocking();
    let pids = pids(&call);
    bad.check(case, &call);
    // What a program that was killed had time to write down, or a shell that ended before the plugin
    // itself began, depends on the machine.
    if !case.class.is_given_up() && call.program != Path::new("/bin/sh") {
        assert_eq!(pids.is_some(), started(case.class), "{}: whether it was started", case.name);
    }
    match &result {
        Ok(credential) => write!(seen, "{credential:?}"),
        Err(error) => write!(seen, "{error} {error:#} {error:?} {:?}", error.stderr()),
    }
    .expect("a text");
    result.map(drop)
}

fn open(stage: &Stage, call: &Call, counter: &Arc<Counter>, seen: &mut String) -> Source {
    let mut target = stage.target();
    let exec = target.user.value.exec.as_mut().expect("a plugin");
    let text = |text: &std::ffi::OsString| text.to_str().expect("UTF-8").to_owned();
    exec.args = call.args.iter().map(text).collect();
    exec.env = call
        .env
        .iter()
        // The request is ours to say (EN-04); the case wants something too big.
        .map(|(name, value)| match text(name) {
            name if name == REQUEST_VARIABLE => ("BIG".to_owned(), Secret::new(text(value))),
            name => (name, Secret::new(text(value))),
        })
        .collect();
    exec.env.push(("PASSWORD".into(), Secret::new(format!("{MARK}-configured"))));
    let plan = stage.draft(target).finish().unwrap_or_else(|error| panic!("{error:#}"));
    let source = stage.sources(Arc::clone(counter) as _).open(&plan);
    write!(seen, "{plan:?} {source:?} {:?} {:?}", plan.target(), stage.surroundings())
        .expect("a text");
    source
}

fn lead(link: &Path, to: &Path) {
    let _ = fs::remove_file(link);
    symlink(to, link).expect("a link");
}

/// What the plugin's processes wrote down, if it was started at all.
fn pids(call: &Call) -> Option<String> {
    let (_, file) = call.env.iter().find(|(name, _)| name == "KEYWARD_TEST_PIDS")?;
    fs::read_to_string(file).ok()
}

fn kind(class: Class) -> Result<(), Kind> {
    match class {
        Class::Good => Ok(()),
        Class::BadAnswer | Class::TooMuchOutput => Err(Kind::BadAnswer),
        Class::NotFound => Err(Kind::NotFound),
        Class::Nul => Err(Kind::BadConfig),
        // Nobody ends an exec run because its caller went away: it finishes for the next one.
        Class::TimedOut | Class::Stopped => Err(Kind::TimedOut),
        _ => Err(Kind::Failed),
    }
}

fn label(class: Class) -> (i32, &'static str) {
    match class {
        Class::Good | Class::BadAnswer => (0, "no_error"),
        Class::Exit(code) => (code, "plugin_execution_error"),
        Class::Signal(_) | Class::TimedOut | Class::Stopped | Class::TooMuchOutput => {
            (-1, "plugin_execution_error")
        }
        Class::NotFound => (1, "plugin_not_found_error"),
        _ => (1, "client_internal_error"),
    }
}

fn started(class: Class) -> bool {
    !matches!(label(class), (_, "plugin_not_found_error" | "client_internal_error"))
}
