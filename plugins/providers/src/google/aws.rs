//! Credentials of AWS, which prove themselves to Google by a signed request that Google sends to AWS.

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings};
use http::Request;
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, text::inline};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Google, info::Info, oauth::shown, subject::check_source};
use crate::sigv4::sign;

/// The header that binds the request to Google and to the pool.
const TARGET: &str = "x-goog-cloud-target-resource";

const SESSION: &str = "X-aws-ec2-metadata-token";

impl Google<'_> {
    /// A signed request for `GetCallerIdentity`, as the token to exchange. As in Google's libraries, the keys are
    /// those of the environment or of the instance.
    pub(super) fn aws_subject(&self, info: &Info, source: &Info) -> Result<Secret, Refusal> {
        let version = source.text("environment_id").and_then(|id| id.strip_prefix("aws"));
        if version != Some("1") {
            return Err(info.bad("`credential_source.environment_id` is not `aws1`"));
        }
        let url = source.required("regional_cred_verification_url")?;
        let session = self.imds_session(info, source)?;
        let region = self.aws_region(info, source, &session)?;
        let url = url.replace("{region}", &region);
        let host = caller_identity(&url).ok_or_else(|| {
            info.bad(
                "`credential_source.regional_cred_verification_url` is not that of `GetCallerIdentity` at AWS STS",
            )
        })?;
        let keys = self.aws_keys(info, source, &session)?;
        let target = info.required("audience")?;
        let own = [("host", host), (TARGET, target)];
        let request = SignableRequest::new("POST", &url, own.into_iter(), SignableBody::Bytes(b""));
        let request = request.map_err(Refusal::failed)?;
        let now = self.call.clock.now();
        let signed = sign(keys, ("sts", &region), now, SigningSettings::default(), request)?;
        let headers: Vec<Value> = own
            .into_iter()
            .chain(signed.headers())
            .map(|(key, value)| json!({ "key": key, "value": value }))
            .collect();
        let request = json!({ "url": url, "method": "POST", "headers": headers }).to_string();
        Ok(Secret::new(utf8_percent_encode(&request, NON_ALPHANUMERIC).to_string()))
    }

    /// A session of the instance's metadata service, if one is needed and the file says where.
    fn imds_session(&self, info: &Info, source: &Info) -> Result<Vec<(String, String)>, Refusal> {
        let set = |name: &str| self.call.var(name).is_some();
        let region = set("AWS_REGION") || set("AWS_DEFAULT_REGION");
        let keys = set("AWS_ACCESS_KEY_ID") && set("AWS_SECRET_ACCESS_KEY");
        let Some(url) = source.text("imdsv2_session_token_url").filter(|_| !(region && keys))
        else {
            return Ok(Vec::new());
        };
        check_source(info, "credential_source.imdsv2_session_token_url", url)?;
        let request = Request::put(url)
            .header("X-aws-ec2-metadata-token-ttl-seconds", "300")
            .body(Vec::new())
            .map_err(|_| info.bad("`imdsv2_session_token_url` is no address"))?;
        let token = String::from_utf8(self.ask(url, request)?)
            .map_err(|_| Refusal::Failed(format!("`{}` answered no token", shown(url))))?;
        Ok(vec![(SESSION.to_owned(), token)])
    }

    fn aws_region(
        &self,
        info: &Info,
        source: &Info,
        session: &[(String, String)],
    ) -> Result<String, Refusal> {
        let own = self.call.var("AWS_REGION").or_else(|| self.call.var("AWS_DEFAULT_REGION"));
        if let Some(region) = own {
            return Ok(region);
        }
        let url = source.text("region_url").ok_or_else(|| {
            info.bad("no AWS region: `AWS_REGION` is not set, and the file has no `region_url`")
        })?;
        check_source(info, "credential_source.region_url", url)?;
        let zone = String::from_utf8(self.get(info, url, session)?).unwrap_or_default();
        // The zone has a letter more.
        let mut letters = zone.trim().chars();
        letters.next_back();
        Ok(letters.as_str().to_owned())
    }

    fn aws_keys(
        &self,
        info: &Info,
        source: &Info,
        session: &[(String, String)],
    ) -> Result<Credentials, Refusal> {
        let keys = |id: &str, secret: &str, session: Option<String>| {
            Credentials::new(id, secret, session, None, "keyward")
        };
        let var = |name: &str| self.call.var(name);
        if let (Some(id), Some(secret)) = (var("AWS_ACCESS_KEY_ID"), var("AWS_SECRET_ACCESS_KEY")) {
            self.call.note("AWS", format!("`AWS_ACCESS_KEY_ID` is `{}`", inline(&id)));
            return Ok(keys(&id, &secret, var("AWS_SESSION_TOKEN")));
        }
        let url = source.text("url").ok_or_else(|| {
            info.bad("no AWS keys: `AWS_ACCESS_KEY_ID` is not set, and the file has no `url` of an instance")
        })?;
        check_source(info, "credential_source.url", url)?;
        let role = String::from_utf8(self.get(info, url, session)?).unwrap_or_default();
        let answer = self.get(info, &format!("{url}/{}", role.trim()), session)?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        self.call.note("AWS", format!("the instance's role `{}`", inline(role.trim())));
        match (text("AccessKeyId"), text("SecretAccessKey")) {
            (Some(id), Some(secret)) => Ok(keys(id, secret, text("Token").map(str::to_owned))),
            _ => Err(Refusal::Failed(format!("`{}` answered without keys", shown(url)))),
        }
    }
}

/// The host of an address of `GetCallerIdentity`; `None` for every other address. The file says which request is
/// signed and who gets it, so that a stranger's file could otherwise have any request signed, and use it.
fn caller_identity(url: &str) -> Option<&str> {
    let (place, query) = url.strip_prefix("https://")?.split_once('?')?;
    let mut fields: Vec<&str> = query.split('&').collect();
    fields.sort_unstable();
    let host = place.strip_suffix('/').unwrap_or(place);
    (fields == ["Action=GetCallerIdentity", "Version=2011-06-15"] && is_sts(host)).then_some(host)
}

/// Whether a host is AWS STS: the global one, or that of a region.
fn is_sts(host: &str) -> bool {
    let Some((name, rest)) = host.split_once('.') else { return false };
    let domains = ["amazonaws.com", "amazonaws.com.cn", "api.aws", "api.amazonwebservices.com.cn"];
    let region = domains.iter().find_map(|domain| rest.strip_suffix(domain)?.strip_suffix('.'));
    let is_region = |region: &str| {
        !region.is_empty()
            && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    matches!(name, "sts" | "sts-fips") && (rest == "amazonaws.com" || region.is_some_and(is_region))
}
