//! `keyward wrap --native`: entries of other tools that become ours, with the real kubectl and docker's configuration.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use keyward_testing::{authority::Authority, plugin};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    judge,
    oidc::{judge::Judge, stage::Stage},
    program::Run,
    tls::tls,
};

/// A home with links of our program in its `PATH`, and without any of the replaced tools.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.path("bin")).unwrap();
        Run::named("keyward-providers").args(["install"]).args([home.path("bin")]).run().printed();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("HOME", self.0.path())
            .env("KUBECONFIG", self.path("config"))
            .env("KEYWARD_AGENT", "off");
        command
    }

    /// Runs `keyward` with these words.
    fn keyward(&self, args: &str) -> (i32, String) {
        let mut command = self.command(plugin::keyward());
        command.args(args.split_whitespace());
        if args.starts_with("wrap") && !args.contains("--docker") {
            command.arg("--wrapper").arg(plugin::exec());
        }
        let ended = command.output().unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        (ended.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    #[track_caller]
    fn done(&self, args: &str) -> String {
        let (code, said) = self.keyward(args);
        assert_eq!(code, 0, "{args}: {said}");
        said
    }
}

/// A kubeconfig with one user, with this below `user:`.
fn kubeconfig(server: &str, authority: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config # mine\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"{server}\", certificate-authority: \"{authority}\"}}}}]\n\
         users:\n- name: u\n  user:\n{user}"
    )
}

#[test]
fn kubectl_gets_a_token_through_a_converted_entry_of_aws() {
    let kubectl = keyward_testing::kubectl::find(0).unwrap_or_else(|why| panic!("{why}")).path;
    let server = tls(&mut judge::judge());
    for (number, stanza) in [
        "      command: aws\n      args: [--region, eu-west-1, eks, get-token, --cluster-name, prod, --output, json]\n",
        "      args: # as eksctl writes them\n      - token\n      - -i\n      - prod\n      command: aws-iam-authenticator\n",
    ]
    .into_iter()
    .enumerate()
    {
        let home = Home::new();
        let path = format!("/kube/native-{number}");
        let user = format!(
            "    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n{stanza}      env:\n      - {{name: AWS_REGION, value: eu-west-1}}\n"
        );
        let authority = server.authority.display().to_string();
        let text = kubeconfig(&server.url, &authority, &user);
        home.write("config", &text);
        let dry = home.done("wrap --native --dry-run");
        assert!(dry.contains("would wrap `u`") && dry.contains("bin/keyward-eks"), "{dry}");
        assert_eq!(home.read("config"), text);
        assert!(home.done("wrap --native").contains("wrapped `u`"));
        let ended = home
            .command(&kubectl)
            .args(["get", "--raw", &path])
            .env("AWS_ACCESS_KEY_ID", "AKIATEST")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let said = judge::judge().ask(&json!({"operation": "bearer", "path": path}));
        let token = said["bearer"].as_str().unwrap().strip_prefix("Bearer k8s-aws-v1.").unwrap();
        let url = String::from_utf8(URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
        assert!(url.starts_with("https://sts.eu-west-1.amazonaws.com/"), "{url}");
        assert!(home.done("unwrap").contains("restored `u`"));
        assert_eq!(home.read("config"), text);
    }
}

#[test]
fn kubectl_gets_a_token_through_a_converted_auth_provider_after_one_login() {
    let kubectl = keyward_testing::kubectl::find(0).unwrap_or_else(|why| panic!("{why}")).path;
    let (home, stage) = (Home::new(), Stage::with_agent());
    let authority = Authority::new("ca").unwrap();
    let server = authority.server(&["127.0.0.1"]).unwrap();
    let ca = stage.write("ca.pem", authority.pem());
    let judge = Judge::start(&json!({ "tls": {
        "cert": stage.write("s.pem", server.certificate_pem()), "key": stage.write("s.key", server.key_pem()),
    } }));
    let user = format!(
        "    auth-provider:\n      config:\n        client-id: public\n        idp-certificate-authority: {ca}\n        \
         idp-issuer-url: {issuer}\n        id-token: s3cr3t-old\n        refresh-token: s3cr3t-old\n      name: oidc\n",
        issuer = judge.issuer
    );
    let text = kubeconfig(&judge.issuer, &ca, &user);
    home.write("config", &text);
    let dry = home.done("wrap --native --dry-run");
    assert!(dry.contains("- client-id: public") && !dry.contains("s3cr3t"), "{dry}");
    let said = home.done("wrap --native");
    assert!(said.contains("has to log in once") && said.contains("keyward login"), "{said}");
    assert!(!home.read("config").contains("s3cr3t"));
    // The login, in which the person's browser and port are no part of the identity.
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let trust = format!("--certificate-authority={ca}");
    let flags = ["get-token", &issuer, "--oidc-client-id=public", &trust];
    let browser = stage.browser();
    let login = stage.run(&[&flags[..], &["--listen-address=127.0.0.1:0", &browser]].concat());
    assert_eq!(login.code, Some(0), "{login:?}");
    let output = home
        .command(&kubectl)
        .args(["get", "--raw", "/version"])
        .envs(stage.environment())
        .env_remove("KUBERNETES_EXEC_INFO")
        .env_remove("KEYWARD_AGENT")
        .env("PATH", format!("{}:/usr/bin:/bin", home.path("bin").display()))
        .env("KUBECONFIG", home.path("config"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{}", "{output:?}");
    assert_eq!(judge.events(), ["page", "grant authorization_code", "version with a token"]);
    home.done("unwrap");
    assert_eq!(home.read("config"), text);
}

#[test]
fn what_cannot_be_replaced_is_named_with_the_reason_and_stays() {
    let home = Home::new();
    let user = |command: &str, args: &str| {
        format!(
            "    exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: {command}, args: {args}}}\n"
        )
    };
    for (entry, why) in [
        (user("own-plugin", "[]"), "no provider for the plugin `own-plugin`"),
        (
            user("aws", "[eks, get-token, --cluster-name, c, --no-verify-ssl]"),
            "`keyward-eks` does not accept its arguments: `--no-verify-ssl` is not supported",
        ),
        (
            user("kubelogin", "[get-token, --oidc-issuer-url=https://i, --odd]"),
            "there is no flag `--odd`",
        ),
        (
            "    auth-provider: {name: oidc, config: {client-id: c}}\n".to_owned(),
            "`idp-issuer-url` is missing",
        ),
        ("    auth-provider: {name: other}\n".to_owned(), "the auth-provider `other`"),
    ] {
        let text = kubeconfig("https://127.0.0.1:1", "/ca", &entry);
        home.write("config", &text);
        let (code, said) = home.keyward("wrap --native");
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("no plugin can be replaced") && said.contains(why), "{said}");
        assert_eq!(home.read("config"), text);
    }
    // Beside another one, it is left out.
    let text = kubeconfig("https://127.0.0.1:1", "/ca", &user("own-plugin", "[]"))
        + "- name: v\n  user:\n"
        + &user("aws", "[eks, get-token, --cluster-name, c]");
    home.write("config", &text);
    let said = home.done("wrap --native --all");
    assert!(said.contains("wrapped `v`") && said.contains("user `u` stays as it is"), "{said}");
    home.done("unwrap --all");
    assert_eq!(home.read("config"), text);
}

#[cfg(all(feature = "entra", feature = "gke"))]
#[test]
fn entries_of_every_cloud_are_accepted_by_their_providers_and_restored() {
    const EXEC: &str =
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n      command: ";
    let exec = |command: &str, args: &str| format!("{EXEC}{command}\n      args: {args}\n");
    let azure = "{environment: AzurePublicCloud, tenant-id: t, client-id: c, apiserver-id: s, access-token: s3cr3t}";
    let gcloud = "{cmd-path: /snap/bin/gcloud, cmd-args: config config-helper --format=json, access-token: s3cr3t}";
    let provider = |name: &str, config: &str| {
        format!("    auth-provider:\n      name: {name}\n      config: {config}\n")
    };
    for (entry, program) in [
        (
            exec(
                "kubelogin",
                "[get-token, --server-id, s, --client-id, c, --tenant-id, t, --environment, AzurePublicCloud]",
            ),
            "keyward-entra",
        ),
        (exec("kubelogin", "[get-token, --login, azurecli, --server-id, s]"), "keyward-entra"),
        (
            exec("kubelogin", "[get-token, --login, workloadidentity, --server-id, s]"),
            "keyward-entra",
        ),
        (exec("gke-gcloud-auth-plugin", "[]"), "keyward-gke"),
        (exec("gke-gcloud-auth-plugin", "[--use_application_default_credentials]"), "keyward-gke"),
        (provider("azure", &azure.replace('}', ", config-mode: '1'}")), "keyward-entra"),
        (provider("gcp", gcloud), "keyward-gke"),
        (provider("gcp", "{}"), "keyward-gke"),
    ] {
        let home = Home::new();
        let text = kubeconfig("https://127.0.0.1:1", "/ca", &entry);
        home.write("config", &text);
        home.done("wrap --native");
        let changed = home.read("config");
        assert!(changed.contains(&format!("bin/{program}\"")), "{entry}: {changed}");
        assert!(!changed.contains("s3cr3t"), "{changed}");
        home.done("unwrap");
        assert_eq!(home.read("config"), text);
    }
    // AKS's integration with the audience `spn:…` has ended.
    let home = Home::new();
    let text = kubeconfig("https://127.0.0.1:1", "/ca", &provider("azure", azure));
    home.write("config", &text);
    let (code, said) = home.keyward("wrap --native");
    assert!(code == 1 && said.contains("`--legacy` is not supported"), "{said}");
    assert_eq!(home.read("config"), text);
}

#[test]
fn a_provider_that_is_not_installed_is_named_with_the_command_to_run() {
    let home = Home::new();
    fs::remove_file(home.path("bin/keyward-eks")).unwrap();
    let entry = "    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token, --cluster-name, c]}\n";
    home.write("config", &kubeconfig("https://127.0.0.1:1", "/ca", entry));
    let (code, said) = home.keyward("wrap --native");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("`keyward-eks` is not installed"), "{said}");
    assert!(said.contains("run `keyward-providers install "), "{said}");
}

#[test]
fn dockers_helpers_are_replaced_and_restored_byte_for_byte() {
    const HOST: &str = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";
    let home = Home::new();
    let text = format!(
        "{{\n\t\"auths\": {{}},\n\t\"credHelpers\": {{\"{HOST}\":   \"ecr-login\", \"other.example\": \"pass\"}}\n}}\n"
    );
    home.write(".docker/config.json", &text);
    let dry = home.done("wrap --native --docker --dry-run");
    assert!(dry.contains("\"ecr-login\" -> \"keyward-ecr\""), "{dry}");
    assert_eq!(home.read(".docker/config.json"), text);
    home.done("wrap --native --docker");
    let changed = home.read(".docker/config.json");
    assert_eq!(changed, text.replace("ecr-login", "keyward-ecr"));
    let again = home.done("wrap --native --docker");
    assert!(again.contains("already replaced"), "{again}");
    // Docker finds the helper by that name.
    let stage = crate::ecr::stage();
    let mut environment = stage.environment.clone();
    environment.insert("PATH".to_owned(), home.path("bin").display().to_string());
    let ended = Run::named("docker-credential-keyward-ecr")
        .envs(&environment)
        .args(["get"])
        .with_input(HOST.as_bytes());
    let answer: Value = serde_json::from_str(&ended.printed()).unwrap();
    assert_eq!(answer["Username"], "AWS");
    assert!(home.done("unwrap --docker").contains("restored"));
    assert_eq!(home.read(".docker/config.json"), text);
    assert_eq!(home.done("unwrap --docker"), "nothing is replaced\n");
    // Without the link, docker would find nothing.
    fs::remove_file(home.path("bin/docker-credential-keyward-ecr")).unwrap();
    let (code, said) = home.keyward("wrap --native --docker");
    assert!(
        code == 1 && said.contains("`docker-credential-keyward-ecr` is not installed"),
        "{said}"
    );
}
