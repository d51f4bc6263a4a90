//! The plugins that Keyward has a provider for, and the arguments of that provider.

use std::path::Path;

use keyward_host::kubeconfig::Exec;
use keyward_protocol::{Secret, text::inline};

use crate::identity::Profile;

/// A provider of Keyward that takes the place of a user's plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Native {
    /// The user whose plugin is replaced.
    pub user: String,
    /// The absolute path of the provider's program.
    pub command: String,
}

/// The `exec` stanza that takes the place of an `auth-provider`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// The name of the provider's program.
    pub provider: &'static str,
    /// The provider's arguments.
    pub args: Vec<String>,
    /// The provider's variables.
    pub env: Vec<(&'static str, Secret)>,
}

/// The names of the providers' programs begin so.
const OURS: &str = "keyward-";

/// The provider that accepts the command line of a plugin: `None` if the plugin is a provider already. Fails with a
/// reason if there is no such provider.
pub fn of_exec(command: &str, args: &[String]) -> Result<Option<&'static str>, String> {
    let name = Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or(command);
    if name.starts_with(OURS) && name != Exec::WRAPPER {
        return Ok(None);
    }
    let bytes: Vec<_> = args.iter().map(|arg| arg.clone().into_bytes()).collect();
    match Profile::of_command(command.as_bytes(), &bytes) {
        Profile::Aws => Ok(Some("keyward-eks")),
        Profile::Authenticator if args.first().is_some_and(|word| word == "token") => {
            Ok(Some("keyward-eks"))
        }
        Profile::Authenticator => Err(format!("`token` is not the first argument of `{name}`")),
        Profile::Gke => Ok(Some("keyward-gke")),
        Profile::Azure => Ok(Some("keyward-entra")),
        Profile::Oidc => Ok(Some("keyward-oidc")),
        Profile::Tsh | Profile::Unknown => {
            Err(format!("Keyward has no provider for the plugin `{}`", inline(name)))
        }
    }
}

/// The stanza for an `auth-provider` with this name and configuration. Fails with a reason if there is none. Tokens in
/// the configuration are left out: the provider logs in anew.
pub fn of_auth_provider(name: &str, config: &[(String, Secret)]) -> Result<Conversion, String> {
    match name {
        "oidc" => oidc(config),
        "azure" => azure(config),
        "gcp" => gcp(config),
        other => Err(format!("Keyward has no provider for the auth-provider `{}`", inline(other))),
    }
}

fn oidc(config: &[(String, Secret)]) -> Result<Conversion, String> {
    const TOKENS: &[&str] = &["id-token", "refresh-token", "access-token"];
    const FLAGS: [(&str, &str); 4] = [
        ("idp-issuer-url", "--oidc-issuer-url"),
        ("client-id", "--oidc-client-id"),
        ("idp-certificate-authority", "--certificate-authority"),
        ("idp-certificate-authority-data", "--certificate-authority-data"),
    ];
    known(config, &FLAGS.map(|(key, _)| key), &["client-secret", "extra-scopes"], TOKENS)?;
    let mut args = vec!["get-token".to_owned()];
    for (key, flag) in FLAGS {
        match value(config, key) {
            Some(value) => args.push(format!("{flag}={value}")),
            None if flag.starts_with("--oidc-") => return Err(format!("`{key}` is missing")),
            None => {}
        }
    }
    let scopes = value(config, "extra-scopes").unwrap_or_default();
    let scopes = scopes.split(',').map(str::trim).filter(|scope| !scope.is_empty());
    args.extend(scopes.map(|scope| format!("--oidc-extra-scope={scope}")));
    // Not an argument: the list of processes shows those.
    let secret = value(config, "client-secret").map(Secret::new);
    let env = secret.map(|secret| ("KEYWARD_OIDC_CLIENT_SECRET", secret)).into_iter().collect();
    Ok(Conversion { provider: "keyward-oidc", args, env })
}

fn azure(config: &[(String, Secret)]) -> Result<Conversion, String> {
    const TOKENS: &[&str] = &["access-token", "refresh-token", "expires-in", "expires-on"];
    const FLAGS: [(&str, &str); 4] = [
        ("environment", "--environment"),
        ("tenant-id", "--tenant-id"),
        ("client-id", "--client-id"),
        ("apiserver-id", "--server-id"),
    ];
    known(config, &FLAGS.map(|(key, _)| key), &["config-mode"], TOKENS)?;
    let mut args: Vec<String> = ["get-token", "--login", "devicecode"].map(str::to_owned).into();
    for (key, flag) in FLAGS {
        match value(config, key) {
            Some(value) => args.extend([flag.to_owned(), value.to_owned()]),
            None if key == "environment" => {}
            None => return Err(format!("`{key}` is missing")),
        }
    }
    // Without this mode, the token's audience has the prefix `spn:`.
    if value(config, "config-mode") != Some("1") {
        args.push("--legacy".to_owned());
    }
    Ok(Conversion { provider: "keyward-entra", args, env: Vec::new() })
}

fn gcp(config: &[(String, Secret)]) -> Result<Conversion, String> {
    const TOKENS: &[&str] = &["access-token", "expiry", "expiry-key", "token-key"];
    known(config, &["cmd-path", "cmd-args"], &[], TOKENS)?;
    let conversion = |args| Ok(Conversion { provider: "keyward-gke", args, env: Vec::new() });
    let Some(path) = value(config, "cmd-path") else {
        return conversion(vec!["--use_application_default_credentials".to_owned()]);
    };
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let words: Vec<_> = value(config, "cmd-args").unwrap_or_default().split_whitespace().collect();
    match (name, words.as_slice()) {
        ("gcloud", ["config", "config-helper", rest @ ..]) => {
            let mut args = Vec::new();
            for word in rest {
                match word.split_once('=') {
                    Some(("--format", _)) => {}
                    Some(("--account" | "--project", _)) => args.push((*word).to_owned()),
                    Some(("--impersonate-service-account", account)) => {
                        args.push(format!("--impersonate_service_account={account}"));
                    }
                    _ => return Err(format!("`gcloud` gets `{}`", inline(word))),
                }
            }
            conversion(args)
        }
        _ => Err(format!("its token comes from the command `{}`", inline(path))),
    }
}

/// Refuses settings that would be lost.
fn known(
    config: &[(String, Secret)],
    flags: &[&str],
    others: &[&str],
    tokens: &[&str],
) -> Result<(), String> {
    let strange = config
        .iter()
        .map(|(key, _)| key.as_str())
        .find(|key| !flags.contains(key) && !others.contains(key) && !tokens.contains(key));
    match strange {
        Some(key) => Err(format!("its setting `{}` is not known", inline(key))),
        None => Ok(()),
    }
}

/// A setting that is not empty.
fn value<'a>(config: &'a [(String, Secret)], key: &str) -> Option<&'a str> {
    let mut values = config.iter().filter(|(name, _)| name == key).map(|(_, v)| v.expose());
    values.next_back().filter(|value| !value.is_empty())
}
