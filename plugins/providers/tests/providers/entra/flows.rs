//! Every way to log in that azure-identity has, too: the token is a digest of the request, so equal tokens are equal
//! requests.

use serde_json::{Value, json};

use super::stage::{
    CLIENT, SERVER, TENANT, ours, ours_in, program, stage, stage_with_agent, stand_in,
};

/// A token of a cluster for a pod.
const POD: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL29pZGMiLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YTpiIn0.c2ln";

/// A client whose server refused the token.
const REFUSED: &str = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","spec":{"response":{"code":401},"interactive":false}}"#;

/// Options that name the client and the stand-in.
fn options(more: &Value) -> Value {
    let mut options =
        json!({"tenant_id": TENANT, "client_id": CLIENT, "authority": stand_in().https});
    for (name, value) in more.as_object().unwrap() {
        options[name] = value.clone();
    }
    options
}

fn client() -> String {
    format!("--client-id={CLIENT}")
}

/// A certificate and its key.
fn certificate() -> (String, String) {
    let made = stand_in().judge().ask(&json!({"operation": "certificate"}));
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("certificate"), text("key"))
}

#[test]
fn a_secret_is_sent_as_azure_identity_sends_it() {
    let secret = "a secret & more = äöü/+";
    let theirs = stand_in().theirs("secret", &options(&json!({"client_secret": secret})), &[]);
    let flag = format!("--client-secret={secret}");
    let outcome = ours(&stage(), "spn", &[&client(), &flag]);
    stand_in().assert_same(&outcome.token(), &theirs);
    // Another secret is another request.
    let other = ours(&stage(), "spn", &[&client(), "--client-secret=another"]);
    assert_ne!(other.token(), theirs);
    let terraform = stage()
        .variable("ARM_CLIENT_ID", CLIENT)
        .variable("ARM_CLIENT_SECRET", secret)
        .variable("AZURE_CLIENT_ID", "ignored");
    stand_in().assert_same(&ours(&terraform, "spn", &["--use-azurerm-env-vars"]).token(), &theirs);
}

#[test]
fn a_certificate_signs_assertions_as_azure_identity_does() {
    let (leaf, key) = certificate();
    let (other, _) = certificate();
    let stage = stage();
    // The key before, and after; alone, and with the certificate of an authority.
    for (name, pem) in [
        ("one.pem", format!("{leaf}{key}")),
        ("two.pem", format!("{key}{leaf}")),
        ("chain.pem", format!("{leaf}{other}{key}")),
    ] {
        let path = stage.write(name, &pem);
        let theirs =
            stand_in().theirs("certificate", &options(&json!({"certificate_path": path})), &[]);
        let flag = format!("--client-certificate={path}");
        // Twice, because no assertion is sent twice.
        for _ in 0..2 {
            stand_in().assert_same(&ours(&stage, "spn", &[&client(), &flag]).token(), &theirs);
        }
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_with_what_to_do() {
    let (leaf, key) = certificate();
    let (other, _) = certificate();
    let stage = stage();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (name, text, expected) in [
        ("other.pem", format!("{other}{key}"), "no certificate in it fits its key"),
        ("bare.pem", leaf.clone(), "it has no private key in PEM"),
        ("encrypted.pem", format!("{leaf}{encrypted}"), "openssl pkey"),
        ("app.pfx", String::from("x"), "openssl pkcs12"),
    ] {
        let flag = format!("--client-certificate={}", stage.write(name, &text));
        let outcome = ours(&stage, "spn", &[&client(), &flag]);
        assert!(outcome.refusal(2).contains(expected), "{name}: {outcome:?}");
    }
}

#[test]
fn the_token_of_a_pod_is_passed_on_as_azure_identity_does() {
    let stage = stage();
    let path = stage.write("token", &format!("{POD}\n"));
    // azure-identity would send the line break, too.
    let plain = stage.write("plain", POD);
    let theirs = stand_in().theirs("workload", &options(&json!({"token_file_path": plain})), &[]);
    let flag = format!("--federated-token-file={path}");
    stand_in().assert_same(&ours(&stage, "workloadidentity", &[&client(), &flag]).token(), &theirs);
    // What the webhook sets wins over the flags.
    let webhook = super::stage::stage()
        .variable("AZURE_CLIENT_ID", CLIENT)
        .variable("AZURE_TENANT_ID", TENANT)
        .variable("AZURE_FEDERATED_TOKEN_FILE", plain)
        .variable("AZURE_AUTHORITY_HOST", format!("{}/", stand_in().https));
    let server = format!("--server-id={SERVER}");
    let args = ["get-token", &server, "--login=workloadidentity", "--client-id=another"];
    stand_in().assert_same(&webhook.run(&args).token(), &theirs);
}

#[test]
fn jobs_of_github_and_azure_pipelines_get_tokens() {
    let https = &stand_in().https;
    let github = stage()
        .variable("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{https}/github/token?v=1"))
        .variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "github secret");
    // azure-identity does not know GitHub: what it is given there goes through a file.
    let claims =
        r#"{"iss": "https://github", "sub": "repo:a", "aud": "api://AzureADTokenExchange"}"#;
    let encode = |text: &str| {
        base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, text)
    };
    let head = encode(r#"{"alg": "RS256", "typ": "JWT", "kid": "k"}"#);
    let token = format!("{head}.{}.{}", encode(claims), encode("signature"));
    let path = github.write("token", &token);
    let theirs = stand_in().theirs("workload", &options(&json!({"token_file_path": path})), &[]);
    stand_in().assert_same(&ours(&github, "workloadidentity", &[&client()]).token(), &theirs);

    let address = format!("{https}/pipelines/oidc");
    let theirs = stand_in().theirs(
        "pipelines",
        &options(
            &json!({"service_connection_id": "c-1", "system_access_token": "pipelines secret"}),
        ),
        &[("SYSTEM_OIDCREQUESTURI", &address)],
    );
    let pipelines = stage()
        .variable("SYSTEM_OIDCREQUESTURI", address)
        .variable("SYSTEM_ACCESSTOKEN", "pipelines secret")
        .variable("AZURESUBSCRIPTION_CLIENT_ID", CLIENT)
        .variable("AZURESUBSCRIPTION_SERVICE_CONNECTION_ID", "c-1");
    stand_in().assert_same(&ours(&pipelines, "azurepipelines", &[]).token(), &theirs);
}

#[test]
fn a_machine_is_asked_as_azure_identity_asks_it() {
    let http = &stand_in().http;
    let machines: [&[(&'static str, String)]; 4] = [
        &[("AZURE_POD_IDENTITY_AUTHORITY_HOST", http.clone())],
        &[("IDENTITY_ENDPOINT", format!("{http}/app")), ("IDENTITY_HEADER", "app secret".into())],
        &[("MSI_ENDPOINT", format!("{http}/ml")), ("MSI_SECRET", "ml secret".into())],
        &[("MSI_ENDPOINT", format!("{http}/shell"))],
    ];
    let resource = "/subscriptions/a/providers/Microsoft.ManagedIdentity/userAssignedIdentities/b";
    for (number, machine) in machines.into_iter().enumerate() {
        let environment: Vec<_> =
            machine.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let stage =
            machine.iter().fold(stage(), |stage, (name, value)| stage.variable(name, value));
        let mut cases = vec![(json!({}), vec![])];
        if number != 3 {
            cases.push((json!({"client_id": CLIENT}), vec![client()]));
        }
        // azure-identity names the parameter of the machines otherwise for App Service and Machine Learning.
        if number == 0 {
            let flag = format!("--identity-resource-id={resource}");
            cases.push((json!({"identity_config": {"resource_id": resource}}), vec![flag]));
        }
        for (options, flags) in cases {
            let theirs = stand_in().theirs("identity", &options, &environment);
            let flags: Vec<_> = flags.iter().map(String::as_str).collect();
            stand_in().assert_same(&ours(&stage, "msi", &flags).token(), &theirs);
        }
    }
}

#[test]
fn a_machine_without_the_identity_is_named_and_one_that_is_busy_is_asked_again() {
    let stage = stage().variable("AZURE_POD_IDENTITY_AUTHORITY_HOST", stand_in().http.clone());
    let unknown = ours(&stage, "msi", &["--client-id=unknown"]);
    let why = unknown.refusal(4);
    assert!(why.contains("Identity not found") && why.contains("assign the identity"), "{why}");
    ours(&stage, "msi", &["--client-id=slow"]).token();
    let nobody =
        super::stage::stage().variable("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1");
    assert!(ours(&nobody, "msi", &[]).refusal(1).contains("no managed identity can be asked"));
    let shell =
        super::stage::stage().variable("MSI_ENDPOINT", format!("{}/shell", stand_in().http));
    assert!(ours(&shell, "msi", &[&client()]).refusal(2).contains("Cloud Shell has only"));
    let fabric = super::stage::stage()
        .variable("IDENTITY_ENDPOINT", "https://127.0.0.1:1")
        .variable("IDENTITY_HEADER", "x")
        .variable("IDENTITY_SERVER_THUMBPRINT", "x");
    assert!(ours(&fabric, "msi", &[]).refusal(2).contains("Service Fabric"));
}

#[test]
fn a_person_with_a_device_code_gets_what_azure_identity_gets() {
    let theirs = stand_in().theirs("devicecode", &options(&json!({})), &[]);
    let outcome = ours(&stage().interactive(), "devicecode", &[&client(), "--skip-open-browser"]);
    stand_in().assert_same(&outcome.token(), &theirs);
    assert!(outcome.stderr.contains("https://page.example/device"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("ABCD"), "{}", outcome.stderr);
    let declined = ours_in(
        &stage().interactive(),
        "declined",
        "devicecode",
        &[&client(), "--skip-open-browser"],
    );
    assert!(declined.refusal(4).contains("was refused"), "{declined:?}");
}

#[test]
fn a_person_with_a_browser_gets_what_azure_identity_gets() {
    for hint in [None, Some("ann@example.com")] {
        let more = hint.map_or(json!({}), |hint| json!({"login_hint": hint}));
        let theirs = stand_in().theirs("interactive", &options(&more), &[]);
        let stage = stage();
        let (browser, client) = (stage.browser(), client());
        let hint = hint.map(|hint| format!("--login-hint={hint}"));
        let mut flags = vec![client.as_str(), &browser];
        flags.extend(hint.as_deref());
        let outcome = ours(&stage, "interactive", &flags);
        stand_in().assert_same(&outcome.token(), &theirs);
        assert!(stage.page().contains("ann@example.com"), "{}", stage.page());
    }
}

#[test]
fn a_password_and_a_refresh_token_are_sent_as_azure_identity_sends_them() {
    let person = json!({"username": "ann@example.com", "password": "p&ss wörd"});
    let theirs = stand_in().theirs("ropc", &options(&person), &[]);
    let flags = [&client(), "--username=ann@example.com", "--password=p&ss wörd"];
    stand_in().assert_same(&ours(&stage(), "ropc", &flags).token(), &theirs);

    let case = json!({"kind": "devicecode", "options": options(&json!({})), "twice": true});
    let theirs = stand_in().asked(&case, &[]);
    let stage = stage_with_agent().interactive();
    let first = ours(&stage, "devicecode", &[&client(), "--skip-open-browser"]).token();
    // A server that refuses the token makes the program get a new one, with the refresh token.
    let again = stage.variable("KUBERNETES_EXEC_INFO", REFUSED);
    let second = ours(&again, "devicecode", &[&client(), "--skip-open-browser"]).token();
    assert_ne!(first, second);
    stand_in().assert_same(&second, &theirs);
}

#[test]
fn az_and_azd_are_called_as_azure_identity_calls_them() {
    // The token is a digest of the words; `expires_on` is that of `az`, `expiresOn` that of `azd`.
    let print = r#"sum=$(printf '%s\n' "$@" | sha256sum | cut -c 1-64)
printf '{"accessToken":"%s","token":"%s","expires_on":4102444800,"expiresOn":"2100-01-01T00:00:00Z"}' "$sum" "$sum""#;
    let stage = stage();
    program(&stage, "az", print);
    let path = program(&stage, "azd", print);
    let stage = stage.variable("PATH", path.clone());
    for (kind, options, flags) in [
        ("azurecli", json!({"tenant_id": TENANT}), &[][..]),
        (
            "azurecli",
            json!({"tenant_id": TENANT, "subscription": "my sub"}),
            &["--subscription=my sub"],
        ),
        ("azd", json!({"tenant_id": TENANT}), &[]),
    ] {
        let theirs = stand_in().theirs(kind, &options, &[("PATH", &path)]);
        stand_in().assert_same(&ours(&stage, kind, flags).token(), &theirs);
    }
}

#[test]
fn what_az_says_is_passed_on_and_what_it_prints_is_not() {
    let stage = stage();
    let path = program(
        &stage,
        "az",
        "echo 'Please run az login to setup account.' >&2; echo s3cr3t; exit 1",
    );
    let stage = stage.variable("PATH", path);
    let outcome = ours(&stage, "azurecli", &[]);
    let why = outcome.refusal(1);
    assert!(
        why.contains("Please run az login") && why.contains("hint: log in with `az login`"),
        "{why}"
    );
    program(&stage, "az", "echo s3cr3t");
    let outcome = ours(&stage, "azurecli", &[]);
    assert!(
        outcome.refusal(1).contains("is no JSON") && !outcome.stderr.contains("s3cr3t"),
        "{outcome:?}"
    );
    program(&stage, "az", "sleep 30");
    let outcome = ours(&stage, "azurecli", &["--timeout=1s"]);
    assert!(outcome.refusal(1).contains("`az` gives no token"), "{outcome:?}");
    let without = super::stage::stage().variable("PATH", "/nowhere");
    assert!(ours(&without, "azurecli", &[]).refusal(2).contains("`az` is not on `PATH`"));
}

#[test]
fn a_refusal_names_the_endpoint_the_reason_and_what_to_do() {
    let outcome = ours(&stage(), "spn", &[&client(), "--client-secret=wrong"]);
    let why = outcome.refusal(4);
    for part in ["/oauth2/v2.0/token", "AADSTS7000215", "az ad app credential reset"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(!why.contains("Trace ID"), "{why}");
    for (login, flags, expected) in [
        ("spn", &[][..], "needs `--client-id` or `AZURE_CLIENT_ID`"),
        ("spn", &["--client-id=a"], "needs `--client-certificate` or `--client-secret`"),
        ("workloadidentity", &["--client-id=a"], "AZURE_FEDERATED_TOKEN_FILE"),
        (
            "workloadidentity",
            &["--client-id=a", "--federated-token-file=/none"],
            "azure.workload.identity/use",
        ),
        ("azurepipelines", &["--client-id=a"], "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID"),
    ] {
        let outcome = ours(&stage(), login, flags);
        assert!(outcome.refusal(2).contains(expected), "{login}: {outcome:?}");
    }
}

#[test]
fn explain_says_which_source_was_used_and_prints_no_token() {
    let stage = stage();
    let outcome = ours(&stage, "spn", &[&client(), "--client-secret=s3cr3t", "--explain"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for line in [
        "with     login: spn",
        "skipped  agent: ",
        "used     secret: a token for the client",
        "result   a credential",
    ] {
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
    assert!(
        !outcome.stdout.contains("entra-") && !outcome.stdout.contains("s3cr3t"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn an_id_token_of_another_login_is_refused() {
    for (tenant, expected) in [
        ("other-nonce", "its nonce is not the one that was sent"),
        ("other-audience", "it is for another client"),
        ("no-id-token", "there is none that can be read"),
    ] {
        let stage = stage();
        let outcome = ours_in(&stage, tenant, "interactive", &[&client(), &stage.browser()]);
        assert!(outcome.refusal(1).contains(expected), "{tenant}: {outcome:?}");
    }
    let stage = stage_with_agent();
    let flags = [&client(), "--username=ann", "--password=p"];
    let tenants = [
        ("other-person", "after a refresh it is for another person"),
        ("no-id-token-later", "there is none that can be read"),
    ];
    for (tenant, _) in tenants {
        ours_in(&stage, tenant, "ropc", &flags).token();
    }
    let refused = stage.variable("KUBERNETES_EXEC_INFO", REFUSED);
    for (tenant, expected) in tenants {
        let outcome = ours_in(&refused, tenant, "ropc", &flags);
        assert!(outcome.refusal(1).contains(expected), "{tenant}: {outcome:?}");
    }
}
