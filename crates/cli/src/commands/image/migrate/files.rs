//! Logins in files: docker's `config.json`, and the settings of container runtimes.

use std::path::{Path, PathBuf};

use keyward_image::{Pattern, Severity};
use keyward_plugin::Refusal;

use super::{kubelet::Kubelet, plan::Plan, root::Root};
use crate::{
    bridge::{Bridge, DockerConfig, Registries},
    failure::Failure,
    output::{self, inline},
};

/// The settings of container runtimes, with the file that they are made from, which counts instead.
const RUNTIMES: [(&str, Option<&str>); 5] = [
    ("/etc/rancher/k3s/registries.yaml", None),
    ("/etc/rancher/rke2/registries.yaml", None),
    ("/etc/containerd/config.toml", None),
    (
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
        Some("/etc/rancher/k3s/registries.yaml"),
    ),
    (
        "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
        Some("/etc/rancher/rke2/registries.yaml"),
    ),
];

/// Adds `keyward-provider-docker` for the files that have logins.
pub(super) fn add(plan: &mut Plan, root: &Root, kubelet: &Kubelet) -> Result<(), Failure> {
    docker(plan, root, kubelet)?;
    for (path, source) in RUNTIMES {
        if source.is_none_or(|source| !root.exists(Path::new(source))) {
            runtime(plan, root, Path::new(path))?;
        }
    }
    Ok(())
}

/// Docker's configuration: the first file that the kubelet finds, or docker's own where there is no kubelet.
fn docker(plan: &mut Plan, root: &Root, kubelet: &Kubelet) -> Result<(), Failure> {
    let own = kubelet.path("root-dir").unwrap_or_else(|| "/var/lib/kubelet".into());
    let home = kubelet.home.as_ref().map(|home| Path::new(home).join(".docker/config.json"));
    let places = [
        Some(own.join("config.json")),
        Some("/config.json".into()),
        home,
        Some("/.docker/config.json".into()),
    ];
    let read = places.into_iter().flatten().find(|path| root.exists(path));
    let of_docker = PathBuf::from("/root/.docker/config.json");
    let has_docker = read.as_ref() != Some(&of_docker) && root.exists(&of_docker);
    let instead = has_docker && kubelet.files.is_empty();
    let used = read.or_else(|| instead.then(|| of_docker.clone()));
    if has_docker && used.as_ref() != Some(&of_docker) {
        let message = format!(
            "`{}` is docker's own: this kubelet does not read it, so it is left out",
            of_docker.display()
        );
        plan.note(Severity::Note, message);
    }
    let old = own.join(".dockercfg");
    if used.is_none() && root.exists(&old) {
        let message = format!(
            "`{}` has docker's old format: move its content below `auths` in `config.json` beside it, and run this \
             again",
            output::path(&old)
        );
        plan.note(Severity::Warning, message);
    }
    let Some(path) = used else { return Ok(()) };
    let Some(bytes) = root.read(&path)? else { return Ok(()) };
    let config = DockerConfig::from_bytes(&path, &bytes)?;
    let mut registries = config.registries()?;
    let shown = output::path(&path);
    for (registry, helper) in config.helpers() {
        if format!("docker-credential-{helper}") == Bridge::Helper.name() {
            let message = format!(
                "`{}` has the helper `{helper}` in `{shown}`, which asks providers itself: left out",
                inline(&registry)
            );
            plan.note(Severity::Note, message);
            continue;
        }
        let message = format!(
            "`{}` has the helper `{}` in `{shown}`, which the kubelet does not ask today; `{}` does",
            inline(&registry),
            inline(&helper),
            Bridge::Docker.name()
        );
        plan.note(Severity::Note, message);
        registries.push(registry);
    }
    if let Some(store) = config.store() {
        let message = format!(
            "`credsStore` in `{shown}` names the helper `{}` for all registries: add a pattern for each registry that \
             it has a login for",
            inline(store)
        );
        plan.note(Severity::Warning, message);
    }
    if offer(plan, &registries, "--config", &path) {
        plan.found("docker's configuration", &path);
    }
    Ok(())
}

fn runtime(plan: &mut Plan, root: &Root, path: &Path) -> Result<(), Failure> {
    if !root.exists(path) {
        return Ok(());
    }
    let read = |path: &Path| Registries::read_at(path, |path| root.locate(path));
    let registries = read(path)?;
    take(plan, &registries, path);
    for directory in registries.directories.iter().filter(|directory| root.is_dir(directory)) {
        take(plan, &read(directory)?, directory);
    }
    Ok(())
}

fn take(plan: &mut Plan, registries: &Registries, path: &Path) {
    let shown = output::path(path);
    for registry in &registries.unusable {
        let message = format!(
            "the credential for `{}` in `{shown}` is not a user name with a password: the container runtime goes on \
             using it",
            inline(registry)
        );
        plan.note(Severity::Note, message);
    }
    for (registry, hosts) in &registries.mirrors {
        let with_login = |host: &&String| registries.logins.iter().any(|(known, _)| known == *host);
        for host in hosts.iter().filter(with_login) {
            let message = format!(
                "images of `{}` come through the mirror `{}`, whose login the container runtime goes on taking from \
                 `{shown}`",
                inline(registry),
                inline(host)
            );
            plan.note(Severity::Note, message);
        }
    }
    let hosts: Vec<String> =
        registries.logins.iter().map(|(registry, _)| registry.clone()).collect();
    if offer(plan, &hosts, "--registries", path) {
        plan.found("logins of the container runtime", path);
    }
}

/// Lets `keyward-provider-docker` answer for these registries from a file.
fn offer(plan: &mut Plan, registries: &[String], flag: &str, path: &Path) -> bool {
    let mut usable = registries.iter().filter(|name| Pattern::parse(name).is_ok()).peekable();
    if usable.peek().is_none() {
        return false;
    }
    let replaces = "logins in files of the node";
    let entry = plan.entry(Bridge::Docker.name(), replaces, "5m");
    entry.match_also(usable);
    let shown = path.display().to_string();
    // A node that was migrated before has them already.
    if !entry.args.iter().any(|arg| arg.ends_with(&shown)) {
        entry.args.extend([flag.to_owned(), shown]);
    }
    true
}

/// A file that cannot be used, in the words of the provider that would read it.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::failed(refusal.to_string())
    }
}
