//! `keyward-exchange`: exchanges an identity token, such as that of a pod's service account, for the login of a
//! registry or the token of a cluster.
//!
//! ```text
//! the kubelet's request, file or variable ──► Subject ──► Method ──► Login ──► kubelet or ExecCredential
//!                                                           └─ pass, token exchange, JWT login, templated POST
//! ```

mod answer;
mod flags;
mod method;
mod settings;
mod subject;
mod template;
#[cfg(test)]
mod tests;
mod token_exchange;
mod vault;

use std::{process::ExitCode, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyward_plugin::{Credential, ImageQuestion, Logins, Question, Refusal, serve_image};
use keyward_protocol::{text::inline, time::format_rfc3339};

use self::{
    answer::Login,
    flags::{TABLES, USAGE},
    method::{Exchange, Method},
    settings::Settings,
    subject::Subject,
    template::Facts,
};
use crate::{
    Call, agent,
    flags::Flags,
    http::{Http, Trust},
    store::Store,
};

/// Selects the kubeconfig's protocol where `KUBERNETES_EXEC_INFO` is not set.
const GET_TOKEN: &str = "get-token";

/// How long a process waits for another one that exchanges the same token.
const PATIENCE: Duration = Duration::from_mins(1);

/// A token's stated expiry is this much earlier than its real one, at most.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let Some(flags) = call.flags(&TABLES, USAGE)? else { return Ok(ExitCode::SUCCESS) };
    match flags.words().as_slice() {
        [image] if call.explains && *image != GET_TOKEN => explain_image(call, &flags, image),
        [] if !call.explains && call.var("KUBERNETES_EXEC_INFO").is_none() => {
            Ok(serve_image(|question: &ImageQuestion| logins(call, &flags, question)))
        }
        [] | [GET_TOKEN] => call.serve(|question| credential(call, &flags, question)),
        [word, ..] => Err(call.no_command(word)),
    }
}

/// The login for an image, for the kubelet. On nodes, only the kubelet caches it.
fn logins(call: &Call, flags: &Flags, question: &ImageQuestion) -> Result<Logins, Refusal> {
    let (settings, trust) = Settings::new(call, flags)?;
    settings.check_registry(question.registry())?;
    let subject = Subject::of_pod(call, flags, question)?;
    subject.explain(call);
    let facts = Facts { token: &subject.token, image: Some(question) };
    let login = obtain(call, &settings, trust, &facts)?;
    let annotation = settings.username_annotation.as_deref();
    let annotated = annotation.and_then(|key| question.annotation(key));
    let user = match login.user.as_deref().or(annotated) {
        Some(user) => user.to_owned(),
        None => settings.username.fill(&facts)?,
    };
    let end = login.end(settings.lifetime, call.clock.now())?;
    let logins = if settings.names_image() {
        Logins::for_image(user, login.password.expose())
    } else {
        Logins::for_registry(user, login.password.expose())
    };
    Ok(logins.expires_at(end))
}

/// The token for a cluster, kept by the agent if one is running.
fn credential(call: &Call, flags: &Flags, question: &Question) -> Result<Credential, Refusal> {
    let (settings, trust) = Settings::new(call, flags)?;
    let subject = Subject::of_process(call, flags)?;
    subject.explain(call);
    let facts = Facts { token: &subject.token, image: None };
    let now = call.clock.now();
    if matches!(settings.method, Method::Pass) {
        let login = obtain(call, &settings, trust, &facts)?;
        return printed(&login, &settings, now);
    }
    let key = settings.key(&trust, &subject);
    let mut store = Store::open(&call.surroundings);
    if question.rejected().is_some_and(|response| response.code == 401) {
        store.forget(&key);
    }
    let (lease, missing) = (store.lease(&key, PATIENCE), "result of this exchange");
    let kept = agent::found(&lease, &mut store, &key, call, missing, Login::from_secret);
    if let Some(login) = kept {
        call.used("agent", "it keeps the result of this exchange");
        return printed(&login, &settings, now);
    }
    let login = obtain(call, &settings, trust, &facts)?;
    let end = login.end(settings.lifetime, now)?;
    store.put(&key, Login { ends: Some(end), ..login.clone() }.to_secret(), Some(end));
    printed(&login, &settings, now)
}

fn printed(login: &Login, settings: &Settings, now: Timestamp) -> Result<Credential, Refusal> {
    let end = login.end(settings.lifetime, now)?;
    let margin = MARGIN.min(end.duration_since(now) / 10);
    Ok(Credential::token(login.password.expose()).expires_at(end - margin))
}

/// Exchanges the token.
fn obtain(
    call: &Call,
    settings: &Settings,
    trust: Trust,
    facts: &Facts<'_>,
) -> Result<Login, Refusal> {
    let http = Http::new(call, trust);
    let source = settings.method.name();
    let exchange = Exchange { call, http: &http, facts, places: &settings.places };
    let outcome = settings.method.login(&exchange);
    match &outcome {
        Ok(login) => {
            let user = login.user.as_deref().map_or("its own".to_owned(), inline);
            let end = login.end(settings.lifetime, call.clock.now());
            let end = end.map_or_else(|_| "already".to_owned(), format_rfc3339);
            call.used(source, format!("user name: {user}; ends: {end}"));
        }
        Err(refusal) => call.failed(source, refusal.to_string()),
    }
    outcome
}

/// Shows how the login for an image would be obtained, with the token of `--token-file` instead of the pod's.
fn explain_image(call: &Call, flags: &Flags, image: &str) -> Result<ExitCode, Refusal> {
    let request = serde_json::json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": image,
    });
    let question = ImageQuestion::from_bytes(request.to_string().as_bytes())?;
    call.explain(|| logins(call, flags, &question).map(drop))
}
