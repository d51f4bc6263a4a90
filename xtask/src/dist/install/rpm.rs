//! The rpms, with rpm's own program.

use std::{fs, path::Path, process::Command};

use super::{Stage, expect, in_root, prints};
use crate::dist::write_error;

pub(super) fn works(stage: &Stage<'_>) -> Result<(), String> {
    let root = stage.directory.join("root");
    for directory in ["proc", "tmp", "var/lib/rpm"] {
        let path = root.join(directory);
        fs::create_dir_all(&path).map_err(write_error(&path))?;
    }
    let version = &stage.release.version;
    let file = |name: &str| format!("{name}-{version}-1.{}.rpm", stage.release.arch);
    let keyward = stage.package(&file("keyward"))?;
    let signer = stage.package(&file("keyward-pkcs11"))?;
    let providers = stage.package(&file("keyward-providers"))?;
    // Digests of the header and of the payload.
    expect(&prints(rpm(&root).arg("--checksig").arg(&keyward))?, "digests OK")?;
    // The signer needs glibc, which this root does not have.
    expect(&prints(rpm(&root).args(["-qp", "--requires"]).arg(&signer))?, "libc.so.6(GLIBC_2.")?;
    let is_static =
        !prints(rpm(&root).args(["-qp", "--requires"]).arg(&keyward))?.contains("GLIBC");
    let mut install = rpm(&root);
    install.arg("--install").args((!is_static).then_some("--nodeps"));
    prints(install.arg(&keyward).arg(&providers))?;
    prints(rpm(&root).args(["--install", "--nodeps"]).arg(&signer))?;
    prints(rpm(&root).args([
        "--verify",
        "--nodeps",
        "keyward",
        "keyward-pkcs11",
        "keyward-providers",
    ]))?;
    if is_static {
        for program in ["keyward", "kubectl-keyward", "keyward-exec", "keyward-ecr"] {
            expect(&prints(&mut in_root(&root, &[], &[program, "--version"]))?, version)?;
        }
    }
    prints(rpm(&root).args(["--erase", "keyward", "keyward-pkcs11", "keyward-providers"]))?;
    if root.join("usr/bin/keyward").exists() {
        return Err("`rpm --erase` leaves `keyward` behind".to_owned());
    }
    Ok(())
}

/// `rpm` for this root, on a machine of another kind.
fn rpm(root: &Path) -> Command {
    let mut command = Command::new("rpm");
    command.arg("--root").arg(root).args(["--dbpath", "/var/lib/rpm"]);
    command
}
