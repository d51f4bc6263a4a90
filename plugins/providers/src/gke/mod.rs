//! `keyward-gke`: tokens for Google Kubernetes Engine, in place of `gke-gcloud-auth-plugin`.

mod flags;

use std::process::ExitCode;

use keyward_plugin::{Credential, Question, Refusal};

use self::flags::{FLAGS, USAGE};
use crate::{
    Call,
    explain::first,
    flags::{Flags, KLOG, wrong_value},
    google::{Gcloud, Google, Token},
};

/// With the second, clusters see the account's email address instead of its number.
const SCOPES: [&str; 2] = [
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
];

/// Where tokens may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Application default credentials, or gcloud if there are none.
    Auto,
    Adc,
    /// gcloud's login, or application default credentials if there is no gcloud.
    Gcloud,
    /// A cluster of Distributed Cloud, for which gcloud has a command.
    Edge,
}

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    // It takes a value, but only after `=`.
    let version = |arg: &str| arg == "--version" || arg.starts_with("--version=");
    if call.args.iter().any(|arg| arg.to_str().is_some_and(version)) {
        return call.print(&format!("{}\n", call.version()));
    }
    let Some(flags) = call.flags(&[FLAGS, KLOG], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    if call.checks {
        return gcloud(source(call, &flags)?, &flags).map(|_| ExitCode::SUCCESS);
    }
    call.serve(|question| {
        let token = obtain(call, &flags, question)?;
        let end = token.stated_end(call.clock.now());
        Ok(Credential::token(token.text.expose()).expires_at(end))
    })
}

fn obtain(call: &Call, flags: &Flags, question: &Question) -> Result<Token, Refusal> {
    let source = source(call, flags)?;
    let mut google = Google::new(call, &SCOPES);
    google.audience = flags.text("gdch-audience").map(str::to_owned);
    google.attended = question.interactive();
    google.rejected = question.rejected().is_some_and(|response| response.code == 401);
    let ask = gcloud(source, flags)?;
    let found = match source {
        Source::Edge => google.gcloud(&ask)?,
        Source::Adc => google.adc(true)?,
        Source::Gcloud => first(&[&|| google.gcloud(&ask), &|| google.adc(true)])?,
        Source::Auto => first(&[&|| google.adc(false), &|| google.gcloud(&ask)])?,
    };
    found.ok_or_else(|| nothing(source))
}

fn source(call: &Call, flags: &Flags) -> Result<Source, Refusal> {
    let chosen = match flags.text("source") {
        Some("auto") => Source::Auto,
        Some("adc") => Source::Adc,
        Some("gcloud") => Source::Gcloud,
        Some(other) => {
            return Err(wrong_value("--source", "auto, adc or gcloud", other));
        }
        None if flags.is_set("use_edge_cloud") => Source::Edge,
        None if flags.is_set("use_application_default_credentials") => Source::Adc,
        // The default of the tool that this family replaces, so that nobody's identity changes with the program.
        None => Source::Gcloud,
    };
    if matches!(chosen, Source::Adc) {
        for name in ACCOUNT.iter().filter(|name| flags.filled(name).is_some()) {
            call.warn(&format!("`--{name}` has no effect on application default credentials"));
        }
    }
    Ok(chosen)
}

/// The flags that choose an account of gcloud.
const ACCOUNT: [&str; 2] = ["account", "impersonate_service_account"];

/// What gcloud is asked for.
fn gcloud(source: Source, flags: &Flags) -> Result<Gcloud, Refusal> {
    let part = |name: &str, flag: &str| flags.filled(name).map(|value| format!("--{flag}={value}"));
    let impersonate = part("impersonate_service_account", "impersonate-service-account");
    if source != Source::Edge {
        let parts = [part("project", "project"), part("account", "account"), impersonate];
        return Ok(Gcloud::Login(parts.into_iter().flatten().collect()));
    }
    let (Some(cluster), Some(project), Some(location)) =
        (flags.filled("cluster"), part("project", "project"), part("location", "location"))
    else {
        return Err(Refusal::bad_config(
            "`--use_edge_cloud` needs `--project`, `--location` and `--cluster`",
        ));
    };
    if cluster.starts_with('-') {
        return Err(Refusal::bad_config("`--cluster` is a name, not a flag"));
    }
    let mut args = vec![cluster.to_owned(), project, location, "--format=json".to_owned()];
    args.extend(impersonate);
    Ok(Gcloud::Edge(args))
}

fn nothing(source: Source) -> Refusal {
    Refusal::BadConfig(match source {
        Source::Edge => {
            "tokens of Distributed Cloud clusters come from gcloud, which is not on `PATH`\n\n\
             hint: install the Google Cloud CLI"
                .into()
        }
        _ => "no Google credentials are configured: no application default credentials, no metadata server and no \
              gcloud\n\n\
              hint: run `gcloud auth application-default login`; `--explain` shows every source"
            .into(),
    })
}
