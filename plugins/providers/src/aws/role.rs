//! Roles: of profiles, of flags, and for web identity tokens.

use std::time::Duration;

use aws_sdk_sts::{
    error::{ProvideErrorMetadata, SdkError},
    types::Credentials,
};
use jiff::{SignedDuration, Timestamp};
use keyward_plugin::{Refusal, Terminal};
use keyward_process::file::{self, Limits};
use keyward_protocol::{
    Secret,
    text::{inline, with_causes},
};

use super::{Aws, Keys};
use crate::store::{Key, Lease, digest_of};

/// How long another process may take to bring what this one needs, too: a person may be typing a code there.
const OTHERS: Duration = Duration::from_mins(10);
const OTHERS_UNATTENDED: Duration = Duration::from_secs(45);

/// How long before its end a session that the agent keeps is not handed out any more.
const MARGIN: SignedDuration = SignedDuration::from_mins(15);

/// A role to assume.
#[derive(Debug, Clone, Default)]
pub(crate) struct Role {
    pub(crate) arn: String,
    /// The name of the session; without one, one is made up.
    pub(crate) session: Option<String>,
    pub(crate) external_id: Option<String>,
    pub(crate) mfa_serial: Option<String>,
    pub(crate) duration: Option<i32>,
}

impl Aws<'_> {
    /// The role of a profile, if it has one. `visited` are the profiles on the way here.
    pub(super) fn profile_role(
        &self,
        profile: &str,
        visited: &mut Vec<String>,
    ) -> Result<Option<Keys>, Refusal> {
        let get = |name: &str| self.config.of(profile, name);
        let source = format!("role of the profile `{}`", inline(profile));
        let Some(arn) = get("role_arn") else {
            return self.call.skip(source, "`role_arn` is not set");
        };
        if get("web_identity_token_file").is_some() {
            return self.call.skip(source, "the profile has `web_identity_token_file`");
        }
        let role = Role {
            arn,
            session: get("role_session_name"),
            external_id: get("external_id"),
            mfa_serial: get("mfa_serial"),
            duration: get("duration_seconds").and_then(|seconds| seconds.trim().parse().ok()),
        };
        let bad =
            |why: &str| Refusal::BadConfig(format!("the profile `{}` {why}", inline(profile)));
        let keys = match (get("credential_source"), get("source_profile")) {
            (Some(_), Some(_)) => {
                return Err(bad("has both `source_profile` and `credential_source`"));
            }
            (None, None) => {
                return Err(bad(
                    "has `role_arn`, but neither `source_profile` nor `credential_source`",
                ));
            }
            (Some(source), None) => self.named_source(profile, &source)?,
            (None, Some(parent)) if !self.config.has(&parent) => {
                let parent = inline(&parent);
                return Err(bad(&format!("has `source_profile = {parent}`, which does not exist")));
            }
            (None, Some(parent)) => {
                let has_keys = self.config.of(&parent, "aws_access_key_id").is_some()
                    || self.config.of(&parent, "aws_secret_access_key").is_some();
                if visited.contains(&parent) && (parent != profile || !has_keys) {
                    let parent = inline(&parent);
                    return Err(bad(&format!(
                        "leads back to the profile `{parent}` by `source_profile`"
                    )));
                }
                visited.push(parent.clone());
                let role = if has_keys { None } else { self.profile_role(&parent, visited)? };
                let keys = match role {
                    Some(keys) => Some(keys),
                    None => self.profile_keys(&parent, false)?,
                };
                keys.ok_or_else(|| {
                    let parent = inline(&parent);
                    bad(&format!("has `source_profile = {parent}`, which has no credentials"))
                })?
            }
        };
        self.assume(&role, &keys).map(Some)
    }

    /// Assumes a role, or takes the session of an earlier call from the agent.
    pub(crate) fn assume(&self, role: &Role, source: &Keys) -> Result<Keys, Refusal> {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let origin = format!(
            "role {} session {} external {} of {}",
            role.arn,
            text(&role.session),
            text(&role.external_id),
            source.origin
        );
        let key = self
            .key("role", &origin)
            .with("mfa", text(&role.mfa_serial))
            .with("duration", role.duration.map_or(String::new(), |seconds| seconds.to_string()));
        let name = format!("role `{}`", inline(&role.arn));
        self.kept(&name, &key, &origin, || {
            let code =
                role.mfa_serial.as_deref().map(|serial| self.mfa_code(serial)).transpose()?;
            let session = role.session.clone().unwrap_or_else(|| self.made_up_session());
            let client = self.sts_client(Some(source))?;
            let mut call = client.assume_role().role_arn(&role.arn).role_session_name(session);
            call = call.set_external_id(role.external_id.clone());
            call = call.set_duration_seconds(role.duration);
            call = call.set_serial_number(role.mfa_serial.clone());
            call = call.set_token_code(code.map(|code| code.expose().to_owned()));
            let answer = self.network()?.wait(call.send());
            let answer =
                answer.map_err(|error| refused(&format!("cannot assume the {name}"), &error))?;
            session_keys(answer.credentials, origin.clone())
        })
    }

    /// The role that a web identity token stands for, named by the environment or the profile.
    pub(super) fn web_identity(
        &self,
        profile: &str,
        with_environment: bool,
    ) -> Result<Option<Keys>, Refusal> {
        let get = |variable: &str, name: &str| {
            let found = if with_environment { self.call.surroundings.var(variable) } else { None };
            let found = found.and_then(|value| value.into_string().ok());
            found.or_else(|| self.config.of(profile, name)).filter(|value| !value.is_empty())
        };
        let source = format!("web identity of the profile `{}`", inline(profile));
        let Some(path) = get("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file") else {
            return self.call.skip(
                source,
                "`AWS_WEB_IDENTITY_TOKEN_FILE` and `web_identity_token_file` are not set",
            );
        };
        let arn = get("AWS_ROLE_ARN", "role_arn").ok_or_else(|| {
            Refusal::bad_config(
                "a web identity token is configured, but no role: set `AWS_ROLE_ARN`, or `role_arn` in \
                 the profile",
            )
        })?;
        let token = file::read(path.as_ref(), &Limits::NAMED).map_err(|error| {
            Refusal::Failed(format!(
                "cannot read the web identity token `{}`: {error}",
                inline(&path)
            ))
        })?;
        let session = get("AWS_ROLE_SESSION_NAME", "role_session_name");
        let token = Secret::from_bytes(token.to_vec());
        let name = format!("role `{}` for the token in `{}`", inline(&arn), inline(&path));
        self.assume_with_token(&name, &arn, session, &token).map(Some)
    }

    /// Assumes a role with a web identity token. `name` is what people call it.
    pub(crate) fn assume_with_token(
        &self,
        name: &str,
        arn: &str,
        session: Option<String>,
        token: &Secret,
    ) -> Result<Keys, Refusal> {
        let origin = format!(
            "web identity {arn} session {} token {}",
            session.clone().unwrap_or_default(),
            fingerprint(token.expose_bytes())
        );
        let key = self.key("web identity", &origin);
        self.kept(name, &key, &origin, || {
            let client = self.sts_client(None)?;
            let call = client
                .assume_role_with_web_identity()
                .role_arn(arn)
                .role_session_name(session.unwrap_or_else(|| self.made_up_session()))
                .web_identity_token(token.expose());
            let answer = self.network()?.wait(call.send());
            let answer =
                answer.map_err(|error| refused(&format!("cannot assume the {name}"), &error))?;
            session_keys(answer.credentials, origin.clone())
        })
    }

    /// The name of the session of these keys, which must be a role's.
    pub(crate) fn session_name(&self, keys: &Keys) -> Result<Option<String>, Refusal> {
        let client = self.sts_client(Some(keys))?;
        let answer = self.network()?.wait(client.get_caller_identity().send());
        let answer =
            answer.map_err(|error| refused("cannot ask STS for the caller's identity", &error))?;
        let arn = answer.arn.unwrap_or_default();
        let mut parts = arn.rsplit(':').next().unwrap_or_default().split('/');
        let is_role = parts.next() == Some("assumed-role");
        Ok(parts.nth(1).filter(|_| is_role).map(str::to_owned))
    }

    /// What the agent keeps under this key, or what `bring` brings, which the agent then keeps. Only one process at
    /// a time brings it. A credential that a server has just refused is brought anew.
    pub(super) fn kept(
        &self,
        name: &str,
        key: &Key,
        origin: &str,
        bring: impl FnOnce() -> Result<Keys, Refusal>,
    ) -> Result<Keys, Refusal> {
        let limit = if self.question.interactive() { OTHERS } else { OTHERS_UNATTENDED };
        let refused = self.question.rejected().is_some();
        let lease = self.with_store(|store| {
            if refused {
                store.forget(key);
            }
            let lease = store.lease(key, limit);
            let why = store.absence().map_or("running", |why| why).to_owned();
            self.call.note("agent", why);
            lease
        });
        if let Lease::Found(secret) = &lease
            && let Some(keys) = Keys::from_secret(secret, origin.to_owned())
            && keys.expires.is_none_or(|end| end > self.call.clock.now())
        {
            self.call.used(name, "its session, which the agent keeps");
            return Ok(keys);
        }
        let keys = bring().inspect_err(|refusal| self.call.failed(name, refusal.to_string()))?;
        self.call.used(name, "a new session");
        let until = keys.expires.map(|end| kept_until(end, self.call.clock.now()));
        self.with_store(|store| store.put(key, keys.to_secret(), until));
        Ok(keys)
    }

    /// The key of something derived from this origin.
    pub(super) fn key(&self, kind: &'static str, origin: &str) -> Key {
        let endpoint = self.config.endpoint("STS").unwrap_or_default();
        Key::new("aws").with("kind", kind).with("origin", origin).with("endpoint", endpoint)
    }

    fn mfa_code(&self, serial: &str) -> Result<Secret, Refusal> {
        let mut terminal = Terminal::open(&self.question).map_err(|refusal| match refusal {
            Refusal::NeedsTerminal(_) => Refusal::NeedsTerminal(format!(
                "the MFA code for `{}` is needed, and no terminal may be used to ask for it\n\n\
                 hint: run `kubectl get ns` or `keyward-eks` at a terminal once; with Keyward's agent, other \
                 programs share the session",
                inline(serial)
            )),
            other => other,
        })?;
        let code = terminal.ask_hidden(&format!("Enter MFA code for {}: ", inline(serial)))?;
        if code.is_empty() { Err(Refusal::Interrupted) } else { Ok(code) }
    }

    fn made_up_session(&self) -> String {
        format!("keyward-session-{}", self.call.clock.now().as_second())
    }
}

/// Until when the agent keeps a session: long enough before its end that a token made of it lives for its usual
/// time, but at least for four fifths of a short one.
fn kept_until(end: Timestamp, now: Timestamp) -> Timestamp {
    let left = end.duration_since(now);
    let margin = MARGIN.min(left / 5);
    end.checked_sub(margin).unwrap_or(end)
}

/// A short digest of a token, to notice that it is another one.
pub(super) fn fingerprint(bytes: &[u8]) -> String {
    digest_of(bytes)[..32].to_owned()
}

fn session_keys(found: Option<Credentials>, origin: String) -> Result<Keys, Refusal> {
    let found = found.ok_or_else(|| Refusal::failed("STS answered without credentials"))?;
    let mut keys =
        Keys::new(found.access_key_id, found.secret_access_key, Some(found.session_token), origin);
    keys.expires = Timestamp::from_second(found.expiration.secs()).ok();
    Ok(keys)
}

/// What STS says, or why it says nothing.
fn refused<E, R>(what: &str, error: &SdkError<E, R>) -> Refusal
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    match error.as_service_error() {
        Some(service) => {
            let code = service.code().unwrap_or("no code");
            let message = inline(service.message().unwrap_or_default());
            let text = format!("{what}: STS says `{}` {message}", inline(code));
            match code {
                "AccessDenied" | "AccessDeniedException" => Refusal::NotAllowed(text),
                _ => Refusal::Failed(text),
            }
        }
        None => Refusal::Failed(format!("{what}: {}", inline(&with_causes(error)))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_kept_session_is_long_enough_for_a_token() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        assert_eq!(kept_until(at(3600 * 12), now), at(3600 * 12 - 900));
        assert_eq!(kept_until(at(900), now), at(720));
    }
}
