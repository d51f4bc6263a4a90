//! The order of the sources, as botocore has it.

use jiff::Timestamp;
use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::{Aws, Keys, config::File};
use crate::explain::first;

/// The words by which `credential_source` names a source.
const ENVIRONMENT: &str = "Environment";
const CONTAINER: &str = "EcsContainer";
const INSTANCE: &str = "Ec2InstanceMetadata";

impl Aws<'_> {
    /// The credentials that the `aws` command would use.
    pub(crate) fn keys(&self) -> Result<Keys, Refusal> {
        let (profile, is_from_flag) = (&self.config.profile, self.config.is_from_flag);
        let found = first(&[
            &|| {
                if is_from_flag {
                    return self.call.skip("environment", "`--profile` was given");
                }
                self.environment()
            },
            &|| self.profile_role(profile, &mut vec![profile.clone()]),
            &|| self.profile_keys(profile, !is_from_flag),
            &|| self.container(),
            &|| self.instance(),
        ])?;
        found.ok_or_else(|| {
            Refusal::BadConfig(format!(
                "no AWS credentials are configured: not in the environment, not in the profile `{}`, and this \
                 machine has no container or instance credentials\n\n\
                 hint: `aws configure` or `aws sso login`; `--explain` shows every source",
                inline(profile)
            ))
        })
    }

    /// Keys in the environment.
    fn environment(&self) -> Result<Option<Keys>, Refusal> {
        let source = "environment";
        let Some(id) = self.call.var("AWS_ACCESS_KEY_ID") else {
            return self.call.skip(source, "`AWS_ACCESS_KEY_ID` is not set");
        };
        let secret = self.call.var("AWS_SECRET_ACCESS_KEY").ok_or_else(|| {
            Refusal::bad_config("`AWS_ACCESS_KEY_ID` is set, but not `AWS_SECRET_ACCESS_KEY`")
        })?;
        let session =
            self.call.var("AWS_SECURITY_TOKEN").or_else(|| self.call.var("AWS_SESSION_TOKEN"));
        let origin = format!("environment {id}");
        let mut keys = Keys::new(id, secret, session, origin);
        if let Some(end) = self.call.var("AWS_CREDENTIAL_EXPIRATION") {
            let end = parse_time(&end)
                .ok_or_else(|| Refusal::bad_config("`AWS_CREDENTIAL_EXPIRATION` is not a time"))?;
            keys.expires = Some(end);
        }
        self.call.used(source, format!("`AWS_ACCESS_KEY_ID` is `{}`", inline(&keys.id)));
        Ok(Some(keys))
    }

    /// What a profile has besides a role to assume: the sources in their order.
    pub(super) fn profile_keys(
        &self,
        profile: &str,
        with_environment: bool,
    ) -> Result<Option<Keys>, Refusal> {
        first(&[
            &|| self.web_identity(profile, with_environment),
            &|| self.sso(profile),
            &|| self.file(&self.config.credentials, profile),
            &|| self.login(profile),
            &|| self.process(profile),
            &|| self.file(&self.config.settings, profile),
        ])
    }

    /// The source that `credential_source` names.
    pub(super) fn named_source(&self, profile: &str, source: &str) -> Result<Keys, Refusal> {
        let keys = match source {
            ENVIRONMENT => self.environment()?,
            CONTAINER => self.container()?,
            INSTANCE => self.instance()?,
            _ => {
                return Err(Refusal::BadConfig(format!(
                    "the profile `{}` has `credential_source = {}`, but that is `{ENVIRONMENT}`, `{CONTAINER}` or \
                     `{INSTANCE}`",
                    inline(profile),
                    inline(source)
                )));
            }
        };
        keys.ok_or_else(|| {
            Refusal::Failed(format!(
                "the profile `{}` has `credential_source = {source}`, which gives no credentials here",
                inline(profile)
            ))
        })
    }

    /// Keys that one of the two files has.
    fn file(&self, file: &File, profile: &str) -> Result<Option<Keys>, Refusal> {
        let source = format!("keys of the profile `{}` in `{file}`", inline(profile));
        let Some(id) = file.get(profile, "aws_access_key_id") else {
            return self.call.skip(source, "there are none");
        };
        let secret = file.get(profile, "aws_secret_access_key").ok_or_else(|| {
            Refusal::BadConfig(format!(
                "the profile `{}` in `{file}` has `aws_access_key_id`, but not `aws_secret_access_key`",
                inline(profile)
            ))
        })?;
        let session = file.get(profile, "aws_security_token");
        let session = session.or_else(|| file.get(profile, "aws_session_token"));
        let origin = format!("file {id}");
        self.call.used(source, format!("the access key is `{}`", inline(&id)));
        Ok(Some(Keys::new(id, secret, session, origin)))
    }
}

/// A time in one of the forms that tools write.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| format!("{text}Z").parse().ok())
}
