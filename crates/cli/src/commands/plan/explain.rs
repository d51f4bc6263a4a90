//! Builds an [`Explanation`] from the flags, as far as possible.

use std::path::{Path, PathBuf};

use keyward_host::{
    Draft, Environment as Base, ExecPlugin, Kubeconfig, Preview, SignerPlugin, VariableOrigin,
    kubeconfig::{self, Named, Place},
    redact::{HIDDEN, redact},
    rules::{Missing, Rules, Verdict},
};
use keyward_protocol::{
    exec::Request,
    signer::pins,
    text::{clean, sounds_secret},
    url,
};

use super::{
    arguments,
    explanation::{
        Agent, Cluster, ConfigFile, Environment, Explanation, Interactive, Method, Plugin, Policy,
        Problem, Resolved, Signer, Source, User,
    },
};
use crate::{duration, failure::Failure, globals::Globals};

/// Explains everything up to the first error, and returns that error too.
pub(super) fn explain(globals: &Globals, show_args: bool) -> (Explanation, Option<Failure>) {
    let mut explanation = Explanation::default();
    let outcome = fill(&mut explanation, globals, show_args);
    explanation.warnings = explanation.warnings.iter().map(|w| redact(w).into_owned()).collect();
    explanation.error = outcome.as_ref().err().map(problem);
    (explanation, outcome.err())
}

fn fill(into: &mut Explanation, globals: &Globals, show_args: bool) -> Result<(), Failure> {
    let config = globals.kubeconfig()?;
    into.files = config
        .files
        .iter()
        .map(|(path, found)| ConfigFile { path: path.clone(), found: *found })
        .collect();
    into.context = globals.overrides().context.or(Some(config.current_context.clone()));
    let target = globals.resolve(&config).inspect_err(|_| guess(into, globals, &config))?;
    into.context = Some(target.context.clone()).filter(|name| !name.is_empty());
    into.cluster = Some(cluster(&target.cluster));
    into.user = Some(user(&target.user));
    into.namespace = Some(target.namespace.clone());
    into.warnings.clone_from(&target.warnings);

    // Before the rules are read: a broken kuberc should not hide the user.
    let rules = globals.rules();
    let nothing = Rules::default();
    let draft = globals.draft(target, rules.as_ref().unwrap_or(&nothing))?;
    into.credential = Some(source(globals, &draft));
    let rules = rules?;
    into.warnings = draft.warnings().to_vec();
    into.plugin = draft.plugin().map(|found| plugin(globals, &draft, &rules, found, show_args));
    into.signer = draft.signer().map(|found| signer(globals, &rules, found, show_args));
    match draft.faults().first() {
        Some(fault) => Err(fault.clone().into()),
        None => Ok(()),
    }
}

/// After a failed resolution: the entries that flags and context name, if they exist.
fn guess(into: &mut Explanation, globals: &Globals, config: &Kubeconfig) {
    let chosen = Chosen::new(globals, config);
    into.context = Some(chosen.context).filter(|name| !name.is_empty());
    let named = config.clusters.iter().find(|named| named.name == chosen.cluster);
    into.cluster = named.map(|named| Cluster {
        // Its file has not been read.
        own_certificate_authority: !named.value.certificate_authority.is_empty()
            || !named.value.certificate_authority_data.is_empty(),
        ..cluster(named)
    });
    into.user = config.users.iter().find(|named| named.name == chosen.user).map(user);
}

/// The names that flags and context choose, whether or not their entries exist.
pub(in crate::commands) struct Chosen {
    pub(in crate::commands) context: String,
    pub(in crate::commands) cluster: String,
    pub(in crate::commands) user: String,
}

impl Chosen {
    pub(in crate::commands) fn new(globals: &Globals, config: &Kubeconfig) -> Self {
        let overrides = globals.overrides();
        let context = overrides.context.unwrap_or_else(|| config.current_context.clone());
        let entry = config.contexts.iter().find(|entry| entry.name == context);
        let (cluster, user) = entry
            .map(|entry| (entry.value.cluster.clone(), entry.value.user.clone()))
            .unwrap_or_default();
        Self {
            context,
            cluster: overrides.cluster.unwrap_or(cluster),
            user: overrides.user.unwrap_or(user),
        }
    }
}

fn cluster(named: &Named<kubeconfig::Cluster>) -> Cluster {
    let cluster = &named.value;
    Cluster {
        name: named.name.clone(),
        server: url::mask(&cluster.server),
        tls_server_name: cluster.tls_server_name.clone(),
        insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
        own_certificate_authority: !cluster.certificate_authority_data.is_empty(),
        proxy_url: url::mask(&cluster.proxy_url),
    }
}

fn user(named: &Named<kubeconfig::User>) -> User {
    User {
        name: named.name.clone(),
        file: named.place.file.as_deref().map(Path::to_owned),
        line: Some(named.place.line).filter(|line| *line > 0),
        acts_as: named.value.impersonate.user.clone(),
    }
}

pub(in crate::commands) fn source(globals: &Globals, draft: &Draft) -> Source {
    let target = draft.target();
    let mut file = None;
    let methods = draft.methods().into_iter();
    let methods: Vec<Method> = methods
        .filter_map(|method| {
            Some(match method {
                keyward_host::Method::ClientCertificate => Method::ClientCertificate,
                keyward_host::Method::TokenFile => {
                    file = Some(target.user.value.token_file.clone().into());
                    if target.in_cluster { Method::ServiceAccount } else { Method::TokenFile }
                }
                keyward_host::Method::Token => Method::Token,
                keyward_host::Method::Basic => Method::Basic,
                keyward_host::Method::Exec => Method::Exec,
                keyward_host::Method::Oidc => Method::Oidc,
                keyward_host::Method::Signer => Method::Signer,
                _ => return None,
            })
        })
        .collect();
    let because = match draft.passed_over() {
        Some(why) => clean(why),
        None if target.in_cluster => "there is no kubeconfig, and keyward runs in a pod".to_owned(),
        None if globals.overrides().token.is_some() => "`--token` was given".to_owned(),
        None if target.withheld => {
            "the server does not use HTTPS, so the user's credential is not sent".to_owned()
        }
        None if methods.is_empty() && target.user.name.is_empty() => "there is no user".to_owned(),
        None if methods.is_empty() && target.user.place == Place::default() => {
            "the context names a user that does not exist".to_owned()
        }
        None if methods.is_empty() => "the user has no credential".to_owned(),
        None if methods == [Method::Exec] => {
            "the user has `exec` and nothing that takes precedence".to_owned()
        }
        None => "the user has nothing that takes precedence".to_owned(),
    };
    Source { methods, because, file }
}

fn plugin(
    globals: &Globals,
    draft: &Draft,
    rules: &Rules,
    plugin: &ExecPlugin,
    show_args: bool,
) -> Plugin {
    let (exec, preview) = (plugin.exec(), &plugin.preview);
    let mode = exec.interactive_mode.text();
    // If a person is needed and none is present, no run is prepared.
    let run = preview.run.as_ref();
    let stdin = run.is_some_and(|run| run.stdin);
    Plugin {
        resolved: resolved(globals, &exec.command, preview),
        args: if show_args { exec.args.clone() } else { arguments::mask(&exec.args) },
        environment: run.map(|run| environment(draft, &run.environment)),
        policy: policy(rules, preview),
        api_version: clean(exec.api_version.text()),
        interactive: Interactive {
            mode: clean(mode),
            stdin,
            because: why_interactive(draft, mode, stdin),
        },
        attended: preview.attended(),
        time_limit: run.map(|run| duration::show(run.budget)),
        install_hint: redact(&clean(exec.install_hint.trim())).into_owned(),
        agent: draft.wrapper().map(|wrapper| agent(globals, plugin, wrapper)),
        request: plugin.request.as_ref().and_then(told),
    }
}

/// What the agent would make of the plugin.
#[cfg(target_os = "linux")]
fn agent(globals: &Globals, plugin: &ExecPlugin, wrapper: &str) -> Agent {
    use keyward_agent::{
        identity::{Asker, Files, Selected},
        is_off,
        registration::Registrations,
    };
    let request = Request::new(plugin.version());
    let ask = crate::commands::agent::question(globals, plugin.exec(), request);
    let directory = globals.surroundings.cwd().unwrap_or_default();
    let asker = Asker {
        command: &ask.command,
        args: &ask.args,
        environment: &ask.environment,
        directory: &directory,
        api_version: plugin.version().api_version(),
        cluster: None,
    };
    let place = Registrations::directory(&globals.surroundings);
    let registration = place.and_then(|place| Registrations::new(place).find(&asker));
    let selected = Selected::of(registration.as_deref(), &asker, &mut Files::default());
    Agent {
        wrapper: clean(wrapper),
        asked: !is_off(|name| globals.surroundings.var(name)),
        registered: registration.is_some(),
        profile: selected.profile.name(),
    }
}

/// There is no agent here.
#[cfg(not(target_os = "linux"))]
fn agent(_globals: &Globals, _plugin: &ExecPlugin, wrapper: &str) -> Agent {
    Agent { wrapper: clean(wrapper), asked: false, registered: false, profile: "unknown" }
}

fn signer(globals: &Globals, rules: &Rules, plugin: &SignerPlugin, show_args: bool) -> Signer {
    let preview = &plugin.preview;
    Signer {
        resolved: resolved(globals, plugin.command(), preview),
        configuration: plugin
            .configuration()
            .iter()
            .map(|(name, value)| (clean(name), configured(name, value.expose(), show_args)))
            .collect(),
        policy: policy(rules, preview),
        resident: plugin.resident(),
        resumption: plugin.resumption(),
        attended: preview.attended(),
        time_limit: preview.run.as_ref().map(|run| duration::show(run.budget)),
    }
}

fn resolved(globals: &Globals, command: &str, preview: &Preview) -> Resolved {
    Resolved {
        command: clean(command),
        program: preview.program.as_ref().map(|program| program.path.clone()),
        refused: refused(preview),
        looked_in: looked_in(globals, command, preview),
    }
}

/// A value of a signer's configuration. A PIN is never shown, not even in a URI.
fn configured(name: &str, value: &str, show_args: bool) -> String {
    const HARMLESS: [&str; 6] =
        ["pathExec", "pathLib", "slotId", "objectId", "resident", "resumption"];
    let pins = pins(name, value);
    if name == "uri" {
        // The library that would be loaded must be visible.
        let mut uri = clean(value);
        for pin in pins.iter().filter(|pin| !pin.is_empty()) {
            uri = uri.replace(pin.expose(), HIDDEN);
        }
        return uri;
    }
    let shown = HARMLESS.contains(&name) || show_args && pins.is_empty();
    if shown { clean(value) } else { HIDDEN.to_owned() }
}

/// The request to the plugin, without secrets.
fn told(request: &Request) -> Option<serde_json::Value> {
    let mut request = request.clone();
    if let Some(cluster) = &mut request.cluster {
        cluster.server = url::mask(&cluster.server);
        cluster.proxy_url = url::mask(&cluster.proxy_url);
    }
    let mut shown: serde_json::Value = serde_json::from_str(&redact(&request.to_json())).ok()?;
    if let Some(config) = shown.pointer_mut("/spec/cluster/config") {
        hide_secrets(config);
    }
    Some(shown)
}

/// Hides all values with names that sound secret.
fn hide_secrets(config: &mut serde_json::Value) {
    use serde_json::Value;
    match config {
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        Value::Object(fields) => {
            for (name, value) in fields {
                if !sounds_secret(name) {
                    hide_secrets(value);
                } else if !value.is_null() && !value.is_boolean() {
                    *value = HIDDEN.into();
                }
            }
        }
        _ => {}
    }
}

/// The file that the command resolves to but that would not run, because of the policy or its own
/// state.
fn refused(preview: &Preview) -> Option<PathBuf> {
    match &preview.found {
        _ if preview.program.is_some() => None,
        Ok(path)
        | Err(
            Missing::Relative(path)
            | Missing::Folder(path)
            | Missing::NotExecutable(path)
            | Missing::Nowhere { unusable: Some(path), .. },
        ) => Some(path.clone()),
        Err(_) => None,
    }
}

/// Where the program was looked for. A search stops at the first directory that has it.
pub(in crate::commands) fn looked_in(
    globals: &Globals,
    command: &str,
    preview: &Preview,
) -> Vec<PathBuf> {
    match &preview.found {
        Err(Missing::Nowhere { looked, .. }) => looked.clone(),
        Err(Missing::Relative(path) | Missing::Folder(path) | Missing::NotExecutable(path)) => {
            vec![path.clone()]
        }
        Ok(found) if !command.contains(std::path::is_separator) => {
            let path = globals.surroundings.var("PATH").unwrap_or_default();
            let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
            if let Some(hit) =
                folders.iter().position(|folder| Some(folder.as_path()) == found.parent())
            {
                folders.truncate(hit + 1);
            }
            folders
        }
        _ => Vec::new(),
    }
}

fn environment(draft: &Draft, names: &[(String, VariableOrigin)]) -> Environment {
    let base = match &draft.settings().environment {
        Base::Inherit => "inherit",
        Base::Clean => "clean",
        Base::Only(_) => "only",
    };
    let (inherited, set): (Vec<_>, Vec<_>) =
        names.iter().partition(|(_, origin)| *origin == VariableOrigin::Inherited);
    let names = |list: Vec<&(String, VariableOrigin)>| {
        list.into_iter().map(|(name, _)| clean(name)).collect()
    };
    Environment { base, inherited: names(inherited), set: names(set) }
}

pub(in crate::commands) fn policy(rules: &Rules, preview: &Preview) -> Policy {
    let verdict = &preview.verdict;
    let allowed = matches!(verdict, Verdict::Allowed | Verdict::Listed(_));
    let because = match verdict {
        Verdict::Allowed if rules.origin.is_some() => "every plugin may run".to_owned(),
        Verdict::Allowed => match rules.switched_off {
            Some(variable) => format!("`{variable}` switches kuberc off"),
            None => "no kuberc sets a plugin policy".to_owned(),
        },
        Verdict::Listed(entry) => format!("the allowlist contains `{}`", clean(entry)),
        Verdict::DeniedAll => "nothing may run".to_owned(),
        Verdict::NotListed => "it is not in the allowlist".to_owned(),
        Verdict::Unresolvable => {
            "its name is not in the allowlist, and it was not found".to_owned()
        }
        _ => "the kuberc is not valid, so nothing may run".to_owned(),
    };
    let refused = allowed && preview.program.is_none() && preview.found.is_ok();
    Policy {
        name: rules.policy.name(),
        file: rules.origin.clone(),
        allowed: allowed && !refused,
        because: if refused {
            "others could change the program's file".to_owned()
        } else {
            because
        },
    }
}

fn why_interactive(draft: &Draft, mode: &str, interactive: bool) -> String {
    let stdin = match &draft.settings().stdin_unavailable {
        Some(why) if draft.surroundings().stdin_is_terminal() => clean(why),
        _ if draft.surroundings().stdin_is_terminal() => "stdin is a terminal".to_owned(),
        _ => "stdin is not a terminal".to_owned(),
    };
    match mode {
        "Never" => "the mode is `Never`".to_owned(),
        mode if interactive => format!("the mode is `{}` and {stdin}", clean(mode)),
        "Always" => format!("the mode is `Always`, but {stdin}, so it would not run"),
        mode => format!("the mode is `{}`, but {stdin}", clean(mode)),
    }
}

fn problem(failure: &Failure) -> Problem {
    Problem { exit_code: failure.code() as u8, failure: failure.describe() }
}
