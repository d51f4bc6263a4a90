//! People's own kubeconfigs are neither written over nor taken away.

use std::{fs, path::Path};

use crate::stage::{Stage, kubectl};

/// How `keyward proxy -- true` ends that is to write there, and what it says.
fn write(stage: &Stage, path: &Path, kubeconfig: &str) -> (Option<i32>, String) {
    let args = ["proxy", "--write-kubeconfig", path.to_str().unwrap(), "--", "true"];
    let output = stage.keyward(&args).env("KUBECONFIG", kubeconfig).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_kubeconfig_that_ours_was_merged_into_is_not_ours() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let config = stage.path("config").to_str().unwrap().to_owned();
    let merge = |list: &str| {
        let args = ["config", "view", "--flatten", "--raw"];
        let output = kubectl(list.as_ref(), stage.folder.path(), &args).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
        stage.write("merged", &String::from_utf8(output.stdout).unwrap())
    };
    // One context is another's, or one user under the name of ours.
    let user = "kind: Config\nusers: [{name: test, user: {token: mine}}]\n";
    let user = stage.write("user", user).to_str().unwrap().to_owned();
    let ours = proxy.kubeconfig.to_str().unwrap();
    let renamed = fs::read_to_string(&config).unwrap().replace("\"test\"", "\"mine\"");
    let renamed = stage.write("renamed", &renamed).to_str().unwrap().to_owned();
    for first in [&renamed, &user] {
        let merged = merge(&format!("{first}:{ours}"));
        let before = fs::read_to_string(&merged).unwrap();
        assert!(before.contains("keyward-proxy"), "the mark came along: {before}");
        let (code, said) = write(&stage, &merged, &config);
        assert!(code == Some(2) && said.contains("not written by a proxy"), "{said}");
        assert_eq!(fs::read_to_string(&merged).unwrap(), before);
    }
    // Alone it is ours, however kubectl writes it.
    let merged = merge(ours);
    assert_eq!(write(&stage, &merged, &config), (Some(0), String::new()));
    assert!(!merged.exists(), "it is taken away at the end");
}

#[test]
fn a_place_where_people_look_for_their_own_is_not_taken_although_nothing_is_there() {
    let stage = Stage::new();
    fs::create_dir(stage.path(".kube")).unwrap();
    let config = stage.path("config").to_str().unwrap().to_owned();
    let absent = stage.path("absent");
    let listed = format!("{config}:{}", absent.display());
    let (code, said) = write(&stage, &absent, &listed);
    assert!(code == Some(2) && said.contains("is the kubeconfig that the proxy reads"), "{said}");
    // By another way to the same directory.
    let (code, said) = write(&stage, &stage.path("run/../absent"), &listed);
    assert!(code == Some(2) && said.contains("is the kubeconfig that the proxy reads"), "{said}");
    let (code, said) = write(&stage, &stage.path(".kube/config"), &config);
    assert!(code == Some(2) && said.contains("where your own kubeconfig is looked for"), "{said}");
    let args = ["proxy", "--kubeconfig", &config, "--write-kubeconfig", "absent", "--", "true"];
    let output = stage.keyward(&args).env("KUBECONFIG", &absent).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("where your own kubeconfig is looked for"), "{said}");
    assert!(!absent.exists() && !stage.path(".kube/config").exists());
}

#[test]
fn a_second_proxy_leaves_the_file_of_the_first_alone() {
    let stage = Stage::new();
    let written = stage.path("written");
    let config = stage.path("config").to_str().unwrap().to_owned();
    let proxy = stage.proxy(&["--write-kubeconfig", written.to_str().unwrap()]);
    let before = fs::read_to_string(&written).unwrap();
    let (code, said) = write(&stage, &written, &config);
    let named = format!("in use by the proxy of process {}", proxy.child.id());
    assert!(code == Some(2) && said.contains(&named), "{said}");
    assert_eq!(fs::read_to_string(&written).unwrap(), before);
    // However a client has written to it.
    proxy.prints(&["config", "set-context", "--current", "--namespace", "other"]);
    let (code, said) = write(&stage, &written, &config);
    assert!(code == Some(2) && said.contains(&named), "{said}");
    crate::stage::signal(&proxy.child, "KILL");
    drop(proxy);
    assert_eq!(write(&stage, &written, &config), (Some(0), String::new()), "nobody holds it");
}

#[test]
fn a_directory_that_others_can_write_to_is_no_place_for_it() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    let config = stage.path("config").to_str().unwrap().to_owned();
    for mode in [0o777, 0o1777] {
        let open = stage.path(&format!("open-{mode:o}"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        let (code, said) = write(&stage, &open.join("config"), &config);
        assert!(code == Some(2) && said.contains("everyone can write to"), "{said}");
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }
}

#[test]
fn what_a_client_added_to_ours_stays() {
    let stage = Stage::new();
    let written = stage.path("written");
    let proxy = stage.proxy(&["--write-kubeconfig", written.to_str().unwrap()]);
    proxy.prints(&["config", "set-context", "--current", "--namespace", "other"]);
    assert!(proxy.end().0.success());
    assert!(!written.exists(), "another namespace is nothing to keep");
    let proxy = stage.proxy(&["--write-kubeconfig", written.to_str().unwrap()]);
    proxy.prints(&["config", "set-credentials", "mine", "--token", "precious"]);
    let (status, said) = proxy.end();
    assert!(status.success() && said.contains("contains more"), "{said}");
    assert!(fs::read_to_string(&written).unwrap().contains("precious"));
}
