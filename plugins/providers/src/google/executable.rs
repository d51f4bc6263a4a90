//! A program that prints the token to exchange, if `GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES` allows it.

use std::time::Duration;

use keyward_plugin::Refusal;
use keyward_process::{
    file::{self, Limits},
    runner::Stderr,
};
use keyward_protocol::{Secret, text::inline};
use serde_json::Value;

use super::{Google, impersonated::account, info::Info};
use crate::program::output;

/// The variable without which no program of a file is run.
const ALLOW: &str = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";

/// How long a program may take, in milliseconds: if the file does not say it, at least, at most.
const LIMITS: (i64, i64, i64) = (30_000, 5_000, 120_000);

impl Google<'_> {
    /// The token that a program prints, or has written to its file and that is still valid.
    pub(super) fn executable(&self, info: &Info, executable: &Info) -> Result<Secret, Refusal> {
        let command = executable.required("command")?;
        if self.call.var(ALLOW).as_deref() != Some("1") {
            return Err(Refusal::BadConfig(format!(
                "`{info}` names a program to run, which is not allowed\n\n\
                 hint: if you trust the file, set `{ALLOW}=1`"
            )));
        }
        let limit = executable.number("timeout_millis").unwrap_or(LIMITS.0);
        if !(LIMITS.1..=LIMITS.2).contains(&limit) {
            return Err(info.bad("`timeout_millis` is not between 5000 and 120000"));
        }
        let output_file = executable.text("output_file");
        if let Some(written) = output_file.and_then(|path| self.written(path)) {
            // A file without a time of expiry, or with a token that has expired, is not used.
            let dated = written.get("expiration_time").is_some();
            match self.read_answer(info, &written) {
                Ok(token) if dated => {
                    self.call.note("token to exchange", "in the program's `output_file`");
                    return Ok(token);
                }
                Err(Bad::Form(why)) => return Err(info.bad(&why)),
                Ok(_) | Err(Bad::Refused(_)) => {}
            }
        }
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| info.bad("`command` has a quote that is not closed"))?;
        self.call.note("token to exchange", format!("from the program `{}`", inline(&words[0])));
        let budget = Duration::from_millis(limit.unsigned_abs());
        let printed = self.run_program(info, &words, budget, output_file)?;
        let answer = match serde_json::from_slice(&printed) {
            Ok(answer) => Some(answer),
            Err(_) if printed.is_empty() => output_file.and_then(|path| self.written(path)),
            Err(_) => None,
        };
        let failed = |why: &str| Refusal::Failed(format!("the program that `{info}` names {why}"));
        let answer = answer.ok_or_else(|| failed("printed no JSON"))?;
        self.read_answer(info, &answer).map_err(|bad| match bad {
            Bad::Form(why) | Bad::Refused(why) => failed(&format!("gave no token: {why}")),
        })
    }

    fn written(&self, path: &str) -> Option<Value> {
        let path = self.call.surroundings.absolute(path.as_ref());
        let bytes = file::read(&path, &Limits::NAMED.at_most(1 << 20)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn run_program(
        &self,
        info: &Info,
        words: &[String],
        budget: Duration,
        output_file: Option<&str>,
    ) -> Result<Vec<u8>, Refusal> {
        let failed = |why: String| {
            Refusal::Failed(format!("the program that `{info}` names gives no token: {why}"))
        };
        let program = self
            .call
            .find_program(&words[0])
            .ok_or_else(|| failed(format!("`{}` is not on `PATH`", inline(&words[0]))))?;
        let args = words[1..].iter().map(String::as_str);
        let mut run = self.call.invocation(program, &words[0], args);
        let set = |name: &str, value: &str| (name.into(), value.into());
        let account = info.text("service_account_impersonation_url").and_then(account);
        run.env.extend([
            set("GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE", info.required("audience")?),
            set("GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE", info.required("subject_token_type")?),
            set("GOOGLE_EXTERNAL_ACCOUNT_ID", account.unwrap_or_default()),
            set("GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE", "0"),
            set("GOOGLE_EXTERNAL_ACCOUNT_REVOKE", "0"),
        ]);
        if let Some(account) = account {
            run.env.push(set("GOOGLE_EXTERNAL_ACCOUNT_IMPERSONATED_EMAIL", account));
        }
        if let Some(path) = output_file {
            run.env.push(set("GOOGLE_EXTERNAL_ACCOUNT_OUTPUT_FILE", path));
        }
        run.stderr = Stderr::Shown;
        run.budget = budget;
        Ok(output(&run).map_err(failed)?.stdout.to_vec())
    }

    /// The token in an answer of a program. No error contains any of it.
    fn read_answer(&self, info: &Info, answer: &Value) -> Result<Secret, Bad> {
        let form = |why: &str| Bad::Form(format!("its answer {why}"));
        let version = answer.get("version").and_then(Value::as_i64);
        if version.ok_or_else(|| form("has no `version`"))? > 1 {
            return Err(Bad::Refused("its answer has another version than 1".into()));
        }
        let success = answer.get("success").and_then(Value::as_bool);
        if !success.ok_or_else(|| form("has no `success`"))? {
            let text = |name| answer.get(name).and_then(Value::as_str).map(inline);
            return Err(match (text("code"), text("message")) {
                (Some(code), Some(message)) => Bad::Refused(format!("{code}: {message}")),
                _ => form("has no `code` or `message`"),
            });
        }
        let end = answer.get("expiration_time").and_then(Value::as_i64);
        if end.is_some_and(|end| end < self.call.clock.now().as_second()) {
            return Err(Bad::Refused("its token has expired".into()));
        }
        let kind = answer.get("token_type").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| form("has no `token_type`"))?;
        if info.text("subject_token_type").is_some_and(|expected| expected != kind) {
            return Err(Bad::Refused("its token is not of the type in the file".into()));
        }
        let name = match kind {
            "urn:ietf:params:oauth:token-type:jwt"
            | "urn:ietf:params:oauth:token-type:id_token" => "id_token",
            "urn:ietf:params:oauth:token-type:saml2" => "saml_response",
            _ => return Err(Bad::Refused("its `token_type` is not known".into())),
        };
        let token = answer.get(name).and_then(Value::as_str).filter(|token| !token.is_empty());
        token.map(Secret::new).ok_or_else(|| form(&format!("has no `{name}`")))
    }
}

/// Why an answer holds no token.
enum Bad {
    /// The output is not what a program has to print.
    Form(String),
    /// The program says that there is none.
    Refused(String),
}
