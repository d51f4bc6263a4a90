//! `keyward wrap --native`: which plugins are replaced by which providers.

use std::{path::PathBuf, time::Duration};

use keyward_agent::wrap::native::{Native, of_auth_provider, of_exec};
use keyward_host::{
    Kubeconfig,
    kubeconfig::{Exec, Named, User},
    rules::Program,
};
use keyward_process::runner::{self, Cancel, Invocation};
use keyward_protocol::Secret;

use crate::{
    commands::image::setup::trusted_by_environment,
    failure::Failure,
    globals::Globals,
    output::{self, inline},
};

/// How long a provider may take to check a command line; it has nothing to wait for.
const LIMIT: Duration = Duration::from_secs(20);

/// What `--native` does to the chosen users.
#[derive(Default)]
pub(super) struct Plan {
    /// The providers that take the place of plugins.
    pub(super) natives: Vec<Native>,
    /// The users that stay as they are, and why.
    kept: Vec<(String, String)>,
    /// The users who have to log in once.
    logins: Vec<String>,
}

/// A provider, and the command line that it has to accept.
struct Wanted {
    provider: &'static str,
    args: Vec<String>,
    env: Vec<(String, Secret)>,
    /// Whether the tokens of the replaced plugin are lost.
    logs_in: bool,
}

/// Finds the providers for these users. Fails if none of them can be replaced.
pub(super) fn plan(users: &[&Named<User>], globals: &Globals) -> Result<Plan, Failure> {
    let mut plan = Plan::default();
    let mut ours = 0;
    for user in users {
        let found = wanted(&user.value).and_then(|wanted| {
            let accept = |wanted: Wanted| Ok((accepted(&wanted, globals)?, wanted.logs_in));
            wanted.map(accept).transpose()
        });
        match found {
            Ok(None) => ours += 1,
            Ok(Some((command, logs_in))) => {
                plan.natives.push(Native { user: user.name.clone(), command });
                if logs_in {
                    plan.logins.push(user.name.clone());
                }
            }
            Err(why) => plan.kept.push((user.name.clone(), why)),
        }
    }
    if plan.natives.is_empty() && ours == 0 {
        let mut failure = Failure::failed("no plugin can be replaced");
        for (user, why) in plan.kept {
            failure = failure.note(format!("user `{}`", inline(&user)), why);
        }
        return Err(failure);
    }
    Ok(plan)
}

impl Plan {
    /// Whether a user stays as it is.
    pub(super) fn keeps(&self, user: &str) -> bool {
        self.kept.iter().any(|(kept, _)| kept == user)
    }

    /// What else the person should know.
    pub(super) fn remarks(&self, config: &Kubeconfig) -> Vec<String> {
        let kept = self
            .kept
            .iter()
            .map(|(user, why)| format!("user `{}` stays as it is: {why}\n", inline(user)));
        let logins = self.logins.iter().map(|user| {
            let context = config.contexts.iter().find(|context| context.value.user == *user);
            let context = context
                .map(|context| format!(" --context {}", output::quoted(&context.name)))
                .unwrap_or_default();
            format!(
                "user `{}` has to log in once, because tokens of the replaced plugin are not taken over: \
                 `keyward login{context}`\n",
                inline(user)
            )
        });
        kept.chain(logins).collect()
    }
}

/// The provider that a user needs; `None` if it has one already.
fn wanted(user: &User) -> Result<Option<Wanted>, String> {
    if let Some(exec) = user.exec.clone().map(Exec::without_wrapper) {
        let Some(provider) = of_exec(&exec.command, &exec.args)? else { return Ok(None) };
        let logs_in = provider == "keyward-oidc" || provider == "keyward-entra";
        return Ok(Some(Wanted { provider, args: exec.args, env: exec.env, logs_in }));
    }
    let Some(old) = &user.auth_provider else { return Err("it has no plugin".to_owned()) };
    let new = of_auth_provider(&old.name, &old.config)?;
    let env = new.env.into_iter().map(|(name, value)| (name.to_owned(), value));
    let logs_in = new.provider != "keyward-gke";
    Ok(Some(Wanted { provider: new.provider, args: new.args, env: env.collect(), logs_in }))
}

/// How the variables begin that providers read their arguments from.
const PREFIXES: [&str; 9] = [
    "AAD_",
    "ARM_",
    "AWS_",
    "AZURE_",
    "CLOUDSDK_",
    "DEFAULT_ROLE",
    "GOOGLE_",
    "KEYWARD_OIDC_",
    "KUBERNETES_AWS_AUTHENTICATOR_",
];

/// The path of a provider that accepts the command line.
fn accepted(wanted: &Wanted, globals: &Globals) -> Result<String, String> {
    let program = find(wanted.provider, globals)?;
    let mut invocation = Invocation::new(program.path.clone());
    invocation.file_id = Some(program.file_id);
    invocation.args = wanted.args.iter().map(Into::into).collect();
    invocation.args.push("--check-arguments".into());
    invocation.env = globals.surroundings.vars();
    // The check needs no others, and a stranger's kubeconfig must not get a library loaded by one.
    let own = wanted.env.iter().filter(|(name, _)| PREFIXES.iter().any(|p| name.starts_with(p)));
    invocation.env.extend(own.map(|(name, value)| (name.into(), value.expose().into())));
    invocation.budget = LIMIT;
    let output = runner::run(&invocation, &Cancel::default())
        .map_err(|failure| format!("`{}`: {failure}", wanted.provider))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or_default();
        let said = said.strip_prefix("error: ").unwrap_or(said);
        return Err(format!(
            "`{}` does not accept its arguments: {}",
            wanted.provider,
            inline(said)
        ));
    }
    let path = program.path.into_os_string().into_string();
    path.map_err(|_| format!("the path of `{}` is not UTF-8", wanted.provider))
}

/// A provider's program: next to this one, or in `PATH`.
pub(super) fn find(name: &str, globals: &Globals) -> Result<Program, String> {
    let surroundings = &globals.surroundings;
    let trusted = trusted_by_environment(surroundings);
    let beside = beside();
    if let Some(beside) = beside.as_deref()
        && beside.join(name).exists()
    {
        return Program::locate(name, Some(beside), &trusted, surroundings)
            .map_err(|error| error.to_string());
    }
    Program::locate(name, None, &trusted, surroundings).map_err(|_| missing(name))
}

/// The directory of this program.
fn beside() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// What to do about a program that is not installed.
pub(super) fn missing(name: &str) -> String {
    let directory = beside().map_or("DIR".into(), |path| path.display().to_string());
    format!(
        "`{name}` is not installed: install `keyward-providers`, and run `keyward-providers install {}`",
        output::quoted(&directory)
    )
}

/// What a dry run shows of a replaced auth-provider: settings, but neither tokens nor secrets.
pub(super) fn diff(line: u32, old: &str, new: &str) -> Vec<String> {
    const SHOWN: [&str; 18] = [
        "auth-provider",
        "name",
        "config",
        "idp-issuer-url",
        "client-id",
        "extra-scopes",
        "idp-certificate-authority",
        "environment",
        "tenant-id",
        "apiserver-id",
        "config-mode",
        "cmd-path",
        "cmd-args",
        "expiry",
        "expires-on",
        "expires-in",
        "token-key",
        "expiry-key",
    ];
    const HIDDEN: [&str; 5] = [
        "client-secret",
        "id-token",
        "refresh-token",
        "access-token",
        "idp-certificate-authority-data",
    ];
    let mut told = vec![format!("  line {line}:\n")];
    for text in old.lines().map(str::trim) {
        let Some((key, value)) = text.split_once(':') else { continue };
        let (key, value) = (key.trim_matches([' ', '"', '\'']), value.trim());
        // A value in several lines, or a mapping in one, may contain anything.
        let shown = SHOWN.contains(&key)
            && !value.starts_with(['|', '>'])
            && !value.contains(['{', '}', ',']);
        match (value, shown) {
            ("", true) => told.push(format!("  - {key}:\n")),
            (_, true) => told.push(format!("  - {key}: {}\n", inline(value))),
            _ if SHOWN.contains(&key) || HIDDEN.contains(&key) => {
                told.push(format!("  - {key}: …\n"));
            }
            _ => {}
        }
    }
    for text in new.lines() {
        told.push(format!("  + {}\n", inline(&without_value(text))));
    }
    told
}

/// A line of the new stanza without the client's secret.
fn without_value(text: &str) -> String {
    const BEFORE: &str = "\"KEYWARD_OIDC_CLIENT_SECRET\", \"value\": ";
    let Some((before, rest)) = text.split_once(BEFORE) else { return text.to_owned() };
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    let after = end.and_then(|(at, _)| rest.get(at + 1..)).unwrap_or_default();
    format!("{before}{BEFORE}…{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_settings_and_no_secret() {
        let old = "auth-provider:\n  config:\n    client-id: kube\n    client-secret: hush\n    id-token: >-\n      hush\n      hush: x\n\
                   \x20   refresh-token: hush\n  name: oidc";
        let new = "exec:\n  env:\n  - {\"name\": \"KEYWARD_OIDC_CLIENT_SECRET\", \"value\": \"hush\\\"hush\"}\n  x: y";
        let told = diff(3, old, new).concat();
        assert!(!told.contains("hush"), "{told}");
        for line in
            ["- client-id: kube", "- refresh-token: …", "- name: oidc", "\"value\": …}", "x: y"]
        {
            assert!(told.contains(line), "no `{line}` in {told}");
        }
        let flow = diff(1, "auth-provider: {name: oidc, config: {id-token: hush}}", "").concat();
        assert_eq!(flow, "  line 1:\n  - auth-provider: …\n");
        let lines = "auth-provider: {\n  name: oidc, config: {id-token: hush}\n}";
        assert!(!diff(1, lines, "").concat().contains("hush"));
    }
}
