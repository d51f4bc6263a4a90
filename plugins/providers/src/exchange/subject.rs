//! The token that is exchanged, and where it comes from.

use jiff::Timestamp;
use keyward_plugin::{ImageQuestion, Refusal};
use keyward_protocol::{Secret, jwt::Claims, text::inline, time::format_rfc3339};

use crate::{Call, flags::Flags, reader::Reader};

/// A token that says who somebody is.
pub(super) struct Subject {
    pub(super) token: Secret,
    source: String,
}

impl Subject {
    /// The token in the kubelet's request or, if the node's configuration asks for none, in a file.
    pub(super) fn of_pod(
        call: &Call,
        flags: &Flags,
        question: &ImageQuestion,
    ) -> Result<Self, Refusal> {
        if question.token().is_none()
            && let Some(subject) = Self::configured(call, flags)?
        {
            return subject.checked(call.clock.now());
        }
        let token = question.require_token()?.clone();
        Self { token, source: "the kubelet's request".into() }.checked(call.clock.now())
    }

    /// The token in a file or a variable. There is no default: the token that every pod has is for the API server,
    /// and must not reach anybody else.
    pub(super) fn of_process(call: &Call, flags: &Flags) -> Result<Self, Refusal> {
        Self::configured(call, flags)?.ok_or_else(missing)?.checked(call.clock.now())
    }

    fn configured(call: &Call, flags: &Flags) -> Result<Option<Self>, Refusal> {
        let reader = Reader { call, flags };
        match (reader.text("token-file"), reader.text("token-variable")) {
            (Some(_), Some(_)) => {
                Err(Refusal::bad_config("`--token-file` and `--token-variable` exclude each other"))
            }
            (Some(path), None) => {
                let bytes = reader.read("token-file", &path)?;
                let token = Secret::from_bytes(bytes.trim_ascii().to_vec());
                Ok(Some(Self { token, source: format!("file `{}`", inline(&path)) }))
            }
            (None, Some(name)) => {
                let token = call.var(&name).ok_or_else(|| {
                    Refusal::BadConfig(format!(
                        "the variable `{}` of `--token-variable` is not set",
                        inline(&name)
                    ))
                })?;
                let token = Secret::new(token.trim());
                Ok(Some(Self { token, source: format!("variable `{}`", inline(&name)) }))
            }
            (None, None) => Ok(None),
        }
    }

    /// A token that nobody would accept is not sent anywhere.
    fn checked(self, now: Timestamp) -> Result<Self, Refusal> {
        if self.token.is_empty() {
            return Err(Refusal::Failed(format!("the token in the {} is empty", self.source)));
        }
        let end = Claims::read(self.token.expose()).and_then(|claims| claims.time("exp"));
        match end {
            Some(end) if end <= now => Err(Refusal::Failed(format!(
                "the token in the {} expired at {}",
                self.source.trim_start_matches("the "),
                format_rfc3339(end)
            ))),
            _ => Ok(self),
        }
    }

    pub(super) fn explain(&self, call: &Call) {
        let who = match Claims::read(self.token.expose()) {
            Some(claims) => format!(
                "`{}` of `{}` for `{}`",
                inline(claims.text("sub").unwrap_or("nobody")),
                inline(claims.text("iss").unwrap_or("nobody")),
                inline(&claims.audience().join("`, `")),
            ),
            None => "not a JSON Web Token".to_owned(),
        };
        call.note("token", format!("{who}, from {}", self.source));
    }
}

fn missing() -> Refusal {
    Refusal::bad_config(
        "there is no token to exchange\n\n\
         hint: name the file of a projected service account token with `--token-file`, or the variable of a CI \
         system's ID token with `--token-variable`",
    )
}
