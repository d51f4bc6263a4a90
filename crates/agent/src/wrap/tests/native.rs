//! Plugins and auth-providers that are replaced.

use super::*;
use crate::wrap::native::{Conversion, Native, of_auth_provider, of_exec};

fn args(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

#[test]
fn known_plugins_have_a_provider_and_others_a_reason() {
    for (command, line, provider) in [
        (
            "aws",
            &["--region", "eu-west-1", "eks", "get-token", "--cluster-name", "c"][..],
            "keyward-eks",
        ),
        ("/usr/local/bin/aws", &["eks", "get-token", "--cluster-name", "c"], "keyward-eks"),
        ("aws-iam-authenticator", &["token", "-i", "c"], "keyward-eks"),
        ("heptio-authenticator-aws", &["token", "-i", "c"], "keyward-eks"),
        ("kubectl", &["oidc-login", "get-token", "--oidc-issuer-url=https://i"], "keyward-oidc"),
        ("kubectl-oidc_login", &["get-token", "--oidc-issuer-url", "https://i"], "keyward-oidc"),
        ("kubelogin", &["get-token", "--oidc-issuer-url=https://i"], "keyward-oidc"),
        ("kubelogin", &["get-token", "--server-id", "s"], "keyward-entra"),
        ("gke-gcloud-auth-plugin", &[], "keyward-gke"),
    ] {
        assert_eq!(of_exec(command, &args(line)), Ok(Some(provider)), "{command} {line:?}");
    }
    for (command, line, why) in [
        ("aws", &["s3", "ls"][..], "no provider for the plugin `aws`"),
        ("aws-vault", &["exec", "p", "--", "aws", "eks", "get-token"], "plugin `aws-vault`"),
        ("aws-iam-authenticator", &["-l", "json", "token"], "not the first argument"),
        ("kubelogin", &["get-token"], "no provider"),
        ("tsh", &["kube", "credentials"], "no provider for the plugin `tsh`"),
    ] {
        let refused = of_exec(command, &args(line)).unwrap_err();
        assert!(refused.contains(why), "{command} {line:?}: {refused}");
    }
    assert_eq!(of_exec("/usr/bin/keyward-eks", &[]), Ok(None));
}

fn convert(name: &str, config: &[(&str, &str)]) -> Result<Conversion, String> {
    let config: Vec<_> = config
        .iter()
        .map(|(key, value)| ((*key).to_owned(), keyward_protocol::Secret::new(*value)))
        .collect();
    of_auth_provider(name, &config)
}

#[test]
fn auth_providers_become_command_lines_without_their_secrets() {
    const ISSUER: (&str, &str) = ("idp-issuer-url", "https://i");
    const CLIENT: (&str, &str) = ("client-id", "kube");
    const AZURE: [(&str, &str); 3] =
        [("tenant-id", "t"), ("client-id", "c"), ("apiserver-id", "s")];
    let flags = ["get-token", "--oidc-issuer-url=https://i", "--oidc-client-id=kube"];
    let config = [ISSUER, CLIENT, ("id-token", "hush"), ("refresh-token", "hush")];
    let plain = convert("oidc", &config).unwrap();
    assert_eq!((plain.provider, plain.args), ("keyward-oidc", args(&flags)));
    let config = [
        ISSUER,
        CLIENT,
        ("client-secret", "hush"),
        ("extra-scopes", "groups, email"),
        ("idp-certificate-authority", "/ca.pem"),
    ];
    let full = convert("oidc", &config).unwrap();
    let more = [
        "--certificate-authority=/ca.pem",
        "--oidc-extra-scope=groups",
        "--oidc-extra-scope=email",
    ];
    assert_eq!(full.args, args(&[&flags[..], &more].concat()));
    assert_eq!(full.env[0].0, "KEYWARD_OIDC_CLIENT_SECRET");
    assert!(full.args.iter().all(|arg| !arg.contains("hush")));
    assert!(!format!("{full:?}").contains("hush"));

    let entra = ["get-token", "--login", "devicecode"];
    let flags = ["--tenant-id", "t", "--client-id", "c", "--server-id", "s"];
    let legacy = convert("azure", &AZURE).unwrap();
    assert_eq!(legacy.args, args(&[&entra[..], &flags, &["--legacy"]].concat()));
    let modern = [&AZURE[..], &[("config-mode", "1"), ("environment", "AzureChinaCloud")]].concat();
    let modern = convert("azure", &modern).unwrap();
    let cloud = ["--environment", "AzureChinaCloud"];
    assert_eq!(modern.args, args(&[&entra[..], &cloud, &flags].concat()));

    let gcloud = [
        ("cmd-path", "/usr/lib/google-cloud-sdk/bin/gcloud"),
        ("cmd-args", "config config-helper --format=json --account=a@b.c"),
        ("token-key", "{.credential.access_token}"),
        ("access-token", "hush"),
    ];
    let by_gcloud = convert("gcp", &gcloud).unwrap();
    assert_eq!((by_gcloud.provider, by_gcloud.args), ("keyward-gke", args(&["--account=a@b.c"])));
    let default = convert("gcp", &[]).unwrap();
    assert_eq!(default.args, args(&["--use_application_default_credentials"]));
}

#[test]
fn what_an_auth_provider_would_lose_is_refused() {
    for (name, config, why) in [
        ("oidc", &[("client-id", "kube")][..], "`idp-issuer-url` is missing"),
        ("oidc", &[("idp-issuer-url", "i"), ("client-id", "k"), ("new", "1")], "setting `new`"),
        ("azure", &[("tenant-id", "t"), ("client-id", "c")], "`apiserver-id` is missing"),
        ("gcp", &[("cmd-path", "/opt/own"), ("cmd-args", "token")], "the command `/opt/own`"),
        ("gcp", &[("scopes", "a,b")], "setting `scopes`"),
        ("gcp", &[("cmd-path", "gcloud"), ("cmd-args", "auth print")], "the command `gcloud`"),
        (
            "gcp",
            &[("cmd-path", "gcloud"), ("cmd-args", "config config-helper --configuration=x")],
            "`--configuration=x`",
        ),
        ("openstack", &[], "no provider for the auth-provider `openstack`"),
    ] {
        let refused = convert(name, config).unwrap_err();
        assert!(refused.contains(why), "{name}: {refused}");
    }
}

const EXEC: &str = "\
users:
- name: ann
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      # of the shop
      command: aws
      args:
      - eks # words
      - get-token
      env: [{name: AWS_PROFILE, value: shop}]
";

/// Every style in which people write an auth-provider.
const PROVIDERS: [&str; 5] = [
    "users:\n- name: ann\n  user:\n    auth-provider:\n      config:\n        client-id: kube # ours\n        idp-issuer-url: https://i\n        \
     refresh-token: hush\n      name: oidc\n- name: bea\n  user: {token: t}\n",
    "users:\r\n- name: ann\r\n  user:\r\n    auth-provider: {name: oidc, config: {client-id: kube, idp-issuer-url: 'https://i', client-secret: hush}}\r\n",
    "users: [{name: ann, user: {auth-provider: {name: oidc, config: {client-id: kube, idp-issuer-url: 'https://i'}}, token: t}}]\n",
    r#"{"users":[{"name":"ann","user":{"auth-provider" : {"name":"oidc","config":{"client-id":"k}\"","idp-issuer-url":"https://i","client-secret":"hush"}}}}]}"#,
    "users:\n- user:\n    token: t\n    auth-provider:\n      name: oidc\n      config:\n        client-id: kube\n        idp-issuer-url: |\n          https://i\n  name: ann",
];

fn native() -> Vec<Native> {
    vec![Native { user: "ann".into(), command: "/opt/keyward-eks".into() }]
}

fn wrap_native(text: &str, natives: &[Native]) -> Result<Edited, Refusal> {
    wrap(text.as_bytes(), &Wrapping { natives, ..wrapping(&[]) }, |_| true)
}

#[test]
fn a_plugin_is_replaced_and_its_arguments_and_comments_stay() {
    let edited = wrap_native(EXEC, &native()).unwrap();
    let text = String::from_utf8(edited.bytes.clone()).unwrap();
    assert!(text.contains("# of the shop") && text.contains("- eks # words"), "{text}");
    let config = Kubeconfig::from_bytes(text.as_bytes()).unwrap();
    let exec = config.users[0].value.exec.clone().unwrap().without_wrapper();
    assert_eq!(
        (exec.command.as_str(), exec.args),
        ("/opt/keyward-eks", args(&["eks", "get-token"]))
    );
    assert_eq!(exec.env[0].0, "AWS_PROFILE");
    assert_eq!(undo(&edited.bytes, &edited.edits).unwrap(), EXEC.as_bytes());
}

#[test]
fn an_auth_provider_becomes_a_stanza_in_every_style_and_comes_back() {
    for text in PROVIDERS {
        let edited = wrap_native(text, &native()).unwrap_or_else(|why| panic!("{why:?}\n{text}"));
        let config = Kubeconfig::from_bytes(&edited.bytes).unwrap();
        let user = &config.users[0].value;
        assert!(user.auth_provider.is_none(), "{text}");
        let exec = user.exec.clone().unwrap();
        assert_eq!(exec.api_version.text(), "client.authentication.k8s.io/v1");
        assert_eq!(exec.interactive_mode.text(), "IfAvailable");
        let exec = exec.without_wrapper();
        assert_eq!(exec.command, "/opt/keyward-eks");
        assert_eq!(exec.args[1].trim(), "--oidc-issuer-url=https://i", "{text}");
        assert_eq!(exec.env.len(), usize::from(text.contains("client-secret")), "{text}");
        assert_eq!(undo(&edited.bytes, &edited.edits).unwrap(), text.as_bytes(), "{text}");
        assert_eq!(wrapped_users(&edited.bytes).unwrap(), ["ann"]);
        // Nobody asked for it: it stays.
        assert!(wrap_native(text, &[]).unwrap().edits.is_empty(), "{text}");
    }
}

#[test]
fn an_auth_provider_that_another_entry_shares_is_refused() {
    let text = "users:\n- name: ann\n  user: &u\n    auth-provider: {name: oidc, config: {client-id: k, idp-issuer-url: i}}\n\
                - name: bea\n  user: *u\n";
    let refused = wrap_native(text, &native()).unwrap_err();
    assert!(refused.why.contains("anchor") || refused.why.contains("more than"), "{refused:?}");
    let both =
        "users:\n- name: ann\n  user:\n    auth-provider: {name: oidc}\n    exec: {command: x}\n";
    assert!(wrap_native(both, &native()).unwrap_err().why.contains("both"));
}
