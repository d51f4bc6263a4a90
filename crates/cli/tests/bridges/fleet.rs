//! `keyward node`: what a `DaemonSet` does to a node.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::stage::{Ran, Stage, run};

const IMAGE: &str = "registry.example:5000/team/app";
const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
                       - name: keyward-provider-node\n  matchImages: ['registry.example:5000']\n  \
                       defaultCacheDuration: '0'\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  \
                       args: [--config=DIR/current/providers.yaml, --bin-dir=DIR/current/bin, --state=DIR/state]\n";

/// A node's directory beside the programs of the stage. The provider's own program comes from `programs`.
struct Fleet {
    stage: Stage,
}

impl Fleet {
    fn new() -> Self {
        let fleet = Self { stage: Stage::new() };
        fs::create_dir(fleet.stage.path("programs")).unwrap();
        fs::write(fleet.stage.path("kubelet.yaml"), fleet.kubelet()).unwrap();
        fleet.provider("puller");
        fleet
    }

    fn dir(&self) -> PathBuf {
        self.stage.path("node")
    }

    fn kubelet(&self) -> String {
        KUBELET.replace("DIR", self.dir().to_str().unwrap())
    }

    /// A provider that answers with this user.
    fn provider(&self, user: &str) {
        self.stage.provider("registry.example:5000", user);
        fs::copy(self.stage.path("bin/provider"), self.stage.path("programs/provider")).unwrap();
    }

    fn install(&self, more: &[&str]) -> Ran {
        let mut command = self.keyward("install");
        command.arg("--kubelet-config").arg(self.stage.path("kubelet.yaml"));
        command.arg("--providers").arg(self.stage.path("providers.yaml"));
        command.arg("--programs").arg(self.stage.path("programs")).args(more);
        run(&mut command, "")
    }

    /// Without a kubelet on this machine, a removal has to be forced.
    fn remove(&self) -> Ran {
        run(self.keyward("remove").arg("--force"), "")
    }

    fn keyward(&self, action: &str) -> Command {
        let mut command = self.stage.program(Path::new(env!("CARGO_BIN_EXE_keyward")));
        command.args(["node", action, "--dir"]).arg(self.dir());
        command
    }

    fn current(&self) -> PathBuf {
        fs::read_link(self.dir().join("current")).unwrap()
    }

    fn versions(&self) -> usize {
        fs::read_dir(self.dir().join("versions")).unwrap().count()
    }

    /// Asks as a kubelet with the installed configuration does; the user of the login.
    fn pull(&self) -> String {
        let current = self.dir().join("current");
        let mut command = self.stage.program(&current.join("bin/keyward-provider-node"));
        command.arg("--config").arg(current.join("providers.yaml"));
        command
            .arg("--bin-dir")
            .arg(current.join("bin"))
            .arg("--state")
            .arg(self.dir().join("state"));
        let request = json!({
            "kind": "CredentialProviderRequest",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "image": IMAGE,
        });
        let answer: Value = run(&mut command, &request.to_string()).json();
        answer["auth"]["registry.example:5000"]["username"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_version_is_installed_once_and_serves_the_kubelet() {
    let fleet = Fleet::new();
    fleet.install(&["--test", IMAGE]).good();
    assert_eq!(fleet.pull(), "puller");
    let first = fleet.current();
    let mode = |name: &str| {
        fs::metadata(fleet.dir().join("current").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("providers.yaml"), mode("bin/keyward")), (0o600, 0o755));
    let ran = fleet.install(&[]);
    ran.good();
    assert!(ran.stderr.contains("is installed"), "{}", ran.stderr);
    assert_eq!((fleet.current(), fleet.versions()), (first, 1));
}

#[test]
fn an_upgrade_keeps_one_older_version_and_a_rollback_returns_to_it() {
    let fleet = Fleet::new();
    fleet.install(&[]).good();
    let first = fleet.current();
    fleet.provider("second");
    fleet.install(&[]).good();
    assert_eq!((fleet.pull().as_str(), fleet.versions()), ("second", 2));
    assert_ne!(fleet.current(), first);
    fleet.provider("third");
    fleet.install(&[]).good();
    assert_eq!((fleet.pull().as_str(), fleet.versions()), ("third", 2));
    fleet.provider("puller");
    fleet.install(&[]).good();
    assert_eq!((fleet.pull().as_str(), fleet.current()), ("puller", first));
}

#[test]
fn a_broken_configuration_leaves_the_version_in_use() {
    let fleet = Fleet::new();
    fs::write(fleet.stage.path("kubelet.yaml"), "kind: [oops\n").unwrap();
    fleet.install(&[]).bad(1, "nothing was installed");
    fs::write(fleet.stage.path("kubelet.yaml"), fleet.kubelet()).unwrap();
    fleet.install(&[]).good();
    let first = fleet.current();
    let good = fs::read_to_string(fleet.stage.path("providers.yaml")).unwrap();
    fleet.stage.write("providers.yaml", "kind: [oops\n");
    let ran = fleet.install(&[]);
    ran.bad(1, "`providers.yaml` is not valid");
    ran.bad(1, "stays in use");
    assert!(ran.stdout.contains("line 2"), "{}", ran.stdout);
    // A program that does not exist is as bad.
    fleet.stage.write("providers.yaml", &good.replace("name: provider", "name: missing"));
    fleet.install(&[]).bad(1, "stays in use");
    assert_eq!((fleet.pull().as_str(), fleet.current(), fleet.versions()), ("puller", first, 1));
}

#[test]
fn an_empty_list_turns_all_providers_off() {
    let fleet = Fleet::new();
    fleet.stage.write(
        "providers.yaml",
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n",
    );
    fleet.install(&[]).good();
}

#[test]
fn a_version_without_the_login_that_it_is_tested_with_is_not_used() {
    let fleet = Fleet::new();
    fleet.install(&["--test", IMAGE]).good();
    let first = fleet.current();
    fleet.stage.script("provider", "echo 'the vault is sealed' >&2; exit 1");
    fs::copy(fleet.stage.path("bin/provider"), fleet.stage.path("programs/provider")).unwrap();
    let ran = fleet.install(&["--test", IMAGE]);
    ran.bad(1, "a test login failed");
    assert!(ran.stdout.contains("the vault is sealed"), "{}", ran.stdout);
    assert_eq!((fleet.pull().as_str(), fleet.current(), fleet.versions()), ("puller", first, 1));
}

#[test]
fn a_restart_is_requested_only_when_allowed_and_when_the_kubelet_has_to_read_again() {
    let fleet = Fleet::new();
    fleet.install(&[]).good();
    let request = fleet.dir().join("restart-kubelet");
    assert!(!request.exists());
    fleet.install(&["--request-restart"]).good();
    let first = fs::read_to_string(&request).unwrap();
    let flag = format!(
        "--image-credential-provider-config={}/current/kubelet.yaml\n",
        fleet.dir().display()
    );
    assert!(first.starts_with(&flag), "{first}");
    let written = || fs::metadata(&request).unwrap().modified().unwrap();
    let before = written();
    fleet.provider("second");
    fleet.install(&["--request-restart"]).good();
    assert_eq!(written(), before, "only the providers have changed");
    let changed =
        fleet.kubelet().replace("registry.example:5000'", "registry.example:5000', other.example");
    fleet.stage.write("kubelet.yaml", &changed);
    fleet.install(&["--request-restart"]).good();
    assert_ne!(fs::read_to_string(&request).unwrap(), first);
}

#[test]
fn nothing_is_left_after_a_removal_and_files_of_others_stay() {
    let fleet = Fleet::new();
    fleet.install(&["--request-restart"]).good();
    fleet.pull();
    assert!(fleet.dir().join("state").exists());
    let others =
        ["notes.txt", "versions/2024", "state/database"].map(|name| fleet.dir().join(name));
    for path in &others {
        fs::write(path, "mine").unwrap();
    }
    // An installation leaves them alone, too.
    fleet.install(&[]).good();
    fleet.remove().good();
    let mut left: Vec<_> =
        fs::read_dir(fleet.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["notes.txt", "state", "versions"]);
    for path in &others {
        assert_eq!(fs::read_to_string(path).unwrap(), "mine");
        fs::remove_file(path).unwrap();
    }
    for dir in ["state", "versions"] {
        fs::remove_dir(fleet.dir().join(dir)).unwrap();
    }
    fleet.install(&[]).good();
    fleet.remove().good();
    assert!(!fleet.dir().exists());
    fleet.remove().good();
}

#[test]
fn nothing_is_removed_while_a_kubelet_needs_it() {
    let fleet = Fleet::new();
    fleet.install(&["--request-restart"]).good();
    let flag = format!(
        "--image-credential-provider-config={}/current/kubelet.yaml",
        fleet.dir().display()
    );
    // A process that looks like a kubelet with these flags, and waits for its stdin to end.
    let mut kubelet = Command::new("sh");
    kubelet.arg0("kubelet").args(["-c", "read line", "sh", &flag]).stdin(Stdio::piped());
    let mut kubelet = kubelet.spawn().unwrap();
    let ran = fleet.remove();
    ran.bad(1, &format!("process {}, still uses", kubelet.id()));
    assert_eq!(fleet.pull(), "puller");
    // The node's service learns from this that the kubelet shall run without the flags.
    assert!(!fleet.dir().join("restart-kubelet").exists());
    drop(kubelet.stdin.take());
    kubelet.wait().unwrap();
    fleet.remove().good();
    assert!(!fleet.dir().exists());
}

#[test]
fn a_program_that_others_can_change_is_not_installed() {
    let fleet = Fleet::new();
    let mode = |name: &str, mode| {
        fs::set_permissions(fleet.stage.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("programs/provider", 0o757);
    fleet.install(&[]).bad(4, "programs/provider` can be written by everybody");
    mode("programs/provider", 0o755);
    mode("programs", 0o777);
    fleet.install(&[]).bad(4, "programs` can be written by everybody");
    assert!(!fleet.dir().join("current").exists());
    mode("programs", 0o755);
    fleet.install(&[]).good();
}

#[test]
fn a_directory_that_others_can_change_is_not_used() {
    let fleet = Fleet::new();
    fs::create_dir(fleet.dir()).unwrap();
    fs::set_permissions(fleet.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    fleet.install(&[]).bad(4, "node` can be written by everybody");
    fleet.remove().bad(4, "node` can be written by everybody");
    assert_eq!(fs::read_dir(fleet.dir()).unwrap().count(), 0);
}

#[test]
fn links_in_the_directory_do_not_lead_to_files_elsewhere() {
    let fleet = Fleet::new();
    fs::create_dir(fleet.dir()).unwrap();
    let victim = fleet.stage.write("victim", "untouched");
    symlink(&victim, fleet.dir().join("restart-kubelet.new")).unwrap();
    fleet.install(&["--request-restart"]).good();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    fleet.remove().good();
    fs::create_dir_all(fleet.dir()).unwrap();
    symlink(&victim, fleet.dir().join(".lock")).unwrap();
    fleet.install(&[]).bad(1, "cannot lock");
}

#[test]
fn an_installation_that_is_killed_leaves_the_version_in_use() {
    let fleet = Fleet::new();
    fleet.install(&[]).good();
    let first = fleet.current();
    // What a process that was killed leaves behind.
    let half = fleet.dir().join("versions/.9.9.9-000000000000.new/bin");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("keyward"), "half").unwrap();
    assert_eq!((fleet.pull().as_str(), fleet.current()), ("puller", first));
    fleet.install(&[]).good();
    assert_eq!(fleet.versions(), 1);
}

#[test]
fn every_alert_of_the_chart_fires_for_its_fault_and_only_then() {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/chart/keyward-node");
    for words in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]] {
        let mut command = Command::new("promtool");
        let output = command.args(words).current_dir(chart).output();
        let output = output.expect("promtool (Debian package `prometheus`)");
        assert!(output.status.success(), "{output:?}");
    }
}
