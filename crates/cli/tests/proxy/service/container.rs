//! A grant in a container: a process that sees the grant's directory and its programs, and has no network
//! but its own loopback.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use keyward_protocol::Node;
use keyward_testing::kubectl;
use serde_json::Value;
use tempfile::TempDir;

use super::stage::{Stage, addresses, eventually, said};
use crate::stage::pod;

/// What a container runtime does: own namespaces, and a root with libraries, programs and one mounted
/// directory. `lo` is up, as everywhere.
const ENTER: &str = r#"
set -e
root=$1 kubectl=$2 exec=$3 granted=$4
shift 4
mount -t tmpfs tmpfs "$root"
mkdir -p "$root/usr/lib" "$root/bin" "$root/keyward" "$root/dev"
mount --rbind /usr/lib "$root/usr/lib"
ln -s usr/lib "$root/lib"
[ ! -e /lib64 ] || { mkdir "$root/lib64"; mount --rbind /lib64/ "$root/lib64"; }
touch "$root/bin/kubectl" "$root/bin/keyward-exec" "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount --bind "$kubectl" "$root/bin/kubectl"
mount --bind "$exec" "$root/bin/keyward-exec"
mount --bind "$granted" "$root/keyward"
mount -o remount,bind,ro "$root/keyward"
ip link set lo up
exec chroot "$root" /bin/keyward-exec relay --socket /keyward/proxy.sock -- "$@"
"#;

struct Container<'a> {
    stage: &'a Stage,
    root: TempDir,
    granted: PathBuf,
}

impl<'a> Container<'a> {
    fn new(stage: &'a Stage, kubeconfig: &Path) -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { stage, root, granted: kubeconfig.parent().unwrap().to_owned() }
    }

    /// A command inside.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.stage.command("unshare");
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["--user", "--map-root-user", "--mount", "--net", "--pid", "--fork"])
            .args(["--kill-child", "--", "sh", "-c", ENTER, "sh"])
            .arg(self.root.path())
            .arg(fs::canonicalize(&kubectl::installed().path).unwrap())
            .arg(keyward_testing::plugin::exec())
            .arg(&self.granted)
            .args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("unshare (Debian package `util-linux`)")
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_process_that_sees_only_the_mounted_directory_works_and_reaches_nothing_else() {
    let stage = Stage::new(&["east", "west"]);
    let east = stage.server("east");
    east.store().put(&pod("one")).unwrap();
    let args = ["grant", "create", "box", "--context", "east", "--read-only", "--socket"];
    let kubeconfig = PathBuf::from(stage.keyward_prints(&args).trim_end());
    let granted = kubeconfig.parent().unwrap();
    let mut files: Vec<_> =
        fs::read_dir(granted).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["address", "kubeconfig", "proxy.sock"]);
    let container = Container::new(&stage, &kubeconfig);

    let output = container.run(&["/bin/kubectl", "get", "pods", "-o", "name"]);
    assert_eq!(text(&output), "pod/one\n", "{}", said(&output));
    assert_eq!(east.recorder().last().unwrap().user.as_deref(), Some("east"));
    let output = container.run(&["/bin/kubectl", "get", "secrets"]);
    assert!(said(&output).contains("does not allow `list secrets`"), "{}", said(&output));
    // The exit code and the words are the command's own.
    let output = container.run(&["/bin/kubectl", "get", "--raw", "/no/such/path", "--help"]);
    assert!(output.status.success() && text(&output).contains("kubectl get"), "{}", said(&output));
    let output = container.run(&["/bin/no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));

    // Neither the server, nor the proxy's other contexts, nor anything else of the host.
    let others = addresses(&stage.path(".local/state/keyward/proxy/config/kubeconfig"));
    let west = &others.iter().find(|(name, _)| name == "west").unwrap().1;
    for server in [&east.url(), &stage.server("west").url(), west, "https://192.0.2.1:6443"] {
        let raw = ["/bin/kubectl", "--server", server, "get", "--raw", "/version"];
        let output = container.run(&[&raw[..], &["--request-timeout", "5s"]].concat());
        let why = said(&output);
        let unreachable = ["refused", "unreachable", "no route"];
        assert!(unreachable.iter().any(|word| why.contains(word)), "{server}: {why}");
    }
    let seen = stage.server("west").recorder().all();
    assert!(seen.is_empty(), "{seen:?}");
    let own = stage.path(".kube/config");
    for path in [own.to_str().unwrap(), "/etc/passwd", "/proc/1/environ", "/root/.kube/config"] {
        let output = container.run(&["/bin/kubectl", "--kubeconfig", path, "config", "view"]);
        assert!(!text(&output).contains("east"), "{path}: {}", text(&output));
        let read = ["/bin/kubectl", "create", "--dry-run=client", "-o", "json", "-f", path];
        let output = container.run(&read);
        assert!(said(&output).contains("does not exist"), "{path}: {}", said(&output));
    }

    // A proxy that has started again, whose socket is a new one, and a grant that has ended.
    stage.keyward_prints(&["proxy", "stop"]);
    stage.start(&[]);
    eventually("the socket is back", || {
        container.run(&["/bin/kubectl", "get", "pods"]).status.success()
    });
    let copy = stage.path("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["address", "kubeconfig"] {
        fs::copy(granted.join(name), copy.join(name)).unwrap();
    }
    stage.keyward_prints(&["grant", "revoke", "box"]);
    assert!(!granted.exists());
    let left = Container { granted: copy, ..Container::new(&stage, &kubeconfig) };
    let output = left.run(&["/bin/kubectl", "get", "--raw", "/version"]);
    assert!(
        said(&output).contains("cannot reach the proxy at `/keyward/proxy.sock`"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_relay_that_cannot_work_says_why() {
    let stage = Stage::new(&["east"]);
    let args =
        ["grant", "create", "side", "--context", "east", "--read-only", "--socket", "-o", "json"];
    let made: Value = serde_json::from_str(&stage.keyward_prints(&args)).unwrap();
    let granted = PathBuf::from(made["directory"].as_str().unwrap());
    let exec = keyward_testing::plugin::exec();
    let fails = |args: &[&str]| {
        let output = stage.command(exec).arg("relay").args(args).output().unwrap();
        assert!(!output.status.success());
        said(&output)
    };
    let socket = granted.join("proxy.sock");
    let socket = socket.to_str().unwrap();
    // Here the proxy itself has the address.
    let why = fails(&["--socket", socket, "--", "true"]);
    assert!(why.contains("is in use") && why.lines().count() == 1, "{why}");
    assert!(
        fails(&["--socket", "/no/such/proxy.sock"]).contains("is the directory of a grant mounted")
    );
    assert!(
        fails(&["--socket", socket, "--listen", "0.0.0.0:1"]).contains("can be reached by others")
    );
    assert!(fails(&["--socket", socket, "--listen", "here"]).contains("is not an address"));
    assert!(fails(&["--listen", "127.0.0.1:1"]).contains("Usage:"));
}

/// The examples of the page, as users copy them.
#[test]
fn the_examples_mount_what_they_use_and_run_in_namespaces() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    let page = read("grants.md");
    let [compose, devcontainer] =
        ["compose.yaml", "devcontainer.json"].map(|name| read(&format!("examples/grants/{name}")));
    assert!(page.contains(&compose) && page.contains(&devcontainer), "the page shows the files");
    let compose = Node::from_yaml(compose.as_bytes()).unwrap().to_json();
    let compose: Value = serde_json::from_str(&compose).unwrap();
    let service = &compose["services"]["tools"];
    assert_eq!(service["network_mode"], "none");
    let mounts = ["/keyward", "/bin/keyward-exec"];
    for (mount, target) in service["volumes"].as_array().unwrap().iter().zip(mounts) {
        assert!(mount.as_str().unwrap().ends_with(&format!(":{target}:ro")), "{mount}");
    }
    let devcontainer: Value = serde_json::from_str(&devcontainer).unwrap();
    for (mount, target) in devcontainer["mounts"].as_array().unwrap().iter().zip(mounts) {
        let ends = format!(",target={target},type=bind,readonly");
        assert!(mount.as_str().unwrap().ends_with(&ends), "{mount}");
    }
    let after = devcontainer["postStartCommand"].as_str().unwrap();
    assert!(after.contains("/bin/keyward-exec relay --socket /keyward/proxy.sock"), "{after}");

    let stage = Stage::new(&["dev"]);
    stage.server("dev").store().put(&pod("one")).unwrap();
    let created = page.lines().find_map(|line| line.strip_prefix("$ keyward grant create tools"));
    let args: Vec<_> = created.unwrap().split_whitespace().collect();
    let made = stage.keyward_prints(&[&["grant", "create", "tools"], args.as_slice()].concat());
    let container = Container::new(&stage, Path::new(made.trim_end()));
    let words = |name: &str| {
        let words = service[name].as_array().unwrap().iter();
        words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // What the namespaces are entered with.
    assert_eq!(
        words("entrypoint"),
        ["/bin/keyward-exec", "relay", "--socket", "/keyward/proxy.sock", "--"]
    );
    let command = words("command");
    let output = container.run(&command.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(text(&output), "pod/one\n", "{}", said(&output));
}
