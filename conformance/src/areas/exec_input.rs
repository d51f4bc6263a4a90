//! What a plugin is given: its request, its whole environment, and whether it gets our stdin.
//!
//! The plugin is a real process that copies its environment as the system shows it, and the link of
//! its stdin. The environment is compared without its order, which means nothing to whoever reads a
//! variable; a name that is there twice counts twice.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use keyward_host::{
    Draft, Error, Kind, NoopObserver, PlanSettings, Sources, StderrMode, Target,
    kubeconfig::{ApiVersion, Cluster, Exec, InteractiveMode, Named, User},
    rules::Rules,
};
use keyward_process::{
    clock::SystemClock,
    surroundings::{Fixed, Surroundings},
};
use keyward_protocol::{Node, Secret, exec::Request, text::from_base64};
use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde_json::{Value, json};

/// What `keyward` adds for its plugins, as in a case that has `chained`.
pub(crate) const CHAIN: (&str, &str) = ("KEYWARD_CHAIN", r#"["user `u`, plugin `p`"]"#);

pub(super) fn check(case: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let found = run(case, folder.path())?;
    let expected = &case["expect"];
    match (&expected["ok"], &found["ok"]) {
        (Value::Object(wanted), Value::Object(_)) => {
            // The vectors record neither the environment nor anything beside these two.
            let compared = ["execInfo", "stdin", "environment"];
            let differs = compared
                .into_iter()
                .find(|name| wanted.get(*name).is_some_and(|wanted| *wanted != found["ok"][*name]));
            match differs {
                None => Ok(()),
                Some(name) => {
                    Err(format!("{name}: expected {}, found {}", wanted[name], found["ok"][name]))
                }
            }
        }
        _ if *expected == found => Ok(()),
        _ => Err(format!("expected {expected}, found {found}")),
    }
}

/// What the plugin was given, or why it did not run, in the words of the vectors.
fn run(case: &Value, folder: &Path) -> Result<Value, String> {
    let surroundings = Surroundings::fixed(Fixed {
        vars: outer(&case["outer"])?,
        cwd: "/".into(),
        stdin_is_terminal: case["stdinIsTerminal"] == true,
        ..Fixed::default()
    });
    let mut settings = PlanSettings::default();
    settings.stderr = StderrMode::Kept;
    if case["stdinUnavailable"] == true {
        let why = case["stdinUnavailableMessage"].as_str().unwrap_or_default();
        settings.stdin_unavailable = Some(why.to_owned());
    }
    if case["chained"] == true {
        settings.variables.push((CHAIN.0.to_owned(), Secret::new(CHAIN.1)));
    }
    let draft = Draft::new(target(case, folder)?, &Rules::default(), &surroundings, settings);
    let spoken = draft.plugin().is_some();
    let plan = match draft.finish() {
        Ok(plan) => plan,
        Err(fault) if !spoken && fault.kind() == Kind::BadConfig => {
            return Ok(json!({ "error": { "class": "config_api_version" } }));
        }
        Err(fault) => return Ok(json!({ "error": { "class": class(&fault, case) } })),
    };
    let told = plan.plugin().and_then(|plugin| plugin.request.as_ref()).map(Request::to_json);
    let terminal = Terminal::on_stdin().map_err(|e| format!("no terminal for stdin: {e}"))?;
    let sources = Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver));
    let ended = sources.open(&plan).credential_blocking();
    drop(terminal);
    let Ok(environment) = fs::read(folder.join("environ")) else {
        let fault = ended.err().ok_or("a plugin that left nothing behind")?;
        return Ok(json!({ "error": { "class": class(&fault, case) } }));
    };
    let stdin = fs::read_link(folder.join("0")).map_err(|e| format!("no link of stdin: {e}"))?;
    let stdin = if stdin == Path::new("/dev/null") { "null-device" } else { "inherited" };
    let mut given: Vec<String> = environment
        .strip_suffix(b"\0")
        .unwrap_or(&environment)
        .split(|byte| *byte == 0)
        .map(readable)
        .collect();
    given.sort();
    Ok(json!({ "ok": { "execInfo": told, "stdin": stdin, "environment": given } }))
}

fn class(fault: &Error, case: &Value) -> String {
    let modes = ["Never", "IfAvailable", "Always"];
    let usual = case["interactiveMode"].as_str().is_some_and(|mode| modes.contains(&mode));
    match fault.kind() {
        Kind::NeedsTerminal => "interactive".to_owned(),
        // The reference finds a mode that is none as it finds that there is no terminal.
        Kind::BadConfig if !usual => "interactive".to_owned(),
        Kind::BadConfig if because(fault).contains("NUL") => "nul".to_owned(),
        Kind::NotFound => "not_found".to_owned(),
        kind => format!("{kind:?}: {fault}"),
    }
}

fn because(fault: &Error) -> String {
    std::error::Error::source(fault).map(ToString::to_string).unwrap_or_default()
}

/// The variables of whoever runs the plugin; one that is no UTF-8 is in `base64`.
fn outer(said: &Value) -> Result<Vec<(OsString, OsString)>, String> {
    let variable = |said: &Value| {
        let value = match said["base64"].as_str() {
            // Go passes over line ends, which a generated case may have got.
            Some(text) => {
                let text = text.replace(['\r', '\n'], "");
                BASE64_STANDARD.decode(text).map_err(|e| e.to_string())?
            }
            None => text(&said["value"]).into_bytes(),
        };
        Ok((text(&said["name"]).into(), OsString::from_vec(value)))
    };
    said.as_array().into_iter().flatten().map(variable).collect()
}

/// The text, or its Base64 where it is none.
fn readable(variable: &[u8]) -> String {
    match std::str::from_utf8(variable) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("base64:{}", BASE64_STANDARD.encode(variable)),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A pseudo-terminal in place of our stdin, until this is dropped.
struct Terminal {
    before: OwnedFd,
    _master: OwnedFd,
}

impl Terminal {
    fn on_stdin() -> io::Result<Self> {
        let before = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(ptsname(&master, Vec::new())?, flags, Mode::empty())?;
        rustix::stdio::dup2_stdin(terminal)?;
        Ok(Self { before, _master: master })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stdin(&self.before);
    }
}

/// What plays the plugin: links are copied as links, and the one of stdin says what stdin is.
static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join("cp")).find(|program| program.is_file())
});

/// The configuration as a program would build it: nothing of it was read from a kubeconfig.
fn target(case: &Value, folder: &Path) -> Result<Target, String> {
    let program = PROGRAM.as_ref().ok_or("there is no `cp`: install Debian's `coreutils`")?;
    let command = if case["bare"] == true { Path::new("cp") } else { program };
    let env = case["env"].as_array().into_iter().flatten();
    let (cluster, exec_config) = cluster(&case["cluster"])?;
    let exec = Exec {
        api_version: ApiVersion::parse(&text(&case["configApiVersion"])),
        command: command.display().to_string(),
        args: ["-P", "/proc/self/environ", "/proc/self/fd/0"]
            .map(str::to_owned)
            .into_iter()
            .chain([folder.display().to_string()])
            .collect(),
        env: env.map(|said| (text(&said["name"]), Secret::new(text(&said["value"])))).collect(),
        // A program that knows no cluster has none to tell.
        provide_cluster_info: case["provideClusterInfo"] == true && case["cluster"].is_object(),
        interactive_mode: InteractiveMode::parse(&text(&case["interactiveMode"])),
        ..Exec::default()
    };
    Ok(Target {
        namespace: "default".into(),
        cluster: Named::new("", cluster),
        user: Named::new("", User { exec: Some(exec), ..User::default() }),
        exec_config,
        ..Target::default()
    })
}

fn cluster(said: &Value) -> Result<(Cluster, Option<Node>), String> {
    let mut cluster = Cluster::default();
    let mut config = None;
    for (name, value) in said.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default().to_owned();
        match name.to_lowercase().replace('-', "").as_str() {
            "server" => cluster.server = text,
            "tlsservername" => cluster.tls_server_name = text,
            "insecure" | "insecureskiptlsverify" => {
                cluster.insecure_skip_tls_verify = *value == true;
            }
            "cadata" | "certificateauthoritydata" => {
                cluster.certificate_authority_data =
                    from_base64(text.as_bytes()).unwrap_or_else(|| text.into_bytes());
            }
            "proxyurl" => cluster.proxy_url = text,
            "disablecompression" => cluster.disable_compression = *value == true,
            "configrawjson" => {
                config = Some(Node::from_json(text.as_bytes()).map_err(|e| e.to_string())?);
            }
            _ => return Err(format!("the case has a field `{name}` that nobody knows")),
        }
    }
    Ok((cluster, config))
}
