//! Secrets that a plugin tells on every channel it has, and a search for them in everything we show.
#![cfg(unix)]

mod support;

use std::{fmt::Write as _, sync::Arc};

use keyward_host::{Draft, Kubeconfig, NoopObserver};
use keyward_testing::authority::Authority;
use support::{Stage, answer};

const MARK: &str = "s3cr3tm4rk";

#[test]
fn no_secret_is_shown_whatever_the_plugin_does_with_it() {
    let log = keyward_testing::log::listen();
    let key = Authority::new("x").and_then(|a| a.client("u").issue()).expect("a key");
    let key = key.key_pem().replace('\n', "\\n");
    let token = format!("{MARK}.opaque-token");
    let good = answer("v1", &format!(r#"{{"token":"{token}"}}"#));
    let tell = format!(
        "echo \"I have $PASSWORD and $SESSION_TOKEN and {token}\" >&2\nprintf '%b' '{key}' >&2\necho \"args: $*\" >&2"
    );
    for (what, script) in [
        ("answers", good.clone()),
        ("answers and tells", format!("{tell}\n{good}")),
        ("fails", format!("{tell}\n{good}\nexit 1")),
        ("crashes", format!("{tell}\n{good}\nkill -9 $$")),
        (
            "answers another version",
            format!("{tell}\n{}", good.replace("k8s.io/v1", "k8s.io/v1beta1")),
        ),
        ("answers another kind", format!("{tell}\n{}", good.replace("ExecCredential", MARK))),
        ("answers half", format!("{tell}\necho '{{\"status\":{{\"token\":\"{token}'")),
        ("answers YAML that is none", format!("{tell}\necho '{token}: : : {{'")),
        (
            "answers a wrong type",
            format!("{tell}\n{}", answer("v1", &format!(r#"{{"token":["{token}"]}}"#))),
        ),
        (
            "answers a bad time",
            format!(
                "{tell}\n{}",
                answer("v1", &format!(r#"{{"token":"t","expirationTimestamp":"{token}"}}"#))
            ),
        ),
        (
            "answers half a pair",
            format!(
                "{tell}\n{}",
                answer("v1", &format!(r#"{{"token":"{token}","clientKeyData":"{key}"}}"#))
            ),
        ),
        (
            "answers a bad pair",
            format!(
                "{tell}\n{}",
                answer(
                    "v1",
                    &format!(r#"{{"clientCertificateData":"{token}","clientKeyData":"{key}"}}"#)
                )
            ),
        ),
        (
            "answers a token with a line break",
            format!("{tell}\n{}", answer("v1", &format!(r#"{{"token":"{token}\n"}}"#))),
        ),
    ] {
        let seen = everything(&script);
        assert!(seen.contains("needed by") || what.starts_with("answers"), "{what}: {seen}");
        assert!(!seen.contains(MARK), "{what}: {seen}");
        for line in key.split("\\n").filter(|line| !line.is_empty() && !line.starts_with("---")) {
            assert!(!seen.contains(line), "{what}: {seen}");
        }
    }
    let log = log.lock().expect("whole");
    let log = String::from_utf8_lossy(&log);
    assert!(log.contains("running a plugin"), "the log was listened to");
    assert!(!log.contains(MARK), "{log}");
}

/// All that people or logs could see of a run.
fn everything(script: &str) -> String {
    let mut stage = Stage::with_plugin(script);
    stage.vars.push(("SESSION_TOKEN".into(), format!("{MARK}-ours")));
    stage.exec = format!(
        "      args: [--client-secret, {MARK}-argument, --token={MARK}-other]\n      env:\n      - {{name: PASSWORD, value: {MARK}-configured}}\n"
    );
    let mut target = stage.target();
    target.user.value.password = keyward_protocol::Secret::new(format!("{MARK}-password"));
    let mut seen = String::new();
    let mut see =
        |shown: &dyn std::fmt::Debug| write!(seen, "{shown:?} {shown:#?} ").expect("a text");
    see(&target);
    see(&Kubeconfig::load(&stage.surroundings(), Some(&stage.path("config"))));
    see(&stage.surroundings());
    see(&stage.settings);
    let draft: Draft = stage.draft(target);
    see(&draft);
    see(&draft.plugin());
    let plan = draft.finish().unwrap_or_else(|error| panic!("{error:#}"));
    see(&plan);
    let source = stage.sources(Arc::new(NoopObserver)).open(&plan);
    see(&source);
    match source.credential_blocking() {
        Ok(credential) => {
            see(&credential);
            see(&credential.authorization());
            see(&credential.pair());
            see(&credential.token());
        }
        Err(error) => {
            see(&error);
            see(&error.stderr());
            write!(seen, "{error} {error:#}").expect("a text");
        }
    }
    seen
}

#[test]
fn a_token_that_was_handed_out_before_is_not_shown_when_a_later_run_repeats_it() {
    let token = format!("{MARK}.handed-out-and-still-valid");
    let coded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &token);
    let good = answer("v1", &format!(r#"{{"token":"{token}"}}"#));
    let tell = format!("echo 'the old one was {token}' >&2; echo 'or {coded}' >&2; exit 1");
    let stage = Stage::with_plugin(&format!(
        "if [ \"$(wc -l <\"$COUNT\")\" -gt 1 ]; then {tell}; fi\n{good}"
    ));
    let source = stage.source();
    let credential = source.credential_blocking().unwrap_or_else(|error| panic!("{error:#}"));
    source.rejected(&credential, false, None);
    let error = source.credential_blocking().map(drop).expect_err("the second run fails");
    let said = error.stderr().unwrap_or_default();
    assert_eq!(said.trim_end().replace('=', ""), "the old one was [hidden]\nor [hidden]");
}
