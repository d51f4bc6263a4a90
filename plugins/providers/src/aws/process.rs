//! `credential_process`: a program that prints credentials.

use std::time::Duration;

use keyward_plugin::Refusal;
use keyward_process::runner::{Stderr, Stdin};
use keyward_protocol::text::inline;
use serde_json::Value;

use super::{Aws, Keys, chain::parse_time};
use crate::program::output;

/// How long the program may take.
const LIMIT: Duration = Duration::from_mins(1);

impl Aws<'_> {
    /// What the program of a profile prints.
    pub(super) fn process(&self, profile: &str) -> Result<Option<Keys>, Refusal> {
        let source = format!("`credential_process` of the profile `{}`", inline(profile));
        let Some(command) = self.config.of(profile, "credential_process") else {
            return self.call.skip(source, "it is not set");
        };
        let keys = self.ask_program(&command).map_err(|why| {
            self.call.failed(&source, &why);
            Refusal::Failed(format!(
                "the `credential_process` of the profile `{}` in `{}` gives no credentials: {why}",
                inline(profile),
                self.config.settings
            ))
        })?;
        self.call.used(source, format!("the access key is `{}`", inline(&keys.id)));
        Ok(Some(keys))
    }

    /// Runs the command by a shell, as people quote it. Its arguments may be secret and are not shown.
    fn ask_program(&self, command: &str) -> Result<Keys, String> {
        let mut run = self.call.invocation("/bin/sh".into(), "sh", ["-c", command]);
        run.stdin = Stdin::Terminal;
        run.stderr = Stderr::Shown;
        run.budget = LIMIT;
        run.attended = self.question.interactive();
        read(&output(&run)?.stdout)
    }
}

/// Reads what the program printed. No error contains any of it.
fn read(output: &[u8]) -> Result<Keys, String> {
    let answer: Value = serde_json::from_slice(output)
        .map_err(|error| format!("what it printed is no JSON (line {})", error.line()))?;
    if answer.get("Version").and_then(Value::as_i64) != Some(1) {
        return Err("what it printed has no `Version` 1".into());
    }
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = text("AccessKeyId").ok_or("what it printed has no `AccessKeyId`")?;
    let secret = text("SecretAccessKey").ok_or("what it printed has no `SecretAccessKey`")?;
    let origin = format!("process {id}");
    let mut keys = Keys::new(id, secret, text("SessionToken"), origin);
    if let Some(end) = text("Expiration") {
        keys.expires = Some(parse_time(&end).ok_or("its `Expiration` is not a time")?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_a_program_prints_is_read_and_never_shown() {
        let good = br#"{"Version":1,"AccessKeyId":"A","SecretAccessKey":"s","SessionToken":"t",
            "Expiration":"2026-01-01T00:00:00Z"}"#;
        let keys = read(good).unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.expose()), ("A", "s"));
        assert_eq!(keys.expires.unwrap().to_string(), "2026-01-01T00:00:00Z");
        for bad in [
            &b"s3cr3t"[..],
            br#"{"Version":2,"AccessKeyId":"A","SecretAccessKey":"s3cr3t"}"#,
            br#"{"Version":1,"SecretAccessKey":"s3cr3t"}"#,
            br#"{"Version":1,"AccessKeyId":"A","SessionToken":"s3cr3t"}"#,
            br#"{"Version":1,"AccessKeyId":"A","SecretAccessKey":"s3cr3t","Expiration":"s3cr3t"}"#,
        ] {
            let why = read(bad).unwrap_err();
            assert!(!why.contains("s3cr3t"), "{why}");
        }
    }
}
