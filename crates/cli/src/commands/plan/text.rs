//! The plan as text: labels on the left, facts on the right.

use std::path::PathBuf;

use super::explanation::{
    Agent, Cluster, Environment, Explanation, Interactive, Method, Plugin, Policy, Resolved,
    Signer, Source, User,
};
use crate::output::{Style, block, inline};

/// Longer texts in the request are cut: a certificate authority would fill the screen.
const LONGEST: usize = 72;

/// Lays out the explanation, without the error, which goes to stderr.
pub(super) fn layout(explanation: &Explanation, style: Style) -> String {
    let mut page = Page { style, text: String::new() };
    page.rows("", &overview(explanation));
    if let Some(source) = &explanation.credential {
        page.heading("credential", &credential(source));
    }
    if let Some(plugin) = &explanation.plugin {
        page.heading("plugin", &format!("`{}`", plugin.resolved.command));
        page.rows("  ", &plugin_rows(plugin));
    }
    if let Some(signer) = &explanation.signer {
        page.heading("signer", &format!("`{}`", signer.resolved.command));
        page.rows("  ", &signer_rows(signer));
    }
    for (index, warning) in explanation.warnings.iter().enumerate() {
        if index == 0 {
            page.text.push('\n');
        }
        page.line(&[&style.warning("warning:"), " ", &inline(warning)]);
    }
    page.text
}

struct Page {
    style: Style,
    text: String,
}

impl Page {
    fn heading(&mut self, label: &str, fact: &str) {
        self.line(&["\n", &self.style.label(label), "  ", &inline(fact)]);
    }

    fn line(&mut self, parts: &[&str]) {
        self.text.extend(parts.iter().copied());
        self.text.push('\n');
    }

    /// Prints labels in one column and facts in the next; a fact may have several lines.
    fn rows(&mut self, indent: &str, rows: &[(&str, String)]) {
        let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0) + 2;
        for (label, fact) in rows {
            let gap = " ".repeat(width - label.len());
            let below = format!("\n{indent}{}", " ".repeat(width));
            let fact = block(fact).replace('\n', &below);
            self.line(&[indent, &self.style.label(label), &gap, &fact]);
        }
    }
}

fn overview(explanation: &Explanation) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let files: Vec<String> = explanation
        .files
        .iter()
        .map(|file| {
            let absent = if file.found { "" } else { " (not there)" };
            format!("{}{absent}", file.path.display())
        })
        .collect();
    if !files.is_empty() {
        rows.push(("files", files.join("\n")));
    }
    let Explanation { context, cluster, user, namespace, .. } = explanation;
    rows.extend(context.as_deref().map(|context| ("context", inline(context))));
    rows.extend(cluster.as_ref().map(|cluster| ("cluster", cluster_text(cluster))));
    rows.extend(user.as_ref().map(|user| ("user", user_text(user))));
    rows.extend(namespace.as_deref().map(|namespace| ("namespace", inline(namespace))));
    rows
}

fn cluster_text(cluster: &Cluster) -> String {
    let server = inline(&cluster.server);
    let mut lines = vec![match inline(&cluster.name).as_str() {
        "" => server,
        name => format!("{name}, {server}"),
    }];
    if !cluster.tls_server_name.is_empty() {
        lines.push(format!("checked as `{}`", inline(&cluster.tls_server_name)));
    }
    if !cluster.proxy_url.is_empty() {
        lines.push(format!("through {}", inline(&cluster.proxy_url)));
    }
    if cluster.insecure_skip_tls_verify {
        lines.push("the certificate is not checked".to_owned());
    }
    lines.join("\n")
}

fn user_text(user: &User) -> String {
    let name = if user.name.is_empty() { "none".to_owned() } else { inline(&user.name) };
    let mut lines = vec![match (&user.file, user.line) {
        (Some(file), Some(line)) => format!("{name}, in {}, line {line}", file.display()),
        (Some(file), None) => format!("{name}, in {}", file.display()),
        (None, _) => name,
    }];
    if !user.acts_as.is_empty() {
        lines.push(format!("acts as `{}`", inline(&user.acts_as)));
    }
    lines.join("\n")
}

fn credential(source: &Source) -> String {
    let names: Vec<&str> = source
        .methods
        .iter()
        .map(|method| match method {
            Method::Token => "a fixed token",
            Method::TokenFile => "a token file",
            Method::Basic => "a user name with a password",
            Method::ClientCertificate => "a client certificate",
            Method::Exec => "a plugin",
            Method::Oidc => "the `oidc` auth-provider",
            Method::Signer => "a certificate whose key an external signer holds",
            Method::ServiceAccount => "the pod's service account",
        })
        .collect();
    let what = if names.is_empty() {
        "none, the client is anonymous".to_owned()
    } else {
        names.join(" and ")
    };
    let file =
        source.file.as_ref().map(|file| format!(", `{}`", file.display())).unwrap_or_default();
    format!("{what}{file} ({})", source.because)
}

fn plugin_rows(plugin: &Plugin) -> Vec<(&'static str, String)> {
    let mut rows = program_rows(&plugin.resolved);
    if !plugin.args.is_empty() {
        let args: Vec<_> = plugin.args.iter().map(|arg| quote(arg)).collect();
        rows.push(("arguments", args.join(" ")));
    }
    rows.extend(plugin.environment.as_ref().map(|found| ("environment", environment(found))));
    rows.push(("policy", policy(&plugin.policy)));
    rows.push(("version", plugin.api_version.clone()));
    rows.push(("interactive", interactive_text(&plugin.interactive)));
    rows.extend(time_limit(plugin.time_limit.as_ref(), plugin.attended));
    rows.extend(plugin.agent.as_ref().map(|agent| ("agent", agent_text(agent))));
    if !plugin.install_hint.is_empty() {
        rows.push(("install hint", plugin.install_hint.trim_end().to_owned()));
    }
    if let Some(request) = &plugin.request {
        rows.push(("request", serde_json::to_string_pretty(&shorten(request)).unwrap_or_default()));
    }
    rows
}

fn agent_text(agent: &Agent) -> String {
    let wrapper = format!("the command is wrapped by `{}`", inline(&agent.wrapper));
    if !agent.asked {
        return format!("not asked, because of `CI` or `KEYWARD_AGENT`; {wrapper}");
    }
    let profile = match agent.profile {
        "unknown" => "no profile".to_owned(),
        name => format!("profile `{name}`"),
    };
    let registered = if agent.registered { "registered" } else { "not registered" };
    format!("answers if it has the credential: {wrapper}, {registered}, {profile}")
}

fn signer_rows(signer: &Signer) -> Vec<(&'static str, String)> {
    let mut rows = program_rows(&signer.resolved);
    let entries = signer.configuration.iter();
    let entries = entries.map(|(name, value)| format!("{}: {}", inline(name), quote(value)));
    rows.push(("told", entries.collect::<Vec<_>>().join("\n")));
    rows.push(("policy", policy(&signer.policy)));
    let mode = if signer.resident {
        "runs as long as the client, and is unlocked before it connects"
    } else {
        "run once for the certificate, and once for each handshake"
    };
    rows.push(("mode", mode.to_owned()));
    let resumption = if signer.resumption {
        "without a signature, where the server allows it"
    } else {
        "no: every connection needs a new signature"
    };
    rows.push(("resumption", resumption.to_owned()));
    rows.extend(time_limit(signer.time_limit.as_ref(), signer.attended));
    rows
}

fn program_rows(resolved: &Resolved) -> Vec<(&'static str, String)> {
    let program = match (&resolved.program, &resolved.refused) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(path)) => format!("{}, which would not run", path.display()),
        (None, None) => "not found".to_owned(),
    };
    let mut rows = vec![("program", program)];
    if !resolved.looked_in.is_empty() {
        rows.push(("looked in", list(&resolved.looked_in)));
    }
    rows
}

fn time_limit(limit: Option<&String>, attended: bool) -> Option<(&'static str, String)> {
    let attended = if attended { "a person attends" } else { "unattended" };
    limit.map(|limit| ("time limit", format!("{limit}, {attended}")))
}

fn environment(environment: &Environment) -> String {
    let base = match environment.base {
        "clean" => "nothing inherited".to_owned(),
        "only" => format!("inherited: {}", environment.inherited.join(", ")),
        _ => format!("all {} inherited variables", environment.inherited.len()),
    };
    format!("{base}; set: {}", environment.set.join(", "))
}

fn policy(policy: &Policy) -> String {
    let verdict = if policy.allowed { "allowed" } else { "not allowed" };
    let file =
        policy.file.as_ref().map(|file| format!(" of {}", file.display())).unwrap_or_default();
    format!("{verdict} by {}{file}: {}", policy.name, policy.because)
}

fn interactive_text(interactive: &Interactive) -> String {
    let verdict = if interactive.stdin { "yes" } else { "no" };
    format!("{verdict}: {}", interactive.because)
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// An argument quoted for a shell, so that its ends are visible.
fn quote(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+[]".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        return arg.to_owned();
    }
    format!("'{}'", inline(arg).replace('\'', r"'\''"))
}

/// The request with long texts cut.
fn shorten(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) if text.chars().count() > LONGEST => {
            let start: String = text.chars().take(LONGEST / 2).collect();
            Value::String(format!("{start}… ({} characters)", text.chars().count()))
        }
        Value::Array(items) => items.iter().map(shorten).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shorten(value))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{quote, shorten};

    #[test]
    fn arguments_are_quoted_where_a_shell_needs_it() {
        for (arg, shown) in [
            ("--a=b", "--a=b"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("[hidden]", "[hidden]"),
        ] {
            assert_eq!(quote(arg), shown);
        }
    }

    #[test]
    fn long_texts_of_the_request_are_cut() {
        let cut = shorten(&serde_json::json!({"spec": {"data": "x".repeat(100), "short": "y"}}));
        assert_eq!(cut["spec"]["short"], "y");
        assert_eq!(cut["spec"]["data"], format!("{}… (100 characters)", "x".repeat(36)));
    }
}
