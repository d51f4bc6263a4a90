//! Tokens of service accounts that other credentials may use.

use keyward_plugin::Refusal;
use keyward_protocol::Secret;
use serde_json::{Value, json};

use super::{
    Google, Token,
    info::Info,
    oauth::{Body, post, shown},
};

/// What the source's own token is for: nothing but the request here.
pub(super) const IAM: &str = "https://www.googleapis.com/auth/iam";

/// How long tokens of service accounts are valid, in seconds.
const LIFETIME: i64 = 3600;

const URL: &str = "service_account_impersonation_url";

impl Google<'_> {
    /// A file of `gcloud auth application-default login --impersonate-service-account`.
    pub(super) fn impersonated(&self, info: &Info) -> Result<Token, Refusal> {
        info.required(URL)?;
        let source = info.required_object("source_credentials")?;
        let iam = [IAM.to_owned()];
        let token = match source.required("type")? {
            "authorized_user" => self.authorized_user(&source)?,
            "service_account" => self.service_account(&source, &iam)?,
            "external_account_authorized_user" => self.external_user(&source)?,
            "external_account" => self.external(&source, &iam)?,
            _ => {
                return Err(info.bad(
                    "`source_credentials.type` is none of authorized_user, service_account, external_account, \
                     external_account_authorized_user",
                ));
            }
        };
        let delegates = info.has("delegates").then(|| info.list("delegates"));
        self.generate(info, &token, &self.scopes, delegates.as_deref(), LIFETIME)
    }

    /// Exchanges a token for one of the service account that the file's address names.
    pub(super) fn generate(
        &self,
        info: &Info,
        source: &Token,
        scopes: &[String],
        delegates: Option<&[String]>,
        lifetime: i64,
    ) -> Result<Token, Refusal> {
        let url = info.required(URL)?;
        self.check_address(info, URL, url)?;
        let account = account(url).ok_or_else(|| {
            info.bad(&format!("`{URL}` does not end with `/ACCOUNT:generateAccessToken`"))
        })?;
        self.call.note("impersonated service account", account);
        let body =
            json!({ "delegates": delegates, "scope": scopes, "lifetime": format!("{lifetime}s") });
        let bearer = Secret::new(format!("Bearer {}", source.text.expose()));
        let answer = post(&self.http, url, Some(bearer.expose()), &Body::Json(&body))?;
        let text = answer.get("accessToken").and_then(Value::as_str);
        let text = text.filter(|text| !text.is_empty());
        let end = answer.get("expireTime").and_then(Value::as_str).and_then(|t| t.parse().ok());
        match (text, end) {
            (Some(text), Some(end)) if end > self.call.clock.now() => {
                Ok(Token { text: Secret::new(text), end: Some(end) })
            }
            _ => Err(Refusal::Failed(format!(
                "`{}` answered without a token that is still valid",
                shown(url)
            ))),
        }
    }
}

/// The account in `…/serviceAccounts/ACCOUNT:generateAccessToken`.
pub(super) fn account(url: &str) -> Option<&str> {
    let (before, _) = url.split_once(":generateAccessToken")?;
    before.rsplit_once('/').map(|(_, account)| account).filter(|account| !account.is_empty())
}
