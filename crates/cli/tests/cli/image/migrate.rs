//! `keyward image migrate` on the node layouts of `crates/testing/nodes`.

use std::{collections::BTreeSet, fs};

use keyward_testing::nodes;
use serde_json::Value;

use crate::stage::{Ran, Run, Stage};

/// How the secrets in the layouts begin: plain, and in the Base64 of logins.
const SECRETS: [&str; 3] = ["s3cr3t", "czNjcjN0", "OnMzY3IzdC"];

/// A stage with Keyward's programs in `bin`. Those of `keyward-providers` only exist here; its own tests run them.
fn stage() -> Stage {
    let stage = Stage::new();
    stage.run("image install bin").good();
    for name in ["keyward-ecr", "keyward-acr", "keyward-gar", "harbor-provider"] {
        stage.plugin(name, "exit 1");
    }
    stage
}

fn migrate(stage: &Stage, layout: &str, more: &str) -> Ran {
    let root = nodes::root(layout);
    let words = ["image", "migrate", "--root", root.to_str().unwrap()];
    stage.command(words.into_iter().chain(more.split_whitespace())).ran()
}

/// Writes the configuration of a layout to `new`, which must lint clean, and returns the report.
fn written(stage: &Stage, layout: &str, more: &str) -> Value {
    let report = migrate(stage, layout, &format!("--write new -o json {more}")).json();
    let ran = stage.run("image lint --strict --config new/providers.yaml --bin-dir bin -o json");
    for finding in ran.json()["findings"].as_array().unwrap() {
        assert_eq!(finding["severity"], "note", "{layout}: {finding}");
    }
    assert_eq!(report["config"], stage.read("new/providers.yaml"));
    report
}

/// Lets the new configuration read the files of the layout, which are the node's.
fn bring_here(stage: &Stage, layout: &str) {
    let root = nodes::root(layout);
    let text = stage.read("new/providers.yaml").replace("\"/", &format!("\"{}/", root.display()));
    stage.write("new/providers.yaml", &text);
}

/// The best login for an image as `name:password`; empty if there is none.
fn login(stage: &Stage, image: &str) -> String {
    let words = "image credentials --config new/providers.yaml --bin-dir bin -o basic";
    stage.run(&format!("{words} {image}")).stdout.trim().to_owned()
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

/// The names of the new providers, each with what it replaces.
fn replaced(report: &Value) -> Vec<(&str, &str)> {
    let providers = report["providers"].as_array().unwrap().iter();
    providers.map(|p| (p["name"].as_str().unwrap(), p["replaces"].as_str().unwrap())).collect()
}

#[test]
fn every_layout_becomes_a_configuration_that_lints_clean_and_has_no_secret() {
    let layouts = nodes::layouts();
    assert!(layouts.len() >= 12, "{layouts:?}");
    for layout in layouts {
        let stage = stage();
        let report = written(&stage, &layout, "");
        assert!(!report["found"].as_array().unwrap().is_empty(), "{layout}");
        let text = migrate(&stage, &layout, "").good().to_owned();
        let files = fs::read_dir(stage.path("new")).unwrap().map(|file| file.unwrap().path());
        let files: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
        for secret in SECRETS {
            for said in [&report.to_string(), &text, &files] {
                assert!(!said.contains(secret), "{layout}: {said}");
            }
        }
        // Flags that the kubelet takes, and a way back.
        let set = list(&report["kubelet"]["set"]).join(" ");
        assert!(set.contains("--image-credential-provider-config="), "{layout}: {set}");
        assert!(set.contains("--image-credential-provider-bin-dir=/"), "{layout}: {set}");
        assert!(text.contains("\nroll back\n"), "{layout}: {text}");
    }
}

#[test]
fn the_sources_of_all_layouts_are_noted() {
    let readme = fs::read_to_string(nodes::root("README.md")).unwrap();
    for layout in nodes::layouts() {
        let line = readme.lines().find(|line| line.starts_with(&format!("| `{layout}` |")));
        assert!(line.is_some_and(|line| line.contains('/')), "{layout}: {line:?}");
    }
}

#[test]
fn providers_of_the_clouds_become_ours_with_their_patterns_arguments_and_durations() {
    for (layout, old, new, args) in [
        ("eks-al2", "ecr-credential-provider", "keyward-ecr", &[][..]),
        ("eks-al2023", "ecr-credential-provider", "keyward-ecr", &[]),
        ("bottlerocket", "ecr-credential-provider", "keyward-ecr", &[]),
        ("aks-ubuntu", "acr-credential-provider", "keyward-acr", &["/etc/kubernetes/azure.json"]),
        (
            "aks-isolated",
            "acr-credential-provider",
            "keyward-acr",
            &["/etc/kubernetes/azure.json", "--registry-mirror=mcr.microsoft.com:team.azurecr.io"],
        ),
        ("gke-cos", "auth-provider-gcp", "keyward-gar", &["get-credentials", "--v=3"]),
    ] {
        let stage = stage();
        let report = written(&stage, layout, "");
        assert_eq!(replaced(&report), [(new, old)], "{layout}");
        let flag = |name: &str| {
            let flags = list(&report["kubelet"]["remove"]).into_iter();
            let flags: Vec<_> = flags.filter_map(|flag| flag.strip_prefix(name)).collect();
            flags.first().map(|path| path.trim_start_matches('=').to_owned())
        };
        let old = flag("--image-credential-provider-config").unwrap();
        let node = |text: &str| {
            let files =
                keyward_image::Files::from_bytes("config".as_ref(), text.as_bytes().to_vec());
            keyward_image::Config::from_files(&files).unwrap().providers.remove(0)
        };
        let path = nodes::root(layout).join(old.trim_start_matches('/'));
        let (old, new) =
            (node(&fs::read_to_string(path).unwrap()), node(&stage.read("new/providers.yaml")));
        let patterns = |provider: &keyward_image::Provider| -> BTreeSet<String> {
            provider.patterns.iter().map(|pattern| pattern.text().to_owned()).collect()
        };
        let added = report["providers"][0]["added"].as_array().map_or(0, Vec::len);
        assert!(patterns(&old).is_subset(&patterns(&new)), "{layout}");
        assert_eq!(patterns(&new).len(), patterns(&old).len() + added, "{layout}");
        assert_eq!(new.args, args, "{layout}");
        assert_eq!(
            (new.default_duration, new.protocol),
            (old.default_duration, old.protocol),
            "{layout}"
        );
        assert_eq!((&new.env, &new.tokens), (&old.env, &old.tokens), "{layout}");
    }
}

#[test]
fn the_kubelets_own_providers_become_ours() {
    for (layout, name, pattern, cloud) in [
        ("kubeadm-aws", "keyward-ecr", "*.dkr.ecr.*.amazonaws.com", "Amazon ECR"),
        ("aks-in-tree", "keyward-acr", "*.azurecr.io", "Azure"),
        ("gce-in-tree", "keyward-gar", "*.pkg.dev", "Google"),
    ] {
        let report = written(&stage(), layout, "");
        let [(new, old)] = replaced(&report)[..] else { panic!("{report}") };
        assert_eq!(new, name);
        assert!(old.contains("kubelet's own provider for") && old.contains(cloud), "{old}");
        assert!(list(&report["providers"][0]["matchImages"]).contains(&pattern), "{report}");
    }
    // The identity stays the same, and so does the place of its secret.
    let report = written(&stage(), "aks-in-tree", "");
    assert_eq!(
        report["providers"][0]["identity"],
        "the application `a-3`, whose secret stays in `/etc/kubernetes/azure.json`"
    );
    let removed = list(&report["kubelet"]["remove"]);
    assert_eq!(removed, ["--azure-container-registry-config=/etc/kubernetes/azure.json"]);
    let report = written(&stage(), "aks-ubuntu", "");
    assert_eq!(report["providers"][0]["identity"], "the managed identity `c-1`");
}

#[test]
fn a_machine_of_a_cloud_counts_only_for_kubelets_that_log_in_by_themselves() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("node/sys/devices/virtual/dmi/id")).unwrap();
    stage.write("node/sys/devices/virtual/dmi/id/chassis_vendor", "Amazon EC2\n");
    let said = stage.run("image migrate --root node").bad(1).to_owned();
    assert!(said.contains("nothing below `node` logs in to a registry"), "{said}");
    assert!(said.contains("kubelets before 1.27 log in to Amazon ECR by themselves"), "{said}");
    stage.run("image migrate --root node --kubelet 1.27").bad(1);
    let report = stage.run("image migrate --root node --kubelet 1.23 -o json").json();
    assert_eq!(report["providers"][0]["name"], "keyward-ecr");
    let config = report["config"].as_str().unwrap();
    assert!(config.starts_with("apiVersion: kubelet.config.k8s.io/v1alpha1\n"), "{config}");
    assert!(config.contains("credentialprovider.kubelet.k8s.io/v1alpha1"), "{config}");
    // The gate that switches it off counts, too.
    fs::create_dir_all(stage.path("node/etc/default")).unwrap();
    let gate = "KUBELET_EXTRA_ARGS=--feature-gates=DisableKubeletCloudCredentialProviders=true\n";
    stage.write("node/etc/default/kubelet", gate);
    stage.run("image migrate --root node --kubelet 1.23").bad(1);
    // In the last kubelets that could, it has to be switched on.
    fs::create_dir_all(stage.path("node/sys/class/dmi/id")).unwrap();
    stage.write("node/sys/class/dmi/id/product_name", "Google Compute Engine\n");
    stage.write("node/etc/default/kubelet", "");
    stage.run("image migrate --root node --kubelet 1.30").bad(1);
    stage.write("node/etc/default/kubelet", &gate.replace("true", "false"));
    let report = stage.run("image migrate --root node --kubelet 1.30 -o json").json();
    assert_eq!(report["providers"][0]["name"], "keyward-gar");
    stage.run("image migrate --root node --kubelet 1.31").bad(1);
}

#[test]
fn logins_in_files_are_the_same_through_the_new_configuration() {
    for (layout, logins) in [
        (
            "kubeadm-docker",
            &[
                ("registry.example:5000/team/app:1", "puller:s3cr3t-of-example"),
                ("nginx", "hub:s3cr3t-of-hub"),
                ("ghcr.io/team/app", "robot:s3cr3t-of-team"),
                ("ghcr.io/teammates/app", ""),
            ][..],
        ),
        (
            "kubeadm-containerd",
            &[
                ("registry.example:5000/app", "puller:s3cr3t-of-example"),
                ("docker.io/library/nginx", "hub:s3cr3t-of-hub"),
                ("mirror.example/app", "mirror:s3cr3t-of-mirror"),
                ("mirrored.example:5443/app", ""),
            ],
        ),
        (
            "k3s-registries",
            &[
                ("registry.example/app", "puller:s3cr3t-of-example"),
                ("mirror.example:5000/app", "mirror:s3cr3t-of-mirror"),
                // containerd has its own login for the mirror; one from the kubelet would replace it.
                ("docker.io/library/nginx", ""),
            ],
        ),
        (
            "docker",
            &[
                ("registry.example/app", "puller:s3cr3t-of-example"),
                ("helped.example/app", "helped:it-helps"),
            ],
        ),
    ] {
        let stage = stage();
        stage.plugin(
            "docker-credential-pass",
            r#"echo '{"ServerURL":"helped.example","Username":"helped","Secret":"it-helps"}'"#,
        );
        let report = written(&stage, layout, "");
        assert_eq!(replaced(&report), [("keyward-provider-docker", "logins in files of the node")]);
        bring_here(&stage, layout);
        for (image, expected) in logins {
            assert_eq!(login(&stage, image), *expected, "{layout}: {image}");
        }
    }
}

#[test]
fn links_in_a_copy_of_a_node_do_not_lead_to_files_of_this_machine() {
    use std::os::unix::fs::symlink;

    let stage = stage();
    let copy = |name: &str| stage.path("copy").join(name);
    for directory in ["etc/containerd/certs.d/registry.example", "etc/kubernetes/providers.d"] {
        fs::create_dir_all(copy(directory)).unwrap();
    }
    // What is meant to be read is the copy; these are files of whoever runs the command.
    let hosts = "server = \"https://registry.example\"\n[header]\nauthorization = \"Basic YW5uOnMzY3IzdA==\"\n";
    let hosts = stage.write("hosts.toml", hosts);
    let provider = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
                    - name: ecr-credential-provider\n  matchImages: ['*.dkr.ecr.*.amazonaws.com']\n  \
                    defaultCacheDuration: 12h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
    let provider = stage.write("provider.yaml", provider);
    let settings =
        "[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/etc/containerd/certs.d'\n";
    fs::write(copy("etc/containerd/config.toml"), settings).unwrap();
    symlink(hosts, copy("etc/containerd/certs.d/registry.example/hosts.toml")).unwrap();
    symlink(provider, copy("etc/kubernetes/providers.d/10.yaml")).unwrap();
    fs::create_dir_all(copy("etc/systemd/system")).unwrap();
    let unit = "[Service]\nExecStart=/usr/bin/kubelet --image-credential-provider-config=/etc/kubernetes/providers.d\n";
    fs::write(copy("etc/systemd/system/kubelet.service"), unit).unwrap();
    let ran = stage.run("image migrate --root copy");
    assert_ne!(ran.code, Some(0), "{ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("10.yaml") || said.contains("cannot be read"), "{said}");
    assert!(!said.contains("keyward-ecr") && !said.contains("registry.example"), "{said}");
    fs::remove_dir_all(copy("etc/kubernetes")).unwrap();
    fs::write(
        copy("etc/systemd/system/kubelet.service"),
        "[Service]\nExecStart=/usr/bin/kubelet\n",
    )
    .unwrap();
    let ran = stage.run("image migrate --root copy");
    assert!(ran.bad(1).contains("logs in to a registry"), "{ran:?}");
}

#[test]
fn a_mirror_and_its_login_are_mentioned() {
    for (layout, registry, mirror) in [
        ("k3s-registries", "docker.io", "mirror.example:5000"),
        ("kubeadm-containerd", "mirrored.example:5443", "mirror.example"),
    ] {
        let text = migrate(&stage(), layout, "").good().to_owned();
        let words = format!("images of `{registry}` come through the mirror `{mirror}`");
        assert!(text.contains(&words), "{text}");
    }
}

#[test]
fn providers_that_keyward_has_none_for_stay() {
    let stage = stage();
    let report = written(&stage, "rke2-ecr", "");
    assert_eq!(
        replaced(&report),
        [("keyward-ecr", "ecr-credential-provider"), ("harbor-provider", "harbor-provider")]
    );
    let config = stage.read("new/providers.yaml");
    assert!(config.contains("serviceAccountTokenAudience: \"harbor.example\""), "{config}");
    // The settings of RKE2 are where the flags belong, and its directory is where the programs are.
    assert_eq!(list(&report["kubelet"]["files"]), ["/etc/rancher/rke2/config.yaml"]);
    let directory = "--image-credential-provider-bin-dir=/var/lib/rancher/credentialprovider/bin";
    assert!(list(&report["kubelet"]["set"]).contains(&directory), "{report}");
    assert!(list(&report["rollBack"])[1].ends_with("systemctl restart rke2-agent"), "{report}");
}

#[test]
fn a_configuration_in_the_original_proposals_form_goes_behind_the_nodes_provider() {
    let stage = stage();
    fs::create_dir_all(stage.path("node/etc/default")).unwrap();
    fs::create_dir_all(stage.path("node/etc/seed")).unwrap();
    let flags = "--image-credential-provider-config=/etc/seed/config.yaml --image-credential-provider-bin-dir=/opt/bin";
    stage.write("node/etc/default/kubelet", &format!("KUBELET_EXTRA_ARGS=\"{flags}\"\n"));
    stage.write(
        "node/etc/seed/config.yaml",
        "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n- name: ecr-creds\n  imageMatchers: ['*.dkr.ecr.*.amazonaws.com']\n",
    );
    stage.plugin("ecr-creds", r#"echo "{\"username\":\"AWS\",\"password\":\"of-$1\"}""#);
    stage.run("image migrate --root node --write new").good();
    let text = stage.read("new/providers.yaml");
    for words in ["keyward-provider-node", "--config=/etc/seed/config.yaml", "--bin-dir=/opt/bin"] {
        assert!(text.contains(words), "{text}");
    }
    let here = |name: &str| stage.path(name).display().to_string();
    let text = text.replace("/etc/seed", &here("node/etc/seed")).replace("/opt/bin", &here("bin"));
    let with_copies = format!("  args:\n  - --state={}\n", here("state"));
    stage.write("new/providers.yaml", &text.replace("  args:\n", &with_copies));
    assert_eq!(login(&stage, "1.dkr.ecr.eu.amazonaws.com/app"), "AWS:of-get-credentials");
}

#[test]
fn a_secret_in_todays_configuration_is_neither_shown_nor_copied() {
    let stage = stage();
    fs::create_dir_all(stage.path("node/etc/default")).unwrap();
    stage.write(
        "node/etc/default/kubelet",
        "KUBELET_EXTRA_ARGS=--image-credential-provider-config=/etc/providers.yaml\n",
    );
    for secret in [
        "  env: [{name: AWS_SECRET_ACCESS_KEY, value: s3cr3t-key}]\n",
        "  args: [--password=s3cr3t-key]\n",
        "  args: ['https://ann:s3cr3t-key@registry.example']\n",
    ] {
        let entry = super::provider("ecr-credential-provider", "registry.example", secret);
        stage.write("node/etc/providers.yaml", &super::config(&entry));
        let ran = stage.run("image migrate --root node");
        assert_eq!(ran.code, Some(1), "{ran:#?}");
        assert!(ran.stdout.contains("which this command does not copy"), "{}", ran.stdout);
        let write = stage.run("image migrate --root node --write new");
        write.bad(1);
        assert!(write.stderr.contains("nothing was written"), "{}", write.stderr);
        assert!(!stage.path("new").exists());
        for text in [ran.stdout, ran.stderr, write.stderr] {
            assert!(!text.contains("s3cr3t"), "{text}");
        }
    }
}

#[test]
fn nothing_is_written_unless_asked_for_and_nothing_is_replaced_silently() {
    let stage = stage();
    let text = migrate(&stage, "eks-al2", "").good().to_owned();
    assert!(text.contains("nothing was written; `--write DIR`"), "{text}");
    assert!(!stage.path("new").exists());
    migrate(&stage, "eks-al2", "--write new").good();
    // Again: nothing to do.
    let again = migrate(&stage, "eks-al2", "--write new -o json").json();
    assert_eq!(again.get("written"), None);
    let before = stage.read("new/providers.yaml");
    let said = migrate(&stage, "aks-ubuntu", "--write new").bad(1).to_owned();
    assert!(said.contains("exists with another content; nothing was written"), "{said}");
    assert_eq!(stage.read("new/providers.yaml"), before);
    migrate(&stage, "aks-ubuntu", "--write new --force").good();
    assert!(stage.read("new/providers.yaml").contains("keyward-acr"));
    assert_eq!(stage.read("new/providers.yaml.old"), before);
    let names = fs::read_dir(stage.path("new")).unwrap().map(|file| file.unwrap().file_name());
    let names: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).collect();
    assert!(names.iter().all(|name| !name.ends_with(&std::process::id().to_string())), "{names:?}");
    assert_eq!(names.len(), 6, "{names:?}");
}

#[test]
fn a_broken_file_of_the_node_is_named_with_its_line_and_without_its_text() {
    let stage = stage();
    fs::create_dir_all(stage.path("node/etc/containerd")).unwrap();
    stage.write("node/etc/containerd/config.toml", "version = 2\npassword = s3cr3t\n");
    let said = stage.run("image migrate --root node").bad(1).to_owned();
    assert!(said.contains("config.toml") && said.contains("line 2 is not valid TOML"), "{said}");
    assert!(!said.contains("s3cr3t"), "{said}");
    let said = stage.run("image migrate --root nowhere").bad(1).to_owned();
    assert!(said.contains("/nowhere` is not a directory"), "{said}");
}

#[test]
fn the_report_of_a_node_is_as_documented() {
    let stage = stage();
    let text = migrate(&stage, "kubeadm-docker", "").good().to_owned();
    let root = nodes::root("kubeadm-docker").display().to_string();
    stage.matches_snapshot("image-migrate.txt", &text.replace(&root, "[NODE]"));
    let json = migrate(&stage, "eks-al2", "-o json").good().to_owned();
    let root = nodes::root("eks-al2").display().to_string();
    stage.matches_snapshot("image-migrate.json", &json.replace(&root, "[NODE]"));
}
