//! Known traps of known plugins: caches, ports and sessions that make a plugin fail in ways its message
//! does not explain.

use std::{
    ffi::OsString,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
};

use keyward_host::{Draft, kubeconfig::Exec};
use keyward_process::{
    clock::{Clock as _, SystemClock},
    file::{self, Limits},
};
use keyward_protocol::time::{format_rfc3339, parse_rfc3339};
use serde_json::Value;

use super::step::{Check, Report, SAID, State, Step};
use crate::{globals::Globals, output::quoted};

/// The plugins whose traps are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Aws,
    Gke,
    Azure,
    Oidc,
    Other,
}

/// The plugin of the context.
pub(super) struct Plugin {
    known: Known,
    exec: Exec,
}

/// A trap that is sprung, or could be.
struct Trap {
    /// The step that it explains, if that step failed.
    explains: Check,
    /// What is said about it.
    step: Step,
    /// Whether it is worth a note if that step did not fail.
    notable: bool,
}

impl Plugin {
    pub(super) fn of(draft: &Draft) -> Option<Self> {
        let exec = draft.plugin()?.exec().clone();
        Some(Self { known: known(&exec), exec })
    }

    /// A variable as the plugin sees it.
    fn var(&self, globals: &Globals, name: &str) -> Option<OsString> {
        let own = self.exec.env.iter().find(|(known, _)| known == name);
        let own = own.map(|(_, value)| OsString::from(value.expose()));
        own.or_else(|| globals.surroundings.var(name)).filter(|value| !value.is_empty())
    }

    /// The value of a flag: `--flag value` or `--flag=value`.
    fn flag(&self, flag: &str) -> Option<&str> {
        let args = &self.exec.args;
        let joined = args.iter().find_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
        let next = args.iter().position(|arg| arg == flag).and_then(|at| args.get(at + 1));
        joined.or(next.map(String::as_str))
    }
}

#[cfg(unix)]
fn known(exec: &Exec) -> Known {
    use keyward_agent::identity::Profile;

    let args: Vec<_> = exec.args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    match Profile::of_command(exec.command.as_bytes(), &args) {
        Profile::Aws | Profile::Authenticator => Known::Aws,
        Profile::Gke => Known::Gke,
        Profile::Azure => Known::Azure,
        Profile::Oidc => Known::Oidc,
        _ => Known::Other,
    }
}

#[cfg(not(unix))]
fn known(_exec: &Exec) -> Known {
    Known::Other
}

/// Looks for the traps of the plugin. One that explains a fault becomes part of that step.
pub(super) fn check(report: &mut Report, globals: &Globals, plugin: Option<&Plugin>) {
    let Some(plugin) = plugin else { return };
    let mut traps = match plugin.known {
        Known::Aws => sso(globals, plugin),
        Known::Gke => cached_token(globals),
        Known::Oidc => busy_ports(report, plugin),
        Known::Azure | Known::Other => Vec::new(),
    };
    traps.extend(other_kubelogin(report, plugin));
    for trap in traps {
        match report.fault_mut(trap.explains) {
            Some(step) => trap.explain(step),
            None if trap.notable => report.add(trap.step),
            None => {}
        }
    }
}

impl Trap {
    fn explain(self, step: &mut Step) {
        let trap = self.step;
        step.message = format!("{}: {}", step.message, trap.message);
        if trap.file.is_some() {
            (step.file, step.line) = (trap.file, None);
        }
        step.fix = trap.fix;
        step.advice = trap.advice.or_else(|| step.advice.take().filter(|_| step.fix.is_none()));
    }
}

/// AWS: the newest SSO session has expired. Without a session there is no trap.
fn sso(globals: &Globals, plugin: &Plugin) -> Vec<Trap> {
    let Some(home) = globals.surroundings.home() else { return Vec::new() };
    let now = SystemClock.now();
    let files = fs::read_dir(home.join(".aws/sso/cache")).into_iter().flatten().flatten();
    let newest = files
        .filter_map(|entry| {
            let session = json(&entry.path())?;
            // Registrations of clients are in the same directory.
            session["startUrl"].as_str()?;
            Some((parse_rfc3339(session["expiresAt"].as_str()?)?, entry.path()))
        })
        .max();
    let Some((expired, file)) = newest.filter(|(end, _)| *end <= now) else { return Vec::new() };
    let profile = plugin.flag("--profile").map(str::to_owned).or_else(|| {
        plugin.var(globals, "AWS_PROFILE").map(|name| name.to_string_lossy().into_owned())
    });
    let profile = profile.map(|name| format!(" --profile {}", quoted(&name))).unwrap_or_default();
    let message = format!("the AWS SSO session expired at {}", format_rfc3339(expired));
    let step = Step::note(Check::Traps, message).file(file).fix(format!("aws sso login{profile}"));
    vec![Trap { explains: Check::Run, step, notable: true }]
}

/// GKE: the plugin keeps one token in a file, whoever it is for.
fn cached_token(globals: &Globals) -> Vec<Trap> {
    let Some(home) = globals.surroundings.home() else { return Vec::new() };
    let file = home.join(".kube/gke_gcloud_auth_plugin_cache");
    let Ok(cached) = fs::metadata(&file) else { return Vec::new() };
    let gcloud = globals.surroundings.var("CLOUDSDK_CONFIG").map(PathBuf::from);
    let gcloud = gcloud.unwrap_or_else(|| home.join(".config/gcloud"));
    let changed = ["active_config", "configurations/config_default"]
        .iter()
        .filter_map(|name| fs::metadata(gcloud.join(name)).ok()?.modified().ok());
    let switched = changed.max().zip(cached.modified().ok()).is_some_and(|(new, old)| new > old);
    let message = if switched {
        "the plugin has a token of before the account was switched"
    } else {
        "the plugin keeps an old token in a file"
    };
    let command = format!("rm {}", quoted(&file.to_string_lossy()));
    let step = || Step::note(Check::Traps, message).file(&file).fix(&command);
    vec![
        Trap { explains: Check::Response, step: step(), notable: switched },
        Trap { explains: Check::Answer, step: step(), notable: false },
    ]
}

/// int128's kubelogin: it cannot listen for the browser's answer.
fn busy_ports(report: &Report, plugin: &Plugin) -> Vec<Trap> {
    // Only if the plugin failed: otherwise it may be listening for another login right now.
    if !report.has_fault(Check::Run) {
        return Vec::new();
    }
    let named = plugin.flag("--listen-address").and_then(|address| address.rsplit(':').next());
    let ports = match named.and_then(|port| port.parse::<u16>().ok()) {
        Some(0) => return Vec::new(),
        Some(port) => vec![port],
        None => vec![8000, 18000],
    };
    let taken = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err();
    if !ports.iter().all(taken) {
        return Vec::new();
    }
    let taken: Vec<_> = ports.iter().map(ToString::to_string).collect();
    let message =
        format!("port {}, where it waits for the browser, is in use", taken.join(" and "));
    let step = Step::note(Check::Traps, message).advice(
        "end the other login, or let the plugin choose a port: add \
         `--listen-address=127.0.0.1:0` to its arguments if the identity provider allows any",
    );
    let step = Step { fix: holder(&ports).map(|pid| format!("kill {pid}")), ..step };
    vec![Trap { explains: Check::Run, step, notable: false }]
}

/// The process of ours that listens on one of these ports.
fn holder(ports: &[u16]) -> Option<u32> {
    #[cfg(target_os = "linux")]
    return keyward_process::sockets::listener(ports).map(|(process, _)| process);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = ports;
        None
    }
}

/// Two programs are called kubelogin: Azure's and int128's.
fn other_kubelogin(report: &Report, plugin: &Plugin) -> Option<Trap> {
    let (wanted, other) = match plugin.known {
        Known::Azure => ("Azure's", "int128's (for OIDC)"),
        Known::Oidc => ("int128's (for OIDC)", "Azure's"),
        _ => return None,
    };
    let mut failed = report.steps.iter().filter(|step| step.state == State::Fault);
    let run = failed.find(|step| step.check == Check::Run)?;
    let confused = |text: &str| text.contains("unknown flag") || text.contains("unknown command");
    let lines = run.details.iter().filter(|detail| detail.label == SAID);
    lines.into_iter().any(|line| confused(&line.text)).then(|| {
        let message = format!("this `kubelogin` is {other}, the kubeconfig wants {wanted}");
        let step = Step::note(Check::Traps, message)
            .advice(format!("install {wanted} kubelogin before the other on `PATH`"));
        Trap { explains: Check::Run, step, notable: false }
    })
}

fn json(path: &Path) -> Option<Value> {
    let bytes = file::read(path, &Limits::NAMED).ok()?;
    serde_json::from_slice(&bytes).ok()
}
