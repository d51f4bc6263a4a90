//! HTTPS for the kubeconfig's `oidc` auth-provider.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderValue, Method, Request, Response,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION},
};
use http_body_util::{BodyExt, Limited};
use keyward_host::OidcExchange;
use keyward_process::surroundings::Surroundings;
use keyward_protocol::{Secret, Url, text::with_causes, url::mask};
use rustls::crypto::CryptoProvider;
use zeroize::Zeroizing;

use crate::{
    Body, Error, Incoming, Origin,
    connect::{Connector, Dialer},
    error::Kind,
    pool::{Lifetimes, Pool},
    tls::{Trust, provider_or_default},
};

/// The time limit of a call, redirects included.
const LIMIT: Duration = Duration::from_secs(30);
/// The most redirects to follow, as in Go.
const REDIRECTS: usize = 10;
/// The longest answer to read: longer than any token or description of a provider.
const LARGEST: usize = 1 << 20;

/// Sends requests to identity providers. Blocks, so it must not be used on the threads of an async runtime;
/// the host calls it on threads that may block.
#[derive(Clone, Default)]
pub struct Https {
    provider: Option<Arc<CryptoProvider>>,
    surroundings: Surroundings,
}

impl Https {
    /// Uses the crate's own cryptography and the proxies of this process's environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// The instance that clients share by default: only with one instance are equal plans one.
    pub fn shared() -> Arc<dyn OidcExchange> {
        static SHARED: OnceLock<Arc<Https>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::new())).clone()
    }

    /// Uses another cryptography provider.
    #[must_use]
    pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    async fn call(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let mut url = Url::parse(call.url).map_err(|error| {
            Error::because(Kind::BadConfig, format!("`{}` is not a URL", mask(call.url)), error)
        })?;
        for _ in 0..=REDIRECTS {
            let response = self.send(call, &url).await?;
            let next = match response.headers().get(LOCATION) {
                Some(next) if call.form.is_none() && response.status().is_redirection() => next,
                _ => return reply(response).await,
            };
            url = follow(&url, next, call.basic.is_some())?;
        }
        Err(Error::new(Kind::Http, "too many redirects"))
    }

    async fn send(&self, call: &Call<'_>, url: &Url) -> Result<Response<Incoming>, Error> {
        let provider = provider_or_default(self.provider.clone())?;
        let trust = match call.authorities {
            Some(pem) => Trust::authorities(provider, pem)?,
            None => Trust::system(provider),
        };
        let tls = trust.client_config(None)?;
        let origin = Origin::parse(&url.text())?;
        let request = request(call, &origin, url)?;
        let connector = Connector::new(origin, trust, "", &self.surroundings, LIMIT)?;
        let pool = Pool::new(Dialer::new(Arc::new(connector), tls, None), Lifetimes::default());
        pool.send(Box::new(request)).await.map_err(|failure| failure.error)
    }
}

impl OidcExchange for Https {
    fn exchange(
        &self,
        url: &str,
        authorities: Option<&[u8]>,
        form: Option<&Secret>,
        basic: Option<&Secret>,
    ) -> Result<Reply, String> {
        let call = &Call { url, authorities, form, basic };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime
            .block_on(async { tokio::time::timeout(LIMIT, self.call(call)).await })
            .map_err(|_| format!("it did not answer within {LIMIT:?}"))?
            // Our messages contain nothing of the request but its URL.
            .map_err(|error| with_causes(&error))
    }
}

/// Status code and body.
type Reply = (u16, Zeroizing<Vec<u8>>);

/// The arguments of [`OidcExchange::exchange`].
struct Call<'a> {
    url: &'a str,
    authorities: Option<&'a [u8]>,
    form: Option<&'a Secret>,
    basic: Option<&'a Secret>,
}

fn request(call: &Call<'_>, origin: &Origin, url: &Url) -> Result<Request<Body>, Error> {
    let uri = origin.uri(&url.path_and_query())?;
    let mut request = Request::builder().uri(uri).header(ACCEPT, "application/json");
    let body = match call.form {
        None => Body::empty(),
        Some(form) => {
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            request = request.method(Method::POST).header(CONTENT_TYPE, kind);
            Body::from(form.expose().to_owned())
        }
    };
    if let Some(basic) = call.basic {
        let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(basic.expose())));
        // Base64 has no character that a header could not carry.
        if let Ok(mut value) = HeaderValue::from_str(&text) {
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
    }
    request
        .body(body)
        .map_err(|error| Error::because(Kind::Http, "the request cannot be written", error))
}

async fn reply(response: Response<Incoming>) -> Result<Reply, Error> {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(|error| {
        Error::because(Kind::Lost, "the answer could not be read to its end", error)
    })?;
    Ok((status, Zeroizing::new(body.to_bytes().into())))
}

/// Where a redirect leads: a whole URL, or a path of the server that answered. What begins under TLS
/// stays there: whoever listens could name a token endpoint of their own. A request that carries a
/// `secret` stays with its server.
fn follow(base: &Url, next: &HeaderValue, secret: bool) -> Result<Url, Error> {
    let wrong = |what| Error::new(Kind::Http, format!("a redirect leads {what}"));
    let next = next.to_str().ok().and_then(|next| Url::parse(next).ok());
    let mut next = next.ok_or_else(|| wrong("nowhere"))?;
    if !next.has_host() {
        return base.with_path_of(&next).ok_or_else(|| wrong("nowhere"));
    }
    if next.scheme().is_empty() {
        let whole = format!("{}:{}", base.scheme(), next.text());
        next = Url::parse(&whole).map_err(|_| wrong("nowhere"))?;
    }
    // What a provider says of itself decides where tokens go: nobody on the way may write it.
    if base.scheme() == "https" && next.scheme() != "https" {
        return Err(wrong("from HTTPS to plain HTTP"));
    }
    if secret && Origin::parse(&base.text())? != Origin::parse(&next.text())? {
        return Err(wrong("to another server"));
    }
    Ok(next)
}

impl fmt::Debug for Https {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Https").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::StatusCode;
    use keyward_testing::server::{Deed, Fault, Server};

    use super::*;

    fn exchange(url: &str, server: &Server, form: Option<&Secret>) -> Result<Reply, String> {
        let authorities = Some(server.authority().pem().as_bytes());
        Https::new().exchange(url, authorities, form, form)
    }

    #[test]
    fn a_form_goes_with_its_login_and_the_answer_comes_back() {
        let server = Server::setup().start().unwrap();
        server.users().password("client", "secret");
        let form = Secret::new("client:secret");
        let url = format!("{}/echo", server.url());
        let reply = exchange(&url, &server, Some(&form)).unwrap();
        assert_eq!((reply.0, reply.1.as_slice()), (200, &b"client:secret"[..]));
        let seen = server.recorder().last().unwrap();
        assert_eq!(seen.header("content-type"), Some("application/x-www-form-urlencoded"));
    }

    #[test]
    fn a_redirect_is_followed_for_a_question_and_not_for_a_form() {
        let server = Server::setup().start().unwrap();
        server.users().open("/");
        let there = "/healthz".to_owned();
        server.faults().add(Fault::on("/here", Deed::Redirect(StatusCode::FOUND, there)));
        let url = format!("{}/here", server.url());
        let reply = exchange(&url, &server, None).unwrap();
        assert_eq!((reply.0, reply.1.as_slice()), (200, &b"ok"[..]));
        let form = Secret::new("a:b");
        let reply = exchange(&url, &server, Some(&form)).unwrap();
        assert_eq!(reply.0, 302);
    }

    #[test]
    fn a_redirect_does_not_lead_from_https_to_plain_http() {
        let server = Server::setup().start().unwrap();
        server.users().open("/");
        let url = format!("{}/here", server.url());
        let there = server.url().replace("https", "http");
        server.faults().add(Fault::on("/here", Deed::Redirect(StatusCode::FOUND, there)));
        let text = exchange(&url, &server, None).map(drop).unwrap_err();
        assert!(text.contains("from HTTPS to plain HTTP"), "{text}");
    }

    #[test]
    fn a_redirect_leads_to_a_url_or_a_path_and_a_secret_nowhere_else() {
        let base = Url::parse("https://me@idp.example/a/b?c").unwrap();
        for (next, secret, led) in [
            ("/x?y", true, Ok("https://me@idp.example/x?y")),
            ("https://IDP.example:443/x", true, Ok("https://IDP.example:443/x")),
            ("//idp.example/x", true, Ok("https://idp.example/x")),
            ("//other.example/x", false, Ok("https://other.example/x")),
            ("https://other.example/x", true, Err("to another server")),
            ("https://idp.example:8443/x", true, Err("to another server")),
            ("http://idp.example/x", false, Err("from HTTPS to plain HTTP")),
            ("x", false, Err("nowhere")),
            ("?x", false, Err("nowhere")),
            ("https://a b/", false, Err("nowhere")),
        ] {
            let next = HeaderValue::from_static(next);
            let found = follow(&base, &next, secret).map(|url| url.text());
            let found = found.map_err(|error| error.to_string());
            let led = led.map(str::to_owned).map_err(|what| format!("a redirect leads {what}"));
            assert_eq!(found, led, "{next:?}");
        }
    }

    #[test]
    fn endless_redirects_are_an_error() {
        let server = Server::setup().start().unwrap();
        server.users().open("/");
        let url = format!("{}/here", server.url());
        server.faults().add(Fault::on("/here", Deed::Redirect(StatusCode::FOUND, url.clone())));
        let text = exchange(&url, &server, None).map(drop).unwrap_err();
        assert!(text.contains("too many redirects"), "{text}");
    }

    #[test]
    fn a_failure_does_not_tell_the_form() {
        let server = Server::setup().start().unwrap();
        let url = server.url();
        let form = Secret::new("hush=hush");
        server.faults().add(Fault::always(Deed::Cut));
        let failed = exchange(&url, &server, Some(&form));
        let text = failed.map(drop).unwrap_err();
        assert!(!text.contains("hush"), "{text}");
    }
}
