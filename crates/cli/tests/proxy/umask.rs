//! What the proxy writes has the modes that are promised, whatever the umask.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
};

use crate::stage::Stage;

/// The modes of the kubeconfig, of its directory and of what is beside it.
const MODES: &str = "cd \"${KUBECONFIG%/*}\" && stat -c %a kubeconfig . admin.sock lock ../lock ..";

/// Runs `keyward proxy` under this umask, as somebody for whom modes count: root without the right to
/// pass them by.
fn proxy(stage: &Stage, umask: &str, args: &[&str]) -> Output {
    let keyward = stage.keyward(&[&["proxy"], args].concat());
    let mut command = if rustix::process::geteuid().is_root() {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--bounding-set=-dac_override,-dac_read_search", "sh"]);
        setpriv
    } else {
        Command::new("sh")
    };
    command.args(["-c", "umask \"$0\"; exec \"$@\"", umask]).arg(keyward.get_program());
    command.args(keyward.get_args()).env_clear();
    command.envs(keyward.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.output().expect("setpriv (Debian package `util-linux`)")
}

#[test]
fn the_umask_neither_opens_nor_shuts_what_is_written() {
    for umask in ["0777", "0177", "0"] {
        let stage = Stage::new();
        let output = proxy(&stage, umask, &["--", "sh", "-c", MODES]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{umask}: {said}");
        let modes = String::from_utf8(output.stdout).unwrap();
        assert_eq!(modes, "600\n700\n600\n600\n600\n700\n", "{umask}");
    }
}

#[test]
fn what_an_earlier_start_left_without_any_rights_is_taken_away() {
    let stage = Stage::new();
    let base = stage.path("run/keyward");
    let left = base.join("proxy-1");
    fs::create_dir_all(&left).unwrap();
    for path in [left.join("lock"), base.join("lock")] {
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    }
    for path in [&left, &base] {
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    }
    let output = proxy(&stage, "022", &["--", "true"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = fs::read_dir(&base).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["lock"]);
}
