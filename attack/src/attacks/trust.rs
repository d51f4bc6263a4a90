//! What another user can make the victim execute or load.

use std::{
    fs,
    os::unix::fs::{chown, lchown, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::{Done, tool},
    stage::{Stage, exec, kubeconfig, mode, prints},
    untried,
};

pub const ALL: &[Line] = &[
    ("H1a", "a module behind links whose real path is too long to be read", too_long),
    ("H1b", "a module behind a link that is swapped between check and load", module_race),
    ("H1-gap", "a plugin behind a link that is swapped between check and start", plugin_race),
    ("M4-plugin", "a plugin that an ACL lets another user write", acl_plugin),
    ("M4-directory", "a plugin in a directory that an ACL lets another user write", acl_directory),
    ("M4-module", "a module that an ACL lets another user write", acl_module),
    ("M5", "a plugin on another user's FUSE mount that forges owner and mode", forged_mount),
    ("L1-mode", "an image provider that everybody can write", provider_mode),
    ("L1-owner", "an image provider of another user", provider_owner),
    (
        "L1-directory",
        "an image provider in a directory that everybody can write",
        provider_directory,
    ),
    ("L1-lint", "lint says nothing of a provider that everybody can write", provider_lint),
    ("L1-helper", "a docker helper that everybody can write", docker_helper),
    ("L14", "a script whose interpreter belongs to another user", interpreter),
    ("held-owner", "a plugin or module of another user", other_owner),
    ("held-links", "a plugin behind a link in another user's directory", others_links),
    ("held-sticky", "a plugin of another user in a sticky directory", sticky),
    ("held-grandparent", "a plugin below a directory of mode 0777", grandparent),
];

/// What a program of the attacker's does: leaves a mark in the victim's home, and answers.
fn evil(stage: &Stage) -> String {
    format!("#!/bin/sh\necho ran >>{}\n{}", stage.home("marker").display(), prints("evil"))
}

/// Whether the attacker's program or library was started.
fn marked(stage: &Stage) -> bool {
    stage.home("marker").exists()
}

/// A plugin of the victim's own runs, so a refusal below is one of the attack.
fn control(stage: &Stage) -> Result<(), Failure> {
    let plugin = stage.script("control", &format!("#!/bin/sh\n{}", prints("mine")))?;
    stage.write("config", kubeconfig(&exec(&plugin, &[])))?;
    let done = stage.run(&mut stage.keyward(&["credential"]))?;
    if done.stdout.contains("mine") {
        Ok(())
    } else {
        untried(format!("no plugin runs: {}", done.why()))
    }
}

/// Runs the plugin at this path and judges by the mark it leaves.
fn plugin_at(stage: &Stage, path: &Path) -> Outcome {
    control(stage)?;
    stage.write("config", kubeconfig(&exec(path, &[])))?;
    let done = stage.run(&mut stage.keyward(&["credential"]))?;
    judge(stage, &done)
}

fn judge(stage: &Stage, done: &Done) -> Outcome {
    if marked(stage) {
        return got_through(format!("it ran; {}", done.why()));
    }
    Ok(format!("refused: {}", done.why()))
}

fn load(stage: &Stage, module: &Path) -> Result<Done, Failure> {
    stage.run(
        &mut stage.program(
            "keyward-pkcs11",
            &["list", &format!("pkcs11:?module-path={}", module.display())],
        ),
    )
}

/// A library of the victim's own is loaded.
fn module_control(stage: &Stage) -> Result<(), Failure> {
    let library = stage.home("bin").join("control.so");
    let marker = stage.home("control");
    stage.library(&library, &marker)?;
    stage.give(&library, 0o755)?;
    let done = load(stage, &library)?;
    if marker.exists() { Ok(()) } else { untried(format!("no module is loaded: {}", done.why())) }
}

fn too_long(stage: &Stage) -> Outcome {
    module_control(stage)?;
    let lair = stage.lair()?;
    let long = vec!["d".repeat(200); 15].join("/");
    let mut place = lair.clone();
    for link in ["1", "2"] {
        fs::create_dir_all(place.join(&long))?;
        symlink(&long, place.join(link))?;
        place = place.join(link);
    }
    let library = place.join("evil.so");
    stage.library(&library, &stage.home("marker"))?;
    let owner = format!("{0}:{0}", stage.attacker()?);
    tool("chown", "coreutils", &["-hR", &owner, &lair.display().to_string()])?;
    let done = load(stage, &library)?;
    judge(stage, &done)
}

/// Swaps two names until told to stop.
fn swap(one: &Path, two: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let _ = renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE);
    }
}

/// Attempts this many times on two threads against a swapping attacker.
fn race(
    stage: &Stage,
    names: [&Path; 2],
    attempt: impl Fn() -> Command + Sync,
) -> Result<usize, Failure> {
    let (stop, tried) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| swap(names[0], names[1], &stop));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| -> Result<(), Failure> {
                    while tried.fetch_add(1, Ordering::Relaxed) < stage.attempts && !marked(stage) {
                        let _ = stage.run(&mut attempt())?;
                    }
                    Ok(())
                })
            })
            .collect();
        let outcomes: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        for outcome in outcomes {
            outcome.map_err(|_| Failure::Untried("a thread panicked".to_owned()))??;
        }
        Ok(tried.load(Ordering::Relaxed).min(stage.attempts))
    })
}

/// Two links of the attacker's in a directory, to what is good and to what is evil.
fn two_links(
    stage: &Stage,
    place: &Path,
    good: &Path,
    evil: &Path,
) -> Result<[PathBuf; 2], Failure> {
    let links = [place.join("link"), place.join("other")];
    for (link, target) in links.iter().zip([good, evil]) {
        symlink(target, link)?;
        let attacker = stage.attacker()?;
        lchown(link, Some(attacker), Some(attacker))?;
    }
    Ok(links)
}

fn module_race(stage: &Stage) -> Outcome {
    module_control(stage)?;
    let lair = stage.lair()?;
    let library = lair.join("evil.so");
    stage.library(&library, &stage.home("marker"))?;
    stage.take(&library, 0o755)?;
    let [link, other] = two_links(stage, &lair, &stage.home("bin").join("control.so"), &library)?;
    let uri = format!("pkcs11:?module-path={}", link.display());
    let tried = race(stage, [&link, &other], || stage.program("keyward-pkcs11", &["list", &uri]))?;
    if marked(stage) {
        return got_through(format!("loaded within {tried} attempts"));
    }
    Ok(format!("not loaded in {tried} attempts"))
}

/// The link is in a sticky directory of root's, where everybody may have one.
fn plugin_race(stage: &Stage) -> Outcome {
    control(stage)?;
    let lair = stage.lair()?;
    let plugin = lair.join("evil");
    fs::write(&plugin, evil(stage))?;
    stage.take(&plugin, 0o755)?;
    let shared = stage.dir.join("shared");
    fs::create_dir(&shared)?;
    mode(&shared, 0o1777)?;
    let [link, other] = two_links(stage, &shared, &stage.home("bin").join("control"), &plugin)?;
    stage.write("config", kubeconfig(&exec(&link, &[])))?;
    let tried = race(stage, [&link, &other], || stage.keyward(&["credential"]))?;
    if marked(stage) {
        return got_through(format!("started within {tried} attempts"));
    }
    Ok(format!("not started in {tried} attempts"))
}

fn set_acl(stage: &Stage, path: &Path) -> Result<(), Failure> {
    let entry = format!("u:{}:rwx", stage.attacker()?);
    tool("setfacl", "acl", &["-m", &entry, &path.display().to_string()]).map(drop)
}

fn acl_plugin(stage: &Stage) -> Outcome {
    let plugin = stage.script("plugin", &evil(stage))?;
    set_acl(stage, &plugin)?;
    plugin_at(stage, &plugin)
}

fn acl_directory(stage: &Stage) -> Outcome {
    let directory = stage.directory("tools", 0o755)?;
    let plugin = directory.join("plugin");
    fs::write(&plugin, evil(stage))?;
    stage.give(&plugin, 0o755)?;
    set_acl(stage, &directory)?;
    plugin_at(stage, &plugin)
}

fn acl_module(stage: &Stage) -> Outcome {
    module_control(stage)?;
    let library = stage.home("bin").join("module.so");
    stage.library(&library, &stage.home("marker"))?;
    stage.give(&library, 0o755)?;
    set_acl(stage, &library)?;
    let done = load(stage, &library)?;
    judge(stage, &done)
}

fn forged_mount(stage: &Stage) -> Outcome {
    control(stage)?;
    let (lair, attacker, victim) = (stage.lair()?, stage.attacker()?, stage.victim());
    let source = lair.join("source");
    let shared = stage.dir.join("shared");
    let mount = shared.join("mount");
    for directory in [&source, &shared, &mount] {
        fs::create_dir(directory)?;
    }
    mode(&shared, 0o1777)?;
    fs::write(source.join("plugin"), evil(stage))?;
    for path in [&source, &source.join("plugin"), &mount] {
        stage.take(path, 0o755)?;
    }
    stage.write("config", kubeconfig(&exec(&mount.join("plugin"), &[])))?;
    let allow = stage.dir.join("fuse.conf");
    fs::write(&allow, "user_allow_other\n")?;
    let users = stage.dir.join("passwd");
    let known = fs::read_to_string("/etc/passwd")?;
    fs::write(&users, format!("{known}attacker:x:{attacker}:{attacker}::/:/bin/sh\n"))?;
    // In a mount namespace of its own, the system's settings allow what they forbid by default.
    let script = format!(
        "set -e\nmount --bind {allow} /etc/fuse.conf\nmount --bind {users} /etc/passwd\n\
         setpriv --reuid {attacker} --regid {attacker} --clear-groups -- \
         bindfs --force-user={victim} --force-group={victim} -o allow_other {source} {mount}\n\
         stat -c %u {mount}/plugin\nset +e\n\
         setpriv --reuid {victim} --regid {victim} --clear-groups -- env -i HOME={home} \
         PATH=/usr/bin:/bin KUBECONFIG={home}/config {keyward} credential >&2\n\
         umount {mount}\n",
        allow = allow.display(),
        users = users.display(),
        source = source.display(),
        mount = mount.display(),
        home = stage.dir.join("home").display(),
        keyward = stage.bin.join("keyward").display(),
    );
    for (program, package) in [("bindfs", "bindfs"), ("fusermount3", "fuse3")] {
        tool(program, package, &["--version"])?;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--", "sh", "-c", &script]);
    let done = stage.run(&mut command)?;
    if done.stdout.trim() != victim.to_string() {
        return untried(format!("no FUSE mount of another user (`/dev/fuse`): {}", done.why()));
    }
    judge(stage, &done)
}

/// An image provider and its configuration; the directory of the program.
fn provider(stage: &Stage) -> Result<PathBuf, Failure> {
    let directory = stage.directory("providers", 0o755)?;
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": { "r.io": { "username": "u", "password": "p" } },
    });
    let program = directory.join("prov");
    let marker = stage.home("marker");
    fs::write(
        &program,
        format!("#!/bin/sh\necho ran >>{}\ncat >/dev/null\necho '{answer}'\n", marker.display()),
    )?;
    stage.give(&program, 0o755)?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "prov",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": ["r.io"],
            "defaultCacheDuration": "1m",
        }],
    });
    stage.write("providers.yaml", config.to_string())?;
    Ok(directory)
}

/// Asks for a login in the two ways that run a provider.
fn logins(stage: &Stage) -> Result<[Done; 2], Failure> {
    let (config, directory) = (stage.home("providers.yaml"), stage.home("providers"));
    let mut images = stage.keyward(&["image", "credentials", "r.io/app", "--config"]);
    let images = stage.run(images.arg(&config).arg("--bin-dir").arg(&directory))?;
    let script = "printf r.io | \"$BIN/docker-credential-keyward\" get";
    let mut helper = stage.shell(script);
    helper.env("KEYWARD_IMAGE_CONFIG", &config).env("KEYWARD_IMAGE_BIN_DIR", &directory);
    Ok([images, stage.run(&mut helper)?])
}

fn provider_attack(stage: &Stage, spoil: impl Fn(&Path) -> Result<(), Failure>) -> Outcome {
    let directory = provider(stage)?;
    let good = logins(stage)?;
    if let Some(bad) = good.iter().find(|done| !done.ok()) {
        return untried(format!("no provider runs: {}", bad.why()));
    }
    fs::remove_file(stage.home("marker"))?;
    spoil(&directory)?;
    let [images, helper] = logins(stage)?;
    if marked(stage) {
        return got_through("it ran");
    }
    Ok(format!("refused: {}; {}", images.why(), helper.why()))
}

fn provider_mode(stage: &Stage) -> Outcome {
    provider_attack(stage, |directory| mode(&directory.join("prov"), 0o777))
}

fn provider_owner(stage: &Stage) -> Outcome {
    stage.attacker()?;
    provider_attack(stage, |directory| stage.take(&directory.join("prov"), 0o755))
}

fn provider_directory(stage: &Stage) -> Outcome {
    provider_attack(stage, |directory| mode(directory, 0o777))
}

fn provider_lint(stage: &Stage) -> Outcome {
    let directory = provider(stage)?;
    let lint = || {
        let mut command = stage.keyward(&["image", "lint", "--config"]);
        command.arg(stage.home("providers.yaml")).arg("--bin-dir").arg(&directory);
        stage.run(&mut command)
    };
    let good = lint()?.said();
    mode(&directory.join("prov"), 0o777)?;
    let bad = lint()?.said();
    if good == bad {
        return got_through("the same words as for a safe one");
    }
    Ok("it is named".to_owned())
}

fn docker_helper(stage: &Stage) -> Outcome {
    let marker = stage.home("marker");
    let helper = format!(
        "#!/bin/sh\necho ran >>{}\ncat >/dev/null\n\
         echo '{{\"ServerURL\":\"r.io\",\"Username\":\"u\",\"Secret\":\"p\"}}'\n",
        marker.display()
    );
    let helper = stage.script("docker-credential-evil", &helper)?;
    let config = stage.write("docker.json", r#"{"credHelpers":{"r.io":"evil"}}"#)?;
    let ask = || {
        let question = r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.io/app"}"#;
        let script = format!(
            "printf '%s' '{question}' | \"$BIN/keyward-provider-docker\" --config {}",
            config.display()
        );
        let path = format!("{}:/usr/bin:/bin", stage.home("bin").display());
        stage.run(stage.shell(&script).env("PATH", path))
    };
    let good = ask()?;
    if !marked(stage) {
        return untried(format!("no helper runs: {}", good.why()));
    }
    fs::remove_file(&marker)?;
    mode(&helper, 0o777)?;
    let done = ask()?;
    judge(stage, &done)
}

fn interpreter(stage: &Stage) -> Outcome {
    let program = stage.lair()?.join("interpreter");
    fs::copy("/bin/sh", &program)?;
    stage.take(&program, 0o755)?;
    let script = evil(stage).replace("/bin/sh", &program.display().to_string());
    let plugin = stage.script("plugin", &script)?;
    plugin_at(stage, &plugin)
}

fn other_owner(stage: &Stage) -> Outcome {
    let plugin = stage.script("plugin", &evil(stage))?;
    stage.take(&plugin, 0o755)?;
    let seen = plugin_at(stage, &plugin)?;
    module_control(stage)?;
    let library = stage.home("bin").join("module.so");
    stage.library(&library, &stage.home("marker"))?;
    stage.take(&library, 0o755)?;
    let done = load(stage, &library)?;
    judge(stage, &done).map(|module| format!("{seen}; {module}"))
}

fn others_links(stage: &Stage) -> Outcome {
    let plugin = stage.script("plugin", &evil(stage))?;
    let link = stage.lair()?.join("link");
    symlink(&plugin, &link)?;
    plugin_at(stage, &link)
}

fn sticky(stage: &Stage) -> Outcome {
    let attacker = stage.attacker()?;
    let shared = stage.dir.join("shared");
    fs::create_dir(&shared)?;
    mode(&shared, 0o1777)?;
    let plugin = shared.join("plugin");
    fs::write(&plugin, evil(stage))?;
    mode(&plugin, 0o755)?;
    chown(&plugin, Some(attacker), Some(attacker))?;
    plugin_at(stage, &plugin)
}

fn grandparent(stage: &Stage) -> Outcome {
    let top = stage.directory("open", 0o755)?;
    let inner = stage.directory("open/inner", 0o755)?;
    mode(&top, 0o777)?;
    let plugin = inner.join("plugin");
    fs::write(&plugin, evil(stage))?;
    stage.give(&plugin, 0o755)?;
    plugin_at(stage, &plugin)
}
