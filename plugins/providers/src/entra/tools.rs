//! The logins of `az` and `azd`. Their tokens are never kept, so that `az logout` takes effect at once.

use keyward_plugin::Refusal;
use keyward_process::runner::{self, Cancel, Status};
use keyward_protocol::text::{clean, inline};
use serde_json::Value;

use super::login::Login;
use crate::azure::{Azure, Token, resource};

/// The token of `az account get-access-token`.
pub(super) fn az(azure: &Azure<'_>, login: &Login) -> Result<Token, Refusal> {
    let mut args = vec!["account", "get-access-token", "--output", "json", "--resource"];
    args.push(resource(&login.scope));
    if let Some(tenant) = &login.tenant {
        args.extend(["--tenant", tenant]);
    }
    if let Some(subscription) = &login.subscription {
        args.extend(["--subscription", subscription]);
    }
    let answer = run(azure, login, "az", &args)?;
    let end = answer
        .get("expires_on")
        .and_then(|end| end.as_i64().or_else(|| end.as_str()?.parse().ok()));
    let end = end.and_then(|end| jiff::Timestamp::from_second(end).ok());
    read(azure, "az", &answer, "accessToken", end)
}

/// The token of `azd auth token`.
pub(super) fn azd(azure: &Azure<'_>, login: &Login) -> Result<Token, Refusal> {
    let mut args =
        vec!["auth", "token", "--output", "json", "--no-prompt", "--scope", &login.scope];
    if let Some(tenant) = &login.tenant {
        args.extend(["--tenant-id", tenant]);
    }
    let answer = run(azure, login, "azd", &args)?;
    let end = answer.get("expiresOn").and_then(Value::as_str).and_then(|end| end.parse().ok());
    read(azure, "azd", &answer, "token", end)
}

fn read(
    azure: &Azure<'_>,
    program: &str,
    answer: &Value,
    field: &str,
    end: Option<jiff::Timestamp>,
) -> Result<Token, Refusal> {
    let text = answer.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Refusal::Failed(format!("`{program}` printed no token")))?;
    azure.call.used(format!("`{program}`"), "the login of that program");
    Ok(Token::new(text, end, azure.call.clock.now()))
}

/// Runs the program and reads the JSON that it prints. No error contains any of that.
fn run(azure: &Azure<'_>, login: &Login, program: &str, args: &[&str]) -> Result<Value, Refusal> {
    let failed = |why: String| {
        azure.call.failed(format!("`{program}`"), &why);
        Refusal::Failed(format!("`{program}` gives no token: {why}"))
    };
    let found = azure.call.find_program(program).ok_or_else(|| {
        let why = format!("`{program}` is not on `PATH`");
        azure.call.failed(format!("`{program}`"), &why);
        Refusal::BadConfig(format!(
            "{why}\n\nhint: install it, or log in in another way (`--login devicecode`)"
        ))
    })?;
    let mut invocation = azure.call.invocation(found, program, args.iter().copied());
    invocation.env.push(("AZURE_CORE_NO_COLOR".into(), "true".into()));
    invocation.budget = login.timeout;
    let output = runner::run(&invocation, &Cancel::default())
        .map_err(|failure| failed(failure.to_string()))?;
    if output.status != Status::Code(0) {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        return Err(failed(format!(
            "{}\n\nhint: log in with `{program} {}`",
            if said.is_empty() { "it failed".to_owned() } else { inline(&clean(said)) },
            if program == "az" { "login" } else { "auth login" }
        )));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("what it printed is no JSON (line {})", error.line())))
}
