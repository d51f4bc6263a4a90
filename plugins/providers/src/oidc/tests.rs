//! An hour of requests, under a clock in the test's hand.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    sync::Arc,
    time::Duration,
};

use keyward_plugin::{Question, Refusal};
use keyward_process::{
    clock::ManualClock,
    surroundings::{Fixed, Surroundings},
};

use super::{flags::FLAGS, obtain};
use crate::{
    Call,
    flags::{Flags, KLOG},
};

/// A provider whose login page nobody uses.
fn provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let own = issuer.clone();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let keys = lines.next().is_some_and(|line| line.contains("/jwks"));
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let text = if keys {
                r#"{"keys":[]}"#.to_owned()
            } else {
                format!(
                    r#"{{"issuer":"{own}","authorization_endpoint":"{own}/auth","token_endpoint":"{own}/token",
                    "jwks_uri":"{own}/jwks","response_types_supported":["code"],"subject_types_supported":["public"],
                    "id_token_signing_alg_values_supported":["ES256"]}}"#
                )
            };
            let length = text.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let _ = write!(&stream, "{head}\r\nContent-Length: {length}\r\n\r\n{text}");
        }
    });
    issuer
}

#[test]
fn pitfall_21_an_hour_of_requests_in_the_background_opens_one_page() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    fs::DirBuilder::new().mode(0o700).create(&run).unwrap();
    let browser = home.path().join("browser");
    fs::write(&browser, "#!/bin/sh\necho page >>\"$(dirname \"$0\")/pages\"\n").unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let clock = Arc::new(ManualClock::new("2026-01-01T08:00:00Z".parse().unwrap()));
    let surroundings = Surroundings::fixed(Fixed {
        vars: vec![
            ("HOME".into(), home.path().into()),
            ("XDG_RUNTIME_DIR".into(), run.into()),
            ("KEYWARD_AGENT".into(), "off".into()),
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("KUBERNETES_EXEC_INFO".into(), "set".into()),
        ],
        cwd: home.path().into(),
        ..Fixed::default()
    });
    let args = [
        format!("--oidc-issuer-url={}", provider()),
        "--oidc-client-id=k9s".to_owned(),
        "--listen-address=127.0.0.1:0".to_owned(),
        format!("--browser-command={}", browser.display()),
        "--authentication-timeout-sec=1".to_owned(),
    ];
    let args = args.map(Into::into).to_vec();
    let call = Call::with("keyward-oidc".into(), args, surroundings, clock.clone());
    let flags = Flags::read(&[FLAGS, KLOG], &call.args).unwrap();
    let request = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;
    let question = Question::from_bytes(request.as_bytes()).unwrap();
    let first = obtain(&call, &flags, &question).unwrap_err();
    assert!(matches!(first, Refusal::Failed(_)), "{first}");
    for _ in 0..360 {
        clock.advance(Duration::from_secs(10));
        let next = obtain(&call, &flags, &question).unwrap_err();
        assert!(matches!(next, Refusal::NeedsTerminal(_)), "{next}");
        assert!(next.to_string().contains("2026-01-01T08:00:00Z"), "{next}");
    }
    // The script may be slower than the login.
    let pages = home.path().join("pages");
    while !pages.exists() {
        std::thread::yield_now();
    }
    assert_eq!(fs::read_to_string(pages).unwrap(), "page\n");
}
