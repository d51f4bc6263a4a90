//! Whether a plugin may run, and which file that is.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use keyward_host::{
    Error, Kind,
    rules::{Policy, Rules, Verdict},
};
use keyward_process::surroundings::{Fixed, Surroundings};
use serde_json::{Value, json};

pub(super) fn check(case: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let root = folder.path().canonicalize().map_err(|e| e.to_string())?;
    lay_out(&root).map_err(|e| format!("cannot lay out the fixture: {e}"))?;
    let found = decide(case, &root);
    let expected = &case["expect"];
    if &found == expected { Ok(()) } else { Err(format!("expected {expected}, found {found}")) }
}

fn lay_out(root: &Path) -> std::io::Result<()> {
    for folder in ["d1", "d2", "d3"] {
        fs::create_dir(root.join(folder))?;
    }
    for program in ["d1/plug", "d2/plug", "d1/other"] {
        let path = root.join(program);
        fs::write(&path, "#!/bin/sh\n")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    fs::write(root.join("d3/noexec"), "")?;
    fs::set_permissions(root.join("d3/noexec"), fs::Permissions::from_mode(0o644))?;
    for link in ["d3/alias", "d3/plug"] {
        symlink(root.join("d1/plug"), root.join(link))?;
    }
    Ok(())
}

/// What we decide, in the words of the vectors.
fn decide(case: &Value, root: &Path) -> Value {
    let fill = |text: &Value| {
        text.as_str().unwrap_or_default().replace("$ROOT", &root.display().to_string())
    };
    let list = case["allowlist"].as_array().map(|list| list.iter().map(fill).collect());
    let Ok(policy) = Policy::new(case["policy"].as_str().unwrap_or_default(), list) else {
        return refused("invalid_policy", "construct");
    };
    let system = env::var("PATH").unwrap_or_default();
    let surroundings = Surroundings::fixed(Fixed {
        vars: vec![("PATH".into(), format!("{}:{system}", fill(&case["PATH"])).into())],
        cwd: root.to_owned(),
        ..Fixed::default()
    });
    let rules = Rules::new(policy);
    let command = fill(&case["command"]);
    match rules.admit(&command, &surroundings) {
        Ok(program) => json!({"ok": {"ranFrom": folder_of(&program.path, root)}}),
        Err(error) => {
            refused(class(&error, &rules.judge(&command, &surroundings).0, &command), "run")
        }
    }
}

fn refused(class: &str, phase: &str) -> Value {
    json!({"error": {"class": class, "phase": phase}})
}

fn class(error: &Error, verdict: &Verdict, command: &str) -> &'static str {
    match (error.kind(), verdict) {
        (Kind::NotAllowed, Verdict::DeniedAll) => "policy_denied_all",
        (Kind::NotAllowed, Verdict::NotListed) => "policy_denied_allowlist",
        (Kind::NotAllowed, Verdict::Unresolvable) => "policy_unresolvable",
        // The reference notices a path that leads nowhere only when it starts it (D8).
        (Kind::NotFound | Kind::Failed, _) if command.starts_with('/') && bare(command) => {
            "not_found"
        }
        (Kind::NotFound, _) if command.contains('/') => "start_failed",
        (Kind::NotFound, _) => "not_found",
        (Kind::Failed, _) => "start_failed",
        _ => "other",
    }
}

/// Whether nothing but the root is left of a path: it has no name beside its directory, so the reference searches PATH.
fn bare(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    depth == 0
}

/// The directory of the file that runs, links followed: the fixture's programs say where they are.
fn folder_of(program: &Path, root: &Path) -> String {
    let real = program.canonicalize().unwrap_or_default();
    let below = real.strip_prefix(root).unwrap_or(&real);
    below.parent().unwrap_or(below).display().to_string()
}
