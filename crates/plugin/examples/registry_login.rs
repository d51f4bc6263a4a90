//! `registry_login FILE`
//!
//! Logs in to registries with the logins in a file, one per line:
//!
//! ```text
//! # registry, user name, password, and optionally when it expires
//! registry.example:5000  puller  s3cr3t  2030-01-02T03:04:05Z
//! ```
//!
//! In the node's configuration, with the file's path as the argument:
//!
//! ```yaml
//! apiVersion: kubelet.config.k8s.io/v1
//! kind: CredentialProviderConfig
//! providers:
//! - name: registry_login
//!   apiVersion: credentialprovider.kubelet.k8s.io/v1
//!   matchImages: ["registry.example:5000"]
//!   defaultCacheDuration: 10m
//!   args: [/etc/registry-logins]
//! ```

use std::{env, fs, path::Path, process::ExitCode};

use jiff::Timestamp;
use keyward_plugin::{ImageProvider, ImageQuestion, Logins, Refusal, serve_image};

struct RegistryLogin;

impl ImageProvider for RegistryLogin {
    fn logins(&self, question: &ImageQuestion) -> Result<Logins, Refusal> {
        // The original proposal has no arguments of its own choice, but sets variables.
        let path = env::args_os()
            .nth(1)
            .filter(|path| path != "get-credentials")
            .or_else(|| env::var_os("LOGINS"))
            .ok_or_else(|| Refusal::BadConfig("usage: registry_login FILE".into()))?;
        let text = fs::read_to_string(&path).map_err(|e| {
            Refusal::Failed(format!("cannot read `{}`: {e}", Path::new(&path).display()))
        })?;
        let own = text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()? == question.registry()).then(|| words.collect::<Vec<_>>())
        });
        match own.as_deref() {
            // Unknown here: other providers may have a login.
            None => Ok(Logins::none()),
            Some([name, password]) => Ok(Logins::for_registry(*name, *password)),
            Some([name, password, end]) => {
                // Not shown: it may be part of a password that contains a blank.
                let end: Timestamp = end.parse().map_err(|_| {
                    Refusal::BadConfig(
                        "the expiry must be a time such as 2030-01-02T03:04:05Z".into(),
                    )
                })?;
                Ok(Logins::for_registry(*name, *password).expires_at(end))
            }
            Some(_) => Err(Refusal::BadConfig(format!(
                "the line of `{}` must be: registry, user name, password, expiry",
                question.registry()
            ))),
        }
    }
}

fn main() -> ExitCode {
    serve_image(RegistryLogin)
}
