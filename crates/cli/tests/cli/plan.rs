//! `keyward plan`: every kind of user, good and bad, for people and for programs.

use std::{fs, os::unix::fs::PermissionsExt};

use keyward_testing::authority::Authority;

use crate::stage::{Ran, Run, Stage, config, exec};

/// A plugin that leaves a trace if it ever runs.
fn traced(stage: &Stage) {
    stage.plugin("p", "touch $STAGE/ran");
}

/// A user with everything a plugin can have.
const FULL: &str = "
      exec:
        apiVersion: client.authentication.k8s.io/v1
        command: p
        args: [login, --region=eu, -i, SECRET-id]
        env:
        - {name: PROFILE, value: SECRET-profile}
        installHint: get it from the shop
        provideClusterInfo: true
        interactiveMode: IfAvailable";

#[test]
fn a_wrapped_plugin_is_explained_as_what_runs_with_what_the_agent_makes_of_it() {
    let stage = Stage::new();
    stage.plugin("aws", "touch $STAGE/ran");
    let wrapped = FULL
        .replace("command: p", "command: /opt/keyward-exec")
        .replace("args: [login", "args: [--, aws, login");
    stage.kubeconfig(&config(&wrapped));
    let plan = |vars: [(&str, &str); 2]| {
        let mut command = stage.command(["plan"]);
        command.env_remove("KEYWARD_AGENT").envs(vars).ran().good().to_owned()
    };
    let text = plan([("A", ""), ("B", "")]);
    assert!(text.contains("plugin  `aws`\n"), "{text}");
    assert!(text.contains("arguments     login --region=eu -i [hidden]"), "{text}");
    let said = "agent         answers if it has the credential: the command is wrapped by \
                `/opt/keyward-exec`, not registered, no profile";
    assert!(text.contains(said), "{text}");
    let off = plan([("KEYWARD_AGENT", "off"), ("B", "")]);
    assert!(off.contains("agent         not asked"), "{off}");
    let json = stage.command(["plan", "-o", "json"]).ran();
    let json: serde_json::Value = serde_json::from_str(json.good()).unwrap();
    assert_eq!(json["plugin"]["command"], "aws");
    assert_eq!(json["plugin"]["agent"]["wrapper"], "/opt/keyward-exec");
    assert_eq!(json["plugin"]["agent"]["profile"], "unknown");
    assert!(!stage.path("ran").exists());
}

#[test]
fn a_plugin_is_explained_and_not_run() {
    let stage = Stage::new();
    traced(&stage);
    stage.kubeconfig(&config(FULL));
    stage.matches_snapshot("plan-exec.txt", stage.run("plan").good());
    let ran = stage.run("plan -o json");
    stage.matches_snapshot("plan-exec.json", ran.good());
    assert!(!ran.stdout.contains("SECRET"), "{ran:?}");
    assert!(!stage.path("ran").exists());
}

#[test]
fn arguments_are_shown_when_asked_for() {
    let stage = Stage::new();
    traced(&stage);
    stage.kubeconfig(&config(FULL));
    let ran = stage.run("plan --show-args -o json");
    assert_eq!(
        ran.json()["plugin"]["args"],
        serde_json::json!(["login", "--region=eu", "-i", "SECRET-id"])
    );
    assert!(!ran.stdout.contains("SECRET-profile"), "{ran:?}");
    assert!(stage.run("plan --show-args").good().contains("login --region=eu -i SECRET-id"));
}

#[test]
fn the_request_is_what_the_plugin_would_be_told() {
    let stage = Stage::new();
    stage.plugin("p", "printf %s \"$KUBERNETES_EXEC_INFO\" > $STAGE/request; exit 1");
    stage.kubeconfig(&config(FULL));
    let planned = stage.run("plan -o json").json();
    stage.run("credential").bad(1);
    let told: serde_json::Value = serde_json::from_str(&stage.read("request")).unwrap();
    assert_eq!(planned["plugin"]["request"], told);
    assert_eq!(told["spec"]["cluster"]["server"], "https://api.example.test:6443");
}

#[test]
fn flags_change_the_plan() {
    let stage = Stage::new();
    traced(&stage);
    stage.kubeconfig(&config(FULL));
    let plugin = |line: &str| stage.run(&format!("plan -o json {line}")).json()["plugin"].clone();
    assert_eq!(plugin("--plugin-timeout 1m30s")["timeLimit"], "1m30s");
    assert_eq!(plugin("--plugin-env clean")["environment"]["base"], "clean");
    assert_eq!(plugin("--plugin-env clean")["environment"]["inherited"], serde_json::json!([]));
    assert_eq!(
        plugin("--plugin-env PATH,B")["environment"]["inherited"],
        serde_json::json!(["PATH"])
    );
    assert_eq!(
        plugin("-s https://other.example.test")["request"]["spec"]["cluster"]["server"],
        "https://other.example.test"
    );
    assert!(plugin("--token given").is_null());
}

#[test]
fn users_without_a_plugin_are_explained() {
    let stage = Stage::new();
    let token = stage.write("token", "file-t0ken").display().to_string();
    let issued = Authority::new("ca").unwrap().client("ann").issue().unwrap();
    let certificate = stage.write("cert.pem", issued.certificate_pem()).display().to_string();
    let key = stage.write("key.pem", issued.key_pem()).display().to_string();
    for (name, user) in [
        ("token", "      token: SECRET-token".to_owned()),
        ("token-file", format!("      tokenFile: {token}")),
        ("basic", "      username: ann\n      password: SECRET-password".to_owned()),
        ("certificate", format!("      client-certificate: {certificate}\n      client-key: {key}")),
        ("anonymous", "      {}".to_owned()),
        ("token-over-exec", format!("      token: SECRET-token\n{}", FULL.trim_start_matches('\n'))),
        (
            "oidc",
            "      auth-provider:
        name: oidc
        config: {idp-issuer-url: 'https://id.example.test', client-id: me, id-token: SECRET-id, refresh-token: SECRET-refresh}"
                .to_owned(),
        ),
    ] {
        stage.kubeconfig(&config(&user));
        let ran = stage.run("plan -o json");
        stage.matches_snapshot(&format!("plan-{name}.json"), ran.good());
        assert!(!ran.stdout.contains("SECRET"), "{name}: {ran:?}");
        assert!(stage.run("plan").good().contains("credential "), "{name}");
    }
}

/// What was explained before the error, and the error on stderr.
fn partly(ran: &Ran, code: i32) -> (serde_json::Value, &str) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(ran.stderr.contains("error: "), "{ran:?}");
    let explained: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(explained["error"]["exitCode"], code);
    (explained, &ran.stderr)
}

#[test]
fn what_would_fail_is_explained_as_far_as_it_goes() {
    let stage = Stage::new();
    let good = exec("p");
    let user = |ran: &Ran, code| partly(ran, code).0["user"]["name"].clone();

    // No such plugin.
    stage.kubeconfig(&good);
    let ran = stage.run("plan -o json");
    let (explained, _) = partly(&ran, 1);
    assert_eq!(explained["plugin"]["lookedIn"][0], stage.path("bin").display().to_string());
    stage.matches_snapshot("plan-not-found.json", &ran.stdout);
    stage.matches_snapshot("plan-not-found.txt", &stage.run("plan").stdout);

    // Others could change it.
    let plugin = stage.plugin("p", "touch $STAGE/ran");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = stage.run("plan -o json");
    let (explained, _) = partly(&ran, 4);
    assert_eq!(explained["plugin"]["policy"]["allowed"], false);
    assert_eq!(explained["plugin"]["refused"], plugin.display().to_string());
    assert!(explained["plugin"]["program"].is_null(), "{explained}");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();

    // Nobody to ask.
    stage.kubeconfig(&good.replace("Never", "Always"));
    let ran = stage.run("plan -o json");
    assert_eq!(user(&ran, 3), "u");
    let (explained, _) = partly(&ran, 3);
    assert_eq!(explained["plugin"]["command"], "p");
    assert_eq!(explained["plugin"]["interactive"]["stdin"], false);
    assert!(explained["plugin"]["environment"].is_null(), "{explained}");
    let told = stage.run("plan").stdout;
    let row =
        "interactive  no: the mode is `Always`, but stdin is not a terminal, so it would not run";
    assert!(told.contains(row) && !told.contains("0 variables"), "{told}");

    // Fields that are wrong: the user is told, the plan is not.
    stage.kubeconfig(&good.replace("interactiveMode: Never", "provideClusterInfo: true"));
    assert_eq!(user(&stage.run("plan -o json"), 1), "u");
    stage.kubeconfig(&good.replace("k8s.io/v1", "k8s.io/v9"));
    assert_eq!(user(&stage.run("plan -o json"), 1), "u");

    // Nothing to go on.
    for (text, found) in [("current-context: none\n", true), ("a: [", true)] {
        stage.kubeconfig(text);
        let ran = stage.run("plan -o json");
        let (explained, said) = partly(&ran, 1);
        assert!(
            explained["user"].is_null() && explained["plugin"].is_null(),
            "{found}: {explained}"
        );
        assert!(!said.is_empty());
    }
    assert!(!stage.path("ran").exists());
}

#[test]
fn a_policy_is_explained() {
    let stage = Stage::new();
    traced(&stage);
    stage.kubeconfig(&exec("p"));
    let head = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";
    let policy = |text: &str, code| {
        stage.write("home/.kube/kuberc", &format!("{head}{text}"));
        let ran = stage.run("plan -o json");
        assert_eq!(ran.code, Some(code), "{ran:?}");
        serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["plugin"]["policy"].clone()
    };
    let denied = policy("credentialPluginPolicy: DenyAll\n", 4);
    assert_eq!((&denied["name"], &denied["allowed"]), (&"DenyAll".into(), &false.into()));
    assert_eq!(denied["file"], stage.path("home/.kube/kuberc").display().to_string());
    let list = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: ";
    let listed = policy(&format!("{list}p\n"), 0);
    assert_eq!((&listed["name"], &listed["allowed"]), (&"Allowlist".into(), &true.into()));
    assert_eq!(policy(&format!("{list}q\n"), 4)["allowed"], false);
    // A word that is not understood stops every plugin.
    assert_eq!(policy("credentialPluginPolicy: denyall\n", 1)["allowed"], false);
    assert!(!stage.path("ran").exists());
}

#[test]
fn a_program_that_was_found_and_is_refused_is_not_called_missing() {
    let stage = Stage::new();
    traced(&stage);
    let program = stage.path("bin/p").display().to_string();
    let head = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";
    let list = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: q\n";
    let signer = config("      auth-provider: {name: externalSigner, config: {pathExec: p}}");
    for (what, text) in [("plugin", exec("p")), ("signer", signer)] {
        stage.kubeconfig(&text);
        for policy in ["credentialPluginPolicy: DenyAll\n", list] {
            stage.write("home/.kube/kuberc", &format!("{head}{policy}"));
            let ran = stage.run("plan -o json");
            let (explained, _) = partly(&ran, 4);
            assert_eq!(explained[what]["refused"], program, "{explained}");
            assert!(explained[what]["program"].is_null(), "{explained}");
            let told = stage.run("plan").stdout;
            assert!(told.contains(&format!("{program}, which would not run\n")), "{told}");
            assert!(!told.contains("not found"), "{told}");
        }
    }
}

#[test]
fn why_a_client_is_anonymous_is_told_as_it_is() {
    let stage = Stage::new();
    let because = |text: &str| {
        stage.kubeconfig(text);
        stage.run("plan -o json").json()["credential"]["because"].as_str().unwrap().to_owned()
    };
    let token = config("      token: t0ken");
    let open = because(&token.replace("https://", "http://"));
    assert_eq!(open, "the server does not use HTTPS, so the user's credential is not sent");
    let lost = because(&token.replace("user: u}", "user: nobody}"));
    assert_eq!(lost, "the context names a user that does not exist");
    let bare = because(&config("      {}").replace("https://", "http://"));
    assert_eq!(bare, "the user has no credential");
}

#[test]
fn a_user_that_a_flag_names_in_vain_is_not_told_as_another() {
    let stage = Stage::new();
    stage.kubeconfig(&config("      token: t0ken"));
    let ran = stage.run("plan --user nope -o json");
    let (explained, said) = partly(&ran, 1);
    assert!(explained["user"].is_null(), "{explained}");
    assert_eq!(explained["cluster"]["name"], "c");
    assert!(said.contains("there is no user `nope`"), "{said}");
    let ran = stage.run("get --raw / --proxy-url ftp://x --as-group g");
    assert!(ran.bad(1).starts_with("error: there are 2 problems\n"), "{ran:?}");
    assert!(!ran.stderr.contains("line"), "{ran:?}");
}

#[test]
fn several_files_are_told_in_order() {
    let stage = Stage::new();
    traced(&stage);
    let one = stage.write("one", &exec("p"));
    let missing = stage.path("missing");
    let ran = stage
        .command(["plan", "-o", "json"])
        .env("KUBECONFIG", format!("{}:{}", missing.display(), one.display()))
        .ran();
    let files = ran.json()["files"].clone();
    assert_eq!(files[0], serde_json::json!({"path": missing, "found": false}));
    assert_eq!(files[1], serde_json::json!({"path": one, "found": true}));
}

#[test]
fn a_password_in_an_address_is_hidden() {
    let stage = Stage::new();
    traced(&stage);
    stage.kubeconfig(
        &config(FULL)
            .replace("6443'", "6443', proxy-url: 'http://ann:SECRET%2Fproxy@proxy.example.test'"),
    );
    for line in ["plan", "plan -o json"] {
        let ran = stage.run(line);
        assert!(ran.good().contains("proxy.example.test"), "{ran:?}");
        assert!(!ran.stdout.contains("SECRET"), "{ran:?}");
    }
}

#[test]
fn a_secret_in_the_clusters_extension_is_hidden() {
    let stage = Stage::new();
    stage.plugin("p", "echo it was EXTSECRET >&2; exit 1");
    let extension = "6443', extensions: [{name: client.authentication.k8s.io/exec, extension: \
        {region: eu, token: EXTSECRET, deep: [{apiKey: 12345, password: abc, private: true}]}}]";
    stage.kubeconfig(&config(FULL).replace("6443'", extension));
    let told = stage.run("plan -o json").json()["plugin"]["request"]["spec"]["cluster"].clone();
    let hidden = serde_json::json!({
        "region": "eu",
        "token": "[hidden]",
        "deep": [{"apiKey": "[hidden]", "password": "[hidden]", "private": true}],
    });
    assert_eq!(told["config"], hidden);
    for line in ["plan", "plan --show-args", "credential", "credential -vvv"] {
        let ran = stage.run(line);
        assert!(!format!("{ran:?}").contains("EXTSECRET"), "{line}: {ran:?}");
    }
}

#[test]
fn a_context_without_its_user_is_a_warning_and_strictly_an_error() {
    let stage = Stage::new();
    stage.kubeconfig(&config("      token: t0ken").replace("user: u}", "user: nobody}"));
    let explained = stage.run("plan -o json").json();
    assert_eq!(explained["credential"]["methods"], serde_json::json!([]));
    assert_eq!(explained["warnings"].as_array().unwrap().len(), 1, "{explained}");
    partly(&stage.run("plan -o json --strict"), 1);
}

#[test]
fn what_a_kubeconfig_says_cannot_play_with_the_terminal() {
    let stage = Stage::new();
    traced(&stage);
    let evil = exec("p")
        .replace("name: u\n", "name: \"u\\e[2J\"\n")
        .replace("user: u}", "user: \"u\\e[2J\"}");
    stage.kubeconfig(&evil);
    for line in ["plan", "plan --user \u{1b}[2J", "credential", "credential -vvv"] {
        let ran = stage.run(line);
        assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "{line}: {ran:?}");
    }
    assert!(stage.run("plan").good().contains("U+001B[2J"));
}
