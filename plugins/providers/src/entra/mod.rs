//! `keyward-entra`: tokens of Microsoft Entra ID for AKS clusters, in place of Azure/kubelogin.
//!
//! ```text
//! flags and variables ──► Login ──► device code, browser, password ──► keyward-oidc's session ──► Token
//!                           ├─────► secret, certificate, federated token ──► azure/client.rs ──► Token
//!                           └─────► managed identity, az, azd ─────────────────────────────────► Token
//! ```

mod certificate;
mod flags;
mod login;
mod person;
mod tools;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use jiff::SignedDuration;
use keyward_plugin::{Credential, Question, Refusal};
use keyward_protocol::{Secret, jwt::Claims, text::inline};

use self::{
    flags::{FLAGS, OWN, USAGE},
    login::{Login, Method},
};
use crate::{
    Call, agent,
    azure::{Azure, Id, Proof, Token, file_token},
    flags::{Flag, Flags},
    http::{NETWORK, Trust},
    oidc::{Kept, Session},
    store::{Key, Store, digest_of},
};

/// How long before its end a token is no longer handed out.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// The words of Azure/kubelogin that int128/kubelogin does not have.
const COMMANDS: [&str; 3] = ["convert-kubeconfig", "remove-cache-dir", "remove-tokens"];

/// Whether a command line of `kubelogin` is one of Azure/kubelogin: two programs have that name.
pub(crate) fn is_ours(args: &[OsString]) -> bool {
    let mut words = args.iter().map(|arg| arg.to_string_lossy());
    words.any(|word| {
        let name = word.split_once('=').map_or(&*word, |(name, _)| name);
        let is_named = |flag: &Flag| {
            let short = flag.short.map(|letter| format!("-{letter}"));
            name.strip_prefix("--") == Some(flag.name) || short.as_deref() == Some(name)
        };
        OWN.iter().any(is_named) || COMMANDS.contains(&&*word)
    })
}

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let word = COMMANDS.into_iter().find(|command| call.args.iter().any(|arg| arg == command));
    if let Some(word) = word {
        return Err(Refusal::BadConfig(format!("there is no `{word}`: {}", instead(word))));
    }
    let Some(flags) = call.flags(&[OWN, FLAGS], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    match flags.words().as_slice() {
        [] | ["get-token"] if call.checks => Login::new(call, &flags).map(|_| ExitCode::SUCCESS),
        [] | ["get-token"] => call.serve(|question| {
            let token = obtain(call, &flags, question)?;
            Ok(Credential::token(token.text.expose()).expires_at(token.end))
        }),
        ["version"] => call.print(&format!("keyward-entra {}\n", env!("CARGO_PKG_VERSION"))),
        [word, ..] => Err(Refusal::BadConfig(format!(
            "there is no command `{}`: it is get-token or version",
            inline(word)
        ))),
    }
}

/// What to use in place of a command of kubelogin.
fn instead(word: &str) -> &'static str {
    match word {
        "convert-kubeconfig" => "`keyward wrap --native` converts a kubeconfig",
        _ => {
            "tokens are not kept in files\n\n\
             hint: `keyward logout --all` makes the agent forget them"
        }
    }
}

fn obtain(call: &Call, flags: &Flags, question: &Question) -> Result<Token, Refusal> {
    let login = Login::new(call, flags)?;
    call.note("login", login.name);
    let azure = Azure::new(call);
    match login.method {
        Method::DeviceCode | Method::Interactive | Method::Password => {
            person(call, flags, &login, question)
        }
        Method::ManagedIdentity => {
            let id = match (&login.client, &login.identity) {
                (Some(client), _) => Id::Client(client.clone()),
                (None, Some(resource)) => Id::Resource(resource.clone()),
                (None, None) => Id::System,
            };
            azure.identity_token(&id, &login.scope)
        }
        Method::AzureCli => tools::az(&azure, &login),
        Method::DeveloperCli => tools::azd(&azure, &login),
        Method::ServicePrincipal => principal(&azure, &login, question),
        Method::WorkloadIdentity => workload(&azure, &login, question),
        Method::Pipelines => pipelines(&azure, &login),
    }
}

/// A token for an application with a certificate or a secret.
fn principal(azure: &Azure<'_>, login: &Login, question: &Question) -> Result<Token, Refusal> {
    let (authority, client) = (login.authority()?, login.client()?);
    if let Some(path) = &login.certificate {
        let (key, der) = certificate::read(login, path)?;
        let digest = format!("certificate {}", digest_of(&der));
        return kept(azure, &login.key(&digest), question, || {
            let now = azure.call.clock.now();
            let assertion = key.assertion(client, &authority.endpoint("token"), now);
            let proof = Proof::Assertion(Secret::new(assertion.map_err(Refusal::failed)?));
            azure.token_by("certificate", &authority, client, &login.scope, &proof)
        });
    }
    let secret = login.secret.clone().ok_or_else(|| {
        login.needs("--client-certificate` or `--client-secret", "AZURE_CLIENT_SECRET")
    })?;
    let digest = format!("secret {}", digest_of(secret.expose_bytes()));
    kept(azure, &login.key(&digest), question, || {
        let proof = Proof::Secret(secret);
        azure.token_by("secret", &authority, client, &login.scope, &proof)
    })
}

/// A token for the pod, or for the job in GitHub Actions.
fn workload(azure: &Azure<'_>, login: &Login, question: &Question) -> Result<Token, Refusal> {
    let (authority, client) = (login.authority()?, login.client()?);
    let var = |name: &str| azure.call.var(name);
    let exchange = |assertion: Secret, what: &str| {
        azure.token_by(what, &authority, client, &login.scope, &Proof::Assertion(assertion))
    };
    match (var("ACTIONS_ID_TOKEN_REQUEST_URL"), var("ACTIONS_ID_TOKEN_REQUEST_TOKEN")) {
        (Some(address), Some(token)) => {
            return exchange(azure.github_token(&address, &Secret::new(token))?, "GitHub Actions");
        }
        _ => azure.call.skipped(
            "GitHub Actions",
            "`ACTIONS_ID_TOKEN_REQUEST_URL` and `ACTIONS_ID_TOKEN_REQUEST_TOKEN` are not both set",
        ),
    }
    let path = login.federated_file.as_deref();
    let path =
        path.ok_or_else(|| login.needs("--federated-token-file", "AZURE_FEDERATED_TOKEN_FILE"))?;
    let assertion = file_token(path)?;
    // The token in the file is renewed; who it is for stays.
    let claims = Claims::read(assertion.expose());
    let subject =
        |name: &str| claims.as_ref().and_then(|claims| claims.text(name)).unwrap_or_default();
    let identity = format!("federated {} {}", subject("iss"), subject("sub"));
    kept(azure, &login.key(&identity), question, || exchange(assertion, "federated token"))
}

/// A token for the job in Azure Pipelines. Agents are off there, so nothing is kept.
fn pipelines(azure: &Azure<'_>, login: &Login) -> Result<Token, Refusal> {
    let (authority, client) = (login.authority()?, login.client()?);
    let connection = login.connection.as_deref().ok_or_else(|| {
        login.needs(
            "--azure-pipelines-service-connection-id",
            "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID",
        )
    })?;
    let var = |name: &str| {
        azure.call.var(name).ok_or_else(|| {
            Refusal::BadConfig(format!(
                "`--login azurepipelines` needs `{name}`\n\n\
                 hint: pass it to the task: `env: {{SYSTEM_ACCESSTOKEN: $(System.AccessToken)}}`"
            ))
        })
    };
    let token = Secret::new(var("SYSTEM_ACCESSTOKEN")?);
    let assertion = azure.pipelines_token(&var("SYSTEM_OIDCREQUESTURI")?, connection, &token)?;
    let proof = Proof::Assertion(assertion);
    azure.token_by("Azure Pipelines", &authority, client, &login.scope, &proof)
}

/// A token that a person logs in for, with the engine of `keyward-oidc`.
fn person(
    call: &Call,
    flags: &Flags,
    login: &Login,
    question: &Question,
) -> Result<Token, Refusal> {
    let settings = person::settings(call, flags, login)?;
    let session = Session::new(call, (&settings, Trust::default()), question);
    let token = session.token()?;
    Ok(Token { text: token.text, end: token.end })
}

/// The token that the agent keeps, or a new one. One process fetches it while the others wait.
fn kept(
    azure: &Azure<'_>,
    key: &Key,
    question: &Question,
    bring: impl FnOnce() -> Result<Token, Refusal>,
) -> Result<Token, Refusal> {
    let mut store = Store::open(&azure.call.surroundings);
    if question.rejected().is_some_and(|response| response.code == 401) {
        store.forget(key);
    }
    let lease = store.lease(key, NETWORK + Duration::from_secs(5));
    let missing = "token for this identity";
    let kept = agent::found(&lease, &mut store, key, azure.call, missing, Kept::from_secret);
    if let Some(token) = kept {
        azure.call.used("agent", "a token for this identity");
        return Ok(Token { text: token.text, end: token.end });
    }
    let token = bring()?;
    let secret =
        Kept::new(token.text.expose().to_owned(), token.end, String::new(), "").to_secret();
    // Without a margin, the end is before all time.
    if let Ok(until) = token.end.checked_sub(MARGIN) {
        store.put(key, secret, Some(until));
    }
    Ok(token)
}
