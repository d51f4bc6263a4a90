//! Providers that get tokens of service accounts, from a server that makes them.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use keyward_testing::{
    kubectl,
    server::{Server, User},
};
use serde_json::{Value, json};

use super::{config, provider, runs};
use crate::stage::{Ran, Stage};

/// A server with the service account `web/puller` and the pod `web/web-0`, and a provider that says
/// which token it got.
struct Scene {
    stage: Stage,
    server: Server,
}

fn scene(cache: &str) -> Scene {
    let stage = Stage::new();
    let server = Server::setup().start().unwrap();
    server.users().token("our-token", User::new("ann"));
    stage.kubeconfig(&server.kubeconfig(&json!({ "token": "our-token" })));
    for object in [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } }),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {
                "name": "puller", "namespace": "web",
                "annotations": { "example.com/role": "reader", "other": "not-said" },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "web-0", "namespace": "web" },
            "spec": { "serviceAccountName": "puller", "containers": [] },
        }),
    ] {
        server.store().put(&object).unwrap();
    }
    stage.plugin(
        "one",
        r#"echo run >>"$STAGE/one.runs"
cat >"$STAGE/one.told"
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"5m","auth":{"r.io":{"username":"ann","password":"exchanged"}}}'"#,
    );
    let more = format!(
        "  tokenAttributes:\n    serviceAccountTokenAudience: reg\n    cacheType: {cache}\n    \
         requireServiceAccount: true\n    requiredServiceAccountAnnotationKeys: [example.com/role]\n"
    );
    stage.write("providers.yaml", &config(&provider("one", "r.io", &more)));
    Scene { stage, server }
}

impl Scene {
    fn ask(&self, words: &str) -> Ran {
        self.stage.run(&format!("image credentials --config providers.yaml {words}"))
    }

    /// The claims of the token that the provider got, and its annotations.
    fn told(&self) -> (Value, Value) {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let told: Value = serde_json::from_str(&self.stage.read("one.told")).unwrap();
        let token = told["serviceAccountToken"].as_str().unwrap();
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        (serde_json::from_slice(&claims).unwrap(), told["serviceAccountAnnotations"].clone())
    }

    fn tokens(&self) -> usize {
        let records = self.server.recorder().all();
        records.iter().filter(|record| record.uri.path().ends_with("/token")).count()
    }
}

#[test]
fn a_pod_s_token_is_asked_of_the_cluster_and_bound_to_the_pod() {
    let scene = scene("ServiceAccount");
    let ran = scene.ask("-n web --pod web-0 r.io/a");
    let document = ran.json();
    let login = &document["images"][0]["logins"][0];
    assert_eq!(login["namespace"], "web");
    assert_eq!(login["serviceAccount"], "puller");
    let (claims, annotations) = scene.told();
    assert_eq!(claims["aud"], json!(["reg"]));
    assert_eq!(claims["sub"], "system:serviceaccount:web:puller");
    assert_eq!(claims["kubernetes.io"]["pod"]["name"], "web-0");
    assert_eq!(annotations, json!({ "example.com/role": "reader" }));
}

#[test]
fn an_account_alone_gets_a_token_that_is_bound_to_no_pod() {
    let scene = scene("Token");
    scene.ask("-n web --service-account puller r.io/a").good();
    assert_eq!(scene.told().0["kubernetes.io"]["pod"], Value::Null);
}

#[test]
fn one_token_serves_all_images_for_which_an_answer_is_kept() {
    let scene = scene("ServiceAccount");
    let words = "image credentials --config providers.yaml -n web --pod web-0 -"
        .split(' ')
        .map(str::to_owned);
    let mut child =
        scene.stage.command(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for number in 0..20 {
        writeln!(stdin, "r.io/image-{number}").unwrap();
        assert!(lines.next().unwrap().unwrap().contains("exchanged"));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!((runs(&scene.stage, "one"), scene.tokens()), (1, 1));
}

#[test]
fn a_provider_that_needs_an_account_is_passed_over_without_one_and_explained() {
    let scene = scene("Token");
    assert!(scene.ask("r.io/a").stderr.contains("it needs a service account and there is none"));
    let explain = |words: &str| {
        scene.stage.run(&format!("image explain --config providers.yaml {words} r.io/a")).stdout
    };
    let text = explain("");
    assert!(text.contains("skipped: it needs a service account and there is none"), "{text}");
    scene
        .server
        .store()
        .put(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "bare", "namespace": "web" },
        }))
        .unwrap();
    let text = explain("-n web --service-account bare");
    assert!(text.contains("the service account has no annotation `example.com/role`"), "{text}");
    assert_eq!(scene.tokens(), 0);
    let text = explain("-n web --pod web-0");
    assert!(text.contains("under `r.io`, for web/puller"), "{text}");
}

#[test]
fn what_the_cluster_refuses_is_told_with_its_words() {
    let scene = scene("Token");
    let ran = scene.ask("-n web --pod nobody r.io/a");
    assert!(ran.bad(1).contains("pods \"nobody\" not found"), "{}", ran.stderr);
    let ran = scene.ask("-n web --service-account nobody r.io/a");
    assert!(ran.stderr.contains("serviceaccounts \"nobody\" not found"), "{}", ran.stderr);
    let ran = scene.ask("-n web --pod web-0 --pod-uid other --service-account puller r.io/a");
    assert!(ran.stderr.contains("the UID in the bound object reference"), "{}", ran.stderr);
    let ran = scene.ask("-n web --service-account ../../pods r.io/a");
    assert!(ran.stderr.contains("is not a valid object name"), "{}", ran.stderr);
}

#[test]
fn no_token_is_shown_at_the_most_talkative_level() {
    let scene = scene("Token");
    scene.stage.plugin("one", "cat >&2; exit 1");
    for words in ["image credentials", "image explain"] {
        let line = format!("{words} --config providers.yaml -vvv -n web --pod web-0 r.io/a");
        let ran = scene.stage.run(&line);
        assert_eq!(ran.code, Some(1));
        for said in [&ran.stdout, &ran.stderr] {
            assert!(!said.contains("eyJ") && !said.contains("our-token"), "{said}");
        }
    }
}

#[test]
fn the_missing_permission_is_a_manifest_that_kubectl_applies() {
    let scene = scene("Token");
    let lint = || scene.stage.run("image lint --config providers.yaml --ask-cluster -o manifest");
    let manifest = lint().good().to_owned();
    assert!(manifest.contains("request-serviceaccounts-token-audience"), "{manifest}");
    let mut kubectl = Command::new(&kubectl::installed().path)
        .args(["create", "--validate=false", "-f", "-"])
        .env("HOME", scene.stage.path("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    kubectl.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
    assert!(kubectl.wait().unwrap().success());
    assert_eq!(lint().good(), "", "nothing is missing any more");
    // Another audience is.
    let other = scene.stage.read("providers.yaml").replace("Audience: reg", "Audience: other");
    scene.stage.write("providers.yaml", &other);
    assert!(lint().good().contains("- \"other\"\n"));
}
