//! Sources that `aws-config` asks: IAM Identity Center (SSO), `aws login`, containers and instances.

use std::{error::Error, time::Duration};

use aws_config::{
    ecs::EcsCredentialsProvider, imds, login::LoginCredentialsProvider, sso::SsoCredentialsProvider,
};
use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError};
use aws_types::region::Region;
use jiff::Timestamp;
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::text::{inline, with_causes};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::Value;

use super::{Aws, Keys, chain::parse_time, role::fingerprint};

/// How long the instance metadata service may take. Most machines have none.
const INSTANCE: Duration = Duration::from_secs(1);

const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

impl Aws<'_> {
    /// The role of a profile that uses IAM Identity Center.
    pub(super) fn sso(&self, profile: &str) -> Result<Option<Keys>, Refusal> {
        let source = format!("SSO of the profile `{}`", inline(profile));
        let get = |name: &str| self.config.of(profile, name);
        let (role, account) = (get("sso_role_name"), get("sso_account_id"));
        if role.is_none() && account.is_none() {
            return self.call.skip(source, "`sso_role_name` and `sso_account_id` are not set");
        }
        let bad =
            |why: String| Refusal::BadConfig(format!("the profile `{}` {why}", inline(profile)));
        let session = get("sso_session");
        let (mut start, mut region) = (get("sso_start_url"), get("sso_region"));
        if let Some(name) = &session {
            let shared = self.config.sso_session(name).ok_or_else(|| {
                bad(format!("has `sso_session = {}`, which does not exist", inline(name)))
            })?;
            for (value, key) in [(&mut start, "sso_start_url"), (&mut region, "sso_region")] {
                let other = shared(key);
                if value.is_some() && other.is_some() && *value != other {
                    return Err(bad(format!("and its `sso_session` differ in `{key}`")));
                }
                *value = value.take().or(other);
            }
        }
        let missing = |name: &str| bad(format!("uses SSO, but `{name}` is not set"));
        let role = role.ok_or_else(|| missing("sso_role_name"))?;
        let account = account.ok_or_else(|| missing("sso_account_id"))?;
        let start = start.ok_or_else(|| missing("sso_start_url"))?;
        let region = region.ok_or_else(|| missing("sso_region"))?;
        let login = match &session {
            Some(name) => format!("aws sso login --sso-session {}", inline(name)),
            None => format!("aws sso login --profile {}", inline(profile)),
        };
        let again = |why: &str| {
            Refusal::Failed(format!("{why} `{}`\n\nhint: run `{login}`", inline(&start)))
        };
        // Whoever logs out or in as somebody else changes this file, so what is kept belongs to its content.
        let token = self.sso_token(session.as_deref().unwrap_or(&start));
        let (token, end) = token.ok_or_else(|| again("you are not logged in to"))?;
        if session.is_none() && end.is_some_and(|end| end <= self.call.clock.now()) {
            return Err(again("the login has ended at"));
        }
        let origin = format!(
            "sso {start} account {account} role {role} session {} token {token}",
            session.clone().unwrap_or_default()
        );
        let key = self.key("sso", &origin);
        let name = format!("SSO role `{}` in account `{}`", inline(&role), inline(&account));
        self.kept(&name, &key, &origin, || {
            let url = self.config.endpoint("SSO");
            let config = self.provider_config(url.as_deref(), Some(region.clone()))?;
            let mut builder = SsoCredentialsProvider::builder()
                .configure(&config)
                .account_id(&account)
                .role_name(&role)
                .start_url(&start)
                .region(Region::new(region.clone()));
            builder.set_session_name(session.clone());
            self.provided(&builder.build(), origin.clone()).map_err(|why| {
                Refusal::Failed(format!(
                    "{name} gives no credentials: {why}\n\nhint: run `{login}`"
                ))
            })
        })
        .map(Some)
    }

    /// The fingerprint and the end of the token that `aws sso login` left for this session or start URL.
    fn sso_token(&self, name: &str) -> Option<(String, Option<Timestamp>)> {
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, name.as_bytes());
        let hex =
            digest.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let path = self.call.surroundings.home()?.join(format!(".aws/sso/cache/{hex}.json"));
        let token = file::read(&path, &Limits::NAMED).ok()?;
        let read: Value = serde_json::from_slice(&token).unwrap_or_default();
        Some((fingerprint(&token), read["expiresAt"].as_str().and_then(parse_time)))
    }

    /// The session of `aws login` that a profile names.
    pub(super) fn login(&self, profile: &str) -> Result<Option<Keys>, Refusal> {
        let source = format!("`aws login` of the profile `{}`", inline(profile));
        let Some(session) = self.config.of(profile, "login_session") else {
            return self.call.skip(source, "`login_session` is not set");
        };
        let url = self.config.endpoint("SIGNIN");
        let config = self.provider_config(url.as_deref(), self.region())?;
        let provider = LoginCredentialsProvider::builder(&session).configure(&config).build();
        let keys = self.provided(&provider, format!("login {session}")).map_err(|why| {
            Refusal::Failed(format!(
                "the login of `{}` gives no credentials: {why}\n\nhint: run `aws login --profile {}`",
                inline(&session),
                inline(profile)
            ))
        })?;
        self.call.used(source, format!("the session `{}`", inline(&session)));
        Ok(Some(keys))
    }

    /// The credentials of a container: ECS, or EKS Pod Identity.
    pub(super) fn container(&self) -> Result<Option<Keys>, Refusal> {
        let source = "container";
        let relative = self.call.surroundings.var(RELATIVE);
        let (name, url) = match (relative, self.call.surroundings.var(FULL)) {
            (Some(_), _) => (RELATIVE, "http://169.254.170.2".to_owned()),
            (None, Some(url)) => (FULL, url.to_string_lossy().into_owned()),
            (None, None) => {
                return self.call.skip(source, format!("`{RELATIVE}` and `{FULL}` are not set"));
            }
        };
        let config = self.provider_config(Some(&url), None)?;
        let provider = EcsCredentialsProvider::builder().configure(&config).build();
        let keys = self.provided(&provider, format!("container {url}")).map_err(|why| {
            let why = format!("the container's endpoint gives no credentials: {why}");
            self.call.failed(source, why.clone());
            Refusal::Failed(format!("{why}\n\nhint: it is set by `{name}`"))
        })?;
        self.call.used(source, format!("`{name}`"));
        Ok(Some(keys))
    }

    /// The credentials of an EC2 instance. Only version 2 of the service is used.
    pub(super) fn instance(&self) -> Result<Option<Keys>, Refusal> {
        let source = "instance";
        let Some((client, url)) = self.imds()? else {
            return self.call.skip(source, "`AWS_EC2_METADATA_DISABLED` is `true`");
        };
        let provider = imds::credentials::ImdsCredentialsProvider::builder()
            .configure(&self.provider_config(Some(&url), None)?)
            .imds_client(client)
            .build();
        match self.provided(&provider, format!("instance {url}")) {
            Ok(keys) => {
                self.call
                    .used(source, format!("the role of the instance, from `{}`", inline(&url)));
                Ok(Some(keys))
            }
            Err(why) => self.call.skip(source, self.imds_trouble(&url, &why)),
        }
    }

    /// What a provider of the SDK gives, or why it gives nothing.
    fn provided(&self, provider: &impl ProvideCredentials, origin: String) -> Result<Keys, String> {
        let network = self.network().map_err(|refusal| refusal.to_string())?;
        let found = network.wait(provider.provide_credentials()).map_err(|error| reason(&error))?;
        Ok(Keys::from_sdk(&found, origin))
    }

    /// The region of the instance, if this is one.
    pub(super) fn imds_region(&self) -> Option<String> {
        let (client, _) = self.imds().ok()??;
        let region = self.network().ok()?.wait(client.get("/latest/meta-data/placement/region"));
        region
            .ok()
            .map(|region| region.as_ref().trim().to_owned())
            .filter(|region| !region.is_empty())
    }

    /// A client of the instance metadata service and its URL; `None` if it is disabled.
    fn imds(&self) -> Result<Option<(imds::Client, String)>, Refusal> {
        if self
            .call
            .var("AWS_EC2_METADATA_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
        {
            return Ok(None);
        }
        let get = |variable, name| self.config.setting(variable, name);
        let mode =
            get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "ec2_metadata_service_endpoint_mode");
        let usual = match mode {
            Some(mode) if mode.eq_ignore_ascii_case("ipv6") => "http://[fd00:ec2::254]",
            _ => "http://169.254.169.254",
        };
        let url = get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "ec2_metadata_service_endpoint");
        let url = url.unwrap_or_else(|| usual.to_owned());
        let seconds = get("AWS_METADATA_SERVICE_TIMEOUT", "metadata_service_timeout");
        let limit =
            seconds.and_then(|text| text.parse().ok()).map_or(INSTANCE, Duration::from_secs);
        let attempts = get("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "metadata_service_num_attempts");
        let attempts = attempts.and_then(|text| text.parse().ok()).unwrap_or(1);
        let builder = imds::Client::builder()
            .configure(&self.provider_config(Some(&url), None)?)
            .connect_timeout(limit)
            .read_timeout(limit)
            .operation_attempt_timeout(limit)
            .operation_timeout(limit.saturating_mul(attempts))
            .max_attempts(attempts);
        let builder = builder.endpoint(&url).map_err(|error| {
            Refusal::BadConfig(format!(
                "`{}` is no URL of a metadata service: {error}",
                inline(&url)
            ))
        })?;
        Ok(Some((builder.build(), url)))
    }

    /// Why the instance gave nothing. The answer to the first request must travel as far as the instance allows,
    /// which by default is not into a container.
    fn imds_trouble(&self, url: &str, why: &str) -> String {
        let in_container = std::path::Path::new("/.dockerenv").exists()
            || self.call.var("KUBERNETES_SERVICE_HOST").is_some();
        let hint = if in_container {
            "; this is a container: the instance's `http-put-response-hop-limit` must be 2 or more"
        } else {
            ""
        };
        format!("`{}` does not answer by version 2 of the service: {why}{hint}", inline(url))
    }
}

/// The causes of an error without the words that all of them begin with. Answers of the services are not shown:
/// they may contain credentials.
fn reason(error: &CredentialsError) -> String {
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    inline(&with_causes(cause))
}
