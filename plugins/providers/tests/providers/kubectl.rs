//! kubectl with the kubeconfig entries of the tools that the providers replace, and only our links on `PATH`.

use std::process::Command;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

use crate::{judge, program::Run, tls::tls};

#[test]
fn kubectl_works_with_the_entry_of_the_authenticator_and_with_a_changed_command_of_aws() {
    // As `aws-iam-authenticator` and `aws eks update-kubeconfig` document and write them.
    const ENTRIES: [(&str, &str, &str); 4] = [
        ("v1beta1", "aws-iam-authenticator", "[token, -i, prod]"),
        ("v1", "aws-iam-authenticator", "[token, --cluster-id, prod, --region, eu-west-1]"),
        (
            "v1beta1",
            "keyward-eks",
            "[--region, eu-west-1, eks, get-token, --cluster-name, prod, --output, json]",
        ),
        ("v1", "keyward-eks", "[eks, get-token, --cluster-name, prod]"),
    ];
    let kubectl = keyward_testing::kubectl::find(0).unwrap_or_else(|why| panic!("{why}")).path;
    let server = tls(&mut judge::judge());
    for (number, (version, command, args)) in ENTRIES.into_iter().enumerate() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        Run::named("keyward-providers").args(["install", "--drop-in"]).args([&bin]).run().printed();
        let path = format!("/kube/{number}");
        let config = home.path().join("config");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\nusers:\n- name: u\n  user:\n    exec:\n      \
             apiVersion: client.authentication.k8s.io/{version}\n      command: {command}\n      args: {args}\n      \
             interactiveMode: IfAvailable\n      env:\n      - {{name: AWS_REGION, value: eu-west-1}}\n",
            server.url,
            server.authority.display()
        );
        std::fs::write(&config, text).unwrap();
        let ended = Command::new(&kubectl)
            .args(["get", "--raw", &path, "--kubeconfig"])
            .arg(&config)
            .env_clear()
            .env("PATH", &bin)
            .env("HOME", home.path())
            .env("AWS_ACCESS_KEY_ID", "AKIATEST")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{command} {args}: {ended:?}");
        let said = judge::judge().ask(&json!({"operation": "bearer", "path": path}));
        let token = said["bearer"].as_str().unwrap().strip_prefix("Bearer k8s-aws-v1.");
        let url = URL_SAFE_NO_PAD.decode(token.unwrap()).unwrap();
        let url = String::from_utf8(url).unwrap();
        assert!(url.starts_with("https://sts.eu-west-1.amazonaws.com/"), "{command} {args}: {url}");
    }
}
