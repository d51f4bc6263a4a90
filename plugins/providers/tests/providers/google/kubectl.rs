//! kubectl with the entry that `gcloud container clusters get-credentials` writes, and only our links on `PATH`.

use std::process::Command;

use serde_json::json;

use super::stage::{Stage, authorized_user, judge};
use crate::{program::Run, tls::tls};

#[test]
fn kubectl_works_with_the_entry_of_gcloud_and_only_our_links_on_its_path() {
    const ENTRIES: [(&str, &str, &str); 4] = [
        ("v1beta1", "gke-gcloud-auth-plugin", ""),
        (
            "v1beta1",
            "gke-gcloud-auth-plugin",
            "\n      args: [--use_application_default_credentials]",
        ),
        ("v1", "gke-gcloud-auth-plugin", ""),
        ("v1", "keyward-gke", ""),
    ];
    let kubectl = keyward_testing::kubectl::find(0).unwrap_or_else(|why| panic!("{why}")).path;
    let server = tls(&mut judge());
    for (number, (version, command, args)) in ENTRIES.into_iter().enumerate() {
        let mut stage = Stage::new();
        stage.adc(&authorized_user());
        let bin = stage.path("links");
        std::fs::create_dir(&bin).unwrap();
        Run::named("keyward-providers").args(["install", "--drop-in"]).args([&bin]).run().printed();
        let path = format!("/kube/{number}");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\nusers:\n- name: u\n  user:\n    exec:\n      \
             apiVersion: client.authentication.k8s.io/{version}\n      command: {command}\n      \
             installHint: Install gke-gcloud-auth-plugin\n      provideClusterInfo: true\n      \
             interactiveMode: IfAvailable{args}\n",
            server.url,
            server.authority.display()
        );
        stage.file(".kube/config", &text);
        let ended = Command::new(&kubectl)
            .args(["get", "--raw", &path])
            .env_clear()
            .envs(&stage.environment)
            .env("PATH", &bin)
            .output()
            .unwrap();
        assert!(ended.status.success(), "{command} {args}: {ended:?}");
        let said = judge().ask(&json!({"operation": "bearer", "path": path}));
        let bearer = said["bearer"].as_str().unwrap();
        assert!(bearer.starts_with("Bearer ya29."), "{command} {args}: {bearer}");
        // The old plugin writes its tokens beside the kubeconfig.
        let beside =
            std::fs::read_dir(stage.path(".kube")).unwrap().map(|e| e.unwrap().file_name());
        let beside: Vec<_> = beside.filter(|name| name != "cache").collect();
        assert_eq!(beside, ["config"]);
    }
}
