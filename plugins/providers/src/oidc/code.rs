//! The code flow: a login page in the browser, which comes back with a code (RFC 6749, RFC 7636, RFC 8252).

use std::{
    borrow::Cow,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    time::Duration,
};

use keyward_plugin::{Refusal, Terminal};
use keyward_process::browser::Browser;
use keyward_protocol::text::inline;
use openidconnect::{
    AuthenticationFlow, AuthorizationCode, CsrfToken, HttpRequest, Nonce, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, Scope,
    core::CoreResponseType,
    url::{Url, form_urlencoded},
};

use super::{
    gate::Gate,
    loopback::{Loopback, Visit},
    page::Page,
    provider::Provider,
    settings::Settings,
    verify::{Expect, Login},
};
use crate::Call;

/// A login that a person does at a page of the provider: the code flow or, in `device.rs`, the device flow.
pub(super) struct Flow<'a> {
    pub(super) call: &'a Call,
    pub(super) settings: &'a Settings,
    pub(super) provider: &'a Provider<'a>,
    /// Whether a person at a terminal can paste something.
    pub(super) attended: bool,
    /// The right to show the page.
    pub(super) gate: &'a Gate,
}

/// A login page, and what has to come back from it.
struct Attempt {
    address: Url,
    redirect: RedirectUrl,
    state: CsrfToken,
    nonce: Nonce,
    verifier: Option<PkceCodeVerifier>,
}

/// What happens while the page is open.
pub(super) enum Event {
    Visit(Visit),
    Pasted(Result<String, Refusal>),
}

impl Flow<'_> {
    /// Opens the login page and waits until the browser returns to this machine.
    pub(super) fn with_listener(
        &self,
        browser: Result<Browser, &'static str>,
    ) -> Result<Login, Refusal> {
        let (sender, events) = mpsc::channel();
        let listener = self.settings.listener.as_ref();
        let loopback = Loopback::listen(&self.settings.listen, listener, sender.clone())?;
        let redirect = self.settings.redirect.clone().unwrap_or_else(|| {
            let scheme = if listener.is_some() { "https" } else { "http" };
            format!("{scheme}://localhost:{}", loopback.port)
        });
        let attempt = self.attempt(redirect)?;
        self.invite(&attempt, browser, &sender);
        let end = self.call.clock.elapsed() + self.settings.person;
        loop {
            let left = end.saturating_sub(self.call.clock.elapsed());
            match events.recv_timeout(left) {
                Ok(Event::Visit(visit)) => {
                    if let Some(done) = self.visited(visit, &attempt) {
                        return done;
                    }
                }
                Ok(Event::Pasted(text)) => return self.pasted(&text?, &attempt),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(self.nobody_came());
                }
            }
        }
    }

    /// Shows the address of the login page and asks for the code that it ends with.
    pub(super) fn with_pasted_code(&self) -> Result<Login, Refusal> {
        let attempt = self.attempt(self.settings.redirect.clone().unwrap_or_default())?;
        let mut terminal = terminal(self.attended)?;
        self.gate.opened(self.call.clock.now());
        self.call.tell(&format!("open this page to log in: {}", attempt.address));
        let text = terminal.ask("Enter code: ")?;
        self.pasted(&text, &attempt)
    }

    fn attempt(&self, redirect: String) -> Result<Attempt, Refusal> {
        let redirect = RedirectUrl::new(redirect).map_err(|error| {
            Refusal::BadConfig(format!("the redirect URL is no address: {error}"))
        })?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = self
            .provider
            .client
            .authorize_url(
                AuthenticationFlow::<CoreResponseType>::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .set_redirect_uri(Cow::Borrowed(&redirect))
            .add_scopes(self.settings.scopes.iter().cloned().map(Scope::new));
        for (name, value) in &self.settings.extra {
            request = request.add_extra_param(name, value);
        }
        let verifier = if self.settings.pkce {
            request = request.set_pkce_challenge(challenge);
            Some(verifier)
        } else {
            None
        };
        let (address, state, nonce) = request.url();
        Ok(Attempt { address, redirect, state, nonce, verifier })
    }

    /// Shows the page to the person, in every way there is.
    fn invite(
        &self,
        attempt: &Attempt,
        browser: Result<Browser, &'static str>,
        sender: &Sender<Event>,
    ) {
        self.gate.opened(self.call.clock.now());
        self.call.tell(&format!("open this page to log in: {}", attempt.address));
        let opened = browser.map_err(str::to_owned).and_then(|browser| {
            browser
                .open(attempt.address.as_str())
                .map_err(|error| format!("no browser starts: {error}"))
        });
        let Err(why) = opened else { return };
        if terminal(self.attended).is_err() {
            return;
        }
        self.call.tell(&format!(
            "{why}; if the page ends at an address that does not open, paste that address here"
        ));
        let sender = sender.clone();
        // It ends with the process, if nobody types anything.
        let _ = std::thread::Builder::new().name("paste".into()).spawn(move || {
            let text =
                Terminal::controlling().and_then(|mut terminal| terminal.ask("Address or code: "));
            let _ = sender.send(Event::Pasted(text));
        });
    }

    /// Answers a request of the browser; `None` if it does not end the login.
    fn visited(&self, visit: Visit, attempt: &Attempt) -> Option<Result<Login, Refusal>> {
        let target = visit.target.clone();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let wanted = attempt.redirect.url().path();
        let same = path == wanted || (wanted.is_empty() && path == "/");
        let has = |name: &str| form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == name);
        if !same || !(has("code") || has("error")) {
            visit.reply(&Page::Nothing);
            return None;
        }
        match self.returned(query, attempt) {
            Ok(None) => {
                visit.reply(&Page::Sorry { why: "This address belongs to another login." });
                self.call.warn("the browser came back from another login, which is ignored");
                None
            }
            Ok(Some(code)) => {
                let done = self.redeem(code, attempt);
                match (&done, &self.settings.landing) {
                    (Ok(_), Some(landing)) => visit.reply(&Page::GoTo(landing)),
                    (Ok((token, _)), None) => visit
                        .reply(&Page::Welcome { who: &token.who, issuer: &self.settings.issuer }),
                    (Err(refusal), _) => visit.reply(&Page::Sorry { why: &first_line(refusal) }),
                }
                Some(done)
            }
            Err(refusal) => {
                visit.reply(&Page::Sorry { why: &first_line(&refusal) });
                Some(Err(refusal))
            }
        }
    }

    /// Takes what a person pasted: a code, or the address that the browser ended at.
    fn pasted(&self, text: &str, attempt: &Attempt) -> Result<Login, Refusal> {
        let text = text.trim();
        let code = match text
            .split_once('?')
            .filter(|_| text.contains("code=") || text.contains("error="))
        {
            None => AuthorizationCode::new(text.to_owned()),
            Some((_, query)) => {
                let query = query.split('#').next().unwrap_or_default();
                self.returned(query, attempt)?.ok_or_else(|| {
                    Refusal::failed(
                        "the address belongs to another login: its `state` is not the one that was sent",
                    )
                })?
            }
        };
        self.redeem(code, attempt)
    }

    /// The code that the browser came back with; `None` if it came from another login, or from none.
    fn returned(
        &self,
        query: &str,
        attempt: &Attempt,
    ) -> Result<Option<AuthorizationCode>, Refusal> {
        let value = |name: &str| {
            let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
            // Twice is as good as not at all: nobody knows which one counts.
            let first = found.next().map(|(_, value)| value.into_owned());
            if found.next().is_some() { None } else { first }
        };
        if value("state").as_deref() != Some(attempt.state.secret()) {
            return Ok(None);
        }
        let issuer = inline(&self.settings.issuer);
        match value("iss") {
            Some(found) if found != self.provider.issuer.as_str() => {
                return Err(Refusal::Failed(format!(
                    "the browser came back from another issuer than `{issuer}`: `{}`",
                    inline(&found)
                )));
            }
            None if self.provider.names_itself => {
                return Err(Refusal::Failed(format!(
                    "the browser came back without `iss`, which `{issuer}` promises to send"
                )));
            }
            _ => {}
        }
        if let Some(error) = value("error") {
            let why = value("error_description").map(|text| format!(": {}", inline(&text)));
            let text = format!(
                "`{issuer}` refused the login: {}{}",
                inline(&error),
                why.unwrap_or_default()
            );
            return Err(if error == "access_denied" {
                Refusal::NotAllowed(text)
            } else {
                Refusal::Failed(text)
            });
        }
        let code = value("code").ok_or_else(|| {
            Refusal::Failed(format!("the browser came back from `{issuer}` without a code"))
        })?;
        Ok(Some(AuthorizationCode::new(code)))
    }

    /// Exchanges the code for tokens and checks them.
    fn redeem(&self, code: AuthorizationCode, attempt: &Attempt) -> Result<Login, Refusal> {
        let mut request = self
            .provider
            .client
            .exchange_code(code)
            .set_redirect_uri(Cow::Borrowed(&attempt.redirect));
        if let Some(verifier) = &attempt.verifier {
            request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier.secret().clone()));
        }
        if self.settings.endpoints.is_some() {
            // Entra ID's codes are for all applications, so it is told again which one is meant.
            request = request.add_extra_param("scope", self.settings.all_scopes().join(" "));
        }
        let send = |request: HttpRequest| self.provider.send(request);
        let response =
            request.request(&send).map_err(|error| self.provider.refused("the code", &error))?;
        self.provider.login(response, &Expect::Nonce(&attempt.nonce))
    }

    fn nobody_came(&self) -> Refusal {
        let device = match self.settings.endpoints {
            Some(_) => "--login devicecode",
            None => "--grant-type=device-code",
        };
        Refusal::Failed(format!(
            "nobody logged in at `{}` within {} s\n\n\
             hint: run the command again; `--authentication-timeout-sec` gives more time, \
             `{device}` needs no browser on this machine",
            inline(&self.settings.issuer),
            self.settings.person.as_secs()
        ))
    }
}

/// The controlling terminal, if a person sits there. Never stdin: that may be a manifest.
pub(super) fn terminal(attended: bool) -> Result<Terminal, Refusal> {
    if attended {
        return Terminal::controlling();
    }
    Err(Refusal::NeedsTerminal(
        "somebody has to log in, and nobody is at a terminal\n\n\
         hint: run the command at a terminal, with `interactiveMode: IfAvailable` or `Always` in the kubeconfig"
            .into(),
    ))
}

fn first_line(refusal: &Refusal) -> String {
    refusal.to_string().lines().next().unwrap_or_default().to_owned()
}

/// How long a person may take, for callers that wait for another process.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.person + crate::http::NETWORK
}
