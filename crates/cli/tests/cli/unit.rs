//! `keyward agent install-unit`: systemd is the judge of its unit. `cargo xtask soak --agent` runs it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::stage::Stage;

/// What systemd finds wrong with a unit, in words.
fn verify(stage: &Stage, unit: &Path) -> Output {
    Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .arg(unit)
        .env("HOME", stage.path("home"))
        .env("XDG_RUNTIME_DIR", stage.path("home"))
        .output()
        .expect("systemd-analyze (Debian package `systemd`)")
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let stage = Stage::new();
    let ran = stage.run("agent install-unit");
    let unit = stage.path("home/.config/systemd/user/keyward-agent.service");
    assert!(ran.stderr.contains(&format!("wrote `{}`", unit.display())), "{ran:?}");
    assert!(ran.stderr.contains("systemctl --user enable --now keyward-agent"), "{ran:?}");
    let found = verify(&stage, &unit);
    assert!(found.status.success() && found.stderr.is_empty(), "{found:?}");

    let text = fs::read_to_string(&unit).unwrap();
    assert_eq!(stage.run("agent install-unit --dry-run").good(), text);
    for (right, wrong) in [("LimitCORE=0", "LimitCROE=0"), ("\" agent", "-gone\" agent")] {
        assert!(text.contains(right), "{text}");
        fs::write(&unit, text.replace(right, wrong)).unwrap();
        let found = verify(&stage, &unit);
        assert!(!found.stderr.is_empty(), "systemd notices `{wrong}`: {found:?}");
    }
}
