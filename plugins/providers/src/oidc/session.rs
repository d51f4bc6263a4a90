//! Brings a token: from the agent, with a refresh token, or with a login.

use jiff::Timestamp;
use keyward_plugin::{Question, Refusal};
use keyward_process::browser::Browser;
use keyward_protocol::{Secret, text::inline};
use openidconnect::{
    HttpRequest, OAuth2TokenResponse as _, RefreshToken, RequestTokenError, ResourceOwnerPassword,
    ResourceOwnerUsername, Scope,
    core::{CoreErrorResponseType, CoreTokenResponse},
};

use super::{
    browser,
    code::{Flow, patience, terminal},
    gate::Gate,
    kept::{Refresh, Token},
    provider::Provider,
    settings::{Grant, Keep, Settings},
    verify::{Expect, Login, MARGIN},
};
use crate::{
    Call, agent,
    http::{Http, Trust},
    keyring,
    store::Store,
};

/// One request for a token.
pub(crate) struct Session<'a> {
    call: &'a Call,
    settings: &'a Settings,
    trust: Trust,
    store: Store,
    attended: bool,
    rejected: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        call: &'a Call,
        (settings, trust): (&'a Settings, Trust),
        question: &Question,
    ) -> Self {
        let by_hand = call.var("KUBERNETES_EXEC_INFO").is_none();
        let store = match settings.keep {
            Keep::Agent | Keep::Keyring => Store::open_or_start(&call.surroundings),
            Keep::Nothing => Store::closed("`--store none`"),
        };
        Self {
            call,
            settings,
            trust,
            store,
            attended: question.interactive() || (by_hand && call.surroundings.stdin_is_terminal()),
            rejected: question.rejected().is_some_and(|response| response.code == 401),
        }
    }

    /// The token to print.
    pub(crate) fn token(mut self) -> Result<Token, Refusal> {
        self.call.note("issuer", inline(&self.settings.issuer));
        self.call.note("client", inline(&self.settings.client));
        let key = self.settings.token_key();
        let mut old = None;
        if self.settings.force_refresh || self.rejected {
            old = self.store.get(&key).and_then(|kept| Token::from_secret(&kept));
            self.store.forget(&key);
        }
        let call = self.call;
        let waits = || call.tell("waiting for the login that another process has begun");
        let lease = self.store.lease_or_tell(&key, patience(self.settings), waits);
        let (store, missing) = (&mut self.store, "token for this identity");
        let kept = agent::found(&lease, store, &key, self.call, missing, Token::from_secret);
        if let Some(token) = kept {
            self.call.used("agent", format!("a token for {}", inline(&token.who)));
            return Ok(token);
        }
        let http = Http::new(self.call, std::mem::take(&mut self.trust));
        let provider = Provider::discover(self.call, self.settings, &http)?;
        let token = match self.refreshed(&provider, old)? {
            Some(token) => token,
            None => self.logged_in(&provider)?,
        };
        if let Some(until) = usable_until(&token) {
            self.store.put(&key, token.to_secret(), Some(until));
        }
        Ok(token)
    }

    /// Makes the agent forget the identity.
    pub(super) fn forget(mut self) {
        for kind in ["id token", "access token"] {
            self.store.forget(&self.settings.key.clone().with("kept", kind));
        }
        self.forget_refresh();
    }

    /// A token by the refresh token, if one is kept and still good.
    fn refreshed(
        &mut self,
        provider: &Provider<'_>,
        old: Option<Token>,
    ) -> Result<Option<Token>, Refusal> {
        const SOURCE: &str = "refresh token";
        let Some(kept) = self.kept() else { return self.call.skip(SOURCE, "none is kept") };
        let text = RefreshToken::new(kept.text.expose().to_owned());
        let send = |request: HttpRequest| provider.send(request);
        let mut request = provider.client.exchange_refresh_token(&text);
        if self.settings.endpoints.is_some() {
            // Entra ID's refresh tokens are for all applications, so it has to be told which one.
            request = request.add_scopes(self.scopes());
        }
        let response = match request.request(&send) {
            Ok(response) => response,
            Err(RequestTokenError::ServerResponse(response))
                if *response.error() == CoreErrorResponseType::InvalidGrant =>
            {
                self.forget_refresh();
                return self.call.skip(SOURCE, "the provider no longer accepts it");
            }
            Err(error) => return Err(provider.refused("the refresh token", &error)),
        };
        // First of all: the old one may be used up.
        self.keep(&response, &kept.subject);
        let picked = provider.pick(&response, &Expect::Subject(&kept.subject));
        let picked = picked.inspect_err(|_| self.forget_refresh())?;
        if let Some(token) = picked {
            self.call.used(SOURCE, format!("a token for {}", inline(&token.who)));
            return Ok(Some(token));
        }
        let now = self.call.clock.now();
        if let Some(old) = old.filter(|old| usable_until(old).is_some_and(|until| now < until)) {
            self.call.skipped(
                SOURCE,
                "the provider gives no ID token for it; the old one is still valid",
            );
            return Ok(Some(old));
        }
        // The next time would end here, too.
        self.forget_refresh();
        self.call.skipped(SOURCE, "the provider gives no ID token for it");
        self.call.warn(&format!(
            "`{}` gives no ID token for a refresh token, so a new login is needed; \
             `--oidc-use-access-token` avoids that where the API server takes access tokens",
            inline(&self.settings.issuer)
        ));
        Ok(None)
    }

    /// Keeps the refresh token of an answer, if it has one.
    fn keep(&mut self, response: &CoreTokenResponse, subject: &str) {
        if let Some(text) = response.refresh_token() {
            let refresh =
                Refresh { text: Secret::new(text.secret().clone()), subject: subject.to_owned() };
            let (key, secret) = (self.settings.refresh_key(), refresh.to_secret());
            if self.settings.keep == Keep::Keyring
                && let Err(why) = keyring::put(&key, &secret)
            {
                self.call.warn(&format!("this login will not survive a reboot: {}", inline(&why)));
            }
            self.store.put(&key, secret, None);
        }
    }

    /// The refresh token that the agent keeps or, after a reboot, the keyring.
    fn kept(&mut self) -> Option<Refresh> {
        let key = self.settings.refresh_key();
        let kept = self.store.get(&key).or_else(|| {
            let saved = (self.settings.keep == Keep::Keyring).then(|| keyring::get(&key))?;
            saved.unwrap_or_else(|why| {
                self.call.skipped("keyring", inline(&why));
                None
            })
        });
        kept.and_then(|kept| Refresh::from_secret(&kept))
    }

    fn forget_refresh(&mut self) {
        let key = self.settings.refresh_key();
        self.store.forget(&key);
        if self.settings.keep == Keep::Keyring
            && let Err(why) = keyring::forget(&key)
        {
            self.call.warn(&format!("the keyring may still have this login: {}", inline(&why)));
        }
    }

    /// A token by a login.
    fn logged_in(&mut self, provider: &Provider<'_>) -> Result<Token, Refusal> {
        // Held until the refresh token is kept: a process that waits here looks for it then.
        let gate;
        let ((token, response), how) = match self.settings.grant {
            Grant::ClientCredentials => (self.client_credentials(provider)?, "client credentials"),
            Grant::Password => (self.password(provider)?, "password"),
            _ => {
                let (key, limit) = (&self.settings.key, patience(self.settings));
                gate = Gate::enter(self.call, key, self.attended, limit)?;
                if gate.waited
                    && let Some(token) = self.refreshed(provider, None)?
                {
                    return Ok(token);
                }
                self.with_page(provider, &gate)?
            }
        };
        self.keep(&response, &token.subject);
        self.call.used(how, format!("a token for {}", inline(&token.who)));
        Ok(token)
    }

    fn client_credentials(&self, provider: &Provider<'_>) -> Result<Login, Refusal> {
        let mut request = provider.client.exchange_client_credentials().add_scopes(self.scopes());
        for (name, value) in &self.settings.extra {
            request = request.add_extra_param(name, value);
        }
        let send = |request: HttpRequest| provider.send(request);
        let response =
            request.request(&send).map_err(|error| provider.refused("the client", &error))?;
        // There is no person, so there need be no ID token.
        let picked = provider.pick(&response, &Expect::Anything)?;
        let token = picked.unwrap_or_else(|| provider.access(&response));
        Ok((token, response))
    }

    fn password(&self, provider: &Provider<'_>) -> Result<Login, Refusal> {
        let name = match &self.settings.username {
            Some(name) => name.clone(),
            None => terminal(self.attended)?.ask("Username: ")?,
        };
        let password = match &self.settings.password {
            Some(password) => password.clone(),
            None => terminal(self.attended)?.ask_hidden("Password: ")?,
        };
        let name = ResourceOwnerUsername::new(name);
        let password = ResourceOwnerPassword::new(password.expose().to_owned());
        let send = |request: HttpRequest| provider.send(request);
        let request = provider.client.exchange_password(&name, &password).add_scopes(self.scopes());
        let response =
            request.request(&send).map_err(|error| provider.refused("the password", &error))?;
        provider.login(response, &Expect::Anything)
    }

    /// A login that a person does at a page of the provider. At most one is open for an identity.
    fn with_page(
        &self,
        provider: &Provider<'_>,
        gate: &Gate,
    ) -> Result<(Login, &'static str), Refusal> {
        let browser = browser::find(self.call, self.settings);
        if let Err(why) = browser {
            self.call.skipped("browser", why);
            if !self.attended && !self.settings.skip_browser {
                return Err(Refusal::NeedsTerminal(format!(
                    "somebody has to log in at `{}`, nobody is at a terminal, and no browser can be opened: {why}\n\n\
                     hint: log in with the same command at a terminal, such as `kubectl get namespaces`",
                    inline(&self.settings.issuer)
                )));
            }
        }
        let done = self.at_page(provider, browser, gate);
        if done.is_ok() {
            gate.used();
        }
        done
    }

    fn at_page(
        &self,
        provider: &Provider<'_>,
        browser: Result<Browser, &'static str>,
        gate: &Gate,
    ) -> Result<(Login, &'static str), Refusal> {
        let (call, settings, attended) = (self.call, self.settings, self.attended);
        let flow = Flow { call, settings, provider, attended, gate };
        if settings.grant == Grant::PastedCode {
            return Ok((flow.with_pasted_code()?, "pasted code"));
        }
        let wants_device =
            settings.grant == Grant::Device || (settings.grant == Grant::Auto && browser.is_err());
        if wants_device {
            match (flow.start_device(), settings.grant) {
                (Ok(Some(started)), _) => {
                    return Ok((flow.finish_device(&started, browser)?, "device code"));
                }
                (Ok(None), Grant::Device) => {
                    return Err(Refusal::Failed(format!(
                        "`{}` has no device flow\n\nhint: see `--grant-type`",
                        inline(&settings.issuer)
                    )));
                }
                (Err(refusal), Grant::Device) => return Err(refusal),
                // The code flow may still work.
                (Ok(None), _) => {
                    self.call.skipped("device code", "the provider has no device flow");
                }
                (Err(refusal), _) => self.call.skipped("device code", refusal.to_string()),
            }
        }
        Ok((flow.with_listener(browser)?, "authorization code"))
    }

    fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.settings.all_scopes().into_iter().map(Scope::new)
    }
}

/// Until when a token is handed out; `None` if it ended before all time, as only a liar's does.
fn usable_until(token: &Token) -> Option<Timestamp> {
    token.end.checked_sub(MARGIN).ok()
}

/// The end to print: a little early, unless that has passed already.
pub(super) fn stated_end(token: &Token, now: Timestamp) -> Timestamp {
    usable_until(token).filter(|early| now < *early).unwrap_or(token.end)
}
