//! Whose token is exchanged: one in a file, at a URL, of a program, or a signed request to AWS.

use http::Request;
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{Secret, text::inline};
use serde_json::Value;

use super::{Google, info::Info, oauth::shown};
use crate::{http::require_https_or_near, store::digest_of};

const SOURCE: &str = "credential_source";

const AWS: &str = "urn:ietf:params:aws:token-type:aws4_request";

/// The largest file with a token.
const LIMITS: Limits = Limits::NAMED.at_most(1 << 20);

impl Google<'_> {
    /// The token to exchange.
    pub(super) fn subject(&self, info: &Info) -> Result<Secret, Refusal> {
        let source = info.required_object(SOURCE)?;
        if info.text("subject_token_type") == Some(AWS) {
            return self.aws_subject(info, &source);
        }
        if let Some(executable) = source.object("executable") {
            return self.executable(info, &executable);
        }
        if source.has("certificate") {
            return Err(info.bad(
                "X.509 certificates as `credential_source` are not supported; use a file, a URL or a program",
            ));
        }
        if source.has("environment_id") {
            return Err(info
                .bad("`credential_source.environment_id` is for AWS, and the token type is not"));
        }
        match (source.text("file"), source.text("url")) {
            (Some(path), None) => {
                let found = self.read_subject(info, path)?;
                let place = inline(path);
                self.call.note("token to exchange", format!("in the file `{place}`"));
                pick(info, &source, found.as_slice(), &place)
            }
            (None, Some(url)) => self.subject_at(info, &source, url),
            (Some(_), Some(_)) => Err(info.bad("`credential_source` has a `file` and a `url`")),
            (None, None) => {
                Err(info.bad("`credential_source` has neither `file`, `url`, `executable` nor AWS"))
            }
        }
    }

    /// What tells apart whose tokens a file of type `external_account` brings; `None` if that cannot be known, as
    /// for programs, URLs and the role of an instance: then nothing is kept.
    pub(super) fn fingerprint(&self, info: &Info) -> Option<String> {
        let source = info.object(SOURCE)?;
        if info.text("subject_token_type") == Some(AWS) {
            self.call.var("AWS_SECRET_ACCESS_KEY")?;
            return self.call.var("AWS_ACCESS_KEY_ID");
        }
        if source.has("executable") {
            return None;
        }
        self.read_subject(info, source.text("file")?).ok().map(|bytes| digest_of(&bytes))
    }

    fn read_subject(
        &self,
        info: &Info,
        path: &str,
    ) -> Result<impl std::ops::Deref<Target = Vec<u8>>, Refusal> {
        let place = self.call.surroundings.absolute(path.as_ref());
        file::read(&place, &LIMITS).map_err(|error| {
            Refusal::Failed(format!(
                "cannot read `{}`, the token that `{info}` names: {}",
                inline(path),
                file::reason(&error)
            ))
        })
    }

    fn subject_at(&self, info: &Info, source: &Info, url: &str) -> Result<Secret, Refusal> {
        check_source(info, "credential_source.url", url)?;
        self.call.note("token to exchange", format!("at `{}`", shown(url)));
        let answer = self.get(info, url, &source.pairs("headers"))?;
        pick(info, source, &answer, &shown(url))
    }

    /// Asks the server of a source for something.
    pub(super) fn get(
        &self,
        info: &Info,
        url: &str,
        headers: &[(String, String)],
    ) -> Result<Vec<u8>, Refusal> {
        let bad = || info.bad(&format!("cannot ask `{}` with these headers", shown(url)));
        let mut request = Request::get(url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        self.ask(url, request.body(Vec::new()).map_err(|_| bad())?)
    }
}

/// Checks the address of a source: https, this machine, or its metadata service.
pub(super) fn check_source(info: &Info, name: &str, url: &str) -> Result<(), Refusal> {
    require_https_or_near(url, &format!("`{name}` in `{info}`"))
}

/// The token in what a source gave: all of it, or a member.
fn pick(info: &Info, source: &Info, found: &[u8], place: &str) -> Result<Secret, Refusal> {
    let format = source.object("format");
    let kind = format.as_ref().and_then(|format| format.text("type")).unwrap_or("text");
    let missing = || Refusal::Failed(format!("`{place}`, which `{info}` names, holds no token"));
    match kind {
        "text" if found.is_empty() => Err(missing()),
        "text" => Ok(Secret::from_bytes(found.to_vec())),
        "json" => {
            let name = format.as_ref().and_then(|format| format.text("subject_token_field_name"));
            let name = name.ok_or_else(|| {
                info.bad("`credential_source.format.subject_token_field_name` is missing")
            })?;
            let json: Value = serde_json::from_slice(found).map_err(|_| missing())?;
            let token = json.get(name).and_then(Value::as_str).filter(|token| !token.is_empty());
            token.map(Secret::new).ok_or_else(missing)
        }
        _ => Err(info.bad("`credential_source.format.type` is neither text nor json")),
    }
}
