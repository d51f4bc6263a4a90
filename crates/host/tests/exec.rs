//! From a plan to a credential, with real plugins.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{sync::Arc, time::Duration};

use keyward_host::{Kind, NoopObserver, rules::Policy, rules::Rules};
use keyward_protocol::exec::Response;
use support::{Stage, answer};

#[test]
fn a_token_comes_with_its_header_and_its_end() {
    let stage =
        Stage::answering(r#"{"token":"t0ken","expirationTimestamp":"2026-01-01T01:00:00Z"}"#);
    let source = stage.source();
    assert!(source.current().is_none());
    assert_eq!(stage.runs(), 0, "nothing runs before it is needed");
    let credential = source.credential_blocking().unwrap();
    assert_eq!(credential.authorization().unwrap(), "Bearer t0ken");
    assert_eq!(credential.expires().unwrap().to_string(), "2026-01-01T01:00:00Z");
    assert_eq!(source.current().unwrap().serial(), credential.serial());
    assert_eq!(stage.runs(), 1);
}

#[test]
fn the_plugin_sees_the_request_and_its_variables() {
    let mut stage = Stage::with_plugin(&format!(
        "printf '%s' \"$KUBERNETES_EXEC_INFO\" >info\nenv | sort >env\nprintf '%s\\n' \"$0\" \"$@\" >args\n{}",
        answer("v1", r#"{"token":"t"}"#)
    ));
    stage.vars = vec![
        ("INHERITED".into(), "1".into()),
        ("BOTH".into(), "ours".into()),
        ("KUBERNETES_EXEC_INFO".into(), "stale".into()),
    ];
    let info = stage.path("info");
    let script = std::fs::read_to_string(stage.path("bin/plug")).unwrap();
    let folder = stage.path("").display().to_string();
    let script = script
        .replace(">info", &format!(">'{}'", info.display()))
        .replace(">env", &format!(">'{folder}env'"))
        .replace(">args", &format!(">'{folder}args'"));
    std::fs::write(stage.path("bin/plug"), script).unwrap();
    stage.exec = "      args: [get-token, \"$HOME\"]\n      env:\n      - {name: BOTH, value: theirs}\n      provideClusterInfo: true\n".into();
    stage.source().credential_blocking().unwrap();

    assert_eq!(
        std::fs::read_to_string(info).unwrap(),
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"cluster\":{\"server\":\"https://127.0.0.1:6443\",\"config\":null},\"interactive\":false}}\n"
    );
    let env = std::fs::read_to_string(stage.path("env")).unwrap();
    assert!(env.contains("INHERITED=1\n") && env.contains("BOTH=theirs\n"), "{env}");
    let args = std::fs::read_to_string(stage.path("args")).unwrap();
    assert!(args.ends_with("\nget-token\n$HOME\n"), "no shell, no expansion: {args}");
}

#[test]
fn a_rejection_is_told_under_v1alpha1() {
    let mut stage = Stage::new();
    let info = stage.path("info");
    stage.write_plugin(&format!(
        "printf '%s' \"$KUBERNETES_EXEC_INFO\" >'{}'\n{}",
        info.display(),
        answer("v1alpha1", r#"{"token":"t"}"#)
    ));
    stage.version = "v1alpha1";
    let source = stage.source();
    let first = source.credential_blocking().unwrap();
    assert!(!std::fs::read_to_string(&info).unwrap().contains("response"));
    let response = Response {
        code: 401,
        header: vec![("Www-Authenticate".into(), vec!["Bearer realm=\"x\"".into()])],
    };
    source.rejected(&first, false, Some(Arc::new(response)));
    let second = source.credential_blocking().unwrap();
    assert_ne!(first.serial(), second.serial());
    let told = std::fs::read_to_string(&info).unwrap();
    assert!(told.contains("\"code\":401") && told.contains("Www-Authenticate"), "{told}");
}

#[test]
fn each_failure_has_its_kind_and_its_words() {
    for (script, kind, words) in [
        ("exit 3", Kind::Failed, "plugin `plug` failed with exit code 3"),
        ("kill -9 $$", Kind::Failed, "plugin `plug` was ended by signal 9 (SIGKILL)"),
        ("true", Kind::BadAnswer, "plugin `plug` answered nothing"),
        ("echo hello: there", Kind::BadAnswer, "plugin `plug` answered in another version"),
        ("echo '{\"kind\":'", Kind::BadAnswer, "not an `ExecCredential`"),
        (&answer("v1beta1", r#"{"token":"t"}"#), Kind::BadAnswer, "another version"),
        (&answer("v1", "{}"), Kind::BadAnswer, "without a credential"),
        (&answer("v1", r#"{"token":"a\nb"}"#), Kind::BadAnswer, "no header can contain"),
        (
            &answer("v1", r#"{"clientCertificateData":"x","clientKeyData":"y"}"#),
            Kind::BadAnswer,
            "are not a pair",
        ),
    ] {
        let error = Stage::with_plugin(script).failure();
        assert_eq!(error.kind(), kind, "{script}: {error:#}");
        assert!(error.to_string().contains(words), "{script}: {error:#}");
        let (label, text) = &error.notes()[0];
        assert_eq!(*label, "needed by");
        assert!(
            text.starts_with("user `prod` in `") && text.ends_with("config`, line 12"),
            "{text}"
        );
    }
}

#[test]
fn what_the_plugin_said_is_kept_apart_cleaned_and_masked() {
    let mut stage = Stage::with_plugin(
        "printf 'no session for %s\\033[0m, Bearer abcdef\\n' \"$PASSWORD\" >&2; exit 1",
    );
    stage.exec = "      env:\n      - {name: PASSWORD, value: hunter22}\n".into();
    let error = stage.failure();
    assert_eq!(error.stderr().unwrap(), "no session for [hidden]U+001B[0m, Bearer [hidden]\n");
    assert!(!format!("{error:#}").contains("no session"), "{error:#}");
    // A `main` that returns the error prints this form, and people need what the plugin said.
    let shown = format!("{error:?}");
    assert!(shown.contains("no session for [hidden]") && !shown.contains("hunter22"), "{shown}");
}

#[test]
fn what_stderr_was_cut_from_and_the_passwords_of_addresses_are_hidden() {
    let stage = Stage::with_plugin(
        "{ printf 'S%.0s' $(seq 70000); echo; echo no session; \
         echo 'http://ann:SECRET%2Fproxy@p, SECRET/proxy'; } >&2; exit 1",
    );
    let mut target = stage.target();
    target.user.value.exec.as_mut().unwrap().provide_cluster_info = true;
    target.cluster.value.proxy_url = "http://ann:SECRET%2Fproxy@p".into();
    let plan = stage.draft(target).finish().unwrap();
    let source = stage.sources(Arc::new(NoopObserver)).open(&plan);
    let error = source.credential_blocking().unwrap_err();
    assert_eq!(error.stderr(), Some("no session\nhttp://ann:[hidden]@p, [hidden]\n"));
}

#[test]
fn a_plugin_that_hangs_is_ended_within_its_budget() {
    let mut stage = Stage::with_plugin("sleep 1000");
    stage.settings.unattended = Duration::from_millis(200);
    let error = stage.failure();
    assert_eq!(error.kind(), Kind::TimedOut);
    assert_eq!(error.to_string(), "plugin `plug` did not answer within 200ms");
}

#[test]
fn a_token_that_a_killed_plugin_printed_is_hidden_in_its_stderr() {
    const TOKEN: &str = "opaque-0123456789";
    let both = format!("echo {TOKEN}; echo got {TOKEN} >&2");
    for (script, kind) in [
        (format!("{both}; sleep 1000"), Kind::TimedOut),
        // Its last words, after SIGTERM.
        (format!("trap '{both}; exit' TERM; sleep 1000 & wait"), Kind::TimedOut),
        (format!("{both}; seq 1000; sleep 1000"), Kind::BadAnswer),
    ] {
        let mut stage = Stage::with_plugin(&script);
        stage.settings.unattended = Duration::from_secs(2);
        stage.settings.limits.stdout = 1000;
        let error = stage.failure();
        assert_eq!(error.kind(), kind, "{script}");
        assert_eq!(error.stderr(), Some("got [hidden]\n"), "{script}");
    }
}

#[test]
fn a_missing_plugin_comes_with_the_hint_however_it_was_named() {
    for command in ["ghost", "./ghost", "/nowhere/ghost"] {
        let mut stage = Stage::new();
        stage.command = command.into();
        stage.exec = "      installHint: \"brew install ghost\\x1b\"\n".into();
        let error = stage.plan().unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{error:#}");
        assert_eq!(
            error.hint().unwrap(),
            "brew install ghostU+001B   (installHint of the kubeconfig)",
            "{command}"
        );
    }
    let mut stage = Stage::new();
    stage.command = "ghost".into();
    assert!(stage.plan().unwrap_err().hint().is_some(), "help without an installHint");
}

#[test]
fn a_plugin_that_vanishes_gives_ten_hints_an_hour() {
    let stage = Stage::answering(r#"{"token":"t"}"#);
    let source = stage.source();
    std::fs::remove_file(stage.path("bin/plug")).unwrap();
    let hints = (0..20).filter(|_| {
        // Past every backoff, so that each call is an attempt.
        stage.clock.advance(Duration::from_secs(90));
        let error = source.credential_blocking().unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        error.hint().is_some()
    });
    assert_eq!(hints.count(), 10);
}

#[test]
fn a_plugin_is_found_again_for_each_run() {
    let stage = Stage::answering(r#"{"token":"old","expirationTimestamp":"2026-01-01T00:10:00Z"}"#);
    let source = stage.source();
    assert_eq!(source.credential_blocking().unwrap().token().unwrap().expose(), "old");
    stage.write_plugin(&answer("v1", r#"{"token":"new"}"#));
    stage.clock.advance(Duration::from_secs(601));
    assert_eq!(source.credential_blocking().unwrap().token().unwrap().expose(), "new");
}

#[test]
fn a_denied_plugin_is_not_run() {
    let mut stage = Stage::answering(r#"{"token":"t"}"#);
    stage.rules = Rules::new(Policy::DenyAll);
    assert_eq!(stage.plan().unwrap_err().kind(), Kind::NotAllowed);
    assert_eq!(stage.runs(), 0);
}

#[test]
fn always_without_a_terminal_runs_nothing() {
    let mut stage = Stage::answering(r#"{"token":"t"}"#);
    stage.mode = "Always";
    let error = stage.plan().unwrap_err();
    assert_eq!(error.kind(), Kind::NeedsTerminal);
    stage.stdin_is_terminal = true;
    stage.settings.stdin_unavailable = Some("it has a manifest".into());
    let error = stage.plan().unwrap_err();
    assert!(format!("{error:#}").contains("it has a manifest"), "{error:#}");
    assert_eq!(stage.runs(), 0);
}

#[test]
fn a_request_too_big_for_the_environment_names_the_field() {
    let mut stage = Stage::answering(r#"{"token":"t"}"#);
    stage.exec = "      provideClusterInfo: true\n".into();
    let mut target = stage.target();
    target.cluster.value.certificate_authority_data = vec![b'x'; 140 << 10];
    let plan = stage.draft(target).finish().unwrap();
    let source = stage.sources(Arc::new(keyward_host::NoopObserver)).open(&plan);
    let error = source.credential_blocking().unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    let shown = format!("{error:#}");
    assert!(shown.contains("KUBERNETES_EXEC_INFO"), "{shown}");
    assert!(shown.contains("certificate-authority-data of the cluster, 143360 bytes"), "{shown}");
    assert_eq!(stage.runs(), 0);
}

#[test]
fn equal_plans_share_one_source_and_any_difference_separates() {
    let stage = Stage::answering(r#"{"token":"t"}"#);
    let sources = stage.sources(Arc::new(keyward_host::NoopObserver));
    let first = sources.open(&stage.plan().unwrap());
    let second = sources.open(&stage.plan().unwrap());
    assert!(first.same(&second));
    for exec in [
        "      args: []\n      installHint: get it\n",
        "      args: [a]\n",
        "      env:\n      - {name: A, value: \"\"}\n",
        "      provideClusterInfo: true\n",
    ] {
        let mut other = Stage::answering("{}");
        other.exec = exec.into();
        let target = other.target();
        let plan = stage.draft(target).finish().unwrap();
        assert!(!first.same(&sources.open(&plan)), "{exec}");
    }
    let serial = first.credential_blocking().unwrap().serial();
    drop((first, second));
    let third = sources.open(&stage.plan().unwrap());
    assert_ne!(third.credential_blocking().unwrap().serial(), serial, "unused sources are let go");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_callers_cause_one_run() {
    let stage = Stage::answering(r#"{"token":"t","expirationTimestamp":"2026-01-01T01:00:00Z"}"#);
    let source = stage.source();
    for round in 1..=3 {
        let callers: Vec<_> = (0..10_000)
            .map(|_| {
                let source = source.clone();
                tokio::spawn(async move { source.credential().await.unwrap().serial() })
            })
            .collect();
        let mut serials = Vec::new();
        for caller in callers {
            serials.push(caller.await.unwrap());
        }
        serials.dedup();
        assert_eq!(serials.len(), 1, "round {round}");
        assert_eq!(stage.runs(), round);
        match round {
            // It ends.
            1 => stage.clock.advance(Duration::from_secs(3601)),
            // It is rejected.
            _ => source.rejected(&source.current().unwrap(), false, None),
        }
        stage.write_plugin(&answer("v1", r#"{"token":"t"}"#));
    }
}
