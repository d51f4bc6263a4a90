//! Workload and workforce identity federation: somebody else's token is exchanged for one of Google (RFC 8693).

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{
    Google, Token,
    impersonated::IAM,
    info::Info,
    oauth::{Body, STS, basic},
};

impl Google<'_> {
    /// A file of type `external_account`.
    pub(super) fn external(&self, info: &Info, scopes: &[String]) -> Result<Token, Refusal> {
        if !info.has("service_account_impersonation_url") {
            return self.exchange(info, scopes);
        }
        let lifetime = info.object("service_account_impersonation");
        let lifetime = lifetime.and_then(|options| options.number("token_lifetime_seconds"));
        let source = self.exchange(info, &[IAM.to_owned()])?;
        self.generate(info, &source, scopes, None, lifetime.unwrap_or(3600))
    }

    fn exchange(&self, info: &Info, scopes: &[String]) -> Result<Token, Refusal> {
        let url = info.text("token_url").unwrap_or(STS);
        self.check_address(info, "token_url", url)?;
        let audience = info.required("audience")?;
        let kind = info.required("subject_token_type")?;
        let project = info.text("workforce_pool_user_project");
        if project.is_some() && !is_workforce(audience) {
            return Err(info.bad(
                "`workforce_pool_user_project` is for workforce pools, and `audience` is none of them",
            ));
        }
        self.call.note("audience", inline(audience));
        let subject = self.subject(info)?;
        let scope = scopes.join(" ");
        let mut body = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("audience", audience),
            ("scope", &scope),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("subject_token", subject.expose()),
            ("subject_token_type", kind),
        ];
        let client = info
            .text("client_id")
            .map(|client| basic(client, info.text("client_secret").unwrap_or_default()));
        let options;
        if let (Some(project), None) = (project, &client) {
            let json = json!({ "userProject": project }).to_string();
            options = utf8_percent_encode(&json, NON_ALPHANUMERIC).to_string();
            body.push(("options", &options));
        }
        self.fetch(url, client.as_deref(), &Body::Form(&body))
    }
}

/// Whether an audience is a pool of people: `//iam.googleapis.com/locations/LOCATION/workforcePools/…`.
fn is_workforce(audience: &str) -> bool {
    let rest = audience.strip_prefix("//iam.googleapis.com/locations/");
    rest.and_then(|rest| rest.split_once('/'))
        .is_some_and(|(location, rest)| !location.is_empty() && rest.starts_with("workforcePools/"))
}
