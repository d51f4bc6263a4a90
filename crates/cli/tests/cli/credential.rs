//! `keyward credential`: every kind of user, every exit code, and itself as a plugin.

use std::{fs, os::unix::fs::PermissionsExt};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use keyward_testing::authority::Authority;

use crate::stage::{Run, Stage, config, exec, gives, gives_in};

#[test]
fn the_plugin_runs_and_its_token_is_printed() {
    let stage = Stage::new();
    stage.plugin("p", &gives("t0ken"));
    stage.kubeconfig(&exec("p"));
    stage.matches_snapshot("credential-token.json", stage.run("credential").good());
}

#[test]
fn the_expiry_is_printed_as_it_came() {
    let stage = Stage::new();
    stage.plugin(
        "p",
        r#"echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"2099-01-02T03:04:05Z"}}'"#,
    );
    stage.kubeconfig(&exec("p"));
    assert_eq!(
        stage.run("credential").json()["status"]["expirationTimestamp"],
        "2099-01-02T03:04:05Z"
    );
}

#[test]
fn the_answer_is_in_the_version_that_is_asked_for() {
    let stage = Stage::new();
    stage.plugin("p", &gives("t0ken"));
    stage.kubeconfig(&exec("p"));
    for version in ["v1alpha1", "v1beta1", "v1"] {
        let full = format!("client.authentication.k8s.io/{version}");
        let request = format!(
            r#"{{"kind":"ExecCredential","apiVersion":"{full}","spec":{{"interactive":false}}}}"#
        );
        let asked = stage.command(["credential"]).env("KUBERNETES_EXEC_INFO", request).ran().json();
        assert_eq!(asked["apiVersion"], full.as_str());
        for spelled in [version, full.as_str()] {
            let told = stage.run(&format!("credential --api-version {spelled}")).json();
            assert_eq!(told["apiVersion"], full.as_str());
            assert_eq!(told["status"]["token"], "t0ken");
        }
    }
}

#[test]
fn a_request_that_makes_no_sense_is_wrong_use() {
    let stage = Stage::new();
    stage.plugin("p", &format!("echo run >> $STAGE/runs; {}", gives("t0ken")));
    stage.kubeconfig(&exec("p"));
    for request in ["{", "{}", r#"{"apiVersion":"client.authentication.k8s.io/v7"}"#] {
        let ran = stage.command(["credential"]).env("KUBERNETES_EXEC_INFO", request).ran();
        assert!(ran.bad(2).contains("`KUBERNETES_EXEC_INFO`"), "{ran:?}");
    }
    assert_eq!(stage.read("runs"), "");
    let ran = stage
        .command(["credential", "--api-version", "v1"])
        .env("KUBERNETES_EXEC_INFO", r#"{"apiVersion":"client.authentication.k8s.io/v7"}"#)
        .ran();
    assert_eq!(ran.json()["apiVersion"], "client.authentication.k8s.io/v1");
}

#[test]
fn fixed_users_are_printed_in_the_same_form() {
    let stage = Stage::new();
    stage.kubeconfig(&config("      token: fixed-t0ken"));
    stage.matches_snapshot("credential-fixed.json", stage.run("credential").good());

    stage.write("token", "file-t0ken\n");
    stage.kubeconfig(&config(&format!("      tokenFile: {}", stage.path("token").display())));
    assert_eq!(stage.run("credential").json()["status"]["token"], "file-t0ken");

    let issued = Authority::new("ca").unwrap().client("ann").issue().unwrap();
    let certificate = stage.write("cert.pem", issued.certificate_pem());
    let key = stage.write("key.pem", issued.key_pem());
    stage.kubeconfig(&config(&format!(
        "      client-certificate: {}\n      client-key: {}",
        certificate.display(),
        key.display()
    )));
    let status = &stage.run("credential").json()["status"];
    assert_eq!(status["clientCertificateData"], issued.certificate_pem());
    assert_eq!(status["clientKeyData"], issued.key_pem());
    assert!(status.get("token").is_none());
}

#[test]
fn an_openid_connect_token_is_printed_while_it_is_valid() {
    let stage = Stage::new();
    let config = |payload: &str| {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let token = format!("{}.{}.{}", part("{}"), part(payload), part("signature"));
        let user = format!(
            "
      auth-provider:
        name: oidc
        config: {{idp-issuer-url: 'https://id.example.test', client-id: me, id-token: {token}}}"
        );
        stage.kubeconfig(&config(&user));
        token
    };
    let token = config(r#"{"exp":4102444800}"#);
    assert_eq!(stage.run("credential").json()["status"]["token"], token);

    let token = config(r#"{"exp":1000000000}"#);
    let ran = stage.run("credential -vvv");
    assert!(ran.bad(1).contains("id-token"), "{ran:?}");
    assert!(!ran.stderr.contains(&token), "{ran:?}");
}

#[test]
fn a_user_name_with_a_password_cannot_be_told() {
    let stage = Stage::new();
    stage.kubeconfig(&config("      username: ann\n      password: pa55word-of-ann"));
    let ran = stage.run("credential");
    assert!(ran.bad(1).contains("cannot be printed as an `ExecCredential`"), "{ran:?}");
    assert!(!ran.stderr.contains("pa55word"), "{ran:?}");
}

#[test]
fn there_is_nothing_to_print_for_an_anonymous_client() {
    let stage = Stage::new();
    stage.kubeconfig(&config("      {}"));
    let ran = stage.run("credential");
    assert!(ran.bad(1).contains("anonymous"), "{ran:?}");
}

#[test]
fn a_missing_plugin_is_told_with_place_and_hint() {
    let stage = Stage::new();
    stage.kubeconfig(&config(
        "
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: no-such-plugin
        interactiveMode: Never
        installHint: get it from the shop",
    ));
    stage.matches_snapshot("credential-not-found.txt", stage.run("credential").bad(1));
}

#[test]
fn a_failing_plugin_is_told_with_what_it_said() {
    let stage = Stage::new();
    stage.plugin("p", "echo 'the session is over' >&2; exit 7");
    stage.kubeconfig(&exec("p"));
    let ran = stage.run("credential");
    let said = ran.bad(1);
    assert!(said.contains("error: ") && said.contains("`p`") && said.contains('7'), "{said}");
    assert_eq!(said.matches("the session is over").count(), 1, "{said}");
}

#[test]
fn a_plugin_that_must_ask_does_not_run_without_a_terminal() {
    let stage = Stage::new();
    stage.plugin("p", &format!("touch $STAGE/ran; {}", gives("t")));
    stage.kubeconfig(&exec("p").replace("Never", "Always"));
    stage.run("credential").bad(3);
    assert!(!stage.path("ran").exists());
}

#[test]
fn a_policy_keeps_plugins_from_running() {
    let stage = Stage::new();
    stage.plugin("p", &format!("touch $STAGE/ran; {}", gives("t")));
    stage.kubeconfig(&exec("p"));
    let kuberc = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    stage.write("home/.kube/kuberc", kuberc);
    let ran = stage.run("credential");
    assert!(ran.bad(4).contains("kuberc"), "{ran:?}");
    assert!(!stage.path("ran").exists());

    // A token needs no plugin, so the policy has nothing to say.
    stage.run("credential --token given").good();
}

#[test]
fn a_plugin_that_others_could_change_runs_only_when_trusted() {
    let stage = Stage::new();
    let plugin = stage.plugin("p", &gives("t0ken"));
    stage.kubeconfig(&exec("p"));
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = stage.run("credential");
    assert!(ran.bad(4).contains("others could change it"), "{ran:?}");
    for trusted in [plugin.display().to_string(), "p".to_owned()] {
        let ran = stage.run(&format!("credential --trust-plugin {trusted}"));
        assert_eq!(ran.json()["status"]["token"], "t0ken");
    }
}

#[test]
fn a_plugin_gets_no_more_than_its_time() {
    let stage = Stage::new();
    stage.plugin("p", "exec sleep 300");
    stage.kubeconfig(&exec("p"));
    let ran = stage.run("credential --plugin-timeout 200ms");
    assert!(ran.bad(1).contains("200ms"), "{ran:?}");
}

#[test]
fn the_plugin_sees_as_much_of_the_environment_as_it_may() {
    let stage = Stage::new();
    stage.plugin("p", &format!("/usr/bin/env > $STAGE/env; {}", gives("t")));
    stage.kubeconfig(&config(
        "
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: p
        interactiveMode: Never
        env: [{name: SET, value: by-config}]",
    ));
    let seen = |flag: &str| {
        stage
            .command(format!("credential {flag}").split_whitespace())
            .env("ONE", "1")
            .env("TWO", "2")
            .ran()
            .good();
        let env = stage.read("env");
        assert!(env.contains("SET=by-config") && env.contains("KUBERNETES_EXEC_INFO="), "{env}");
        ["ONE=1", "TWO=2"].map(|line| env.lines().any(|l| l == line))
    };
    assert_eq!(seen(""), [true, true]);
    assert_eq!(seen("--plugin-env inherit"), [true, true]);
    assert_eq!(seen("--plugin-env clean"), [false, false]);
    assert_eq!(seen("--plugin-env TWO"), [false, true]);
}

#[test]
fn keyward_can_be_the_plugin_of_keyward() {
    let stage = Stage::new();
    // By its path: a clean environment has no `PATH` to find it with.
    let plugin = stage.plugin("p", &gives_in("v1beta1", "t0ken"));
    let inner = exec(&plugin.display().to_string()).replace("k8s.io/v1", "k8s.io/v1beta1");
    stage.write("inner", &inner);
    stage.kubeconfig(&chained(&["credential", "--kubeconfig", "inner"], "Never"));
    for flag in ["", "--plugin-env clean"] {
        let mut command = stage.command(format!("credential {flag}").split_whitespace());
        assert_eq!(command.ran().json()["status"]["token"], "t0ken", "{flag}");
    }
}

#[test]
fn a_kubeconfig_that_leads_back_to_itself_is_stopped_at_depth_one() {
    let stage = Stage::new();
    let config = stage.path("home/.kube/config").display().to_string();
    stage.plugin(
        "again",
        &format!("echo run >> $STAGE/runs; exec {} \"$@\"", env!("CARGO_BIN_EXE_keyward")),
    );
    let text = chained(&["credential", "--kubeconfig", &config], "Never")
        .replace(env!("CARGO_BIN_EXE_keyward"), "again");
    stage.kubeconfig(&text);
    for flag in ["", "--plugin-env clean"] {
        stage.write("runs", "");
        let ran = stage.run(&format!("credential {flag}"));
        assert!(ran.bad(1).contains("leads back to itself"), "{ran:?}");
        assert_eq!(stage.read("runs"), "run\n", "{flag}");
    }

    // Seen from inside, it is wrong use.
    let chain = format!(r#"["user `u` in `{config}`, plugin `again`"]"#);
    let ran = stage.command(["credential"]).env("KEYWARD_CHAIN", chain).ran();
    stage.matches_snapshot("credential-chain.txt", ran.bad(2));
}

#[test]
fn as_a_plugin_it_asks_a_person_only_if_told_that_one_is_there() {
    let stage = Stage::new();
    stage.plugin("p", &format!("touch $STAGE/ran; {}", gives("t")));
    stage.write("inner", &exec("p").replace("Never", "Always"));
    stage.kubeconfig(&chained(&["credential", "--kubeconfig", "inner"], "Never"));
    let ran = stage.run("credential");
    assert!(ran.bad(1).contains("terminal"), "{ran:?}");
    assert!(!stage.path("ran").exists());
}

#[test]
fn nothing_secret_is_said_even_at_the_most_talkative() {
    let stage = Stage::new();
    let request = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;
    stage.plugin("good", &gives("SECRET-answer"));
    stage.plugin("bad", &format!("echo got $KEY >&2; {}; exit 3", gives("SECRET-answer")));
    stage.plugin("odd", "echo SECRET-answer is not JSON");
    for plugin in ["good", "bad", "odd"] {
        stage.kubeconfig(&config(&format!(
            "
      password: SECRET-password
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: {plugin}
        args: [--key, SECRET-argument]
        interactiveMode: Never
        env: [{{name: KEY, value: SECRET-variable}}]"
        )));
        for line in ["credential -vvv", "plan -vvv", "plan -o json -vvv"] {
            let ran = stage.command(line.split(' ')).env("KUBERNETES_EXEC_INFO", request).ran();
            // What a plugin writes to a shown stderr is its own.
            let own = ran.stderr.replace("got SECRET-variable\n", "");
            assert!(!own.contains("SECRET"), "{plugin}, {line}: {own}");
            assert!(
                line.starts_with("credential") || !ran.stdout.contains("SECRET"),
                "{plugin}, {line}: {ran:?}"
            );
        }
    }
}

/// A kubeconfig whose plugin is the program itself.
fn chained(args: &[&str], mode: &str) -> String {
    config(&format!(
        "
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: {}
        args: {args:?}
        interactiveMode: {mode}",
        env!("CARGO_BIN_EXE_keyward"),
    ))
}

#[test]
fn what_a_plugin_writes_to_stderr_is_passed_on_and_not_repeated() {
    let stage = Stage::new();
    stage.plugin("p", "echo 'log in first' >&2; printf 'no line break' >&2; exit 1");
    stage.kubeconfig(&exec("p"));
    let ran = stage.run("credential");
    assert_eq!(ran.code, Some(1));
    let begin = "log in first\nno line break\nerror: plugin `p` failed with exit code 1\n";
    assert!(ran.stderr.starts_with(begin), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("log in first").count(), 1, "{}", ran.stderr);

    stage.plugin("p", &format!("printf 'a warning \\033[2J\\n' >&2; {}", gives("t")));
    let ran = stage.run("credential");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "a warning U+001B[2J\n"));
}

#[test]
fn secrets_are_hidden_in_what_is_passed_on() {
    let stage = Stage::new();
    stage.plugin("p", &format!("echo \"key $KEY\" >&2; {}", gives("t")));
    let env = "\n        env: [{name: KEY, value: hunter2-hunter2}]";
    stage.kubeconfig(
        &exec("p").replace("interactiveMode", &format!("{}\n        interactiveMode", env.trim())),
    );
    let ran = stage.run("credential");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "key [hidden]\n"));

    // What the plugin was told by its arguments, too.
    stage.plugin("p", &format!("echo \"using $2\" >&2; {}", gives("t")));
    let args = "args: [--password, swordfish-1]\n        interactiveMode";
    stage.kubeconfig(&exec("p").replace("interactiveMode", args));
    let ran = stage.run("credential");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "using [hidden]\n"));
}

#[test]
fn a_log_in_json_has_nothing_but_objects_whatever_a_plugin_writes() {
    let stage = Stage::new();
    stage.plugin("p", &format!("echo 'a \"warning\"' >&2; {}", gives("t")));
    stage.kubeconfig(&exec("p"));
    let ran = stage.run("credential --log-format json");
    let line: serde_json::Value = serde_json::from_str(ran.stderr.trim()).expect(&ran.stderr);
    assert_eq!(line["message"], "a \"warning\"");
    assert_eq!(line["plugin"], "p");
}

#[test]
fn a_plugin_of_the_original_proposal_is_asked_in_its_own_form_where_that_is_wanted() {
    let stage = Stage::new();
    let script =
        format!("printf %s \"$KUBERNETES_EXEC_INFO\" > $STAGE/told; {}", gives_in("v1alpha1", "t"));
    stage.plugin("p", &script);
    stage.kubeconfig(&exec("p").replace("k8s.io/v1\n", "k8s.io/v1alpha1\n"));
    stage.run("credential").good();
    assert!(stage.read("told").contains("\"kind\":\"ExecCredential\""), "{}", stage.read("told"));
    stage.run("credential --proposal-form").good();
    assert!(stage.read("told").contains("\"kind\":\"ExecInfo\""), "{}", stage.read("told"));
}
