//! The debs, in a Debian with nothing else installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use keyward_testing::kubectl;

use super::{PATH, Stage, expect, in_root, prints};
use crate::dist::{capture, write_error};

pub(super) fn works(stage: &Stage<'_>) -> Result<(), String> {
    let root = bootstrap(stage.directory)?;
    let release = stage.release;
    for name in ["keyward", "keyward-pkcs11", "keyward-providers"] {
        let deb = format!("{name}_{}_{}.deb", release.version, release.go_arch());
        let place = root.join("tmp").join(&deb);
        fs::copy(stage.package(&deb)?, &place).map_err(write_error(&place))?;
        prints(&mut in_root(&root, &[], &["dpkg", "--install", &format!("/tmp/{deb}")]))?;
    }
    expect(&prints(&mut in_root(&root, &[], &["keyward", "demo"]))?, "promises kept")?;
    expect(&prints(&mut in_root(&root, &[], &["keyward-pkcs11", "--version"]))?, &release.version)?;
    expect(&prints(&mut in_root(&root, &[], &["keyward-ecr", "--version"]))?, &release.version)?;

    let kubectl = kubectl::find(0).map_err(|why| why.to_string())?;
    let place = root.join("usr/local/bin/kubectl");
    fs::copy(&kubectl.path, &place).map_err(write_error(&place))?;
    let config = root.join("root/config");
    fs::write(&config, KUBECONFIG).map_err(write_error(&config))?;
    let plan = ["kubectl", "keyward", "plan", "--kubeconfig", "/root/config"];
    expect(&prints(&mut in_root(&root, &[], &plan))?, "api.keyward.test")?;

    // The reader of manual pages is not in the smallest Debian; this needs the network.
    let mut man = Command::new("chroot");
    man.arg(&root).args([
        "sh",
        "-c",
        "apt-get update && apt-get install --yes --no-install-recommends man-db",
    ]);
    man.env_clear()
        .env("PATH", PATH)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LANG", "C.UTF-8");
    prints(&mut man)?;
    for page in [
        "keyward",
        "keyward-proxy",
        "keyward-exec",
        "keyward-pkcs11",
        "keyward-eks",
        "kubectl-keyward",
    ] {
        let mut man = in_root(&root, &[], &["man", page]);
        expect(&prints(man.env("MANPAGER", "cat").env("MANWIDTH", "100"))?, "SYNOPSIS")?;
    }
    let unit = root.join("usr/lib/systemd/user/keyward-agent.service");
    let unit = fs::read_to_string(&unit).map_err(super::super::read_error(&unit))?;
    expect(&unit, "ExecStart=\"/usr/bin/keyward\" agent")?;
    let unit = root.join("usr/lib/systemd/system/keyward-agent.service");
    let unit = fs::read_to_string(&unit).map_err(super::super::read_error(&unit))?;
    expect(&unit, "ExecStart=\"/usr/bin/keyward\" agent --system")?;

    prints(&mut in_root(&root, &[], &["dpkg", "--verify", "keyward"]))?;
    let purge = ["dpkg", "--purge", "keyward", "keyward-pkcs11", "keyward-providers"];
    prints(&mut in_root(&root, &[], &purge))?;
    let left = capture(Command::new("find").arg(root.join("usr")).args(["-name", "*keyward*"]))?;
    if left.is_empty() { Ok(()) } else { Err(format!("dpkg leaves behind:\n{left}")) }
}

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: 'https://api.keyward.test'}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
users: [{name: it, user: {token: abc}}]
";

/// The smallest Debian of this machine's release, from the mirror that this machine uses.
fn bootstrap(directory: &Path) -> Result<PathBuf, String> {
    let root = directory.join("debian");
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.ok_or("`/etc/os-release` names no release of Debian")?;
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"]);
    let targets = capture(targets.arg("Origin: Debian"))?;
    let mirror = targets.lines().find_map(|line| {
        let (mirror, name) = line.split_once(' ')?;
        (name == codename).then_some(mirror)
    });
    let mirror = mirror.ok_or("apt knows no mirror of Debian; run `apt-get update`")?;
    let mut debian = Command::new("mmdebstrap");
    debian.args(["--variant=minbase", "--quiet"]);
    // How this machine reaches its mirror.
    for line in capture(Command::new("apt-config").args(["dump", "Acquire"]))?.lines() {
        if line.contains("Proxy") || line.contains("Check-Valid-Until") {
            debian.arg(format!("--aptopt={line}"));
        }
    }
    prints(debian.arg(codename).arg(&root).arg(mirror))?;
    Ok(root)
}
