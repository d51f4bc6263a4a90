//! Users that need no plugin: what wins, and files that change.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{sync::Arc, time::Duration};

use keyward_host::{Kind, Method, NoopObserver, Source};
use keyward_testing::authority::Authority;
use support::{Stage, answer};

fn open(stage: &Stage) -> Source {
    let plan = stage.draft(stage.plain_target()).finish().unwrap();
    stage.sources(Arc::new(NoopObserver)).open(&plan)
}

fn token(source: &Source) -> String {
    source.credential_blocking().unwrap().token().unwrap().expose().to_owned()
}

/// Lets a minute pass and waits until the file was read again.
fn minute(stage: &Stage) {
    stage.clock.advance(Duration::from_secs(61));
}

#[test]
fn what_the_user_has_wins_over_the_plugin() {
    let authority = Authority::new("test").unwrap();
    let client = authority.client("ann").issue().unwrap();
    for (user, method) in [
        ("    token: abc\n".to_owned(), Method::Token),
        ("    username: ann\n    password: pw\n".to_owned(), Method::Basic),
        ("    tokenFile: token\n".to_owned(), Method::TokenFile),
        (
            "    client-certificate: cert\n    client-key: key\n".to_owned(),
            Method::ClientCertificate,
        ),
    ] {
        let mut stage = Stage::with_plugin(&answer("v1", r#"{"token":"plugin"}"#));
        stage.file("token", "from a file\n");
        stage.file("cert", client.certificate_pem());
        stage.file("key", client.key_pem());
        stage.user = user;
        let plan = stage.plan().unwrap();
        assert_eq!(plan.methods(), [method]);
        assert!(plan.plugin().is_none());
        let why = plan.passed_over().unwrap();
        assert!(why.contains("plugin `plug` does not run"), "{why}");
        let source = stage.sources(Arc::new(NoopObserver)).open(&plan);
        let credential = source.credential_blocking().unwrap();
        assert!(credential.authorization().is_some() || credential.pair().is_some());
        assert_eq!(stage.runs(), 0);
    }
}

#[test]
fn a_password_alone_does_not_keep_the_plugin_from_running() {
    let mut stage = Stage::with_plugin(&answer("v1", r#"{"token":"plugin"}"#));
    stage.user = "    password: pw\n".into();
    assert!(stage.plan().unwrap().plugin().is_some());
}

#[test]
fn a_token_file_is_read_again_and_its_last_good_content_kept() {
    let mut stage = Stage::new();
    let file = stage.file("token", "  first\n");
    stage.user = "    tokenFile: token\n".into();
    let source = open(&stage);
    assert_eq!(token(&source), "first");
    let serial = source.current().unwrap().serial();

    minute(&stage);
    assert_eq!(token(&source), "first");
    assert_eq!(
        source.current().unwrap().serial(),
        serial,
        "the same content is the same credential"
    );

    std::fs::write(&file, "second").unwrap();
    assert_eq!(token(&source), "first", "not read for every request");
    minute(&stage);
    assert_eq!(token(&source), "second");

    std::fs::remove_file(&file).unwrap();
    minute(&stage);
    assert_eq!(token(&source), "second");
    std::fs::write(&file, "third").unwrap();
    minute(&stage);
    assert_eq!(token(&source), "third");
}

#[test]
fn a_refused_token_file_is_read_at_once() {
    let mut stage = Stage::new();
    let file = stage.file("token", "first");
    stage.user = "    tokenFile: token\n".into();
    let source = open(&stage);
    let first = source.credential_blocking().unwrap();
    std::fs::write(file, "second").unwrap();
    source.rejected(&first, false, None);
    assert_eq!(token(&source), "second");
}

#[test]
fn certificate_files_are_read_again() {
    let authority = Authority::new("test").unwrap();
    let mut stage = Stage::new();
    let write = |stage: &Stage| {
        let client = authority.client("ann").issue().unwrap();
        stage.file("cert", client.certificate_pem());
        stage.file("key", client.key_pem());
    };
    write(&stage);
    stage.user = "    client-certificate: cert\n    client-key: key\n".into();
    let source = open(&stage);
    let first = source.credential_blocking().unwrap();
    minute(&stage);
    let again = source.credential_blocking().unwrap();
    assert!(Arc::ptr_eq(first.pair().unwrap(), again.pair().unwrap()));

    write(&stage);
    minute(&stage);
    let second = source.credential_blocking().unwrap();
    assert!(!Arc::ptr_eq(first.pair().unwrap(), second.pair().unwrap()));

    // Half of a rotation: the key is not the certificate's any more.
    stage.file("key", authority.client("ann").issue().unwrap().key_pem());
    minute(&stage);
    let third = source.credential_blocking().unwrap();
    assert!(Arc::ptr_eq(second.pair().unwrap(), third.pair().unwrap()));
}

#[test]
fn a_certificate_and_a_token_go_together() {
    let client = Authority::new("test").unwrap().client("ann").issue().unwrap();
    let mut stage = Stage::new();
    stage.file("cert", client.certificate_pem());
    stage.file("key", client.key_pem());
    stage.user = "    token: abc\n    client-certificate: cert\n    client-key: key\n".into();
    let credential = open(&stage).credential_blocking().unwrap();
    assert!(credential.pair().is_some() && credential.token().is_some());
}

#[test]
fn nobody_in_particular_is_a_credential_without_anything() {
    let source = open(&Stage::new());
    let credential = source.current().unwrap();
    assert!(credential.authorization().is_none() && credential.pair().is_none());
}

#[test]
fn removed_auth_providers_say_what_to_use_instead() {
    for (name, hint) in [("gcp", "gke-gcloud-auth-plugin"), ("azure", "kubelogin")] {
        let mut stage = Stage::new();
        stage.user = format!("    auth-provider:\n      name: {name}\n");
        let error = stage.draft(stage.plain_target()).finish().unwrap_err();
        assert_eq!(error.kind(), Kind::BadConfig);
        assert!(error.hint().unwrap().contains(hint), "{error:#}");
    }
}
