//! The commands that fix faults.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use keyward_host::{
    Kubeconfig,
    kubeconfig::{Class, Named, Problem},
};
use keyward_process::{
    file::{self, Limits},
    surroundings::Surroundings,
    trust::{self, Problem as Trust},
};

use super::step::Step;
use crate::{commands::plan::explain::Chosen, globals::Globals, output::quoted};

/// A `kubectl config` command for the kubeconfig that is in use.
pub(super) fn kubectl_config(globals: &Globals, words: &[&str]) -> String {
    let mut command = "kubectl config".to_owned();
    if let Some(file) = globals.flags.kubeconfig() {
        let _ = write!(command, " --kubeconfig={}", quoted(&file.to_string_lossy()));
    }
    for word in words {
        command += " ";
        command += &quoted(word);
    }
    command
}

/// A `kubectl config` command that changes a cluster.
pub(super) fn set_cluster(globals: &Globals, cluster: &str, flags: &[&str]) -> String {
    kubectl_config(globals, &[&["set-cluster", cluster], flags].concat())
}

/// A `kubectl config` command that changes a user.
pub(super) fn set_user(globals: &Globals, user: &str, flags: &[&str]) -> String {
    kubectl_config(globals, &[&["set-credentials", user], flags].concat())
}

/// Adds how to fix a problem of the kubeconfig.
pub(super) fn of_problem(
    step: Step,
    problem: &Problem,
    globals: &Globals,
    config: &Kubeconfig,
) -> Step {
    let chosen = Chosen::new(globals, config);
    let kubectl = |words: &[&str]| kubectl_config(globals, words);
    let flagged = problem.field.as_ref().is_some_and(|field| field.starts_with("--"));
    match problem.class {
        _ if flagged => step.advice("correct the flag"),
        Class::ContextNotFound | Class::EmptyConfig if !config.contexts.is_empty() => {
            match only(&config.contexts, problem) {
                Some(name) => step.fix(kubectl(&["use-context", name])),
                None => step.advice("choose a context with `kubectl config use-context NAME`"),
            }
        }
        Class::EmptyConfig | Class::FileNotFound => no_file(step, globals, config),
        Class::Load => unread(step, problem, globals),
        Class::OverrideContextNotFound => match only(&config.contexts, problem) {
            Some(name) => step.fix(format!("keyward doctor --context {}", quoted(name))),
            None => step,
        },
        Class::UserNotFound => match only(&config.users, problem) {
            Some(name) => {
                step.fix(kubectl(&["set-context", &chosen.context, &format!("--user={name}")]))
            }
            None => step.advice(format!(
                "name an existing user: `kubectl config set-context {} --user=NAME`",
                quoted(&chosen.context)
            )),
        },
        Class::NotHttps
        | Class::NoServer
        | Class::ProxyUrlInvalid
        | Class::CaBoth
        | Class::CaWithInsecure
        | Class::CaUnreadable
        | Class::CaInvalid => of_cluster(step, problem.class, globals, config, &chosen.cluster),
        class => of_user(step, class, globals, &chosen.user),
    }
}

/// The entry that is meant: the only one, or the one whose name is close.
fn only<'a, T>(entries: &'a [Named<T>], problem: &'a Problem) -> Option<&'a str> {
    match entries {
        [one] => Some(&one.name),
        _ => problem.suggestion.as_deref(),
    }
}

fn of_cluster(
    step: Step,
    class: Class,
    globals: &Globals,
    config: &Kubeconfig,
    cluster: &str,
) -> Step {
    let set = |flags: &[&str]| set_cluster(globals, cluster, flags);
    let unset = |field| kubectl_config(globals, &["unset", &format!("clusters.{cluster}.{field}")]);
    match class {
        Class::NotHttps => match server(config, cluster) {
            Some(server) if !server.contains("://") => {
                step.fix(set(&[&format!("--server=https://{server}")]))
            }
            Some(server) if server.starts_with("http://") => {
                step.fix(set(&[&format!("--server={}", server.replacen("http", "https", 1))]))
            }
            _ => step.advice("correct the cluster's `server`"),
        },
        Class::NoServer => step.advice(format!(
            "set the server's address: `{}`",
            set(&["--server=https://HOST:PORT"])
        )),
        Class::ProxyUrlInvalid => step.fix(unset("proxy-url")),
        Class::CaBoth => step.fix(unset("certificate-authority")),
        Class::CaWithInsecure => step.fix(set(&["--insecure-skip-tls-verify=false"])),
        _ => step.advice(format!(
            "get the cluster's authority from its administrator, then run `{}`",
            set(&["--embed-certs", "--certificate-authority=FILE"])
        )),
    }
}

fn of_user(step: Step, class: Class, globals: &Globals, user: &str) -> Step {
    let set = |flags: &[&str]| set_user(globals, user, flags);
    let unset = |field| kubectl_config(globals, &["unset", &format!("users.{user}.{field}")]);
    match class {
        Class::ExecModeMissing | Class::ExecModeInvalid => {
            step.fix(set(&["--exec-interactive-mode=IfAvailable"]))
        }
        Class::ExecVersionMissing | Class::ExecVersionUnsupported => step.fix(set(&[
            "--exec-api-version=client.authentication.k8s.io/v1",
            "--exec-interactive-mode=IfAvailable",
        ])),
        Class::ClientCertificateBoth => step.fix(unset("client-certificate")),
        Class::ClientKeyBoth => step.fix(unset("client-key")),
        Class::MultipleMethods => step.fix(unset("username")),
        Class::ExecWithProvider => step.fix(unset("auth-provider")),
        _ => step,
    }
}

fn server<'a>(config: &'a Kubeconfig, cluster: &str) -> Option<&'a str> {
    let named = config.clusters.iter().find(|entry| entry.name == cluster)?;
    // A password in it must not come into a command.
    Some(named.value.server.as_str()).filter(|server| !server.contains('@'))
}

/// A file that is no kubeconfig. Often a tab stands where YAML wants spaces.
fn unread(step: Step, problem: &Problem, globals: &Globals) -> Step {
    let Some(path) = &problem.place.file else { return step };
    let line = problem.place.line;
    let text = file::read(&globals.surroundings.absolute(path), &Limits::GIVEN);
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let index = usize::try_from(line).unwrap_or_default().checked_sub(1);
    let has_tab = index
        .and_then(|index| text.lines().nth(index))
        .is_some_and(|text| text.trim_start_matches(' ').starts_with('\t'));
    if has_tab {
        return step
            .fix(format!("sed -i '{line}s/\\t/    /g' {}", quoted(&path.to_string_lossy())));
    }
    step.advice("correct the file, or get a new one from where it came from")
}

/// There is no kubeconfig where it was looked for.
fn no_file(step: Step, globals: &Globals, config: &Kubeconfig) -> Step {
    let surroundings = &globals.surroundings;
    let usual = surroundings.home().map(|home| home.join(".kube").join("config"));
    let exists = usual.as_ref().is_some_and(|usual| usual.is_file());
    let listed = surroundings.var("KUBECONFIG").is_some_and(|list| !list.is_empty());
    if exists && listed && config.files.iter().all(|(_, found)| !found) {
        return step.fix("unset KUBECONFIG");
    }
    step.advice("get a kubeconfig from the cluster's administrator or your cloud's command line")
}

/// Directories that a shell's start files often add to `PATH` and that other programs therefore lack.
fn usual_directories(surroundings: &Surroundings) -> Vec<PathBuf> {
    let home = surroundings.home().unwrap_or_default();
    let at_home =
        [".krew/bin", ".local/bin", "bin", "google-cloud-sdk/bin", ".azure-kubelogin", "go/bin"];
    let elsewhere = ["/usr/local/bin", "/opt/homebrew/bin", "/snap/bin"];
    let at_home = at_home.into_iter().map(|directory| home.join(directory));
    at_home.chain(elsewhere.into_iter().map(PathBuf::from)).collect()
}

/// The directory off `PATH` that has a program of this name.
pub(super) fn directory_of(command: &str, surroundings: &Surroundings) -> Option<PathBuf> {
    usual_directories(surroundings).into_iter().find(|directory| directory.join(command).is_file())
}

/// The command that takes a directory into `PATH`.
pub(super) fn extend_path(directory: &Path) -> String {
    format!("export PATH=\"$PATH\":{}", quoted(&directory.to_string_lossy()))
}

/// The command that keeps others from changing a program.
pub(super) fn protect(program: &Path, surroundings: &Surroundings) -> Option<String> {
    let checked = trust::program(program, surroundings.var("PATH").as_deref()).ok()?;
    let mut commands = Vec::new();
    for fault in checked.faults() {
        let path = quoted(&fault.path.to_string_lossy());
        commands.push(match fault.problem {
            Trust::WorldWritable(_) | Trust::GroupWritable(_) => format!("chmod go-w {path}"),
            Trust::Owner(_) => format!("sudo chown root {path}"),
            Trust::Listed(_) => format!("setfacl -b {path}"),
            _ => return None,
        });
    }
    (!commands.is_empty()).then(|| commands.join(" && "))
}

#[cfg(test)]
mod tests {
    use super::kubectl_config;
    use crate::{flags::Flags, globals::Globals};

    #[test]
    fn a_name_of_the_kubeconfig_stays_one_word_of_the_command() {
        let globals = Globals::new(Flags::default());
        assert_eq!(
            kubectl_config(&globals, &["set-credentials", "a'; touch x #", "--exec-arg=$(id)"]),
            r"kubectl config set-credentials 'a'\''; touch x #' '--exec-arg=$(id)'"
        );
    }
}
