//! Logins for registries, in both protocols.

use serde_json::{Value, json};

use super::stage::{
    Stage, authorized_user, count, external, judge, printed, request, service_account, with,
};
use crate::program::Ended;

const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

const NODE: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// A request of the kubelet, with what a pod adds.
fn asked(image: &str, pod: &Value) -> Value {
    let mut request = json!({
        "kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "image": image,
    });
    for (name, value) in pod.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn pod() -> Value {
    json!({
        "serviceAccountToken": "pod.token",
        "serviceAccountAnnotations": {"iam.gke.io/enable-wi-image-pull": "true"},
    })
}

fn kubelet(stage: &Stage, args: &[&str], request: &Value) -> Ended {
    let run = stage.named("auth-provider-gcp").args(["get-credentials"]).args(args);
    run.with_input(request.to_string().as_bytes())
}

/// The answer to the kubelet.
fn answer(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The login that docker gets.
fn login(ended: &Ended) -> (String, String) {
    let answer = answer(ended);
    let text = |name: &str| answer[name].as_str().unwrap().to_owned();
    (text("Username"), text("Secret"))
}

fn get(stage: &Stage, name: &str, server: &str) -> Ended {
    stage.named(name).args(["get"]).with_input(server.as_bytes())
}

#[test]
fn pitfall_35_the_kubelet_gets_the_machines_token_for_as_long_as_it_lasts() {
    let mut stage = Stage::new();
    for host in ["gcr.io", "europe-docker.pkg.dev", "docker.us-east1.rep.pkg.dev"] {
        let ended = kubelet(stage.metadata(), &[], &asked(&format!("{host}/p/i:1"), &json!({})));
        let answer = answer(&ended);
        assert_eq!(answer["cacheKeyType"], "Registry");
        let login = &answer["auth"][host];
        assert_eq!(login["username"], "_token", "{answer}");
        let token = login["password"].as_str().unwrap();
        assert_eq!(request(token), json!({"metadata": NODE, "scopes": [""], "query": {}}));
        // 3599 seconds less the margin.
        let kept = answer["cacheDuration"].as_str().unwrap();
        assert!(kept.starts_with("54m") || kept.starts_with("55m"), "{kept}");
    }
}

#[test]
fn pitfall_35_without_a_token_there_is_an_error_and_no_empty_answer() {
    let mut stage = Stage::new();
    let question = asked("gcr.io/p/i", &json!({}));
    let ended = kubelet(&stage, &[], &question);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("there is no metadata server"), "{ended:?}");
    stage.unset("NO_GCE_CHECK").env("GCE_METADATA_HOST", "127.0.0.1:1");
    let ended = kubelet(&stage, &[], &question);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    let broken =
        ["--identity-provider=https://i", "--project-id=p", "--token-url=http://{s}/empty/token"];
    let url = broken[2].replace("{s}", &super::stage::prepared().stand_in);
    let ended = kubelet(&stage, &[broken[0], broken[1], &url], &asked("gcr.io/p/i", &pod()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
}

#[test]
fn pitfall_18_other_registries_get_no_token() {
    let mut stage = Stage::new();
    stage.metadata().adc(&with(
        authorized_user(),
        "token_uri",
        "http://{standIn}/pitfall-18/token",
    ));
    for image in
        ["registry.example/i", "gcr.io.example/p/i", "docker.io/library/i", "gcr.io:5000/i"]
    {
        for name in ["auth-provider-gcp", "keyward-gar"] {
            let question = asked(image, &json!({})).to_string();
            let ended = stage.named(name).with_input(question.as_bytes());
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
            assert!(ended.stderr.contains("is no registry of Google"), "{ended:?}");
        }
    }
    for name in ["docker-credential-gcr", "docker-credential-gcloud", "keyward-gar"] {
        for server in ["https://index.docker.io/v1/", "http://gcr.io", "evilgcr.io"] {
            let ended = get(&stage, name, server);
            let expected = "credentials not found in native keychain\n";
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), expected), "{ended:?}");
        }
    }
    assert_eq!(count("/pitfall-18/token"), 0);
}

#[test]
fn a_pod_that_chose_so_pulls_with_its_own_identity_and_with_no_other() {
    let mut stage = Stage::new();
    stage.metadata();
    let url = format!("--token-url=http://{}/pod/token", super::stage::prepared().stand_in);
    let own = ["--identity-provider=https://issuer.example", "--project-id=project", &url];
    let answered = answer(&kubelet(&stage, &own, &asked("gcr.io/p/i", &pod())));
    let token = answered["auth"]["gcr.io"]["password"].as_str().unwrap();
    assert_eq!(
        request(token),
        json!({
            "path": "/pod/token", "query": {}, "content": "application/json", "authorization": null,
            "fields": {
                "audience": "identitynamespace:project.svc.id.goog:https://issuer.example",
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
                "scope": "https://www.googleapis.com/auth/cloud-platform",
                "subject_token": "pod.token", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            },
        })
    );
    // Those that did not choose it, and clusters without it, have the machine's.
    let mut other = pod();
    other["serviceAccountAnnotations"] = json!({"iam.gke.io/enable-wi-image-pull": "false"});
    for (args, question) in [(&own[..], &other), (&[], &pod())] {
        let answered = answer(&kubelet(&stage, args, &asked("gcr.io/p/i", question)));
        let token = answered["auth"]["gcr.io"]["password"].as_str().unwrap();
        assert_eq!(request(token)["metadata"], NODE);
    }
    // Nothing else is tried for those that did.
    let refused = own[2].replace("/pod/", "/refuse/");
    let ended = kubelet(&stage, &[own[0], own[1], &refused], &asked("gcr.io/p/i", &pod()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{ended:?}");
    let mut tokenless = pod();
    tokenless.as_object_mut().unwrap().remove("serviceAccountToken");
    let ended = kubelet(&stage, &own, &asked("gcr.io/p/i", &tokenless));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("tokenAttributes"), "{ended:?}");
    assert!(!ended.stderr.contains("pod.token"), "{ended:?}");
    let away = ["--identity-provider=a", "--project-id=p", "--token-url=http://sts.example/"];
    let ended = kubelet(&stage, &away, &asked("gcr.io/p/i", &pod()));
    assert!(ended.stderr.contains("must begin with `https://`"), "{ended:?}");
}

#[test]
fn the_variables_of_the_old_provider_say_how_long_and_for_what_an_answer_is_kept() {
    let question = asked("eu.gcr.io/p/i", &json!({}));
    let mut stage = Stage::new();
    stage.metadata();
    for (kind, key, pattern) in [
        ("image", "Image", "eu.gcr.io/p/i"),
        ("registry", "Registry", "eu.gcr.io"),
        ("global", "Global", "*.gcr.io"),
    ] {
        let answered = answer(&kubelet(stage.env("KUBE_SIDECAR_CACHE_TYPE", kind), &[], &question));
        assert_eq!(answered["cacheKeyType"], key);
        assert!(answered["auth"][pattern]["password"].is_string(), "{answered}");
    }
    for (wanted, kept) in [("10m", "10m0s"), ("0s", "0s"), ("90s", "1m30s")] {
        let answered =
            answer(&kubelet(stage.env("KUBE_SIDECAR_CACHE_DURATION", wanted), &[], &question));
        assert_eq!(answered["cacheDuration"], kept);
    }
    // A token does not last longer because it should.
    let answered = answer(&kubelet(stage.env("KUBE_SIDECAR_CACHE_DURATION", "5h"), &[], &question));
    assert!(answered["cacheDuration"].as_str().unwrap().starts_with('5'), "{answered}");
    assert!(!answered["cacheDuration"].as_str().unwrap().contains('h'), "{answered}");
    for (name, value) in
        [("KUBE_SIDECAR_CACHE_DURATION", "soon"), ("KUBE_SIDECAR_CACHE_TYPE", "all")]
    {
        let mut stage = Stage::new();
        let ended = kubelet(stage.metadata().env(name, value), &[], &question);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(name), "{ended:?}");
    }
}

#[test]
fn logins_in_the_instances_metadata_are_for_their_own_registries() {
    let mut stage = Stage::new();
    stage.metadata();
    for (flow, user, password) in
        [("dockercfg", "user", "pass"), ("dockercfg-url", "url-user", "url-pass")]
    {
        let args = ["--authFlow", flow];
        let answered = answer(&kubelet(&stage, &args, &asked("gcr.io/p/i", &json!({}))));
        assert_eq!(answered["auth"], json!({"gcr.io": {"username": user, "password": password}}));
        for image in ["b.example/i", "a.example/i"] {
            let ended = kubelet(&stage, &args, &asked(image, &json!({})));
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
            assert!(ended.stderr.contains("has no login for"), "{ended:?}");
        }
    }
}

#[test]
fn docker_gets_the_tokens_of_google_auth() {
    let mut stage = Stage::new();
    let agree = |stage: &Stage| {
        let judged = stage.judged_for(&[SCOPE], None);
        let theirs = judged["token"].as_str().unwrap_or_else(|| panic!("{judged}")).to_owned();
        for (name, user) in
            [("docker-credential-gcr", "_dcgcr_2_1_32_token"), ("keyward-gar", "oauth2accesstoken")]
        {
            let found = login(&get(stage, name, "https://europe-docker.pkg.dev"));
            assert_eq!(found, (user.to_owned(), theirs.clone()), "{}", request(&found.1));
        }
    };
    agree(stage.metadata());
    agree(stage.adc(&authorized_user()));
    stage.file("subject", "token");
    agree(stage.adc(&external(&json!({"file": "{home}/subject"}))));
}

#[test]
fn a_key_signs_the_token_for_docker_as_google_auth_does() {
    let mut stage = Stage::new();
    // Nobody is asked.
    let info = with(service_account(), "token_uri", "http://127.0.0.1:1/");
    let (_, token) = login(&get(stage.adc(&info), "docker-credential-gcr", "gcr.io"));
    let ours = judge().ask(&json!({"operation": "checked", "token": token}));
    let theirs = judge().ask(&json!({"operation": "selfSigned", "info": info, "scopes": [SCOPE]}));
    assert_eq!(ours, theirs);
    assert_eq!(ours["claims"]["scope"], SCOPE);
}

#[test]
fn the_sources_of_the_old_helper_are_used_in_its_order() {
    let mut stage = Stage::new();
    stage.program("bin/gcloud", r#"echo '{"credential":{"access_token":"of-gcloud","token_expiry":"2099-01-01T00:00:00Z"}}'"#);
    let store = |end: &str| {
        format!(
            r#"{{"gcrCreds":{{"access_token":"of-the-store","refresh_token":"r3fr3sh","token_expiry":"{end}"}}}}"#
        )
    };
    let name = "docker-credential-gcr";
    let secret = |stage: &Stage| login(&get(stage, name, "gcr.io")).1;
    // gcloud is no source of it by itself.
    let ended = get(&stage, name, "gcr.io");
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.starts_with("no Google credentials are configured"), "{ended:?}");
    stage.file(
        ".config/gcloud/docker_credential_gcr_config.json",
        r#"{"TokenSources":["env","gcloud"]}"#,
    );
    assert_eq!(secret(&stage), "of-gcloud");
    stage.file(".config/gcloud/docker_credentials.json", &store("2099-01-01T00:00:00Z"));
    assert_eq!(secret(&stage), "of-gcloud");
    stage.file(".config/gcloud/docker_credential_gcr_config.json", r#"{"TokenSources":["store"]}"#);
    assert_eq!(secret(&stage), "of-the-store");
    stage
        .file("config.json", r#"{"TokenSources":["elsewhere"]}"#)
        .env("DOCKER_CREDENTIAL_GCR_CONFIG", "{home}/config.json");
    assert!(get(&stage, name, "gcr.io").stdout.contains("none of store, env and gcloud"));
    stage.unset("DOCKER_CREDENTIAL_GCR_CONFIG");
    // One that has ended is renewed at Google, which is out of reach here.
    stage
        .file("old.json", &store("2001-01-01T00:00:00Z"))
        .env("DOCKER_CREDENTIAL_GCR_STORE", "{home}/old.json");
    let ended = get(stage.env("HTTPS_PROXY", "http://127.0.0.1:1"), name, "gcr.io");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("`https://oauth2.googleapis.com/token`"), "{ended:?}");
    assert!(!format!("{ended:?}").contains("r3fr3sh"), "{ended:?}");
    // gcloud's own helper asks gcloud, and our names for both have the same identities.
    stage.adc(&authorized_user());
    for name in ["docker-credential-gcloud", "docker-credential-keyward-gcloud"] {
        let found = login(&get(&stage, name, "gcr.io"));
        assert_eq!(found, ("_dcgcloud_token".to_owned(), "of-gcloud".to_owned()));
    }
    stage.unset("DOCKER_CREDENTIAL_GCR_STORE");
    let found = login(&get(&stage, "docker-credential-keyward-gcr", "gcr.io"));
    assert_eq!(found, ("_dcgcr_2_1_32_token".to_owned(), "of-the-store".to_owned()));
    assert!(login(&get(&stage, "docker-credential-keyward-gar", "gcr.io")).1.starts_with("ya29."));
}

#[test]
fn pitfall_13_store_and_erase_succeed_and_the_list_is_empty() {
    let stage = Stage::new();
    for name in ["docker-credential-gcr", "docker-credential-gcloud", "keyward-gar"] {
        for (verb, input, output) in [
            ("store", r#"{"ServerURL":"gcr.io","Username":"u","Secret":"s"}"#, ""),
            ("erase", "gcr.io", ""),
            ("list", "", "{}\n"),
        ] {
            let ended = stage.named(name).args([verb]).with_input(input.as_bytes());
            assert_eq!(ended.code, Some(0), "{name} {verb}: {ended:?}");
            assert_eq!(ended.stdout.trim(), output.trim(), "{name} {verb}: {ended:?}");
        }
        let version = stage.named(name).args(["version"]).run().printed();
        assert!(version.starts_with(&format!("{name} (Keyward) ")), "{version}");
    }
}

#[test]
fn pitfall_14_a_request_of_the_kubelet_to_dockers_helper_is_recognised() {
    let mut stage = Stage::new();
    stage.metadata();
    let question = asked("gcr.io/p/i", &json!({})).to_string();
    let ended = get(&stage, "docker-credential-gcr", &question);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!ended.stdout.contains("ya29."), "{ended:?}");
}

#[test]
fn every_documented_flag_and_command_is_accepted_or_refused_with_a_reason() {
    let mut stage = Stage::new();
    stage.metadata();
    let question = asked("gcr.io/p/i", &json!({}));
    for flag in [
        "--authFlow=gcr",
        "-agcr",
        "--project-id=p",
        "--add_dir_header",
        "--alsologtostderr",
        "--legacy_stderr_threshold_behavior=false",
        "--log_backtrace_at=:0",
        "--log_dir=/tmp",
        "--log_file=/tmp/log",
        "--log_file_max_size=1800",
        "--logtostderr=true",
        "--one_output",
        "--skip_headers",
        "--skip_log_headers",
        "--stderrthreshold=2",
        "-v4",
        "--v=4",
        "--vmodule=a=1",
    ] {
        answer(&kubelet(&stage, &[flag], &question));
    }
    for (args, why) in [
        (&["--authFlow=other"][..], "`--authFlow` is gcr, dockercfg or dockercfg-url, not `other`"),
        (&["--identity-provider=https://i"], "needs `--project-id`"),
        (&["--authflow=gcr"], "there is `--authFlow`"),
        (&["more"], "takes no word, but there is `more`"),
    ] {
        let ended = kubelet(&stage, args, &question);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
    }
    for (args, why) in [
        (&["gcr-login"][..], "gcloud auth application-default login"),
        (&["gcr-logout"], "docker_credentials.json"),
        (&["clear"], "docker_credentials.json"),
        (&["config", "--token-source=env"], "TokenSources"),
        (&["config", "--unset-all"], "TokenSources"),
        (&["configure-docker"], "credHelpers"),
        (
            &[
                "configure-docker",
                "--registries=gcr.io",
                "--include-artifact-registry",
                "--overwrite",
            ],
            "credHelpers",
        ),
        (&[], "needs one of the words"),
    ] {
        let ended = stage.named("docker-credential-gcr").args(args).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
    }
    let help = stage.named("auth-provider-gcp").args(["get-credentials", "--help"]).run().printed();
    assert!(help.contains("--identity-provider URL"), "{help}");
}

#[test]
fn explain_shows_the_sources_and_no_token() {
    let mut stage = Stage::new();
    let explained =
        stage.metadata().named("keyward-gar").args(["--explain", "gcr.io"]).run().printed();
    assert!(explained.contains("used     metadata server"), "{explained}");
    assert!(!explained.contains("ya29."), "{explained}");
    let ended = stage.named("keyward-gar").args(["--explain", "docker.io"]).run();
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[test]
fn as_keyward_gar_the_kubelet_also_gets_application_default_credentials() {
    let mut stage = Stage::new();
    stage.metadata().adc(&service_account());
    let question = asked("gcr.io/p/i", &json!({})).to_string();
    let answered = answer(&stage.named("keyward-gar").with_input(question.as_bytes()));
    let token = answered["auth"]["gcr.io"]["password"].as_str().unwrap();
    let scope = "https://www.googleapis.com/auth/devstorage.read_only";
    assert_eq!(request(token)["fields"]["assertion"]["claims"]["scope"], scope);
    // Its token for a cluster is another one.
    assert_ne!(printed(&stage.run(&[])).0, token);
}
