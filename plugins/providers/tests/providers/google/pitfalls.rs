//! What others got wrong, by the numbers of the pitfalls.

use serde_json::{Value, json};

use super::stage::{
    ACCOUNT, Stage, authorized_user, aws, count, external, gdch, impersonated, printed, request,
    service_account, with,
};

#[test]
fn pitfall_33_each_principal_has_its_own_token_in_the_agent() {
    let mut stage = Stage::with_agent();
    let user = with(authorized_user(), "token_uri", "http://{standIn}/pitfall-33/token");
    let other = with(user.clone(), "refresh_token", "of-somebody-else");
    let mut tokens = Vec::new();
    for info in [&user, &other, &user, &other] {
        tokens.push(printed(&stage.adc(info).run(&[])).0);
    }
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(tokens[..2], tokens[2..]);
    assert_eq!(count("/pitfall-33/token"), 2, "each was fetched once");
    let explained = stage.run(&["--explain"]).printed();
    assert!(explained.contains("with     agent: it keeps this token"), "{explained}");
}

#[test]
fn one_process_fetches_while_the_others_wait() {
    let mut stage = Stage::with_agent();
    let info = with(authorized_user(), "token_uri", "http://{standIn}/single-flight/token");
    stage.adc(&info);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..6).map(|_| scope.spawn(|| printed(&stage.run(&[])).0)).collect();
        let tokens: Vec<String> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    });
    assert_eq!(count("/single-flight/token"), 1);
}

#[test]
fn pitfall_37_a_refused_token_does_not_come_from_the_agent() {
    let mut stage = Stage::with_agent();
    let info = with(authorized_user(), "token_uri", "http://{standIn}/pitfall-37/token");
    stage.adc(&info).run(&[]);
    let asked = json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1alpha1",
        "spec": {"response": {"code": 401}, "interactive": false},
    });
    stage.env("KUBERNETES_EXEC_INFO", &asked.to_string());
    printed(&stage.run(&[]));
    assert_eq!(count("/pitfall-37/token"), 2);
}

#[test]
fn a_rotated_token_of_a_pod_is_another_identity() {
    let mut stage = Stage::with_agent();
    let info = external(&json!({"file": "{home}/subject"}));
    stage.adc(&with(info, "token_url", "http://{standIn}/rotated/token"));
    let mut tokens = Vec::new();
    for subject in ["one", "two"] {
        stage.file("subject", subject);
        tokens.push(printed(&stage.run(&[])).0);
        assert_eq!(Some(&printed(&stage.run(&[])).0), tokens.last());
    }
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(count("/rotated/token"), 2);
}

#[test]
fn what_a_program_hands_out_is_not_kept() {
    let mut stage = Stage::with_agent();
    let answer = r#"{"version":1,"success":true,"token_type":"urn:ietf:params:oauth:token-type:jwt","id_token":"t"}"#;
    stage.program("print", &format!("echo '{answer}'"));
    stage.env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1");
    let info = external(&json!({"executable": {"command": "{home}/print"}}));
    stage.adc(&with(info, "token_url", "http://{standIn}/program/token"));
    for _ in 0..2 {
        printed(&stage.run(&[]));
    }
    assert_eq!(count("/program/token"), 2);
}

#[test]
fn what_does_not_say_whose_it_is_is_not_kept() {
    let mut stage = Stage::with_agent();
    let url = external(&json!({"url": "http://{standIn}/subject"}));
    stage.adc(&with(url, "token_url", "http://{standIn}/url/token"));
    for _ in 0..2 {
        printed(&stage.run(&[]));
    }
    assert_eq!(count("/url/token"), 2, "another process may get another token at the URL");
    stage.adc(&with(aws(), "token_url", "http://{standIn}/instance/token"));
    for _ in 0..2 {
        printed(&stage.run(&[]));
    }
    // An id without its secret does not count: the instance's role is used.
    stage.env("AWS_ACCESS_KEY_ID", "AKIDENV");
    for _ in 0..2 {
        printed(&stage.run(&[]));
    }
    assert_eq!(count("/instance/token"), 4, "the instance may have got another role");
    stage.env("AWS_SECRET_ACCESS_KEY", "aws-secret");
    for _ in 0..2 {
        printed(&stage.run(&[]));
    }
    assert_eq!(count("/instance/token"), 5, "keys have an owner");
}

#[test]
fn nothing_but_get_caller_identity_is_signed_for_a_file() {
    let mut stage = Stage::new();
    stage.env("AWS_REGION", "eu-west-1").env("AWS_ACCESS_KEY_ID", "AKIDENV");
    stage.env("AWS_SECRET_ACCESS_KEY", "aws-secret");
    let mut info = with(aws(), "token_url", "http://{standIn}/signed/token");
    let query = "Action=GetCallerIdentity&Version=2011-06-15";
    let good = [
        format!("https://sts.amazonaws.com?{query}"),
        format!("https://sts-fips.{{region}}.amazonaws.com/?{query}"),
        format!("https://sts.cn-north-1.amazonaws.com.cn?{query}"),
        "https://sts.{region}.api.aws?Version=2011-06-15&Action=GetCallerIdentity".to_owned(),
    ];
    for url in &good {
        info["credential_source"]["regional_cred_verification_url"] = url.as_str().into();
        printed(&stage.adc(&info).run(&[]));
    }
    let bad = [
        "https://sts.{region}.amazonaws.com?Action=GetSessionToken&Version=2011-06-15".to_owned(),
        format!("https://sts.{{region}}.amazonaws.com?{query}&Action=GetSessionToken"),
        "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity".to_owned(),
        "https://sts.{region}.amazonaws.com".to_owned(),
        format!("https://sts.{{region}}.amazonaws.com/other?{query}"),
        format!("https://sts.{{region}}.amazonaws.com:8443?{query}"),
        format!("https://iam.amazonaws.com?{query}"),
        format!("https://sts.evil.example?{query}"),
        format!("https://sts.amazonaws.com.evil.example?{query}"),
        format!("https://sts.a.b.amazonaws.com?{query}"),
        format!("https://sts..amazonaws.com?{query}"),
        format!("https://sts.amazonaws.com@evil.example?{query}"),
        format!("https://sts.amazonaws.com#?{query}"),
        format!("https://127.0.0.1?{query}"),
        format!("http://sts.amazonaws.com?{query}"),
    ];
    for url in &bad {
        info["credential_source"]["regional_cred_verification_url"] = url.as_str().into();
        let ended = stage.adc(&info).run(&[]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{url}: {ended:?}");
        assert!(ended.stderr.contains("regional_cred_verification_url"), "{url}: {ended:?}");
    }
    assert_eq!(count("/signed/token"), u64::try_from(good.len()).unwrap());
}

#[test]
fn pitfall_34_the_answer_has_the_version_that_was_asked_for_and_both_scopes() {
    let mut stage = Stage::new();
    stage.adc(&service_account());
    for version in ["v1", "v1beta1"] {
        let version = format!("client.authentication.k8s.io/{version}");
        let asked = json!({"kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": false}});
        let ended = stage.env("KUBERNETES_EXEC_INFO", &asked.to_string()).run(&[]);
        let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(answer["apiVersion"], version.as_str());
        let token = answer["status"]["token"].as_str().unwrap();
        assert_eq!(
            request(token)["fields"]["assertion"]["claims"]["scope"],
            "https://www.googleapis.com/auth/cloud-platform https://www.googleapis.com/auth/userinfo.email"
        );
    }
    let ended = stage.unset("KUBERNETES_EXEC_INFO").run(&[]);
    assert!(ended.stdout.contains("client.authentication.k8s.io/v1beta1"), "{ended:?}");
}

#[test]
fn pitfall_36_secrets_leave_only_with_tls() {
    let away = "http://tokens.example/t";
    let file = external(&json!({"file": "/etc/hostname"}));
    let nested = impersonated(&with(authorized_user(), "token_uri", away));
    for (name, info) in [
        ("token_uri", with(authorized_user(), "token_uri", away)),
        ("token_uri", with(service_account(), "token_uri", away)),
        ("token_uri", with(gdch(), "token_uri", away)),
        ("token_uri", nested),
        ("token_url", with(file.clone(), "token_url", away)),
        (
            "service_account_impersonation_url",
            with(
                impersonated(&authorized_user()),
                "service_account_impersonation_url",
                format!("{away}/a:generateAccessToken"),
            ),
        ),
        ("credential_source.url", external(&json!({"url": away}))),
    ] {
        let ended = Stage::new().adc(&info).run(&["--gdch-audience=a"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        let expected = format!("`{name}` in `");
        assert!(ended.stderr.contains(&expected), "{ended:?}");
        assert!(
            ended.stderr.contains("must begin with `https://`: `http://tokens.example/t"),
            "{ended:?}"
        );
    }
    // What only reads may ask the machine's own metadata service without TLS, as on Azure and AWS.
    let near = external(&json!({"url": "http://169.254.1.1:1/token"}));
    let ended =
        Stage::new().env("NO_PROXY", "*").adc(&near).named("keyward-gke").args(["--explain"]).run();
    assert!(!ended.stderr.contains("must begin with"), "{ended:?}");
}

#[test]
fn pitfall_36_an_address_that_is_not_googles_is_told() {
    let mut stage = Stage::new();
    let warned = |stage: &mut Stage, info: &Value| {
        // Nobody answers at these addresses; the proxy is not there, either.
        stage.env("HTTPS_PROXY", "http://127.0.0.1:1").adc(info);
        stage.run(&[]).stderr.contains("is not an address of Google: the credentials go to `")
    };
    for (url, expected) in [
        ("https://oauth2.googleapis.com/token", false),
        ("https://OAUTH2.GoogleAPIs.com/token", false),
        ("https://oauth2.googleapis.com.example/token", true),
        ("https://oauth2-googleapis.com/token", true),
        ("https://oauth2.googleapis.com@example.org/token", true),
    ] {
        let info = with(authorized_user(), "token_uri", url);
        assert_eq!(warned(&mut stage, &info), expected, "{url}");
    }
    let universe = with(authorized_user(), "token_uri", "https://oauth2.cloud.example/token");
    assert!(warned(&mut stage, &universe));
    stage.env("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "cloud.example");
    assert!(!warned(&mut stage, &universe));
}

#[test]
fn pitfall_36_programs_run_only_if_the_variable_says_so() {
    let mut stage = Stage::new();
    stage.program("print", "/bin/touch \"$HOME/ran\"; echo '{}'");
    stage.adc(&external(&json!({"executable": {"command": "{home}/print"}})));
    for value in ["", "0", "true", "yes"] {
        let ended = stage.env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", value).run(&[]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
    }
    assert!(!stage.path("ran").exists());
    stage.env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1").run(&[]);
    assert!(stage.path("ran").exists());
}

#[test]
fn pitfall_07_the_metadata_server_is_never_asked_through_a_proxy() {
    let mut stage = Stage::new();
    let port = super::stage::prepared().stand_in.rsplit(':').next().unwrap();
    // This machine, by a name that no rule excepts from the proxy.
    stage.unset("NO_GCE_CHECK").env("GCE_METADATA_HOST", &format!("127.1:{port}"));
    stage.env("HTTP_PROXY", "http://127.0.0.1:1").env("http_proxy", "http://127.0.0.1:1");
    printed(&stage.run(&[]));
}

#[test]
fn a_server_that_is_not_googles_metadata_server_gets_no_trust() {
    let mut stage = Stage::new();
    stage.unset("NO_GCE_CHECK").env("GCE_METADATA_HOST", "{standIn}/stranger");
    let ended = stage.run(&[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("is not a metadata server of Google"), "{ended:?}");
}

#[test]
fn explain_names_every_source_and_shows_no_secret() {
    let mut stage = Stage::new();
    let explained = stage.named("keyward-gke").args(["--explain"]).run();
    assert_eq!(explained.code, Some(2));
    for source in [
        "skipped  `GOOGLE_APPLICATION_CREDENTIALS`: it is not set",
        "skipped  file of `gcloud auth application-default login`",
        "skipped  metadata server: `NO_GCE_CHECK` is `true`",
        "skipped  gcloud: it is not on `PATH`",
        "result   no credential",
    ] {
        assert!(explained.stdout.contains(source), "{explained:?}");
    }
    let info = with(
        external(&json!({"file": "{home}/subject"})),
        "service_account_impersonation_url",
        ACCOUNT,
    );
    let explained = stage.file("subject", "s3cr3t").adc(&info).run(&["--explain"]).printed();
    assert!(explained.contains("impersonated service account: other@project"), "{explained}");
    assert!(explained.contains("token to exchange: in the file"), "{explained}");
    assert!(!explained.contains("s3cr3t") && !explained.contains("ya29."), "{explained}");
}
