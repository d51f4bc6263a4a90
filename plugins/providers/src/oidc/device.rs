//! The device flow: the person logs in at any other machine (RFC 8628).

use std::time::Duration;

use chrono::{DateTime, Utc};
use keyward_plugin::Refusal;
use keyward_process::browser::Browser;
use keyward_protocol::text::inline;
use openidconnect::{
    DeviceCodeErrorResponseType, HttpRequest, PkceCodeChallenge, PkceCodeVerifier,
    RequestTokenError, Scope, core::CoreDeviceAuthorizationResponse,
};

use super::{
    code::Flow,
    verify::{Expect, Login},
};
use crate::http::require_https;

/// A code that the person has to confirm.
pub(super) struct Started {
    details: CoreDeviceAuthorizationResponse,
    verifier: PkceCodeVerifier,
}

impl Flow<'_> {
    /// Asks for a code. `None` if the provider has no such flow.
    pub(super) fn start_device(&self) -> Result<Option<Started>, Refusal> {
        let Some(endpoint) = self.provider.device.clone() else { return Ok(None) };
        let client = self.provider.client.clone().set_device_authorization_url(endpoint.clone());
        let scopes = self.settings.scopes.iter().cloned().map(Scope::new);
        // It adds `openid` itself.
        let mut request = client.exchange_device_code().add_scopes(scopes);
        for (name, value) in &self.settings.extra {
            request = request.add_extra_param(name, value);
        }
        // Keycloak demands PKCE here, too, if the client has it; other providers do not look.
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        if self.settings.pkce {
            request = request
                .add_extra_param("code_challenge", challenge.as_str().to_owned())
                .add_extra_param("code_challenge_method", challenge.method().as_str().to_owned());
        }
        let send = |request: HttpRequest| self.provider.send(request);
        let what = "the request for a device code";
        let details: CoreDeviceAuthorizationResponse = request
            .request(&send)
            .map_err(|error| self.provider.refused_at(endpoint.as_str(), what, &error))?;
        // The server's text becomes an argument of the browser.
        require_https(details.verification_uri().as_str(), "the page of the device flow")?;
        Ok(Some(Started { details, verifier }))
    }

    /// Shows the code, and asks the provider until the person has confirmed it.
    pub(super) fn finish_device(
        &self,
        started: &Started,
        browser: Result<Browser, &'static str>,
    ) -> Result<Login, Refusal> {
        let details = &started.details;
        let page = details.verification_uri().as_str();
        let complete = details.verification_uri_complete().map(|page| page.secret().as_str());
        let complete = complete.filter(|page| require_https(page, "it").is_ok()).unwrap_or(page);
        let code = details.user_code().secret();
        self.gate.opened(self.call.clock.now());
        self.call.tell(&format!("open this page to log in: {}", inline(complete)));
        self.call.tell(&format!("the page shows or asks for this code: {}", inline(code)));
        if let Ok(browser) = browser
            && let Err(error) = browser.open(complete)
        {
            self.call.warn(&format!("no browser starts: {error}"));
        }
        let clock = self.call.clock.clone();
        let limit = self.settings.person.min(details.expires_in());
        let began = clock.now();
        // The provider says how long to wait before asking again, but not beyond the limit.
        let wait = |time: Duration| {
            let passed = self.call.clock.now().duration_since(began).unsigned_abs();
            pause(time.min(limit.saturating_sub(passed)));
        };
        let send = |request: HttpRequest| self.provider.send(request);
        let mut request = self.provider.client.exchange_device_access_token(details);
        if self.settings.pkce {
            request = request.add_extra_param("code_verifier", started.verifier.secret());
        }
        let response = request
            .set_time_fn(move || DateTime::<Utc>::from_timestamp_millis(clock.wall_millis()).unwrap_or_default())
            .request(&send, wait, Some(limit))
            .map_err(|error| match &error {
                RequestTokenError::ServerResponse(response)
                    if *response.error() == DeviceCodeErrorResponseType::ExpiredToken =>
                {
                    Refusal::Failed(format!(
                        "nobody confirmed the code at `{}` within {} s\n\nhint: run the command again",
                        inline(page),
                        limit.as_secs()
                    ))
                }
                RequestTokenError::ServerResponse(response)
                    if *response.error() == DeviceCodeErrorResponseType::AccessDenied
                        // Entra ID's word for it.
                        || response.error().to_string() == "authorization_declined" =>
                {
                    Refusal::NotAllowed(format!("the login at `{}` was refused", inline(page)))
                }
                RequestTokenError::ServerResponse(response) => {
                    Refusal::Failed(format!("the device code was refused: {}", inline(&response.to_string())))
                }
                RequestTokenError::Parse(..) => Refusal::failed(
                    "the token endpoint gave an answer that is no token response, or an ID token that \
                     is no JWT",
                ),
                RequestTokenError::Request(error) => Refusal::Failed(error.to_string()),
                RequestTokenError::Other(why) => Refusal::Failed(inline(why)),
            })?;
        self.provider.login(response, &Expect::Anything)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the provider says how long to wait before asking again"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
