//! Values of flags that only logins with OpenID Connect have.

use std::time::Duration;

use keyward_plugin::Refusal;
use keyward_protocol::Secret;

use super::settings::{Grant, Keep};
use crate::{flags::wrong_value, reader::Reader};

/// The ports that kubelogin listens on, which people have registered with their providers.
const LISTEN: [&str; 2] = ["127.0.0.1:8000", "127.0.0.1:18000"];

/// The variable with the client's secret.
const CLIENT_SECRET: &str = "KEYWARD_OIDC_CLIENT_SECRET";

impl Reader<'_> {
    pub(super) fn grant(&self) -> Result<Grant, Refusal> {
        match self.flags.text("grant-type").unwrap_or("auto") {
            "auto" if self.text("username").is_some() => Ok(Grant::Password),
            "auto" => Ok(Grant::Auto),
            "authcode" => Ok(Grant::Code),
            "authcode-keyboard" => Ok(Grant::PastedCode),
            "device-code" => Ok(Grant::Device),
            "password" => Ok(Grant::Password),
            "client-credentials" => Ok(Grant::ClientCredentials),
            other => {
                let types = "auto, authcode, authcode-keyboard, device-code, password or \
                             client-credentials";
                Err(wrong_value("--grant-type", types, other))
            }
        }
    }

    pub(super) fn pkce(&self) -> Result<bool, Refusal> {
        match self.flags.text("oidc-pkce-method").unwrap_or("auto") {
            "auto" | "S256" => Ok(true),
            "no" => Ok(false),
            other => Err(wrong_value("--oidc-pkce-method", "auto, no or S256", other)),
        }
    }

    /// The keeper of what outlives a login. kubelogin's `disk` is the agent.
    pub(super) fn keep(&self) -> Result<Keep, Refusal> {
        let flag = if self.flags.text("store").is_some() { "store" } else { "token-cache-storage" };
        match self.flags.text(flag).unwrap_or("agent") {
            "agent" | "disk" => Ok(Keep::Agent),
            "keyring" => Ok(Keep::Keyring),
            "none" => Ok(Keep::Nothing),
            other => Err(wrong_value(&format!("--{flag}"), "agent, keyring or none", other)),
        }
    }

    pub(crate) fn person(&self, default: Duration) -> Result<Duration, Refusal> {
        let Some(text) = self.text("authentication-timeout-sec") else { return Ok(default) };
        let seconds = text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
        seconds.map(Duration::from_secs).ok_or_else(|| {
            let right = "a number of seconds from 1 to 86400";
            wrong_value("--authentication-timeout-sec", right, &text)
        })
    }

    /// The addresses to listen at, in order.
    pub(super) fn listen(&self) -> Vec<String> {
        let given = self.many(&["listen-address"]);
        if given.is_empty() { LISTEN.map(str::to_owned).to_vec() } else { given }
    }

    /// The client's secret: in kubelogin's flag, in that of `auth-provider: oidc`, in a file, or in a variable, which is
    /// for kubeconfigs: no list of processes shows their `env`.
    pub(super) fn client_secret(&self) -> Result<Option<Secret>, Refusal> {
        match self.text("client-secret") {
            Some(secret) if self.text("oidc-client-secret").is_none() => {
                Ok(Some(Secret::new(secret)))
            }
            _ => {
                let secret = self.secret("oidc-client-secret", "client-secret-file")?;
                Ok(secret.or_else(|| self.call.var(CLIENT_SECRET).map(Secret::new)))
            }
        }
    }
}
