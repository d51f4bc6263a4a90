//! Writes a case's files, loads them as the case says and compares what comes out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use keyward_host::{
    Error, Kubeconfig, Overrides, Target,
    kubeconfig::{Class, Impersonate},
};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_protocol::Secret;
use serde_json::{Map, Value, json};

pub(super) fn check(case: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let folder = folder.path();
    let stage = Stage::set(case, folder).map_err(|e| format!("the stage is not set: {e}"))?;
    let expected = &stage.case["expect"];
    match (stage.play(), &expected["ok"], &expected["error"]) {
        (Ok(found), Value::Object(expected), _) => compare(&found, expected),
        (Err(fault), _, Value::Object(expected)) => fault.compare(expected),
        (Ok(_), _, expected) => Err(format!("accepted, but the reference says {expected}")),
        (Err(fault), expected, _) => Err(format!("{fault}, but the reference says {expected}")),
    }
}

/// A case with its files written and `$DIR` filled in.
struct Stage {
    case: Value,
    folder: PathBuf,
    surroundings: Surroundings,
}

impl Stage {
    fn set(case: &Value, folder: &Path) -> std::io::Result<Self> {
        for kind in ["files", "extraFiles"] {
            for (name, content) in case[kind].as_object().into_iter().flatten() {
                let path = folder.join(name);
                fs::create_dir_all(path.parent().unwrap_or(folder))?;
                fs::write(path, content.as_str().unwrap_or_default())?;
            }
        }
        if let [Value::String(link), Value::String(target)] =
            case["load"]["symlink"].as_array().map_or(&[][..], Vec::as_slice)
        {
            let link = folder.join(link);
            fs::create_dir_all(link.parent().unwrap_or(folder))?;
            std::os::unix::fs::symlink(folder.join(target), link)?;
        }
        let relative = case["load"]["relative"].as_bool() == Some(true);
        let listed = strings(&case["load"]["kubeconfig"])
            .map(|path| if relative { PathBuf::from(path) } else { folder.join(path) });
        let listed = std::env::join_paths(listed).map_err(std::io::Error::other)?;
        let home = folder.join("home of nobody");
        let surroundings = Surroundings::fixed(Fixed {
            vars: vec![("KUBECONFIG".into(), listed), ("HOME".into(), home.into())],
            cwd: folder.to_owned(),
            ..Fixed::default()
        });
        Ok(Self { case: fill(case, folder), folder: folder.to_owned(), surroundings })
    }

    fn play(&self) -> Result<Map<String, Value>, Fault> {
        let load = &self.case["load"];
        let config = if let Some(name) = load["bytes"].as_str() {
            let bytes = fs::read(self.folder.join(name)).unwrap_or_default();
            Kubeconfig::from_bytes(&bytes)
        } else {
            let explicit = load["explicit"].as_str().map(|path| self.folder.join(path));
            Kubeconfig::load(&self.surroundings, explicit.as_deref())
        };
        let config = config.map_err(|error| Fault { stage: "load", error })?;
        match self.case["op"].as_str() {
            Some("minify") => config
                .minify(self.case["overrides"]["context"].as_str())
                .map(|config| raw(&config))
                .map_err(|error| Fault { stage: "minify", error }),
            Some("flatten") => config
                .flatten(&self.surroundings)
                .map(|config| raw(&config))
                .map_err(|error| Fault { stage: "flatten", error }),
            _ => {
                let overrides = overrides(&self.case["overrides"]);
                let target = config.resolve(&overrides, &self.surroundings);
                target
                    .map(|target| resolved(&target))
                    .map_err(|error| Fault { stage: "resolve", error })
            }
        }
    }
}

/// Flags under kubectl's names.
fn overrides(flags: &Value) -> Overrides {
    let text = |name: &str| flags[name].as_str().map(str::to_owned);
    let flag = |name: &str| flags[name].as_bool().or(text(name).map(|t| t == "true"));
    let groups = &flags["as-group"];
    Overrides {
        context: text("context"),
        cluster: text("cluster"),
        user: text("user"),
        namespace: text("namespace"),
        server: text("server"),
        tls_server_name: text("tls-server-name"),
        certificate_authority: text("certificate-authority"),
        insecure_skip_tls_verify: flag("insecure-skip-tls-verify"),
        proxy_url: text("proxy-url"),
        disable_compression: flag("disable-compression"),
        token: text("token").map(Secret::new),
        username: text("username"),
        password: text("password").map(Secret::new),
        client_certificate: text("client-certificate"),
        client_key: text("client-key"),
        impersonate: Impersonate {
            user: text("as").unwrap_or_default(),
            uid: text("as-uid").unwrap_or_default(),
            groups: match groups.as_str() {
                Some(group) => vec![group.to_owned()],
                None => strings(groups).map(str::to_owned).collect(),
            },
            extra: Vec::new(),
        },
        strict: false,
    }
}

/// What a target says, in the words of the vectors; nothing about what is empty.
fn resolved(target: &Target) -> Map<String, Value> {
    let (cluster, user) = (&target.cluster.value, &target.user.value);
    let mut said = Map::new();
    said.insert("namespace".into(), json!(target.namespace));
    said.insert("namespaceOverridden".into(), json!(target.namespace_overridden));
    said.insert("server".into(), json!(cluster.server));
    let ca_file = cluster.certificate_authority.as_str();
    let ca_data = if ca_file.is_empty() { &cluster.certificate_authority_data[..] } else { &[] };
    let provider = user.auth_provider.as_ref().map_or("", |provider| &provider.name);
    for (key, value) in [
        ("token", user.token.expose().to_owned()),
        ("tokenFile", user.token_file.clone()),
        ("username", user.username.clone()),
        ("password", user.password.expose().to_owned()),
        ("caData", base64(ca_data)),
        ("caFile", ca_file.to_owned()),
        ("tlsServerName", cluster.tls_server_name.clone()),
        ("proxyURL", cluster.proxy_url.clone()),
        ("clientCertFile", user.client_certificate.clone()),
        ("clientCertData", base64(&user.client_certificate_data)),
        ("clientKeyFile", user.client_key.clone()),
        ("clientKeyData", base64(user.client_key_data.expose_bytes())),
        ("authProvider", provider.to_owned()),
        ("impersonate", user.impersonate.user.clone()),
        ("impersonateUID", user.impersonate.uid.clone()),
    ] {
        if !value.is_empty() {
            said.insert(key.into(), json!(value));
        }
    }
    for (key, value) in [
        ("insecure", cluster.insecure_skip_tls_verify),
        ("disableCompression", cluster.disable_compression),
    ] {
        if value {
            said.insert(key.into(), json!(true));
        }
    }
    if !user.impersonate.groups.is_empty() {
        said.insert("impersonateGroups".into(), json!(user.impersonate.groups));
    }
    if !user.impersonate.extra.is_empty() {
        let extra = user.impersonate.extra.iter();
        let extra: Map<_, _> = extra.map(|(key, values)| (key.clone(), json!(values))).collect();
        said.insert("impersonateExtra".into(), Value::Object(extra));
    }
    said.insert("exec".into(), exec(target));
    said.insert("transport".into(), transport(target));
    said
}

fn exec(target: &Target) -> Value {
    let Some(exec) = &target.user.value.exec else { return Value::Null };
    let mut said = json!({
        "apiVersion": exec.api_version.text(),
        "command": exec.command,
        "interactiveMode": exec.interactive_mode.text(),
        "provideClusterInfo": exec.provide_cluster_info,
    });
    if !exec.args.is_empty() {
        said["args"] = json!(exec.args);
    }
    if !exec.env.is_empty() {
        let env = exec.env.iter();
        said["env"] =
            env.map(|(name, value)| json!({"name": name, "value": value.expose()})).collect();
    }
    if !exec.install_hint.is_empty() {
        said["installHint"] = json!(exec.install_hint);
    }
    if let Some(config) = &target.exec_config {
        let raw = config.to_json();
        said["config"] = serde_json::from_str(&raw).unwrap_or(Value::Null);
        said["configRaw"] = json!(raw);
    }
    said
}

/// What becomes of the target when a connection is set up.
fn transport(target: &Target) -> Value {
    if let Err(error) = target.check_user() {
        let classes = classes(&error).into_iter();
        return json!({"error": classes.map(|class| names(class)[0]).collect::<Vec<_>>()});
    }
    let mut said = json!({"pluginWired": target.plugin().is_some()});
    if target.check_tls().is_err() {
        said["tlsError"] = json!(true);
    }
    said
}

/// What a configuration says after flatten or minify.
fn raw(config: &Kubeconfig) -> Map<String, Value> {
    let context = config.contexts.iter().find(|c| c.name == config.current_context);
    let cluster = context.and_then(|context| {
        config.clusters.iter().find(|cluster| cluster.name == context.value.cluster)
    });
    let cluster = cluster.map(|cluster| cluster.value.clone()).unwrap_or_default();
    let user = context
        .and_then(|context| config.users.iter().find(|user| user.name == context.value.user));
    let user = user.map(|user| user.value.clone()).unwrap_or_default();
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        json!(names)
    };
    let mut said = Map::new();
    said.insert("clusters".into(), sorted(config.clusters.iter().map(|c| &*c.name).collect()));
    said.insert("contexts".into(), sorted(config.contexts.iter().map(|c| &*c.name).collect()));
    said.insert("users".into(), sorted(config.users.iter().map(|u| &*u.name).collect()));
    said.insert("caFile".into(), json!(cluster.certificate_authority));
    said.insert("caData".into(), json!(base64(&cluster.certificate_authority_data)));
    for (key, value) in [
        ("tokenFile", user.token_file.clone()),
        ("clientCertFile", user.client_certificate.clone()),
        ("clientCertData", base64(&user.client_certificate_data)),
        ("clientKeyFile", user.client_key.clone()),
        ("clientKeyData", base64(user.client_key_data.expose_bytes())),
    ] {
        if !value.is_empty() {
            said.insert(key.into(), json!(value));
        }
    }
    if let Some(exec) = &user.exec {
        said.insert("execCommand".into(), json!(exec.command));
    }
    said
}

/// Everything the vectors record must be equal. They do not record everything a target has.
fn compare(found: &Map<String, Value>, expected: &Map<String, Value>) -> Result<(), String> {
    const UNRECORDED: &[&str] = &[
        "username",
        "password",
        "proxyURL",
        "clientCertData",
        "clientKeyData",
        "impersonateUID",
        "impersonateExtra",
    ];
    let mut differences = Vec::new();
    for (key, wanted) in expected {
        let got = found.get(key).unwrap_or(&Value::Null);
        if got != wanted {
            differences.push(format!("{key} is {got}, not {wanted}"));
        }
    }
    let extra = found.keys().filter(|key| !expected.contains_key(*key));
    for key in extra.filter(|key| !UNRECORDED.contains(&key.as_str())) {
        differences.push(format!("{key} is {}, not absent", found[key]));
    }
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

/// Where and how a case failed.
struct Fault {
    stage: &'static str,
    error: Error,
}

impl Fault {
    fn compare(&self, expected: &Map<String, Value>) -> Result<(), String> {
        let mut wanted: Vec<_> =
            expected.get("classes").map_or_else(Vec::new, |list| strings(list).collect());
        let mut found = match self.stage {
            "load" => first_of_each_file(&self.error),
            _ => classes(&self.error),
        };
        if self.stage == "flatten" {
            // The reference names only one problem, of whichever entry it came across first.
            found.retain(|class| names(*class).iter().any(|name| wanted.contains(name)));
            found.truncate(1);
        }
        let all = found.len() == wanted.len()
            && found.iter().all(|class| {
                let place = |name| wanted.iter().position(|wanted| wanted == name);
                let at = names(*class).iter().find_map(place);
                at.map(|at| wanted.remove(at)).is_some()
            });
        if all && expected.get("stage").and_then(Value::as_str) == Some(self.stage) {
            Ok(())
        } else {
            Err(format!("{self}, but the reference says {}", json!(expected)))
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = classes(&self.error).into_iter().map(|class| names(class)[0]).collect();
        write!(f, "{} fails with {names:?} ({})", self.stage, self.error)
    }
}

fn classes(error: &Error) -> Vec<Class> {
    error.problems().iter().map(|problem| problem.class).collect()
}

/// The reference stops at the first problem of a file, and looks at types before names; we list all.
fn first_of_each_file(error: &Error) -> Vec<Class> {
    let mut found: Vec<(_, Class)> = Vec::new();
    for problem in error.problems() {
        match found.iter_mut().find(|(file, _)| *file == problem.place.file) {
            Some((_, class)) => *class = (*class).min(problem.class),
            None => found.push((problem.place.file.clone(), problem.class)),
        }
    }
    found.into_iter().map(|(_, class)| class).collect()
}

/// What the vectors call a class of problems. Some are called by the reference's message, which
/// is one and the same for several of ours.
fn names(class: Class) -> &'static [&'static str] {
    match class {
        Class::FileNotFound => &["file_not_found"],
        Class::Load => &["load_error", "file_unreadable"],
        Class::DuplicateName => &["duplicate_name"],
        Class::EmptyConfig => &["empty_config", "no_current_context"],
        Class::ContextNotFound => &["context_not_found"],
        Class::OverrideContextNotFound => &["override_context_not_found"],
        Class::OverrideUserNotFound => &["override_user_not_found"],
        Class::OverrideClusterNotFound => &["override_cluster_not_found"],
        Class::ClusterNotFound => &["cluster_not_found"],
        Class::UserNotFound => &["user_not_found"],
        Class::NoServer => &["no_server"],
        Class::ProxyUrlInvalid => &["proxy_url_invalid"],
        Class::CaBoth => &["ca_both"],
        Class::CaUnreadable => &["ca_unreadable"],
        Class::ClientCertificateBoth => &["client_cert_both", "ca_both"],
        Class::ClientCertificateUnreadable => &["client_cert_unreadable"],
        Class::ClientKeyBoth => &["client_key_both", "ca_both"],
        Class::ClientKeyMissing => &["client_key_missing"],
        Class::ClientKeyUnreadable => &["client_key_unreadable"],
        Class::TokenUnreadable => &["token_unreadable", "load_error"],
        Class::MultipleMethods => &["multiple_auth_methods"],
        Class::ImpersonationWithoutUser => &["impersonation_without_user"],
        Class::ExecCommandMissing => &["exec_command_missing"],
        Class::ExecVersionMissing => &["exec_api_version_missing"],
        Class::ExecVersionUnsupported => &["exec_api_version_unsupported"],
        Class::ExecVariableUnnamed => &["exec_env_name_missing"],
        Class::ExecModeMissing => &["exec_interactive_mode_missing"],
        Class::ExecModeInvalid => &["exec_interactive_mode_invalid"],
        Class::ExecWithProvider => &["exec_with_auth_provider"],
        Class::ProviderRemoved => &["auth_provider_removed"],
        Class::ProviderUnknown => &["auth_provider_unknown"],
        _ => &["(unnamed)"],
    }
}

/// `$DIR` in every text becomes the directory of this run.
fn fill(value: &Value, folder: &Path) -> Value {
    match value {
        Value::String(text) => json!(text.replace("$DIR", &folder.to_string_lossy())),
        Value::Array(items) => items.iter().map(|item| fill(item, folder)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), fill(value, folder))).collect()
        }
        other => other.clone(),
    }
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn base64(bytes: &[u8]) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    BASE64_STANDARD.encode(bytes)
}
