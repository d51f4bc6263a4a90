//! Asks an API server whether it accepts a credential of the agent.

use std::{sync::Arc, time::Duration};

use http::{Request, StatusCode, header};
use keyward::{Body, Client};
use keyward_agent::{Verify, entry::Entry};
use keyward_host::{
    Credential, Kubeconfig, Overrides, Source,
    cell::{Fresh, Occasion},
    kubeconfig::User,
};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use serde_json::json;

/// However slow a server is: somebody waits at a terminal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends a `SelfSubjectReview` with the credential to the server that the kubeconfig names.
pub(super) struct Verifier;

impl Verify for Verifier {
    fn is_accepted(&self, entry: &Entry, credential: &Credential) -> Option<bool> {
        let surroundings = Surroundings::process();
        let config = Kubeconfig::load(&surroundings, Some(&entry.kubeconfig)).ok()?;
        let overrides =
            Overrides { context: Some(entry.contexts.first()?.clone()), ..Overrides::default() };
        let mut target = config.resolve(&overrides, &surroundings).ok()?;
        // It goes nowhere but to the server that was there when the plugin was registered.
        if target.cluster.value.server != entry.server {
            return None;
        }
        target.user.value = User::default();
        let (token, pair) = (credential.token().cloned(), credential.pair().cloned());
        let expires = credential.expires();
        let fetch = move |_: &Occasion| {
            let value = Credential::of(token.clone(), pair.clone(), expires)?;
            Ok(Fresh { value, expires })
        };
        let source = Source::from_fetch(fetch, Arc::new(SystemClock));
        let builder = Client::builder()
            .user_agent(concat!("keyward/", env!("CARGO_PKG_VERSION")))
            .response_timeout(PATIENCE);
        let client = builder.build(&target, source).ok()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let review = json!({
            "kind": "SelfSubjectReview",
            "apiVersion": "authentication.k8s.io/v1",
        });
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(review.to_string()))
            .ok()?;
        let answer = runtime.block_on(async {
            tokio::time::timeout(PATIENCE, client.send(request)).await.ok()?.ok()
        })?;
        match answer.status() {
            StatusCode::UNAUTHORIZED => Some(false),
            // Whoever is not allowed to ask, or asks for what an old server does not know, is known.
            status if status.is_success() => Some(true),
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Some(true),
            _ => None,
        }
    }
}
