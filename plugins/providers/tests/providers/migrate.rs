//! `keyward image migrate`: after it, a node of a cloud has the logins that it had before.
//!
//! Before, the replaced provider runs as the node configures it; its part is played by our program under that name,
//! which other tests compare with the original. After, ours runs as the new configuration says. Both ask the same
//! stand-in of the cloud.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use keyward_testing::{nodes, plugin};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{ecr, entra::stage::stand_in, google, program::Run};

/// A node, with the directories that its kubelet would have.
struct Node {
    directory: TempDir,
    layout: &'static str,
    report: Value,
}

impl Node {
    /// Migrates a layout.
    fn new(layout: &'static str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["new", "old"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let (new, old) = (directory.path().join("new"), directory.path().join("old"));
        Run::named("keyward-providers").args(["install"]).args([&new]).run().printed();
        let drop_in = Run::named("keyward-providers").args(["install", "--drop-in"]).args([&old]);
        drop_in.run().printed();
        let mut node = Self { directory, layout, report: Value::Null };
        let root = nodes::root(layout);
        let mut command = node.keyward(&BTreeMap::new());
        command.args(["image", "migrate", "-o", "json", "--root"]).arg(root).arg("--write");
        command.arg(node.path("migrated"));
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{layout}: {}", String::from_utf8_lossy(&ended.stderr));
        node.report = serde_json::from_slice(&ended.stdout).unwrap();
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn keyward(&self, environment: &BTreeMap<String, String>) -> Command {
        let mut command = Command::new(plugin::keyward());
        command.env_clear().env("HOME", self.directory.path()).env("PATH", "/usr/bin:/bin");
        command.env("KEYWARD_AGENT", "off").envs(environment);
        command
    }

    /// Today's configuration of the providers.
    fn today(&self) -> String {
        let flags = self.report["kubelet"]["remove"].as_array().unwrap();
        let flag = flags
            .iter()
            .filter_map(Value::as_str)
            .find_map(|flag| flag.strip_prefix("--image-credential-provider-config="));
        let path = nodes::root(self.layout).join(flag.unwrap().trim_start_matches('/'));
        fs::read_to_string(path).unwrap()
    }

    /// The logins for an image with a configuration whose paths are the node's.
    fn logins(
        &self,
        config: &str,
        programs: &str,
        image: &str,
        environment: &BTreeMap<String, String>,
    ) -> Vec<(String, String, String)> {
        let own = nodes::root(self.layout).join("etc/kubernetes/azure.json");
        let config = config.replace("/etc/kubernetes/azure.json", own.to_str().unwrap());
        let file = self.path("config.yaml");
        fs::write(&file, config).unwrap();
        let mut command = self.keyward(environment);
        command.args(["image", "credentials", "--config"]).arg(file);
        let ended = command.arg("--bin-dir").arg(self.path(programs)).arg(image).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{} {programs} {image}: {said}", self.layout);
        let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let logins = found["images"][0]["logins"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        logins.map(|l| (text(&l["registry"]), text(&l["username"]), text(&l["password"]))).collect()
    }

    fn before(
        &self,
        image: &str,
        environment: &BTreeMap<String, String>,
    ) -> Vec<(String, String, String)> {
        self.logins(&self.today(), "old", image, environment)
    }

    fn after(
        &self,
        image: &str,
        environment: &BTreeMap<String, String>,
    ) -> Vec<(String, String, String)> {
        let config = fs::read_to_string(self.path("migrated/providers.yaml")).unwrap();
        self.logins(&config, "new", image, environment)
    }
}

const ECR: &str = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:1";

#[test]
fn nodes_on_aws_get_the_same_login_for_ecr() {
    let environment = ecr::stage().environment;
    let other = "210987654321.dkr.ecr.us-east-2.amazonaws.com/app";
    for (layout, image, region) in [
        ("eks-al2", ECR, "eu-west-1"),
        ("eks-al2023", ECR, "eu-west-1"),
        ("bottlerocket", ECR, "eu-west-1"),
        ("rke2-ecr", other, "us-east-2"),
    ] {
        let (node, known) = (Node::new(layout), ecr::expected("alice", region));
        let (before, after) = (node.before(image, &environment), node.after(image, &environment));
        assert_eq!(before, after, "{layout}");
        assert_eq!((after[0].1.as_str(), after[0].2.as_str()), ("AWS", known.as_str()), "{layout}");
    }
    // The kubelet's own provider asked the same API with the same credentials.
    let known = ecr::expected("alice", "eu-west-1");
    let after = Node::new("kubeadm-aws").after(ECR, &environment);
    assert_eq!((after[0].1.as_str(), after[0].2.as_str()), ("AWS", known.as_str()));
}

#[test]
fn nodes_on_azure_get_the_same_login_for_acr() {
    let stand_in = stand_in();
    let environment: BTreeMap<String, String> = [
        ("SSL_CERT_FILE", stand_in.ca.as_str()),
        ("HTTPS_PROXY", &stand_in.http),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", &stand_in.http),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for (layout, image) in [
        ("aks-ubuntu", "team.azurecr.io/app:1"),
        ("aks-isolated", "team.azurecr.io/app:1"),
        ("aks-isolated", "mcr.microsoft.com/oss/app:1"),
    ] {
        let node = Node::new(layout);
        let (before, after) = (node.before(image, &environment), node.after(image, &environment));
        let names = |logins: &[(String, String, String)]| -> Vec<_> {
            logins.iter().map(|(registry, user, _)| (registry.clone(), user.clone())).collect()
        };
        assert_eq!(names(&before), names(&after), "{layout}");
        assert!(!after.is_empty(), "{layout}");
        for (old, new) in before.iter().zip(&after) {
            stand_in.assert_same(&new.2, &old.2);
        }
    }
    // The kubelet's own provider used the client and its secret.
    let after = Node::new("aks-in-tree").after("team.azurecr.io/app", &environment);
    let own = ("team.azurecr.io".to_owned(), "a-3".to_owned(), "s3cr3t-of-azure".to_owned());
    assert!(after.contains(&own), "{:?}", after.iter().map(|login| &login.0).collect::<Vec<_>>());
}

#[test]
fn nodes_on_google_cloud_get_a_token_of_the_same_account() {
    let mut stage = google::stage::Stage::new();
    let environment = stage.metadata().environment.clone();
    let account = "/computeMetadata/v1/instance/service-accounts/default/token";
    let asked = |logins: &[(String, String, String)]| {
        assert_eq!(logins[0].1, "_token");
        google::stage::request(&logins[0].2)["metadata"].clone()
    };
    for image in ["gcr.io/project/app", "europe-docker.pkg.dev/project/team/app"] {
        let node = Node::new("gke-cos");
        let (before, after) = (node.before(image, &environment), node.after(image, &environment));
        assert_eq!((asked(&before), asked(&after)), (json!(account), json!(account)), "{image}");
        assert_eq!(before[0].0, after[0].0);
        let own = Node::new("gce-in-tree").after(image, &environment);
        assert_eq!(asked(&own), json!(account), "{image}");
    }
}

#[test]
fn a_migrated_node_is_linted_with_the_real_programs_in_place() {
    for layout in
        ["eks-al2", "aks-isolated", "gke-cos", "kubeadm-aws", "aks-in-tree", "gce-in-tree"]
    {
        let node = Node::new(layout);
        let mut command = node.keyward(&BTreeMap::new());
        command
            .args(["image", "lint", "--strict", "--config"])
            .arg(node.path("migrated/providers.yaml"));
        let ended = command.arg("--bin-dir").arg(node.path("new")).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(
            ended.status.success() && said.starts_with("no problems found"),
            "{layout}: {said}"
        );
        assert!(Path::new(&node.path("migrated/kubelet-flags")).exists());
    }
}
