//! A credential plugin that exchanges the token in a file for a short-lived token of a service
//! account, at the cluster of the request. Its user in the kubeconfig needs
//! `provideClusterInfo: true` and these arguments: `TOKEN_FILE NAMESPACE SERVICE_ACCOUNT`

use std::{env, fs, process::ExitCode};

use http::{
    Request,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use keyward::Client;
use keyward_plugin::{Credential, Question, Refusal, serve};
use serde_json::Value;

fn main() -> ExitCode {
    serve(credential)
}

fn credential(_question: &Question) -> Result<Credential, Refusal> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, namespace, account] = arguments.as_slice() else {
        let usage = "usage: token_request TOKEN_FILE NAMESPACE SERVICE_ACCOUNT";
        return Err(Refusal::BadConfig(usage.into()));
    };
    let token = fs::read_to_string(file).map_err(Refusal::file(file))?;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(exchange(token.trim(), &path))
}

async fn exchange(token: &str, path: &str) -> Result<Credential, Refusal> {
    // Address, TLS server name, certificate authority and proxy are those of the request.
    let client =
        Client::from_exec_info().map_err(|error| Refusal::BadConfig(format!("{error:#}")))?;
    let request = Request::post(path)
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(CONTENT_TYPE, "application/json")
        .body(r#"{"spec":{"expirationSeconds":600}}"#)
        .map_err(Refusal::failed)?;
    let response =
        client.send(request).await.map_err(|error| Refusal::Failed(format!("{error:#}")))?;
    if !response.status().is_success() {
        return Err(Refusal::Failed(format!("the server answered {}", response.status())));
    }
    let answer = response.into_body().text().await?;
    let answer: Value = serde_json::from_str(&answer).map_err(Refusal::failed)?;
    let text = |field: &str| answer["status"][field].as_str();
    match (text("token"), text("expirationTimestamp").and_then(|end| end.parse().ok())) {
        (Some(token), Some(end)) => Ok(Credential::token(token).expires_at(end)),
        _ => Err(Refusal::failed("the server's answer has no token with an expiry")),
    }
}
