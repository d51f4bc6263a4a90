//! The kubelet's protocol.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_plugin::{ImageQuestion, Logins, Refusal};
use keyward_protocol::text::inline;
use serde_json::Value;

use super::{PROVIDER, no_credentials, not_ours, registry};
use crate::{
    Call,
    flags::{Flags, duration, wrong_value},
    google::{Google, Token},
};

/// The user name of access tokens.
const USER: &str = "_token";

/// The annotation with which a service account chooses to pull with its own identity.
const ANNOTATION: &str = "iam.gke.io/enable-wi-image-pull";

/// Enough to pull images.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_only";

pub(super) fn logins(
    call: &Call,
    flags: &Flags,
    question: &ImageQuestion,
) -> Result<Logins, Refusal> {
    let provider = flags.filled("identity-provider");
    if provider.is_some() && flags.filled("project-id").is_none() {
        return Err(Refusal::bad_config("`--identity-provider` needs `--project-id`"));
    }
    // The machine's token has the scopes that the machine has.
    let google = |scopes: &[&str]| Google::new(call, scopes);
    match flags.text("authFlow").unwrap_or("gcr") {
        "gcr" => {}
        flow @ ("dockercfg" | "dockercfg-url") => {
            if provider.is_some() {
                call.warn("`--identity-provider` has no effect with this `--authFlow`");
            }
            return docker_config(&google(&[]), flow, question);
        }
        other => {
            return Err(wrong_value("--authFlow", "gcr, dockercfg or dockercfg-url", other));
        }
    }
    let host = question.registry();
    registry::parse(host).ok_or_else(|| not_ours(host))?;
    let opted_in = question.annotation(ANNOTATION) == Some("true");
    let token = match (provider, flags.filled("project-id")) {
        (Some(provider), Some(project)) if opted_in => {
            let pod = question.token().ok_or_else(|| {
                Refusal::BadConfig(format!(
                    "the service account has the annotation `{ANNOTATION}`, but the kubelet passes no token\n\n\
                     hint: set `tokenAttributes` for this provider in the kubelet's CredentialProviderConfig"
                ))
            })?;
            let audience = format!("identitynamespace:{project}.svc.id.goog:{provider}");
            google(&[]).pod(pod, &audience, flags.filled("token-url"))?
        }
        _ if call.name == PROVIDER => google(&[]).instance()?,
        _ => google(&[SCOPE]).adc(true)?.ok_or_else(no_credentials)?,
    };
    answer(call, &token)
}

/// The answer, for as long and for what the environment says.
fn answer(call: &Call, token: &Token) -> Result<Logins, Refusal> {
    let password = token.text.expose();
    let logins = match call.var("KUBE_SIDECAR_CACHE_TYPE").as_deref() {
        Some("image") => Logins::for_image(USER, password),
        None | Some("registry") => Logins::for_registry(USER, password),
        Some("global") => {
            let [first, others @ ..] = registry::PATTERNS;
            let logins = Logins::everywhere(first, USER, password);
            others.iter().fold(logins, |logins, pattern| logins.and(*pattern, USER, password))
        }
        Some(other) => {
            let right = "image, registry or global";
            return Err(wrong_value("KUBE_SIDECAR_CACHE_TYPE", right, other));
        }
    };
    let wanted = match call.var("KUBE_SIDECAR_CACHE_DURATION") {
        None => None,
        Some(text) => Some(duration(&text).ok_or_else(|| {
            Refusal::bad_config("`KUBE_SIDECAR_CACHE_DURATION` is no duration, such as `10m`")
        })?),
    };
    let rest = token.end.map(|end| end.duration_since(call.clock.now()));
    let rest = rest.map(|rest| Duration::try_from(rest).unwrap_or_default());
    Ok(match (wanted, token.end) {
        (Some(wanted), _) if rest.is_none_or(|rest| wanted < rest) => logins.kept_for(wanted),
        (_, Some(end)) => logins.expires_at(end),
        (_, None) => logins.kept_for(Duration::ZERO),
    })
}

/// The login for the image's registry in a `.dockercfg` of the instance's metadata.
fn docker_config(
    google: &Google<'_>,
    flow: &str,
    question: &ImageQuestion,
) -> Result<Logins, Refusal> {
    let host = question.registry();
    let config = google.docker_config(flow == "dockercfg-url")?;
    let found = config.as_object().into_iter().flatten().find(|(server, _)| {
        let server = server.trim_start_matches("https://").trim_start_matches("http://");
        server.split('/').next() == Some(host)
    });
    let login = found.and_then(|(_, entry)| read_entry(entry));
    let (user, password) = login.ok_or_else(|| {
        Refusal::Failed(format!(
            "`google-{flow}` in the instance's metadata has no login for `{}`",
            inline(host)
        ))
    })?;
    // It has no end, and may change.
    Ok(Logins::for_registry(user, password).kept_for(Duration::ZERO))
}

fn read_entry(entry: &Value) -> Option<(String, String)> {
    let text = |name: &str| entry.get(name)?.as_str().map(str::to_owned);
    match (text("username"), text("password"), text("auth")) {
        (Some(user), Some(password), _) => Some((user, password)),
        (_, _, Some(auth)) => {
            let auth = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
            auth.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
        }
        _ => None,
    }
}
