//! `cargo xtask chart`: the plain manifests that are rendered from the Helm chart.

use std::{fs, path::Path, process::Command};

use crate::{e2e, sh};

/// A manifest, and what is set for it beside `values.yaml`.
const MANIFESTS: [(&str, &str); 2] =
    [("keyward-node.yaml", "installed=true"), ("keyward-node-removal.yaml", "installed=false")];

/// Compares the manifests with what Helm renders; `--write` replaces them. Builds Helm if need be.
pub fn run(args: &[String]) -> Result<bool, String> {
    let write = match args {
        [] => false,
        [flag] if flag == "--write" => true,
        _ => return Err("`chart` has only the option `--write`".to_owned()),
    };
    let helm = e2e::helm(true)?.ok_or("Helm is built with Go, which is missing")?;
    compare(&helm, write)
}

/// Compares the manifests with the Helm that an earlier command has built; says in one line if there is none.
pub fn check() -> Result<bool, String> {
    let Some(helm) = e2e::helm(false)? else {
        println!("chart: not checked; `cargo xtask chart` builds Helm and checks it");
        return Ok(true);
    };
    compare(&helm, false)
}

fn compare(helm: &Path, write: bool) -> Result<bool, String> {
    let dir = crate::root().join("packaging/manifests");
    let mut ok = true;
    for (name, set) in MANIFESTS {
        let path = dir.join(name);
        let rendered = render(helm, &dir.join("values.yaml"), set)?;
        if fs::read_to_string(&path).is_ok_and(|found| found == rendered) {
            continue;
        }
        if write {
            fs::write(&path, rendered)
                .map_err(|e| format!("cannot write `{}`: {e}", path.display()))?;
        } else {
            eprintln!(
                "`{}` is not what the chart renders\nhint: cargo xtask chart --write",
                path.display()
            );
            ok = false;
        }
    }
    Ok(ok)
}

/// Without hooks, which mean nothing to `kubectl apply`.
fn render(helm: &Path, values: &Path, set: &str) -> Result<String, String> {
    let chart = crate::root().join("packaging/chart/keyward-node");
    let mut command = Command::new(helm);
    command.args(["template", "keyward-node"]).arg(chart).arg("--values").arg(values);
    command.args(["--namespace", "kube-system", "--no-hooks", "--kube-version", "1.36.0"]);
    let rendered = sh::capture(command.args(["--set", set]))?;
    Ok(format!(
        "# Rendered from packaging/chart/keyward-node by `cargo xtask chart --write`.\n{rendered}"
    ))
}
