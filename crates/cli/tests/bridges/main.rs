//! The bridges under their names: what docker asks of us, and what the kubelet does.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod fleet;
mod node;
mod shared;
mod stage;
mod system;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use keyward_testing::plugin;
use serde_json::{Value, json};

use crate::stage::{Stage, run};

const NOT_FOUND: &str = "credentials not found in native keychain\n";

fn auth(login: &str) -> Value {
    json!({ "auth": STANDARD.encode(login) })
}

fn token(claims: &Value) -> String {
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

#[test]
fn docker_gets_the_login_of_a_provider() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    for server in ["registry.example:5000", "https://registry.example:5000/v2/\n"] {
        let answer = stage.helper("get", server).json();
        let expected = json!({
            "ServerURL": server.trim(), "Username": "puller", "Secret": "s3cr3t-password",
        });
        assert_eq!(answer, expected);
    }
    let asked = fs::read_to_string(stage.path("asked")).unwrap();
    assert!(asked.contains("\"image\":\"registry.example:5000\"}"), "{asked}");
}

#[test]
fn docker_hub_is_asked_for_by_the_name_of_its_images() {
    let stage = Stage::new();
    stage.provider("docker.io", "puller");
    let answer = stage.helper("get", "https://index.docker.io/v1/").json();
    assert_eq!(answer["Username"], "puller");
}

#[test]
fn what_no_provider_knows_is_not_found_in_dockers_words() {
    let stage = Stage::new();
    stage.provider("registry.example", "puller");
    let ran = stage.helper("get", "other.example");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(1), NOT_FOUND, ""));
}

#[test]
fn an_empty_login_is_none_to_docker() {
    let stage = Stage::new();
    stage.provider("registry.example", "puller");
    for login in ["null", "{}", r#"{"username":"puller"}"#] {
        let answer = format!(
            r#"{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{{"registry.example":{login}}}}}"#
        );
        stage.script("provider", &format!("echo '{answer}'"));
        let ran = stage.helper("get", "registry.example");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), NOT_FOUND), "{login}");
        assert_eq!(stage.helper("list", "").json(), json!({}), "{login}");
    }
}

#[test]
fn a_provider_that_fails_is_an_error_that_names_it() {
    let stage = Stage::new();
    stage.provider("registry.example", "puller");
    stage.script("provider", "echo 'no session' >&2; exit 3");
    let ran = stage.helper("get", "registry.example");
    ran.bad(1, "plugin `provider` failed with exit code 3");
    // Docker shows the one line of stdout.
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("it said: no session"), "{}", ran.stdout);
}

#[test]
fn a_missing_configuration_is_said() {
    let stage = Stage::new();
    let mut command = stage.bridge("docker-credential-keyward");
    run(command.arg("get").env_remove("KEYWARD_IMAGE_CONFIG"), "r.io")
        .bad(1, "KEYWARD_IMAGE_CONFIG");
    stage.helper("get", "r.io").bad(1, "providers.yaml");
    stage.provider("r.io", "puller");
    stage.helper("get", "").bad(1, "no credentials server URL");
    let mut command = stage.bridge("docker-credential-keyward");
    run(command.arg("get").env("KEYWARD_IMAGE_TIMEOUT", "soon"), "r.io")
        .bad(1, "`KEYWARD_IMAGE_TIMEOUT` is not a duration");
}

#[test]
fn nothing_is_stored_or_erased_and_what_is_known_is_listed() {
    let stage = Stage::new();
    stage.provider("registry.example:5000", "puller");
    stage
        .helper("store", r#"{"ServerURL":"r.io","Username":"u","Secret":"s3cr3t"}"#)
        .bad(1, "stores nothing");
    stage.helper("erase", "r.io").bad(1, "erases nothing");
    assert_eq!(stage.helper("list", "").json(), json!({ "registry.example:5000": "puller" }));
    assert!(stage.helper("version", "").good().contains("docker-credential-keyward"));
    stage.helper("other", "").bad(2, "usage: docker-credential-keyward");
}

#[test]
fn the_programs_of_their_own_do_the_same() {
    let stage = Stage::new();
    stage.provider("registry.example", "puller");
    let mut helper = stage.program(Path::new(env!("CARGO_BIN_EXE_docker-credential-keyward")));
    assert_eq!(run(helper.arg("get"), "registry.example").json()["Username"], "puller");
    for program in [
        Path::new(env!("CARGO_BIN_EXE_keyward-provider-docker")),
        Path::new(env!("CARGO_BIN_EXE_keyward-provider-token")),
        plugin::provider_node(),
    ] {
        let ran = run(stage.program(program).arg("--help"), "");
        assert!(ran.good().contains("Usage"), "{}", ran.stdout);
    }
}

#[test]
fn links_are_made_once_and_nothing_else_is_replaced_unasked() {
    let stage = Stage::new();
    let link = stage.path("bin/docker-credential-keyward");
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_keyward")).unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), program);
    let node = stage.path("bin/keyward-provider-node");
    assert_eq!(fs::read_link(&node).unwrap(), program.with_file_name("keyward-provider-node"));
    assert_eq!(stage.install(&[]).good().matches("exists already").count(), 4);
    let report = stage.install(&["-o", "json"]).json();
    // As older versions made it.
    fs::remove_file(&node).unwrap();
    symlink(&program, &node).unwrap();
    assert_eq!(stage.install(&[]).good().matches(": made").count(), 1);
    assert_eq!(fs::read_link(&node).unwrap(), program.with_file_name("keyward-provider-node"));
    assert_eq!(report["program"], program.to_str().unwrap());
    assert_eq!(report["links"][0], json!({ "path": link.to_str().unwrap(), "made": false }));
    fs::remove_file(&link).unwrap();
    symlink("/bin/true", &link).unwrap();
    stage.install(&[]).bad(1, "docker-credential-keyward` exists and is not a link");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("/bin/true"));
    stage.install(&["--force"]).good();
    assert_eq!(fs::read_link(&link).unwrap(), program);
    assert_eq!(fs::read_dir(stage.path("bin")).unwrap().count(), 4, "nothing is left behind");
    fs::remove_dir_all(stage.path("bin")).unwrap();
    stage.install(&[]).bad(1, "is not a directory");
}

#[test]
fn a_login_of_dockers_file_is_for_its_registry_for_five_minutes() {
    let stage = Stage::new();
    let config = json!({ "auths": { "registry.example:5000": auth("puller:s3cr3t-password") } });
    let answer = stage.docker(&config, "registry.example:5000/team/app").json();
    assert_eq!(answer["cacheKeyType"], "Registry");
    assert_eq!(answer["cacheDuration"], "5m0s");
    let login = json!({ "username": "puller", "password": "s3cr3t-password" });
    assert_eq!(answer["auth"], json!({ "registry.example:5000": login }));
    let none = stage.docker(&config, "other.example/app").json();
    assert_eq!(none["auth"], json!({}));
}

#[test]
fn a_login_for_a_path_is_for_its_image() {
    let stage = Stage::new();
    let config = json!({ "auths": {
        "registry.example": auth("all:s3cr3t-password"),
        "registry.example/team": auth("team:s3cr3t-password"),
    } });
    for (image, user) in [
        ("registry.example/team/app", "team"),
        ("registry.example/team", "team"),
        ("registry.example/teammates/app", "all"),
        ("registry.example/x", "all"),
    ] {
        let answer = stage.docker(&config, image).json();
        assert_eq!(answer["cacheKeyType"], "Image");
        assert_eq!(answer["auth"][image]["username"], user);
    }
}

#[test]
fn an_unreadable_login_of_dockers_file_is_named_and_not_shown() {
    let config = json!({ "auths": { "registry.example": { "auth": "%%s3cr3t" } } });
    Stage::new()
        .docker(&config, "registry.example/app")
        .bad(2, "`auth` of `registry.example` is not the Base64 of `name:password`");
}

#[test]
fn a_helper_that_is_a_path_is_not_run() {
    let stage = Stage::new();
    fs::create_dir(stage.path("docker-credential-x")).unwrap();
    stage.script("spy", &format!("touch '{}'", stage.path("ran").display()));
    let config = json!({ "credHelpers": { "registry.example": "x/../bin/spy" } });
    let path = stage.write("docker.json", &config.to_string());
    let request = json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": "registry.example/app",
    });
    let mut provider = stage.bridge("keyward-provider-docker");
    provider.arg("--config").arg(path).current_dir(stage.folder.path());
    run(&mut provider, &request.to_string()).bad(2, "`x/../bin/spy`, which is a path, not a name");
    assert!(!stage.path("ran").exists());
}

#[test]
fn docker_hubs_login_is_found_under_its_old_name() {
    let config = json!({ "auths": { "https://index.docker.io/v1/": auth("hub:s3cr3t-password") } });
    let answer = Stage::new().docker(&config, "docker.io/library/nginx").json();
    assert_eq!(answer["auth"]["docker.io"]["username"], "hub");
}

#[test]
fn dockers_helpers_are_asked_and_kept_for_a_minute() {
    let stage = Stage::new();
    let login = json!({ "ServerURL": "", "Username": "helped", "Secret": "s3cr3t-password" });
    stage.script(
        "docker-credential-own",
        &format!("test \"$1\" = get && cat >&2 && echo '{login}'"),
    );
    stage.script("docker-credential-empty", &format!("printf %s '{}'; exit 1", NOT_FOUND.trim()));
    stage.script("docker-credential-broken", "echo 'the keychain is locked'; exit 1");
    stage
        .script("docker-credential-odd", "echo '{\"Username\":\"<token>\",\"Secret\":\"s3cr3t\"}'");
    let config = json!({
        "credsStore": "empty",
        "credHelpers": {
            "own.example": "own", "broken.example": "broken", "odd.example": "odd",
            "missing.example": "missing", "loop.example": "keyward",
        },
        "auths": { "file.example": auth("file:s3cr3t-password"), "own.example": {} },
    });
    let answer = stage.docker(&config, "own.example/app").json();
    assert_eq!(answer["auth"]["own.example"]["username"], "helped");
    assert_eq!(
        (&answer["cacheKeyType"], &answer["cacheDuration"]),
        (&json!("Registry"), &json!("1m0s"))
    );
    let answer = stage.docker(&config, "file.example/app").json();
    assert_eq!(answer["auth"]["file.example"]["username"], "file", "the store has none");
    assert_eq!(stage.docker(&config, "other.example/app").json()["auth"], json!({}));
    for (image, code, why) in [
        ("broken.example/x", 1, "failed with exit code 1: the keychain is locked"),
        ("odd.example/x", 1, "without a user name and a password"),
        ("missing.example/x", 1, "`docker-credential-missing` was not found"),
        ("loop.example/x", 2, "would ask this provider again"),
    ] {
        stage.docker(&config, image).bad(code, why);
    }
}

#[test]
fn a_broken_file_of_docker_is_named_and_a_missing_one_has_no_logins() {
    let stage = Stage::new();
    let path = stage.write("docker.json", "{\"auths\": {\"r.io\": {\"auth\": \"s3cr3t\"}}}");
    let ask = |args: &[&str]| stage.ask("keyward-provider-docker", args, "r.io/x", &json!({}));
    ask(&["--config", path.to_str().unwrap()]).bad(2, "docker.json` is not a docker configuration");
    ask(&["--config", "/no/such/file"]).bad(1, "`/no/such/file` cannot be read");
    assert_eq!(ask(&[]).json()["auth"], json!({}));
    ask(&["--what"]).bad(2, "--what");
}

#[test]
fn a_pods_token_is_handed_on_for_as_long_as_it_lasts() {
    let stage = Stage::new();
    let ask = |args: &[&str], more: &Value| {
        stage.ask("keyward-provider-token", args, "registry.example/app", more)
    };
    let end = jiff::Timestamp::now().as_second() + 3600;
    let good = json!({
        "serviceAccountToken": token(&json!({ "exp": end })),
        "serviceAccountAnnotations": { "r.io/user": "jane" },
    });
    let answer = ask(&[], &good).json();
    assert_eq!(answer["auth"]["registry.example"]["username"], "service-account");
    assert_eq!(answer["auth"]["registry.example"]["password"], good["serviceAccountToken"]);
    assert_eq!(answer["cacheKeyType"], "Registry");
    let kept = answer["cacheDuration"].as_str().unwrap();
    assert!(kept.starts_with("54m") || kept == "55m0s", "an hour less the margin is not {kept}");
    let named = ask(&["--username", "robot"], &good).json();
    assert_eq!(named["auth"]["registry.example"]["username"], "robot");
    let named = ask(&["--username-annotation", "r.io/user"], &good).json();
    assert_eq!(named["auth"]["registry.example"]["username"], "jane");
    let endless = ask(&[], &json!({ "serviceAccountToken": token(&json!({})) })).json();
    assert_eq!(endless["cacheDuration"], "0s");
    let over = json!({ "serviceAccountToken": token(&json!({ "exp": 1_700_000_000 })) });
    ask(&[], &over).bad(1, "the credential expired at 2023-11-14T22:13:20Z");
    ask(&[], &json!({})).bad(2, "set `tokenAttributes`");
}

#[test]
fn a_pipe_or_a_device_without_end_as_dockers_configuration_is_an_error() {
    let stage = Stage::new();
    let pipe = stage.path("config.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let endless = format!("exec yes > '{}'", pipe.display());
    let mut writer =
        Command::new("sh").args(["-c", &endless]).stderr(Stdio::null()).spawn().unwrap();
    for config in ["/dev/zero", pipe.to_str().unwrap()] {
        stage
            .ask("keyward-provider-docker", &["--config", config], "r.io/x", &json!({}))
            .bad(1, "cannot be read: it is larger than 1 MiB");
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

#[test]
fn a_program_that_others_could_change_is_not_asked_for_logins() {
    let stage = Stage::new();
    stage.provider("r.io", "jane");
    let writable = |name: &str, mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(stage.path("bin").join(name), mode).unwrap();
    };
    writable("provider", 0o777);
    let ran = stage.helper("get", "r.io");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("`provider` is refused: others could change it"), "{}", ran.stdout);
    assert!(ran.stdout.contains("bin/provider` can be written by everybody"), "{}", ran.stdout);
    assert!(!stage.path("asked").exists(), "the provider ran");
    let mut trusting = stage.bridge("docker-credential-keyward");
    run(trusting.arg("get").env("KEYWARD_TRUST_PLUGIN", "provider"), "r.io").good();
    stage.script("docker-credential-shared", "echo '{\"Username\":\"a\",\"Secret\":\"b\"}'");
    writable("docker-credential-shared", 0o777);
    let config = json!({ "credsStore": "shared" });
    stage.docker(&config, "r.io/app").bad(1, "others could change it");
}
