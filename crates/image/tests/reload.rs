//! A configuration of image credential providers that changes while it is used.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use jiff::SignedDuration;
use keyward_host::{NoopObserver, Observer, ReloadPace};
use keyward_image::{Images, Reading, ReloadingConfig, Settings};
use keyward_process::{
    clock::{Clock as _, ManualClock, SystemClock},
    surroundings::Surroundings,
};

/// Two providers of one version: whoever sees only one, or two of different versions, has read half
/// a file.
fn version(number: usize) -> String {
    let provider = |half: &str| {
        format!(
            "- name: {half}-{number}\n  matchImages: [r.io]\n  defaultCacheDuration: 1m\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
        )
    };
    format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n{}{}",
        provider("first"),
        provider("second")
    )
}

const EMPTY: &str =
    "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n";

struct Stage {
    _folder: tempfile::TempDir,
    path: PathBuf,
    clock: Arc<ManualClock>,
    seen: Arc<Hashes>,
    follow: ReloadingConfig,
}

#[derive(Default)]
struct Hashes(Mutex<Vec<Option<String>>>);

impl Observer for Hashes {
    fn configured(&self, hash: Option<&str>, _before: Option<&str>) {
        self.0.lock().unwrap().push(hash.map(str::to_owned));
    }
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        fs::write(&path, version(0)).unwrap();
        let clock = Arc::new(ManualClock::default());
        let seen = Arc::new(Hashes::default());
        let follow = ReloadingConfig::new(
            Reading::Kubelet,
            &path,
            ReloadPace::default(),
            Arc::clone(&clock) as _,
            Arc::clone(&seen) as _,
        );
        Self { _folder: folder, path, clock, seen, follow }
    }

    fn names(&self) -> Vec<String> {
        self.follow.config().unwrap().names().map(str::to_owned).collect()
    }

    /// Sets the clock to a while after the last change, which the file system dates by itself.
    fn set_long_after(&self) {
        let touched = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some(found.ctime() * 1000 + found.ctime_nsec() / 1_000_000)
        };
        let folder = touched(self.path.parent().unwrap());
        let last = touched(&self.path).max(folder).unwrap() + 10_000;
        self.clock.jump(SignedDuration::from_millis(last - self.clock.wall_millis()));
        self.clock.advance(Duration::from_secs(1));
    }

    fn long_after(&self) -> Vec<String> {
        self.set_long_after();
        self.names()
    }

    fn later(&self) -> Vec<String> {
        self.clock.advance(Duration::from_secs(1));
        self.names()
    }
}

fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    // The rename must be younger than the writing by the file system's own clock.
    let written = fs::metadata(&new).unwrap().modified().unwrap();
    let past = written - Duration::from_secs(1);
    fs::File::options().write(true).open(&new).unwrap().set_modified(past).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn what_was_renamed_into_place_is_taken_at_the_next_look() {
    let stage = Stage::new();
    replace(&stage.path, &version(1));
    assert_eq!(stage.names(), ["first-0", "second-0"], "it is not time to look yet");
    assert_eq!(stage.later(), ["first-1", "second-1"]);
    assert_eq!(stage.seen.0.lock().unwrap().len(), 2);
}

#[test]
fn what_was_written_in_place_must_be_read_twice() {
    let stage = Stage::new();
    let half = version(1).split_once("- name: second").unwrap().0.to_owned();
    fs::write(&stage.path, half).unwrap();
    assert_eq!(stage.later(), ["first-0", "second-0"], "half of a file is good YAML");
    fs::write(&stage.path, version(1)).unwrap();
    assert_eq!(stage.later(), ["first-0", "second-0"], "not the same as before");
    assert_eq!(stage.later(), ["first-1", "second-1"]);
}

#[test]
fn a_broken_one_leaves_the_last_good_one_in_force_and_says_so() {
    let stage = Stage::new();
    replace(&stage.path, &version(1).replace("name: second-1", "nam: x"));
    assert_eq!(stage.later(), ["first-0", "second-0"]);
    let faults = stage.follow.faults().unwrap();
    assert!(faults.to_string().contains("config.yaml`, line 8"), "{faults}");
    replace(&stage.path, &version(2));
    assert_eq!(stage.later(), ["first-2", "second-2"]);
    assert!(stage.follow.faults().is_none());
}

#[test]
fn a_removed_file_or_an_empty_list_switches_off_and_back_on() {
    let stage = Stage::new();
    fs::remove_file(&stage.path).unwrap();
    assert_eq!(stage.later(), ["first-0", "second-0"], "it may be being replaced");
    assert!(stage.later().is_empty());
    assert_eq!(stage.seen.0.lock().unwrap().last(), Some(&None), "no file, no hash");
    fs::write(&stage.path, version(1)).unwrap();
    assert!(stage.later().is_empty());
    assert_eq!(stage.later(), ["first-1", "second-1"]);
    replace(&stage.path, EMPTY);
    assert!(stage.later().is_empty());
    replace(&stage.path, &version(2));
    assert_eq!(stage.later(), ["first-2", "second-2"]);
}

#[test]
fn the_first_look_long_after_a_change_is_enough() {
    let stage = Stage::new();
    fs::write(&stage.path, version(1)).unwrap();
    assert_eq!(stage.long_after(), ["first-1", "second-1"], "written in place");
    fs::remove_file(&stage.path).unwrap();
    assert!(stage.long_after().is_empty(), "removed");
    fs::write(&stage.path, version(2)).unwrap();
    assert_eq!(stage.long_after(), ["first-2", "second-2"], "back on");
    fs::write(&stage.path, "providers: [").unwrap();
    assert_eq!(stage.long_after(), ["first-2", "second-2"]);
    assert!(stage.follow.faults().is_some(), "broken, and that is known at once");
}

#[test]
fn a_file_taken_out_of_a_folder_long_ago_is_out_at_the_first_look() {
    let stage = Stage::new();
    let second = stage.path.with_file_name("second.yaml");
    fs::write(&second, version(1)).unwrap();
    let (clock, nobody) = (Arc::clone(&stage.clock), Arc::new(NoopObserver));
    let folder = stage.path.parent().unwrap();
    let follow =
        ReloadingConfig::new(Reading::Kubelet, folder, ReloadPace::default(), clock as _, nobody);
    assert_eq!(follow.config().unwrap().providers.len(), 4);
    fs::remove_file(second).unwrap();
    stage.long_after();
    assert_eq!(follow.config().unwrap().providers.len(), 2);
}

#[test]
fn everybody_who_asks_at_once_long_after_a_change_has_the_new_one() {
    let stage = Stage::new();
    for number in 1..50 {
        fs::write(&stage.path, version(number)).unwrap();
        let ready = Barrier::new(4);
        let name = format!("first-{number}");
        stage.set_long_after();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    ready.wait();
                    assert_eq!(stage.names()[0], name);
                });
            }
        });
    }
}

#[test]
fn a_file_that_never_was_good_is_an_error_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let clock = Arc::new(ManualClock::default());
    let follow = ReloadingConfig::new(
        Reading::Kubelet,
        &path,
        ReloadPace::default(),
        Arc::clone(&clock) as _,
        Arc::new(NoopObserver),
    );
    assert!(follow.config().is_err());
    fs::write(&path, version(1)).unwrap();
    for _ in 0..2 {
        clock.advance(Duration::from_secs(1));
        let _ = follow.config();
    }
    assert_eq!(follow.config().unwrap().providers.len(), 2);
}

/// Two providers whose logins say of which version of the file they are.
fn speaking(number: usize) -> String {
    let provider = |half: &str| {
        format!(
            "- name: {half}\n  matchImages: [r.io]\n  defaultCacheDuration: 10m\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1\n  \
             env: [{{name: VERSION, value: 'v{number}'}}]\n"
        )
    };
    let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";
    format!("{head}providers:\n{}{}", provider("first"), provider("second"))
}

#[test]
fn a_hundred_replacements_during_a_thousand_lookups_disturb_none() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["first", "second"] {
        let script = "#!/bin/sh\necho '{\"kind\":\"CredentialProviderResponse\",\
            \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"Global\",\
            \"auth\":{\"r.io\":{\"username\":\"'\"$VERSION\"'\",\"password\":\"p\"}}}'\n";
        let path = folder.path().join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = folder.path().join("config.yaml");
    fs::write(&path, speaking(0)).unwrap();
    let pace = ReloadPace { every: Duration::ZERO, confirm: Duration::ZERO };
    let follow = ReloadingConfig::new(
        Reading::Kubelet,
        &path,
        pace,
        Arc::new(SystemClock),
        Arc::new(NoopObserver),
    );
    let settings = Settings { bin_dir: Some(folder.path().into()), ..Settings::default() };
    let surroundings = Surroundings::process();
    let images = Arc::new(Images::new(
        settings,
        surroundings,
        Arc::new(SystemClock),
        Arc::new(NoopObserver),
    ));
    let (lookups, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers = [(); 4].map(|()| {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let config = follow.config().unwrap();
                    let found = images.lookup(&config, "r.io/a", None).unwrap();
                    let versions: Vec<_> =
                        found.logins.iter().map(|l| l.login.username.as_str()).collect();
                    assert_eq!(versions.len(), 2, "no lookup fails");
                    assert_eq!(versions[0], versions[1], "half of a configuration");
                    lookups.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        let gave_up = || workers.iter().any(thread::ScopedJoinHandle::is_finished);
        for number in 1..=100 {
            let text = speaking(number);
            // A third is broken: cut off in the middle of its last value.
            let end = if number % 3 == 0 { text.len() - 10 } else { text.len() };
            replace(&path, &text[..end]);
            while lookups.load(Ordering::SeqCst) < number * 10 && !gave_up() {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(lookups.load(Ordering::SeqCst) >= 1000);
    // Two looks are enough: the second confirms what was written and renamed in one tick.
    let version = || {
        let found = images.lookup(&follow.config().unwrap(), "r.io/a", None).unwrap();
        found.logins[0].login.username.clone()
    };
    let seen = [version(), version()];
    assert_eq!(seen[1], "v100", "{seen:?}");
    fs::remove_file(&path).unwrap();
    let off = |_: &usize| follow.config().unwrap().providers.is_empty();
    assert!((0..10).any(|n| off(&n)), "switched off");
    replace(&path, &speaking(7));
    assert!((0..10).any(|n| !off(&n)), "and on again");
}
