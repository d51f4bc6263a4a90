//! `keyward wrap`: puts the agent's client in front of the plugin commands of a kubeconfig.

pub(super) mod docker;
mod native;

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use keyward_agent::{
    identity::Profile,
    registration::{Registration, Registrations},
    wrap::{
        Edit, Journal, Part, Pin, Wrapping,
        file::{self as wrapped, Outcome},
    },
};
use keyward_host::{
    Kubeconfig,
    kubeconfig::{Exec, Named, User},
    rules::Policy,
};
use keyward_protocol::Secret;

use crate::{
    failure::{Code, Failure},
    globals::Globals,
    output,
};

/// Share the credentials of a kubeconfig's plugins through the agent
///
/// Puts `keyward-exec --` in front of plugin commands, so that all programs share one login and get
/// it in a millisecond. Comments, order and line endings of the kubeconfig stay as they are, and
/// `keyward unwrap` restores it byte for byte.
///
/// With `--native`, plugins of others are also replaced by Keyward's own providers: `keyward-eks` for
/// `aws eks get-token` and `aws-iam-authenticator`, `keyward-oidc` for `kubectl oidc-login`,
/// `keyward-entra` for Azure's `kubelogin`, `keyward-gke` for `gke-gcloud-auth-plugin`. Users with an
/// `auth-provider`, which kubectl no longer supports for clouds, get a plugin, too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The user of the current context.
  keyward wrap

  # All users with a plugin; first see what would change.
  keyward wrap --all --dry-run
  keyward wrap --all

  # A plugin that Keyward does not know, which chooses an account by a variable and a file.
  keyward wrap --context prod --identity-env TEAM --identity-file ~/.corp/account

  # Keyward's own providers instead of `aws`, `kubelogin`, … and of auth-providers.
  keyward wrap --native --all --dry-run
  keyward wrap --native --all

  # The same for the credential helpers in docker's `config.json`.
  keyward wrap --native --docker

  # A kubeconfig that must not be changed.
  keyward wrap --all --overlay ~/.kube/keyward.json
  export KUBECONFIG=~/.kube/keyward.json:~/.kube/config")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Wrap the plugins of all users, not only those of the given or current contexts
    #[arg(long)]
    all: bool,

    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Replace known plugins and auth-providers by Keyward's own providers
    #[arg(long, conflicts_with = "overlay")]
    native: bool,

    /// With `--native`, replace the credential helpers in docker's `config.json` instead
    #[arg(long, requires = "native", conflicts_with = "all")]
    docker: bool,

    /// Write the wrapped users to this file, and leave the kubeconfig alone
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,

    /// Variable by which the plugin chooses an account; can be repeated
    #[arg(long, value_name = "NAME")]
    identity_env: Vec<String>,

    /// File by which the plugin chooses an account; can be repeated
    #[arg(long, value_name = "FILE")]
    identity_file: Vec<PathBuf>,

    /// Write the current values of the variables that choose the account into the kubeconfig, for
    /// programs that are started without them
    #[arg(long)]
    pin: bool,

    /// The program to put in front, instead of the `keyward-exec` next to this program
    #[arg(long, value_name = "FILE", hide = true)]
    wrapper: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    if args.docker {
        return docker::wrap(globals, args.dry_run);
    }
    let config = globals.kubeconfig()?;
    let mut chosen = chosen(&config, globals, args.all, args.native)?;
    let wrapper = wrapper(args.wrapper.as_deref(), globals)?;
    admit(&wrapper, globals)?;
    if let Some(overlay) = &args.overlay {
        return overlay_file(args, globals, &config, &chosen, &wrapper, overlay);
    }
    let journals = Journal::directory(&globals.surroundings).ok_or_else(no_home)?;
    let replacing =
        if args.native { native::plan(&chosen, globals)? } else { native::Plan::default() };
    chosen.retain(|user| !replacing.keeps(&user.name));
    let mut told = Vec::new();
    for (file, users) in by_file(&chosen, globals) {
        let pins = if args.pin { pins(&users, globals) } else { Vec::new() };
        let directory = file.parent().unwrap_or(Path::new("/"));
        let natives = &replacing.natives;
        let wrapping = Wrapping { wrapper: &wrapper, directory, pins: &pins, natives };
        let is_chosen = |user: &str| users.iter().any(|named| named.name == user);
        let outcome = wrapped::wrap_file(&file, &journals, &wrapping, is_chosen, args.dry_run);
        let outcome = outcome.map_err(|error| failed(&file, &error))?;
        told.extend(describe(&file, &outcome, args.dry_run));
    }
    told.extend(replacing.remarks(&config));
    if args.dry_run {
        told.push("nothing was changed\n".to_owned());
    } else {
        let config = globals.kubeconfig()?;
        let names: Vec<_> = chosen.iter().map(|user| user.name.as_str()).collect();
        let users = config.users.iter().filter(|user| names.contains(&user.name.as_str()));
        register(args, globals, &config, users, None)?;
    }
    output::print(&told.concat())
}

/// The chosen users that have a plugin, or an auth-provider if these count. Fails if there is none.
pub(super) fn chosen<'a>(
    config: &'a Kubeconfig,
    globals: &Globals,
    all: bool,
    auth_providers: bool,
) -> Result<Vec<&'a Named<User>>, Failure> {
    let with_plugin = |user: &&Named<User>| {
        user.value.exec.as_ref().is_some_and(|exec| !exec.command.is_empty())
            || (auth_providers && user.value.auth_provider.is_some())
    };
    let mut users: Vec<&Named<User>> = config.users.iter().filter(with_plugin).collect();
    if !all {
        let mut contexts: Vec<_> = globals.flags.context.iter().map(String::as_str).collect();
        if contexts.is_empty() {
            contexts.push(&config.current_context);
        }
        let mut names = Vec::new();
        for context in &contexts {
            let found = config.contexts.iter().find(|named| named.name == *context);
            let unknown = || match *context {
                "" => Failure::usage("there is no current context")
                    .hint("choose one with `--context`, or all users with `--all`"),
                name => Failure::usage(format!("there is no context `{}`", output::inline(name))),
            };
            names.push(found.ok_or_else(unknown)?.value.user.clone());
        }
        users.retain(|user| names.contains(&user.name));
    }
    if users.is_empty() {
        return Err(Failure::failed("none of the chosen users has a plugin"));
    }
    Ok(users)
}

/// Groups users by file.
pub(super) fn by_file<'a>(
    users: &[&'a Named<User>],
    globals: &Globals,
) -> BTreeMap<PathBuf, Vec<&'a Named<User>>> {
    let mut files: BTreeMap<PathBuf, Vec<_>> = BTreeMap::new();
    for &user in users {
        if let Some(file) = &user.place.file {
            files.entry(globals.surroundings.absolute(file)).or_default().push(user);
        }
    }
    files
}

/// The absolute path of the program to put in front of plugins, `keyward-exec` unless told otherwise.
pub(crate) fn wrapper(explicit: Option<&Path>, globals: &Globals) -> Result<String, Failure> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join(Exec::WRAPPER));
    let path = explicit.map(|path| globals.surroundings.absolute(path)).or_else(beside);
    let path = path.filter(|path| path.is_file()).ok_or_else(|| {
        Failure::failed(format!("`{}` is not next to this program", Exec::WRAPPER))
            .hint("install both in one directory")
    })?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Failure::failed(format!("the path of `{}` is not UTF-8", Exec::WRAPPER)))
}

/// kubectl applies its own policy before it runs the wrapper. A policy must allow it.
pub(crate) fn admit(wrapper: &str, globals: &Globals) -> Result<(), Failure> {
    let rules = globals.rules()?;
    let refused = match &rules.policy {
        _ if rules.fault.is_some() => "your kuberc is not valid",
        Policy::AllowAll => return Ok(()),
        Policy::DenyAll => "your kuberc allows no plugin",
        Policy::Allowlist(list)
            if list.iter().any(|entry| entry == wrapper || entry == Exec::WRAPPER) =>
        {
            return Ok(());
        }
        Policy::Allowlist(_) => "your kuberc does not allow it",
    };
    let origin = rules.origin.as_deref().unwrap_or(Path::new("kuberc"));
    Err(Failure::new(
        Code::NotAllowed,
        format!("kubectl would refuse `{}`: {refused}", Exec::WRAPPER),
    )
    .note("kuberc", format!("`{}`", origin.display()))
    .hint(format!("add to its `credentialPluginAllowlist`: - command: {wrapper}")))
}

/// The variables that choose the account now and are not secret.
fn pins(users: &[&Named<User>], globals: &Globals) -> Vec<Pin> {
    let mut pins = Vec::new();
    for user in users {
        let Some(exec) = user.value.exec.clone().map(Exec::without_wrapper) else { continue };
        let args: Vec<_> = exec.args.iter().map(|arg| arg.clone().into_bytes()).collect();
        for name in Profile::of_command(exec.command.as_bytes(), &args).pinnable() {
            let value = globals.surroundings.var(name).and_then(|value| value.into_string().ok());
            pins.extend(value.map(|value| Pin {
                user: user.name.clone(),
                name: (*name).to_owned(),
                value,
            }));
        }
    }
    pins
}

/// Registers wrapped commands, so that the agent may run them.
fn register<'a>(
    args: &Args,
    globals: &Globals,
    config: &Kubeconfig,
    users: impl Iterator<Item = &'a Named<User>>,
    overlay: Option<&Path>,
) -> Result<(), Failure> {
    let directory = Registrations::directory(&globals.surroundings).ok_or_else(no_home)?;
    let mut registrations = Registrations::new(directory);
    for user in users {
        let Some(exec) = user.value.exec.clone().filter(|exec| exec.wrapped().is_some()) else {
            continue;
        };
        let exec = exec.without_wrapper();
        let named = overlay.or(user.place.file.as_deref()).unwrap_or(Path::new(""));
        let file = globals.surroundings.absolute(named);
        let file = file.canonicalize().unwrap_or(file);
        let name = output::inline(&user.name);
        let made = Registration::new(&exec, &file, &user.name, &globals.surroundings);
        let mut registration = match made {
            Ok(registration) => registration,
            Err(why) => {
                output::tell(&format!(
                    "warning: the agent will not run the plugin of user `{name}`: {why}\n   \
                     install it, and run `keyward wrap` again\n"
                ));
                continue;
            }
        };
        let contexts = config.contexts.iter().filter(|context| context.value.user == user.name);
        registration.contexts = contexts.clone().map(|context| context.name.clone()).collect();
        let cluster = contexts.map(|context| &context.value.cluster).next();
        let cluster = config.clusters.iter().find(|known| Some(&known.name) == cluster);
        registration.server =
            cluster.map(|cluster| cluster.value.server.clone()).unwrap_or_default();
        registration.identity_env.clone_from(&args.identity_env);
        let files = args.identity_file.iter().map(|file| globals.surroundings.absolute(file));
        registration.identity_files = files.collect();
        registrations.add(&registration).map_err(|error| {
            Failure::failed(format!("the plugin of user `{name}` cannot be registered: {error}"))
        })?;
    }
    Ok(())
}

/// Writes a kubeconfig with only the wrapped users.
fn overlay_file(
    args: &Args,
    globals: &Globals,
    config: &Kubeconfig,
    chosen: &[&Named<User>],
    wrapper: &str,
    overlay: &Path,
) -> Result<(), Failure> {
    let overlay = globals.surroundings.absolute(overlay);
    let mut out = Kubeconfig::default();
    for &user in chosen {
        let mut user = user.clone();
        let Some(exec) = user.value.exec.take().map(Exec::without_wrapper) else { continue };
        let lead = ["--".to_owned(), exec.command.clone()];
        let hint = format!("{} {}", Exec::WRAPPER_HINT, exec.install_hint);
        user.value.exec = Some(Exec {
            command: wrapper.to_owned(),
            args: lead.into_iter().chain(exec.args.iter().cloned()).collect(),
            install_hint: hint.trim_end().to_owned(),
            ..exec
        });
        out.users.push(user);
    }
    let shown = overlay.display();
    if args.dry_run {
        let names: Vec<_> = out.users.iter().map(|user| output::inline(&user.name)).collect();
        return output::print(&format!("would write `{shown}` with {}\n", names.join(", ")));
    }
    write_overlay(&overlay, &out.to_json())
        .map_err(|error| Failure::failed(format!("`{shown}` cannot be written: {error}")))?;
    register(args, globals, config, out.users.iter(), Some(&overlay))?;
    let files: Vec<_> = Kubeconfig::paths(&globals.surroundings, globals.flags.kubeconfig())
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let list = output::quoted(&format!("{shown}:{}", files.join(":")));
    output::print(&format!("wrote `{shown}`; put it first:\nexport KUBECONFIG={list}\n"))
}

fn write_overlay(path: &Path, text: &Secret) -> std::io::Result<()> {
    let mut beside = path.to_owned().into_os_string();
    beside.push(".keyward-new");
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text.expose().as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// Describes what happened to one file.
fn describe(file: &Path, outcome: &Outcome, dry: bool) -> Vec<String> {
    let file = file.display();
    let mut told = Vec::new();
    let mut line = |what: &str, users: &[String]| {
        if !users.is_empty() {
            told.push(format!("{file}: {what} {}\n", output::list(users)));
        }
    };
    line("another program had overwritten", &outcome.overwritten);
    line(if dry { "would wrap" } else { "wrapped" }, &outcome.changed);
    line("already wrapped:", &outcome.unchanged);
    if dry {
        for Edit { part, line, new, old, .. } in &outcome.edits {
            if *part == Part::Provider {
                told.extend(native::diff(*line, old, new));
                continue;
            }
            let (old, new) = (output::inline(old.trim()), output::inline(new.trim()));
            told.push(match old.as_str() {
                "" => format!("  line {line}: + {new}\n"),
                old => format!("  line {line}: {old} -> {new}\n"),
            });
        }
    }
    told
}

pub(super) fn failed(file: &Path, error: &wrapped::Failure) -> Failure {
    let failure = Failure::failed(format!("`{}` stays as it is: {error}", file.display()));
    match error {
        wrapped::Failure::Refused(_) => failure.hint(
            "write that stanza in a simpler style, or use `--overlay FILE` and leave the file alone",
        ),
        wrapped::Failure::Locked(lock) => failure.hint(format!(
            "try again; if no program is at work, remove `{}`",
            lock.display()
        )),
        _ => failure,
    }
}

pub(super) fn no_home() -> Failure {
    Failure::failed("`HOME` is not set, so registrations cannot be stored")
}
