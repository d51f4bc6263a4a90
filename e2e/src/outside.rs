//! What stands outside the cluster and says who somebody is: an `OpenID` Connect provider and a
//! reviewer of AWS tokens.

use std::{path::Path, process::Command};

use keyward_testing::authority::Authority;

use crate::{Outcome, child::Server, config, tools::Tools};

/// The one key of the pretended AWS account.
pub const ACCESS_KEY: &str = "AKIAKEYWARDE2E";
/// A secret that never leaves this machine and opens nothing.
pub const SECRET_KEY: &str = "e2e-secret-that-opens-nothing";

/// Both, running.
pub struct Outside {
    /// The provider's address, and name.
    pub issuer: String,
    /// Where tokens of AWS are reviewed.
    pub reviewer: String,
    servers: [Server; 2],
}

impl Outside {
    /// Starts both.
    pub async fn start(tools: &Tools, authority: &Authority, folder: &Path) -> Outcome<Self> {
        let issued = authority.server(&["127.0.0.1", "localhost"])?;
        let (certificate, key) = (folder.join("outside.crt"), folder.join("outside.key"));
        config::private(&certificate, issued.certificate_pem())?;
        config::private(&key, issued.key_pem())?;
        let start = |script: &str| {
            let mut command = Command::new("node");
            command.arg(tools.script(&format!("{script}.mjs"))).arg(&certificate).arg(&key);
            command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
            Server::start(script, &command, folder)
        };
        let mut provider = start("provider")?;
        let mut reviewer = start("reviewer")?;
        Ok(Self {
            issuer: provider.line("https://").await?,
            reviewer: reviewer.line("https://").await?,
            servers: [provider, reviewer],
        })
    }

    /// How many grants of this type the provider has given, such as `refresh_token`.
    pub fn grants(&self, kind: &str) -> Outcome<usize> {
        self.servers[0].count(&format!("grant {kind}"))
    }

    /// The ends of their logs.
    pub fn logs(&self) -> impl Iterator<Item = String> {
        self.servers.iter().map(Server::tail)
    }
}
