//! Tokens of other issuers that a client of Entra ID trusts: of a cluster in a file, of GitHub, of Azure Pipelines.

use std::path::Path;

use http::Request;
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{Secret, jwt::Claims, text::inline};
use serde_json::Value;

use super::{Azure, no_address, reason};
use crate::http::{form, require_https};

/// The audience of tokens for Entra ID.
const AUDIENCE: &str = "api://AzureADTokenExchange";

impl Azure<'_> {
    /// The token of a job of GitHub Actions.
    pub(crate) fn github_token(&self, address: &str, token: &Secret) -> Result<Secret, Refusal> {
        let join = if address.contains('?') { '&' } else { '?' };
        require_https(address, "`ACTIONS_ID_TOKEN_REQUEST_URL`")?;
        let request = Request::get(format!("{address}{join}{}", form(&[("audience", AUDIENCE)])))
            .header("Authorization", format!("bearer {}", token.expose()))
            .header("Accept", "application/json; api-version=2.0")
            .body(Vec::new())
            .map_err(|_| no_address(address))?;
        self.issued("GitHub", request, "value")
    }

    /// The token of a job of Azure Pipelines, for a service connection.
    pub(crate) fn pipelines_token(
        &self,
        address: &str,
        connection: &str,
        token: &Secret,
    ) -> Result<Secret, Refusal> {
        let query = form(&[("api-version", "7.1"), ("serviceConnectionId", connection)]);
        require_https(address, "`SYSTEM_OIDCREQUESTURI`")?;
        let request = Request::post(format!("{}?{query}", address.trim_end_matches('/')))
            .header("Authorization", format!("Bearer {}", token.expose()))
            .header("Content-Type", "application/json")
            // Otherwise it answers with a login page.
            .header("X-TFS-FedAuthRedirect", "Suppress")
            .body(Vec::new())
            .map_err(|_| no_address(address))?;
        self.issued("Azure Pipelines", request, "oidcToken")
    }

    fn issued(&self, who: &str, request: Request<Vec<u8>>, field: &str) -> Result<Secret, Refusal> {
        let what = format!("{who} gives no token for the job");
        let response = self.send(&what, request)?;
        let status = response.status().as_u16();
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        let token = answer.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        match token.filter(|_| status == 200) {
            Some(token) => Ok(Secret::new(token)),
            None => {
                Err(Refusal::NotAllowed(format!("{what}: {}", reason(status, response.body()))))
            }
        }
    }
}

/// The token in a file, which another program renews. Flags can name any file, so what is no JSON Web Token stays
/// here.
pub(crate) fn file_token(path: &Path) -> Result<Secret, Refusal> {
    let bytes = file::read(path, &Limits::NAMED.at_most(64 << 10)).map_err(|error| {
        Refusal::BadConfig(format!(
            "cannot read the federated token in `{}`: {}\n\n\
             hint: the pod needs the label `azure.workload.identity/use: \"true\"`; or set \
             `--federated-token-file`",
            inline(&path.display().to_string()),
            file::reason(&error)
        ))
    })?;
    let token = Secret::from_bytes(bytes.trim_ascii().to_vec());
    if Claims::read(token.expose()).is_none() {
        return Err(Refusal::BadConfig(format!(
            "there is no JSON Web Token in `{}`, so its content is not sent",
            inline(&path.display().to_string())
        )));
    }
    Ok(token)
}
