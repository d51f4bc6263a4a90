//! The known pitfalls of logins at Entra ID, each under its number in our list of facts about existing tools.

use std::{process::Command, time::Instant};

use super::stage::{CLIENT, TENANT, ours, ours_in, program, stage, stage_with_agent, stand_in};
use crate::oidc::stage::Outcome;

fn client() -> String {
    format!("--client-id={CLIENT}")
}

#[test]
fn pitfall_29_logins_of_tenants_clients_users_and_clouds_do_not_share_tokens() {
    let stage = stage_with_agent();
    let mut seen = std::collections::HashSet::new();
    let user = |name: &'static str| ["--client-id=one", "--password=p", name];
    for (tenant, flags) in [
        (TENANT, user("--username=ann")),
        (TENANT, user("--username=bob")),
        ("other.example", user("--username=ann")),
        (TENANT, ["--client-id=two", "--password=p", "--username=ann"]),
    ] {
        let token = ours_in(&stage, tenant, "ropc", &flags).token();
        assert_eq!(ours_in(&stage, tenant, "ropc", &flags).token(), token, "it is kept");
        assert!(seen.insert(token), "{tenant} {flags:?} got the token of another login");
    }
    // The authority of another cloud is another identity: what is kept for one is not given to the other.
    let flags = ["--client-id=one", "--client-secret=s"];
    let here = ours(&stage, "spn", &flags).token();
    let china = stage.run(
        &[
            &["get-token", "--server-id=a", "--environment=AzureChinaCloud", "--login=spn"][..],
            &[&format!("--tenant-id={TENANT}"), "--explain"],
            &flags,
        ]
        .concat(),
    );
    assert!(!china.stdout.contains("used     agent"), "{}", china.stdout);
    assert_eq!(ours(&stage, "spn", &flags).token(), here);
}

#[test]
fn pitfall_30_nothing_is_written_to_a_file_and_the_second_command_needs_no_login() {
    let stage = stage_with_agent().interactive();
    let flags = [&client(), "--skip-open-browser"];
    let first = ours_in(&stage, "files", "devicecode", &flags);
    let (token, refresh) = (first.token(), first.token().replace("entra-", "refresh-"));
    let again = ours_in(&stage, "files", "devicecode", &flags);
    assert_eq!(again.token(), token);
    assert!(!again.stderr.contains("open this page"), "{}", again.stderr);
    let found = Command::new("grep")
        .args([
            "--recursive",
            "--files-with-matches",
            "--devices=skip",
            "-e",
            &token,
            "-e",
            &refresh,
        ])
        .arg(stage.path(""))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "a token is in a file");
}

#[test]
fn pitfall_31_the_person_has_more_time_than_az_and_the_network() {
    let help = stage().run(&["--help"]);
    assert!(help.stdout.contains("time to log in (default 600)"), "{}", help.stdout);
    assert!(
        help.stdout.contains("time for `az` or `azd`, such as 30s (default 60s"),
        "{}",
        help.stdout
    );
    // kubelogin's `--timeout` ends the whole login; here it is over when the person's time is.
    let stage = stage();
    let begun = Instant::now();
    let outcome = ours(
        &stage,
        "interactive",
        &[&client(), "--browser-command=true", "--timeout=1ms", "--authentication-timeout-sec=2"],
    );
    assert!(outcome.refusal(1).contains("within 2 s"), "{outcome:?}");
    assert!(outcome.stderr.contains("--login devicecode"), "{outcome:?}");
    assert!(begun.elapsed().as_secs() >= 2);
}

#[test]
fn pitfall_32_what_az_hands_out_is_not_kept_past_its_logout() {
    let stage = stage_with_agent();
    let path = program(&stage, "az", r#"echo '{"accessToken":"of-az","expires_on":4102444800}'"#);
    program(&stage, "azd", r#"echo '{"token":"of-azd","expiresOn":"2100-01-01T00:00:00Z"}'"#);
    let stage = stage.variable("PATH", path);
    assert_eq!(ours(&stage, "azurecli", &[]).token(), "of-az");
    assert_eq!(ours(&stage, "azd", &[]).token(), "of-azd");
    for name in ["az", "azd"] {
        program(&stage, name, "echo 'not logged in' >&2; exit 1");
    }
    for login in ["azurecli", "azd"] {
        assert!(ours(&stage, login, &[]).refusal(1).contains("not logged in"), "{login}");
    }
}

#[test]
fn pitfall_37_a_refused_credential_does_not_come_from_the_store() {
    let stage = stage_with_agent();
    let flags = [client(), "--client-secret=of pitfall 37".to_owned()];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let count = || stand_in().count("token client_credentials of 37");
    ours_in(&stage, "count-37", "spn", &flags).token();
    ours_in(&stage, "count-37", "spn", &flags).token();
    assert_eq!(count(), 1);
    let info = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","spec":{"response":{"code":401},"interactive":false}}"#;
    let refused = stage.variable("KUBERNETES_EXEC_INFO", info);
    ours_in(&refused, "count-37", "spn", &flags).token();
    assert_eq!(count(), 2);
}

/// Secrets that go in by flags, variables, files and answers come out as the credential alone.
#[test]
fn no_secret_is_in_a_message_or_in_what_explain_prints() {
    const MARK: &str = "m4rk3d-s3cr3t";
    let https = &stand_in().https;
    let file = stage();
    let pod = file.write("pod", &format!("e30.e30.{MARK}"));
    let az = stage();
    let path =
        program(&az, "az", &format!("echo {MARK}; echo '{{\"accessToken\":\"{MARK}\"' ; exit 3"));
    let secret = format!("--client-secret={MARK}");
    let cases = [
        (stage(), "spn", vec![client(), secret.clone()]),
        (stage(), "ropc", vec![client(), "--username=a".into(), format!("--password={MARK}")]),
        (stage(), "workloadidentity", vec![client(), format!("--federated-token-file={pod}")]),
        (
            stage()
                .variable("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{https}/github/token"))
                .variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN", MARK),
            "workloadidentity",
            vec![client()],
        ),
        (
            stage()
                .variable("SYSTEM_OIDCREQUESTURI", format!("{https}/pipelines/oidc"))
                .variable("SYSTEM_ACCESSTOKEN", MARK),
            "azurepipelines",
            vec![client(), "--azure-pipelines-service-connection-id=c".into()],
        ),
        (
            stage()
                .variable("IDENTITY_ENDPOINT", format!("{}/app", stand_in().http))
                .variable("IDENTITY_HEADER", MARK),
            "msi",
            vec![],
        ),
        (az.variable("PATH", path), "azurecli", vec![]),
    ];
    for (stage, login, flags) in cases {
        for tenant in [TENANT, "refused"] {
            for explain in ["--explain", "--skip-open-browser"] {
                let mut flags: Vec<_> = flags.iter().map(String::as_str).collect();
                flags.push(explain);
                let outcome = ours_in(&stage, tenant, login, &flags);
                assert!(!outcome.stderr.contains(MARK), "{login}: {}", outcome.stderr);
                assert!(!outcome.stdout.contains(MARK), "{login}: {}", outcome.stdout);
            }
        }
    }
}

#[test]
fn pitfall_18_a_secret_of_the_environment_leaves_only_for_an_authority_that_is_known() {
    let run = |host: &str, named: Option<&str>| {
        // Nobody is asked: the proxy does not exist.
        let mut stage = stage()
            .variable("AZURE_CLIENT_SECRET", "s3cr3t")
            .variable("HTTPS_PROXY", "http://127.0.0.1:1");
        if let Some(named) = named {
            stage = stage.variable("AZURE_AUTHORITY_HOST", named);
        }
        let host = format!("--authority-host={host}");
        let args = ["get-token", "--server-id=a", "--login=spn", "--tenant-id=t", "--client-id=c"];
        stage.run(&[&args[..], &[&host]].concat())
    };
    for (host, named) in [
        ("https://evil.example/", None),
        ("https://evil.example/", Some("https://login.stack.example/")),
        ("https://login.microsoftonline.com.evil.example/", None),
        ("https://login.microsoftonline.com:444/", None),
        ("https://127.0.0.1.evil.example/", None),
        ("https://localhost.evil.example/", None),
    ] {
        let outcome = run(host, named);
        let why = outcome.refusal(2);
        assert!(why.contains("`AZURE_AUTHORITY_HOST`"), "{host}: {why}");
    }
    for (host, named) in [
        ("https://LOGIN.microsoftonline.us", None),
        ("https://login.microsoftonline.com:443/", None),
        ("https://login.stack.example/adfs", Some("https://login.stack.example/")),
        ("https://[::1]:1/", None),
        ("https://localhost:1/", None),
    ] {
        let outcome = run(host, named);
        let why = outcome.refusal(1);
        assert!(why.contains("cannot use `https://"), "{host}: {why}");
    }
}

#[test]
fn pitfall_18_a_file_that_holds_no_jwt_is_not_sent() {
    let stage = stage();
    let path = stage.write("id_ed25519", "m4rk3d-s3cr3t");
    let flags = [client(), format!("--federated-token-file={path}")];
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let outcome = ours_in(&stage, "count-file", "workloadidentity", &flags);
    let why = outcome.refusal(2);
    assert!(why.contains("no JSON Web Token") && !why.contains("m4rk3d"), "{why}");
    assert_eq!(stand_in().count("token client_credentials of file"), 0);
}

#[test]
fn pitfall_18_the_secret_of_a_service_leaves_only_for_this_machine_or_https() {
    for (variable, secret) in
        [("IDENTITY_ENDPOINT", "IDENTITY_HEADER"), ("MSI_ENDPOINT", "MSI_SECRET")]
    {
        for endpoint in
            ["http://evil.example/token", "http://127.0.0.1.evil.example/", "ftp://127.0.0.1/"]
        {
            let stage = stage().variable(variable, endpoint).variable(secret, "s3cr3t");
            let outcome = ours(&stage, "msi", &[]);
            let why = outcome.refusal(2);
            assert!(why.contains(variable) && why.contains("`https://`"), "{endpoint}: {why}");
        }
        // No proxy sees what is asked of this machine, whatever the machine is called.
        let stage = stage()
            .variable(
                variable,
                format!("{}/nothing", stand_in().http.replace("127.0.0.1", "localhost")),
            )
            .variable(secret, "s3cr3t")
            .variable("HTTP_PROXY", "http://127.0.0.1:1");
        assert!(ours(&stage, "msi", &[]).refusal(4).contains("status 404"));
    }
}

#[test]
fn a_machine_that_does_not_answer_is_given_up_soon() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = format!("http://{}", listener.local_addr().unwrap());
    let stage = stage().variable("AZURE_POD_IDENTITY_AUTHORITY_HOST", host);
    let outcome = ours(&stage, "msi", &[]);
    assert!(outcome.refusal(1).contains("no answer within 10 s"), "{outcome:?}");
}

#[test]
fn ten_processes_at_once_ask_once() {
    let stage = stage_with_agent();
    let (client, host) = (client(), format!("--authority-host={}/", stand_in().https));
    let args = [
        "get-token",
        "--server-id=a",
        "--tenant-id=count-flight",
        "--login=spn",
        "--client-secret=s",
        &client,
        &host,
    ];
    let children: Vec<_> = (0..10).map(|_| stage.start(&args)).collect();
    let tokens: std::collections::HashSet<_> =
        children.into_iter().map(|child| Outcome::of(child).token()).collect();
    assert_eq!(tokens.len(), 1);
    assert_eq!(stand_in().count("token client_credentials of flight"), 1);
}
