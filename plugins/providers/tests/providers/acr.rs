//! `keyward-acr`, with azure-containerregistry as the judge. A proxy leads every name to the stand-in, so registries and
//! Entra ID have their real names.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    entra::stage::stand_in,
    program::{Ended, Run},
};

const HOST: &str = "team.azurecr.io";
const USER: &str = "00000000-0000-0000-0000-000000000000";
const POD: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL29pZGMiLCJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YTpiIn0.c2ln";
const MANAGED: &str =
    r#"{"cloud":"AzurePublicCloud","tenantId":"t","useManagedIdentityExtension":true}"#;

/// A node: its `azure.json`, and its variables.
struct Node {
    directory: TempDir,
    variables: BTreeMap<String, String>,
}

impl Node {
    fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("azure.json"), config).unwrap();
        let stand_in = stand_in();
        let variables = [
            ("SSL_CERT_FILE", stand_in.ca.as_str()),
            ("HTTPS_PROXY", &stand_in.http),
            ("AZURE_POD_IDENTITY_AUTHORITY_HOST", &stand_in.http),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { directory, variables: variables.into() }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    fn run(&self, name: &str, args: &[&str], input: &str) -> Ended {
        let run = Run::named(name).envs(&self.variables).directory(self.directory.path());
        run.args(args).with_input(input.as_bytes())
    }

    /// What the provider answers the kubelet.
    fn answer(&self, request: &str, flags: &[&str]) -> Value {
        let args = [&["azure.json"], flags].concat();
        let printed = self.run("acr-credential-provider", &args, request).printed();
        serde_json::from_str(&printed).unwrap()
    }

    /// The environment of the judge.
    fn theirs(&self, kind: &str, options: &Value) -> String {
        let variables = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let case = json!({
            "operation": "registry", "registry": format!("https://{HOST}"), "kind": kind, "options": options,
        });
        stand_in().asked(&case, &variables.collect::<Vec<_>>())
    }
}

fn request(image: &str, more: &Value) -> String {
    let mut request = json!({
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderRequest", "image": image,
    });
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    request.to_string()
}

fn image() -> String {
    request(&format!("{HOST}/app:1"), &json!({}))
}

fn password<'a>(answer: &'a Value, host: &str) -> &'a str {
    assert_eq!(answer["auth"][host]["username"], USER, "{answer}");
    answer["auth"][host]["password"].as_str().unwrap()
}

#[test]
fn a_node_gets_the_login_that_azure_containerregistry_gets() {
    let resource = "/subscriptions/a/resourceGroups/b/providers/Microsoft.ManagedIdentity/userAssignedIdentities/c";
    for (config, options) in [
        (json!({}), json!({})),
        (json!({"userAssignedIdentityID": "c-1"}), json!({"client_id": "c-1"})),
        (
            json!({"userAssignedIdentityID": resource}),
            json!({"identity_config": {"resource_id": resource}}),
        ),
    ] {
        let mut file: Value = serde_json::from_str(MANAGED).unwrap();
        for (name, value) in config.as_object().unwrap() {
            file[name] = value.clone();
        }
        let node = Node::new(&file.to_string());
        let answer = node.answer(&image(), &[]);
        stand_in().assert_same(password(&answer, HOST), &node.theirs("identity", &options));
        assert_eq!(answer["auth"]["*.azurecr.*"], json!({"username": "", "password": ""}));
        assert_eq!(
            (&answer["cacheKeyType"], &answer["cacheDuration"]),
            (&"Registry".into(), &"1h0m0s".into())
        );
    }
}

#[test]
fn a_pod_gets_a_login_of_its_own() {
    let node = Node::new(MANAGED);
    let annotations = json!({"kubernetes.azure.com/acr-client-id": "c-2", "kubernetes.azure.com/acr-tenant-id": "t-2"});
    let pod = json!({"serviceAccountToken": POD, "serviceAccountAnnotations": annotations});
    let answer = node.answer(&request(&format!("{HOST}/app:1"), &pod), &[]);
    let options = json!({"tenant_id": "t-2", "client_id": "c-2", "assertion": POD});
    stand_in().assert_same(password(&answer, HOST), &node.theirs("assertion", &options));
    // Without an annotation nothing else is used in its place.
    let pod = json!({"serviceAccountToken": POD, "serviceAccountAnnotations": {}});
    let ended =
        node.run("acr-credential-provider", &["azure.json"], &request(&format!("{HOST}/a"), &pod));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("kubernetes.azure.com/acr-client-id"), "{ended:?}");
}

#[test]
fn docker_gets_a_login_for_who_the_environment_names() {
    let node = Node::new("");
    let get = |node: &Node| {
        let printed = node.run("docker-credential-acr-env", &["get"], HOST).printed();
        let answer: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!((&answer["ServerURL"], &answer["Username"]), (&HOST.into(), &USER.into()));
        answer["Secret"].as_str().unwrap().to_owned()
    };
    stand_in().assert_same(&get(&node), &node.theirs("identity", &json!({})));
    let token = node.directory.path().join("token");
    std::fs::write(&token, POD).unwrap();
    let named =
        |node: Node| node.variable("AZURE_TENANT_ID", "t-3").variable("AZURE_CLIENT_ID", "c-3");
    let secret = named(Node::new("")).variable("AZURE_CLIENT_SECRET", "s");
    let options = json!({"tenant_id": "t-3", "client_id": "c-3", "client_secret": "s"});
    stand_in().assert_same(&get(&secret), &secret.theirs("secret", &options));
    let pod = named(Node::new("")).variable("AZURE_FEDERATED_TOKEN_FILE", token.to_str().unwrap());
    let options = json!({"tenant_id": "t-3", "client_id": "c-3", "assertion": POD});
    stand_in().assert_same(&get(&pod), &pod.theirs("assertion", &options));

    let foreign = node.run("docker-credential-acr-env", &["get"], "registry.example");
    assert_eq!(foreign.stdout, "credentials not found in native keychain\n");
    assert_eq!(node.run("docker-credential-acr-env", &["list"], "").printed(), "{}\n");
    assert_eq!(
        node.run(
            "docker-credential-acr-env",
            &["store"],
            &json!({"ServerURL": HOST, "Username": "a", "Secret": "b"}).to_string()
        )
        .code,
        Some(0)
    );
    assert_eq!(node.run("docker-credential-acr-env", &[], "").code, Some(2));
}

#[test]
fn a_node_without_an_identity_gives_its_application() {
    let node = Node::new(r#"{"aadClientId":"app","AADCLIENTSECRET":"s3cr3t"}"#);
    let answer = node.answer(&image(), &[]);
    assert_eq!(answer["auth"][HOST], json!({"username": "app", "password": "s3cr3t"}));
    let ended = Node::new("{}").run("acr-credential-provider", &["azure.json"], &image());
    assert!(
        ended.code == Some(2) && ended.stderr.contains("useManagedIdentityExtension"),
        "{ended:?}"
    );
}

#[test]
fn pitfall_18_the_secret_of_the_nodes_application_is_no_login_of_a_mirrored_registry() {
    let mirror = ["--registry-mirror", &format!("docker.io:{HOST}")];
    let asked = request("docker.io/a:1", &json!({}));
    let node = Node::new(r#"{"tenantId":"t","aadClientId":"app","aadClientSecret":"s3cr3t"}"#);
    let answer = node.answer(&asked, &mirror);
    assert!(!answer.to_string().contains("s3cr3t"), "{answer}");
    let options = json!({"tenant_id": "t", "client_id": "app", "client_secret": "s3cr3t"});
    let theirs = node.theirs("secret", &options);
    stand_in().assert_same(password(&answer, "docker.io"), &theirs);
    // Without the tenant, nobody can be asked for a token.
    let node = Node::new(r#"{"aadClientId":"app","aadClientSecret":"s3cr3t"}"#);
    let ended =
        node.run("acr-credential-provider", &[&["azure.json"], &mirror[..]].concat(), &asked);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("`tenantId`"), "{ended:?}");
}

#[test]
fn pitfall_18_no_token_leaves_for_a_foreign_host_and_no_realm_of_one_is_asked() {
    let node = Node::new(MANAGED);
    for image in [
        "registry.example/a",
        "team.azurecr.io.evil.example/a",
        "evil.example/team.azurecr.io/a",
        "evilazurecr.io/a",
        "team.azurecr.io:444/a",
    ] {
        let answer = node.answer(&request(image, &json!({})), &[]);
        assert_eq!(
            (&answer["auth"], &answer["cacheDuration"]),
            (&json!({}), &"0s".into()),
            "{image}"
        );
    }
    for host in ["evil.azurecr.io", "plain.azurecr.io", "port.azurecr.io"] {
        let before = stand_in().count(&format!("exchange {host}"));
        let ended = node.run(
            "acr-credential-provider",
            &["azure.json"],
            &request(&format!("{host}/a"), &json!({})),
        );
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{ended:?}");
        assert!(ended.stderr.contains("which is another host; none is sent"), "{ended:?}");
        assert_eq!(stand_in().count(&format!("exchange {host}")), before);
        assert_eq!(stand_in().count("proxied evil.example:443"), 0);
    }
    let ended = node.run(
        "acr-credential-provider",
        &["azure.json"],
        &request("open.azurecr.io/a", &json!({})),
    );
    assert!(ended.stderr.contains("not with a challenge"), "{ended:?}");
}

#[test]
fn pitfall_19_an_answer_is_for_one_registry() {
    let node = Node::new(MANAGED);
    let one = node.answer(&image(), &[]);
    let other = node.answer(&request("other.azurecr.io/a", &json!({})), &[]);
    assert_eq!(
        (&one["cacheKeyType"], &other["cacheKeyType"]),
        (&"Registry".into(), &"Registry".into())
    );
    assert!(other["auth"].get(HOST).is_none(), "{other}");
    assert_ne!(password(&one, HOST), password(&other, "other.azurecr.io"));
}

#[test]
fn pitfall_20_a_mirror_gives_the_login_under_the_name_of_the_image() {
    let node = Node::new(MANAGED);
    let direct = node.answer(&image(), &[]);
    let mirrors = format!(
        "mcr.microsoft.com:{HOST},localhost:5000:{HOST},mcr.microsoft.com/oss:other.azurecr.io"
    );
    let mirror = |image: &str, more: &Value| {
        node.answer(&request(image, more), &["--registry-mirror", &mirrors])
    };
    for (image, key) in
        [("mcr.microsoft.com/a:1", "mcr.microsoft.com"), ("localhost:5000/a", "localhost:5000")]
    {
        // The pod's own identity is not used for a mirror, which is the node's.
        let pod = json!({"serviceAccountToken": POD, "serviceAccountAnnotations": {}});
        for more in [json!({}), pod] {
            let answer = mirror(image, &more);
            assert_eq!(password(&answer, key), password(&direct, HOST), "{image}");
        }
    }
    // The longer prefix wins, and does not answer for the rest of the registry.
    let part = mirror("mcr.microsoft.com/oss/a:1", &json!({}));
    assert_eq!(part["cacheKeyType"], "Image", "{part}");
    let ended =
        node.run("acr-credential-provider", &["azure.json", "-r", "mcr.microsoft.com"], &image());
    assert!(ended.code == Some(2) && ended.stderr.contains("`FROM:TO`"), "{ended:?}");
}

/// Every flag of acr-credential-provider, as its help lists them.
#[test]
fn every_documented_flag_is_accepted_or_refused_with_a_reason() {
    let node = Node::new(r#"{"aadClientId":"app","aadClientSecret":"s"}"#);
    for (flag, reason) in [
        ("--registry-mirror=a:b.azurecr.io", None),
        ("-ra:b.azurecr.io", None),
        ("--ib-sni-name=a", Some("identity bindings")),
        ("--ib-default-client-id=a", Some("identity bindings")),
        ("--ib-default-tenant-id=a", Some("identity bindings")),
        ("--ib-apiserver-ip=1.2.3.4", Some("identity bindings")),
        ("-v4", None),
        ("--v=4", None),
        ("--vmodule=a=1", None),
        ("--log-flush-frequency=5s", None),
        ("--logtostderr=true", None),
        ("--alsologtostderr", None),
        ("--log_dir=/tmp", None),
        ("--stderrthreshold=2", None),
    ] {
        for name in ["acr-credential-provider", "azure-acr-credential-provider", "keyward-acr"] {
            let ended = node.run(name, &["azure.json", flag], &image());
            match reason {
                None => assert_eq!(ended.code, Some(0), "{flag}: {ended:?}"),
                Some(reason) => assert!(
                    ended.code == Some(2) && ended.stderr.contains(reason),
                    "{flag}: {ended:?}"
                ),
            }
        }
    }
    assert!(
        node.run("acr-credential-provider", &["--version"], "").printed().contains("(Keyward)")
    );
    assert!(
        node.run("keyward-acr", &["--help"], "").printed().contains("Usage: keyward-acr CONFIG")
    );
    assert_eq!(node.run("acr-credential-provider", &[], &image()).code, Some(2));
    let ended = node.run("acr-credential-provider", &["/none.json"], &image());
    assert!(
        ended.code == Some(2) && ended.stderr.contains("cannot read `/none.json`"),
        "{ended:?}"
    );
}

#[test]
fn a_refusal_says_what_to_do_and_explain_shows_the_sources() {
    let node = Node::new(MANAGED);
    let ended = node.run(
        "acr-credential-provider",
        &["azure.json"],
        &request("denied.azurecr.io/a", &json!({})),
    );
    assert!(ended.code == Some(4) && ended.stderr.contains("AcrPull"), "{ended:?}");
    let shown =
        node.run("keyward-acr", &["--explain", &format!("{HOST}/a"), "azure.json"], "").printed();
    for line in [
        "used     managed identity of the virtual machine",
        "with     registry: `team.azurecr.io`",
        "result   a credential",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let shown = node.run("keyward-acr", &["--explain", HOST], "").printed();
    assert!(shown.contains("skipped  environment"), "{shown}");
    let ended = node.run("keyward-acr", &["--explain", "registry.example", "azure.json"], "");
    assert!(ended.stderr.contains("in no registry of Azure"), "{ended:?}");
}

#[test]
fn a_cloud_of_ones_own_has_its_addresses_in_a_file() {
    let file = r#"{"activeDirectoryEndpoint":"https://login.microsoftonline.com/","containerRegistryDNSSuffix":".azurecr.io"}"#;
    let config = r#"{"cloud":"AzureStackCloud","useManagedIdentityExtension":true}"#;
    let node = Node::new(config).variable("AZURE_ENVIRONMENT_FILEPATH", "stack.json");
    std::fs::write(node.directory.path().join("stack.json"), file).unwrap();
    password(&node.answer(&image(), &[]), HOST);
    let ended = Node::new(config).run("acr-credential-provider", &["azure.json"], &image());
    assert!(
        ended.code == Some(2) && ended.stderr.contains("AZURE_ENVIRONMENT_FILEPATH"),
        "{ended:?}"
    );
}

#[test]
fn no_secret_is_in_a_message() {
    const MARK: &str = "m4rk3d-s3cr3t";
    let broken = Node::new(&format!(r#"{{"aadClientSecret":"{MARK}"#));
    let wrong = Node::new("")
        .variable("AZURE_TENANT_ID", "refused")
        .variable("AZURE_CLIENT_ID", "c")
        .variable("AZURE_CLIENT_SECRET", MARK);
    let pod = json!({"serviceAccountToken": MARK, "serviceAccountAnnotations":
        {"kubernetes.azure.com/acr-client-id": "c", "kubernetes.azure.com/acr-tenant-id": "refused"}});
    let managed = Node::new(MANAGED);
    for ended in [
        broken.run("acr-credential-provider", &["azure.json"], &image()),
        wrong.run("docker-credential-acr-env", &["get"], HOST),
        wrong.run("keyward-acr", &["--explain", HOST], ""),
        managed.run(
            "acr-credential-provider",
            &["azure.json"],
            &request(&format!("{HOST}/a"), &pod),
        ),
    ] {
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert!(!ended.stdout.contains(MARK) && !ended.stderr.contains(MARK), "{ended:?}");
    }
}
