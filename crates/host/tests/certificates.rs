//! Certificates of plugins: kept while they are the same, measured, checked against the clock.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use keyward_host::{Kind, Observer, Source};
use keyward_testing::authority::{Authority, Issued};
use support::{Stage, answer};

#[derive(Default)]
struct Record(Mutex<Vec<String>>);

impl Record {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Record {
    fn certificates_end(&self, earliest: Option<Timestamp>, _now: Timestamp) {
        self.note(format!("ends {}", earliest.map_or("never".into(), |end| end.to_string())));
    }

    fn rotated(&self, age: Duration) {
        self.note(format!("rotated after {} s", age.as_secs()));
    }

    fn invalid_certificate(&self, plugin: &str) {
        self.note(format!("{plugin} invalid"));
    }
}

fn at(text: &str) -> SystemTime {
    let time: Timestamp = text.parse().unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_second().unsigned_abs())
}

fn issue(authority: &Authority, from: &str, until: &str) -> Issued {
    authority.client("ann").from(at(from)).until(at(until)).issue().unwrap()
}

fn say(stage: &Stage, issued: &Issued, token: &str, expires: &str) {
    let pem = |text: &str| text.replace('\n', "\\n");
    stage.write_plugin(&answer(
        "v1",
        &format!(
            r#"{{"token":"{token}","clientCertificateData":"{}","clientKeyData":"{}","expirationTimestamp":"{expires}"}}"#,
            pem(issued.certificate_pem()),
            pem(issued.key_pem())
        ),
    ));
}

fn open(stage: &Stage, record: &Arc<Record>) -> (keyward_host::Sources, Source) {
    let sources = stage.sources(Arc::clone(record) as _);
    let source = sources.open(&stage.plan().unwrap());
    (sources, source)
}

#[test]
fn a_certificate_that_stays_keeps_its_pair_and_one_that_changes_is_measured() {
    let authority = Authority::new("test").unwrap();
    let (stage, record) = (Stage::new(), Arc::new(Record::default()));
    let first = issue(&authority, "2025-12-31T23:00:00Z", "2026-01-01T08:00:00Z");
    say(&stage, &first, "one", "2026-01-01T00:10:00Z");
    let (_sources, source) = open(&stage, &record);
    let one = source.credential_blocking().unwrap();
    assert_eq!(record.take(), ["ends 2026-01-01T08:00:00Z"]);

    stage.clock.advance(Duration::from_secs(601));
    say(&stage, &first, "two", "2026-01-01T00:20:00Z");
    let two = source.credential_blocking().unwrap();
    assert_eq!(two.token().unwrap().expose(), "two");
    assert!(Arc::ptr_eq(one.pair().unwrap(), two.pair().unwrap()), "connections may stay");
    assert!(record.take().is_empty());

    stage.clock.advance(Duration::from_secs(600));
    let second = issue(&authority, "2026-01-01T00:00:00Z", "2026-01-01T09:00:00Z");
    say(&stage, &second, "three", "2026-01-01T01:00:00Z");
    let three = source.credential_blocking().unwrap();
    assert!(!Arc::ptr_eq(two.pair().unwrap(), three.pair().unwrap()));
    assert_eq!(record.take(), ["rotated after 4801 s", "ends 2026-01-01T09:00:00Z"]);

    drop(source);
    assert_eq!(record.take(), ["ends never"], "a source takes its certificate with it");
}

#[test]
fn a_certificate_that_is_not_valid_warns_or_in_strict_mode_fails() {
    let authority = Authority::new("test").unwrap();
    for (from, until, words) in [
        ("2025-01-01T00:00:00Z", "2025-06-01T00:00:00Z", "expired at 2025-06-01T00:00:00Z"),
        ("2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z", "not valid before 2026-06-01T00:00:00Z"),
    ] {
        let (mut stage, record) = (Stage::new(), Arc::new(Record::default()));
        say(&stage, &issue(&authority, from, until), "t", "2026-01-01T00:10:00Z");
        let credential = open(&stage, &record).1.credential_blocking().unwrap();
        assert!(credential.pair().is_some(), "kubectl uses it, so do we");
        assert_eq!(record.take()[0], "plug invalid");

        stage.settings.strict = true;
        let error = open(&stage, &record).1.credential_blocking().unwrap_err();
        assert_eq!(error.kind(), Kind::BadAnswer);
        assert!(error.to_string().contains(words), "{error:#}");
    }
}

#[test]
fn the_end_of_a_certificate_or_token_is_not_the_end_of_the_credential() {
    let authority = Authority::new("test").unwrap();
    let (stage, record) = (Stage::new(), Arc::new(Record::default()));
    let issued = issue(&authority, "2025-12-31T23:00:00Z", "2026-01-01T00:05:00Z");
    say(&stage, &issued, "e30.eyJleHAiOjF9.c2ln", "2026-01-01T01:00:00Z");
    let (_sources, source) = open(&stage, &record);
    source.credential_blocking().unwrap();
    stage.clock.advance(Duration::from_secs(1800));
    assert!(source.current().is_some());
    assert_eq!(stage.runs(), 1);
}

#[test]
fn a_bad_pair_with_a_later_expiry_revives_nothing() {
    let authority = Authority::new("test").unwrap();
    let (stage, record) = (Stage::new(), Arc::new(Record::default()));
    let good = issue(&authority, "2025-12-31T23:00:00Z", "2026-01-01T08:00:00Z");
    say(&stage, &good, "good", "2026-01-01T00:10:00Z");
    let (_sources, source) = open(&stage, &record);
    source.credential_blocking().unwrap();

    stage.clock.advance(Duration::from_secs(601));
    stage.write_plugin(&answer(
        "v1",
        r#"{"clientCertificateData":"x","clientKeyData":"y","expirationTimestamp":"2027-01-01T00:00:00Z"}"#,
    ));
    assert_eq!(source.credential_blocking().unwrap_err().kind(), Kind::BadAnswer);
    assert!(source.current().is_none(), "the old credential has expired and stays so");
    assert_eq!(source.credential_blocking().unwrap_err().kind(), Kind::BadAnswer);
}
