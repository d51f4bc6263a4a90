//! The tarball and the sums.

use std::process::Command;

use super::{PATH, Stage, expect, prints};
use crate::dist::{compile::PROGRAMS, contents::LINKS, sums};

pub(super) fn works(stage: &Stage<'_>) -> Result<(), String> {
    let mut check = Command::new("sha256sum");
    prints(check.current_dir(stage.out).args(["--check", "--strict", "--quiet", sums::FILE]))?;
    let prefix = stage.unpack_tarball("home/.local")?;
    let bin = prefix.join("bin");
    let version = &stage.release.version;
    for program in PROGRAMS.into_iter().chain(LINKS) {
        let word = if program == "docker-credential-keyward" { "version" } else { "--version" };
        if program == "keyward-agent" {
            expect(&prints(Command::new(bin.join(program)).arg("--help"))?, "Usage")?;
            continue;
        }
        expect(&prints(Command::new(bin.join(program)).arg(word))?, version)?;
    }
    for page in
        ["keyward", "keyward-proxy", "keyward-exec", "kubectl-keyward", "keyward-provider-token"]
    {
        let mut man = Command::new("man");
        man.arg("-M").arg(prefix.join("share/man")).arg(page);
        man.env("MANPAGER", "cat").env("MANWIDTH", "100");
        expect(&prints(&mut man)?, "keyward")?;
    }
    let mut words = Command::new(bin.join("kubectl_complete-keyward"));
    expect(&prints(words.arg("plu"))?, "plugin")?;
    let mut complete = Command::new("bash");
    complete.args(["--norc", "-c", "source \"$1\" && complete -p keyward", "bash"]);
    complete.arg(prefix.join("share/bash-completion/completions/keyward"));
    let path = format!("{}:{PATH}", bin.display());
    expect(&prints(complete.env_clear().env("PATH", path))?, "keyward")
}
