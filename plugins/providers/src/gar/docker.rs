//! Docker's protocol.

use keyward_plugin::{DockerLogin, Refusal};

use super::{no_credentials, registry};
use crate::{
    Call,
    docker::HELPER,
    explain::first,
    google::{Gcloud, Google, Token},
};

/// Enough to pull and push images.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// The login for a server; `None` if it is no registry of Google.
pub(super) fn login(call: &Call, server: &str) -> Result<Option<DockerLogin>, Refusal> {
    if registry::parse(server).is_none() {
        return Ok(None);
    }
    let token = token(call)?;
    Ok(Some(DockerLogin::new(Kind::of(call).user(), token.text.expose())))
}

/// The helper whose sources count. Our names for `docker-credential-gcr` and `-gcloud` mean the same identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gcr,
    Gcloud,
    Own,
}

impl Kind {
    fn of(call: &Call) -> Self {
        match call.name.strip_prefix(HELPER) {
            Some("gcr" | "keyward-gcr") => Self::Gcr,
            Some("gcloud" | "keyward-gcloud") => Self::Gcloud,
            _ => Self::Own,
        }
    }

    /// The user name of access tokens. Registries count the tools by it.
    fn user(self) -> &'static str {
        match self {
            Self::Gcr => "_dcgcr_2_1_32_token",
            Self::Gcloud => "_dcgcloud_token",
            Self::Own => "oauth2accesstoken",
        }
    }
}

/// A token from the sources of the tool that this program was started as.
pub(super) fn token(call: &Call) -> Result<Token, Refusal> {
    let mut google = Google::new(call, &[SCOPE]);
    google.self_signed = true;
    let login = Gcloud::Login(Vec::new());
    let found = match Kind::of(call) {
        Kind::Gcr => gcr(&google)?,
        Kind::Gcloud => first(&[&|| google.gcloud(&login), &|| google.adc(true)])?,
        Kind::Own => first(&[&|| google.adc(false), &|| google.gcloud(&login)])?,
    };
    found.ok_or_else(no_credentials)
}

/// The sources that `docker-credential-gcr config --token-source` has set.
fn gcr(google: &Google<'_>) -> Result<Option<Token>, Refusal> {
    for source in google.gcr_sources()? {
        let found = match source.as_str() {
            "store" => google.gcr_store()?,
            "env" => google.adc(true)?,
            "gcloud" | "gcloud_sdk" => google.gcloud(&Gcloud::Login(Vec::new()))?,
            _ => {
                return Err(Refusal::bad_config(
                    "a token source of docker-credential-gcr is none of store, env and gcloud",
                ));
            }
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
