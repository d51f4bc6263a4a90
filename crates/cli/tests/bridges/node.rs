//! `keyward-provider-node`: all providers behind one entry of the kubelet's configuration.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{Ran, Stage};

const IMAGE: &str = "registry.example:5000/team/app";

/// Asks for [`IMAGE`] with a state directory of the stage.
fn ask(stage: &Stage, more: &Value) -> Ran {
    let copies = stage.path("state");
    let metrics = stage.path("keyward.prom");
    let args = ["--state", copies.to_str().unwrap(), "--metrics", metrics.to_str().unwrap()];
    stage.ask("keyward-provider-node", &args, IMAGE, more)
}

fn user(ran: &Ran) -> String {
    let auth = &ran.json()["auth"];
    let login = auth.as_object().unwrap().values().next();
    login.map_or_else(|| "nobody".into(), |login| login["username"].as_str().unwrap().to_owned())
}

fn metrics(stage: &Stage) -> String {
    let text = fs::read_to_string(stage.path("keyward.prom")).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_kubelet_gets_the_login_of_the_provider_that_matches_and_keeps_nothing() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    let ran = ask(&stage, &json!({}));
    let answer = ran.json();
    assert_eq!(answer["auth"]["registry.example:5000"]["username"], "puller");
    assert_eq!(
        (&answer["cacheKeyType"], &answer["cacheDuration"]),
        (&json!("Image"), &json!("0s"))
    );
    let copies = stage.path("state");
    let args = ["--state", copies.to_str().unwrap()];
    let other = stage.ask("keyward-provider-node", &args, "other.example/app", &json!({}));
    assert_eq!(other.json()["auth"], json!({}));
}

#[test]
fn a_change_of_the_configuration_counts_from_the_next_pull_on() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "first");
    assert_eq!(user(&ask(&stage, &json!({}))), "first");
    // Switched off by hand, on again, replaced, removed.
    stage.write(
        "providers.yaml",
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n",
    );
    assert_eq!(user(&ask(&stage, &json!({}))), "nobody");
    stage.provider("registry.example:5000", "second");
    assert_eq!(user(&ask(&stage, &json!({}))), "second");
    fs::remove_file(stage.path("providers.yaml")).unwrap();
    for _ in 0..3 {
        assert_eq!(user(&ask(&stage, &json!({}))), "nobody");
    }
    stage.provider("registry.example:5000", "third");
    assert_eq!(user(&ask(&stage, &json!({}))), "third");
}

#[test]
fn a_configuration_without_providers_can_be_removed_too() {
    let stage = Stage::new();
    let none =
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n";
    stage.write("providers.yaml", none);
    assert_eq!(user(&ask(&stage, &json!({}))), "nobody");
    fs::remove_file(stage.path("providers.yaml")).unwrap();
    for _ in 0..2 {
        assert_eq!(user(&ask(&stage, &json!({}))), "nobody");
    }
}

#[test]
fn a_broken_configuration_leaves_the_last_valid_one_in_force() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    ask(&stage, &json!({})).good();
    stage.write("providers.yaml", "apiVersion: kubelet.config.k8s.io/v1\nkind: [oops\n");
    let ran = ask(&stage, &json!({}));
    assert_eq!(user(&ran), "puller");
    assert!(ran.stderr.contains("the last valid configuration is in force"), "{}", ran.stderr);
    assert!(metrics(&stage).contains("keyward_node_config_valid 0"), "{}", metrics(&stage));
    // Repaired: the copy follows.
    stage.provider("registry.example:5000", "repaired");
    assert_eq!(user(&ask(&stage, &json!({}))), "repaired");
    let copies = fs::read_dir(stage.path("state")).unwrap().count();
    assert_eq!(copies, 3, "one copy, the link to it and the lock");
}

#[test]
fn without_a_valid_configuration_the_kubelet_is_told_why() {
    let stage = Stage::new();
    stage.write("providers.yaml", "kind: [oops\n");
    ask(&stage, &json!({})).bad(1, "providers.yaml");
}

#[test]
fn the_copy_of_the_configuration_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    ask(&stage, &json!({})).good();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&stage.path("state")), 0o700);
    for file in fs::read_dir(stage.path("state/last-good")).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}

#[test]
fn a_provider_that_fails_matters_only_if_no_other_has_a_login() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    stage.script("sealed", "echo 'the vault is sealed' >&2; exit 1");
    let good = fs::read_to_string(stage.path("providers.yaml")).unwrap();
    let entry = "- name: sealed\n  matchImages: ['registry.example:5000']\n  \
                 defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
    stage.write("providers.yaml", &format!("{good}{entry}"));
    let ran = ask(&stage, &json!({}));
    assert_eq!(user(&ran), "puller");
    assert!(ran.stderr.contains("sealed"), "{}", ran.stderr);
    let (head, _) = good.split_once("- name").unwrap();
    stage.write("providers.yaml", &format!("{head}{entry}"));
    ask(&stage, &json!({})).bad(1, "the vault is sealed");
}

#[test]
fn a_plugin_in_the_form_of_the_original_proposal_serves_an_unmodified_kubelet() {
    let stage = Stage::new();
    let log = stage.path("asked").display().to_string();
    let answer = json!({
        "kind": "RegistryCredentialPluginResponse",
        "apiVersion": "v1alpha1",
        "username": "seed",
        "password": "s3cr3t-password",
    });
    stage.script("ecr-creds", &format!("echo \"$1\" >'{log}'\ncat >>'{log}'\necho '{answer}'"));
    stage.write(
        "providers.yaml",
        "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n-\n  name: ecr-creds\n  \
         imageMatchers:\n  - 'registry.example:5000'\n  extraArgs:\n    region: us-west-2\n",
    );
    assert_eq!(user(&ask(&stage, &json!({}))), "seed");
    let asked = fs::read_to_string(log).unwrap();
    assert!(asked.starts_with("get-credentials\n"), "{asked}");
    assert!(asked.contains(IMAGE), "{asked}");
}

#[test]
fn a_pods_token_reaches_the_providers_that_want_one() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    let good = fs::read_to_string(stage.path("providers.yaml")).unwrap();
    let tokens = "  tokenAttributes:\n    serviceAccountTokenAudience: registry.example\n    \
                  cacheType: Token\n    requireServiceAccount: true\n    \
                  requiredServiceAccountAnnotationKeys: [example.org/role]\n";
    stage.write("providers.yaml", &format!("{good}{tokens}"));
    let token = crate::token(&json!({ "aud": ["registry.example"], "exp": 4_000_000_000_u32 }));
    let more = json!({
        "serviceAccountToken": token,
        "serviceAccountAnnotations": { "example.org/role": "reader" },
    });
    assert_eq!(user(&ask(&stage, &more)), "puller");
    let asked = fs::read_to_string(stage.path("asked")).unwrap();
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked["serviceAccountToken"], *token);
    assert_eq!(asked["serviceAccountAnnotations"]["example.org/role"], "reader");
    // Without a token it is not asked, and neither with one for somebody else.
    assert_eq!(user(&ask(&stage, &json!({}))), "nobody");
    fs::remove_file(stage.path("asked")).unwrap();
    let other = crate::token(&json!({ "aud": "sts.example", "exp": 4_000_000_000_u32 }));
    let more = json!({
        "serviceAccountToken": other,
        "serviceAccountAnnotations": { "example.org/role": "reader" },
    });
    ask(&stage, &more).bad(1, "not for the audience `registry.example`");
    assert!(!stage.path("asked").exists(), "the token reached the provider");
}

#[test]
fn of_two_logins_for_one_key_the_first_counts() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "first");
    let answer = |key: &str, user: &str| {
        json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Image",
            "auth": { key: { "username": user, "password": "s3cr3t-password" } },
        })
    };
    stage.script("second", &format!("echo '{}'", answer("registry.example:5000", "second")));
    stage.script("unusable", &format!("echo '{}'", answer("*.example:5000", "a:b")));
    let mut text = fs::read_to_string(stage.path("providers.yaml")).unwrap();
    for name in ["second", "unusable"] {
        let entry = "- name: NAME\n  matchImages: ['registry.example:5000']\n  \
                     defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
        text += &entry.replace("NAME", name);
    }
    stage.write("providers.yaml", &text);
    let ran = ask(&stage, &json!({}));
    assert_eq!(user(&ran), "first");
    assert_eq!(ran.json()["auth"].as_object().unwrap().len(), 1);
    assert!(
        ran.stderr.contains("`unusable` answered with an unusable user name"),
        "{}",
        ran.stderr
    );
}

#[test]
fn docker_hubs_old_name_is_answered_under_its_own() {
    let stage = Stage::new();
    stage.provider("docker.io", "unused");
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Global",
        "auth": { "index.docker.io": { "username": "hub", "password": "s3cr3t-password" } },
    });
    stage.script("provider", &format!("echo '{answer}'"));
    let copies = stage.path("state");
    let args = ["--state", copies.to_str().unwrap()];
    let ran = stage.ask("keyward-provider-node", &args, "docker.io/library/app", &json!({}));
    assert_eq!(user(&ran), "hub", "{}", ran.stdout);
}

#[test]
fn a_directory_that_is_missing_does_not_turn_the_providers_off() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    let here = stage.path("volume");
    fs::create_dir(&here).unwrap();
    fs::rename(stage.path("providers.yaml"), here.join("providers.yaml")).unwrap();
    std::os::unix::fs::symlink("volume/providers.yaml", stage.path("providers.yaml")).unwrap();
    let ask = |path: &str| {
        let (copies, config) = (stage.path("state"), stage.path(path));
        let args = ["--state", copies.to_str().unwrap(), "--config", config.to_str().unwrap()];
        stage.ask("keyward-provider-node", &args, IMAGE, &json!({}))
    };
    assert_eq!(user(&ask("volume/providers.yaml")), "puller");
    fs::rename(&here, stage.path("elsewhere")).unwrap();
    for path in ["volume/providers.yaml", "providers.yaml"] {
        let ran = ask(path);
        assert_eq!(user(&ran), "puller", "{path}");
        assert!(ran.stderr.contains("the last valid configuration is in force"), "{}", ran.stderr);
    }
    // Back, and without the file: this is what an operator does.
    fs::rename(stage.path("elsewhere"), &here).unwrap();
    fs::remove_file(here.join("providers.yaml")).unwrap();
    assert_eq!(user(&ask("volume/providers.yaml")), "nobody");
}

#[test]
fn a_removed_configuration_does_not_come_back_when_a_broken_one_follows() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    ask(&stage, &json!({})).good();
    fs::remove_file(stage.path("providers.yaml")).unwrap();
    assert_eq!(user(&ask(&stage, &json!({}))), "nobody");
    let left = fs::read_dir(stage.path("state")).unwrap().flatten();
    let left = left.filter(|entry| entry.path().is_dir()).count();
    assert_eq!(left, 0, "a configuration may hold secrets, so no copy is left");
    stage.write("providers.yaml", "kind: [oops\n");
    ask(&stage, &json!({})).bad(1, "providers.yaml");
}

#[test]
fn metrics_follow_no_link_and_wait_for_nobody_else() {
    use std::os::unix::fs::symlink;

    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    let victim = stage.write("victim", "precious");
    for name in ["keyward.prom.lock", "keyward.prom.new"] {
        symlink(&victim, stage.path(name)).unwrap();
    }
    // Somebody else holds what they can open.
    let other = fs::File::open(stage.path("keyward.prom.lock")).unwrap();
    other.lock().unwrap();
    assert_eq!(user(&ask(&stage, &json!({}))), "puller");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(metrics(&stage).contains("keyward_node_config_valid 1"));
    // A pipe, which nobody writes to, is replaced.
    fs::remove_file(stage.path("keyward.prom")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(stage.path("keyward.prom")).status();
    assert!(made.unwrap().success());
    assert_eq!(user(&ask(&stage, &json!({}))), "puller");
    assert!(metrics(&stage).contains("keyward_node_config_valid 1"));
}

#[test]
fn a_lock_on_the_metrics_that_nobody_releases_does_not_hold_up_pulls() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    assert_eq!(user(&ask(&stage, &json!({}))), "puller");
    let before = metrics(&stage);
    let lock = fs::File::open(stage.path("state/metrics.lock")).unwrap();
    lock.lock().unwrap();
    let ran = ask(&stage, &json!({}));
    assert_eq!(user(&ran), "puller");
    assert!(ran.stderr.contains("the metrics cannot be written: another process"), "{ran:?}");
    assert_eq!(metrics(&stage), before);
    drop(lock);
    assert_eq!(user(&ask(&stage, &json!({}))), "puller");
    assert!(metrics(&stage).contains(r#"keyward_node_pulls_total{result="login"} 2"#));
}

#[test]
fn pulls_and_runs_are_counted_over_processes() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| ask(&stage, &json!({})).good().to_owned());
        }
    });
    stage.script("provider", "exit 1");
    ask(&stage, &json!({})).bad(1, "provider");
    let text = metrics(&stage);
    for line in [
        r#"keyward_node_pulls_total{result="login"} 8"#,
        r#"keyward_node_pulls_total{result="failed"} 1"#,
        r#"keyward_node_provider_runs_total{provider="provider",result="answered"} 8"#,
        r#"keyward_node_provider_runs_total{provider="provider",result="failed"} 1"#,
        "keyward_node_config_valid 1",
        r#"keyward_node_config_info{hash="sha256:"#,
    ] {
        assert!(text.contains(line), "no `{line}` in:\n{text}");
    }
}

#[test]
fn providers_that_hang_do_not_cost_the_login_of_another() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    let mut text = fs::read_to_string(stage.path("providers.yaml")).unwrap();
    for name in ["stuck", "asleep"] {
        stage.script(name, "exec sleep 1000");
        let entry = "- name: NAME\n  matchImages: ['registry.example:5000']\n  \
                     defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
        text += &entry.replace("NAME", name);
    }
    stage.write("providers.yaml", &text);
    let copies = stage.path("state");
    let args = ["--state", copies.to_str().unwrap(), "--timeout", "300ms"];
    let ran = stage.ask("keyward-provider-node", &args, IMAGE, &json!({}));
    assert_eq!(user(&ran), "puller");
    assert!(ran.stderr.contains("stuck") && ran.stderr.contains("asleep"), "{}", ran.stderr);
}

#[test]
fn an_image_that_is_pulled_from_a_mirror_gets_the_mirrors_login_first() {
    let stage = Stage::new();
    let answer = |key: &str, user: &str| {
        json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Registry",
            "auth": { key: { "username": user, "password": "s3cr3t-password" } },
        })
    };
    stage.provider("registry.example:5000", "upstream");
    let log = stage.path("asked-mirror").display().to_string();
    let mirror = answer("mirror.example", "mirrored");
    stage.script("mirror", &format!("cat >'{log}'\necho '{mirror}'"));
    let mut text = fs::read_to_string(stage.path("providers.yaml")).unwrap();
    text += "- name: mirror\n  matchImages: ['mirror.example/cache']\n  \
             defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
    stage.write("providers.yaml", &text);
    let copies = stage.path("state");
    let copies = ["--state", copies.to_str().unwrap()];
    let ask = |mirror: &str, image: &str| {
        let args = [&copies[..], &["--mirror", mirror]].concat();
        stage.ask("keyward-provider-node", &args, image, &json!({}))
    };
    let both = ask("registry.example:5000=mirror.example/cache", IMAGE).json();
    assert_eq!(both["auth"][IMAGE]["username"], "mirrored", "{both}");
    assert_eq!(both["auth"]["registry.example:5000"]["username"], "upstream", "{both}");
    let asked: Value = serde_json::from_str(&fs::read_to_string(&log).unwrap()).unwrap();
    assert_eq!(asked["image"], "mirror.example/cache/team/app");
    // Other registries are not mirrored, even if their names begin alike.
    let other = ask("registry.example=mirror.example/cache", IMAGE).json();
    assert_eq!(other["auth"].as_object().unwrap().len(), 1, "{other}");
    // A mirror without a login does not cost that of the registry.
    stage.script("mirror", "exit 1");
    let ran = ask("registry.example:5000=mirror.example/cache", IMAGE);
    assert_eq!(user(&ran), "upstream");
    assert!(ran.stderr.contains("mirror"), "{}", ran.stderr);
    for wrong in ["registry.example", "a/b=c", "=c", "a=", "https://a=b"] {
        ask(wrong, IMAGE).bad(2, "registry.example=mirror.example/path");
    }
}
