//! HTTP for the families without a client of their own: one request at a time, proxies of the environment, and
//! authorities that are added to those of the system.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    error::Error,
    fmt, io,
    sync::Arc,
    time::Duration,
};

use http::{Request, Response, header};
use jiff::{SignedDuration, fmt::rfc2822::DateTimeParser};
use keyward_plugin::Refusal;
use keyward_process::{clock::SharedClock, proxy, surroundings::Surroundings};
use keyward_protocol::{
    pem,
    text::{inline, with_causes},
    url::mask,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use ureq::{
    Agent, Proxy,
    tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider},
};
use zeroize::Zeroizing;

use crate::{
    Call,
    link::{is_link_local, is_local, is_near},
    store::digest_of,
};

/// How long one request may take, from the look-up of the name to the end of the answer.
pub(crate) const NETWORK: Duration = Duration::from_secs(30);

/// How long a server of this machine or its link may take to accept a connection. Where there is none, packets may
/// vanish.
const NEAR: Duration = Duration::from_secs(2);

/// The longest answer. A set of keys with certificates is some ten KiB.
const LONGEST: u64 = 1 << 20;

/// A certificate chain, leaf first, and its key.
pub(crate) type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Whom to trust as a server, and who we are to it.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Authorities besides those of the system.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    /// Whether every certificate is accepted.
    pub(crate) danger_any: bool,
    /// Our own certificate, leaf first, and its key.
    pub(crate) identity: Option<Pair>,
}

impl Trust {
    /// Text that differs if anything here does. What one configuration of trust brought is not for another one.
    pub(crate) fn digest(&self) -> String {
        let mut parts: Vec<String> = self.authorities.iter().map(|der| digest_of(der)).collect();
        if let Some((chain, _)) = &self.identity {
            parts.extend(chain.iter().map(|der| format!("identity {}", digest_of(der))));
        }
        if self.danger_any {
            parts.push("any certificate".into());
        }
        parts.sort_unstable();
        parts.join("\n")
    }
}

/// An HTTP client. It follows no redirects: what it sends is meant for one server.
pub(crate) struct Http {
    surroundings: Surroundings,
    clock: SharedClock,
    trust: Trust,
    agents: RefCell<HashMap<String, Agent>>,
    skew: Cell<SignedDuration>,
    limit: Duration,
    never_proxied: bool,
}

impl Http {
    /// A client. The authorities of the system are read when the first TLS connection needs them.
    pub(crate) fn new(call: &Call, trust: Trust) -> Self {
        Self {
            surroundings: call.surroundings.clone(),
            clock: call.clock.clone(),
            trust,
            agents: RefCell::default(),
            skew: Cell::new(SignedDuration::ZERO),
            limit: NETWORK,
            never_proxied: false,
        }
    }

    /// For a server of this machine or its link, such as a metadata service: no proxy, and less time.
    #[must_use]
    pub(crate) fn near(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self.never_proxied = true;
        self
    }

    /// Sends a request and reads the whole answer, whatever its status.
    pub(crate) fn call(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, HttpError> {
        let address = shown(&request.uri().to_string());
        let agent = self.agent(request.uri())?;
        let failed = |error: ureq::Error| HttpError::new(&address, &error, self.limit);
        let response = agent.run(request).map_err(failed)?;
        self.compare_clocks(&response);
        let (parts, mut body) = response.into_parts();
        let body = body.with_config().limit(LONGEST).read_to_vec().map_err(failed)?;
        Ok(Response::from_parts(parts, body))
    }

    /// Whether servers can ask for a certificate of ours.
    pub(crate) fn has_identity(&self) -> bool {
        self.trust.identity.is_some()
    }

    /// How far this machine's clock is ahead of the server's, as the last answer's `Date` tells.
    pub(crate) fn skew(&self) -> SignedDuration {
        self.skew.get()
    }

    fn compare_clocks(&self, response: &Response<ureq::Body>) {
        let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok());
        if let Some(date) = date {
            self.skew.set(self.clock.now().duration_since(date));
        }
    }

    /// The client for a server. Servers differ in their proxies.
    fn agent(&self, uri: &http::Uri) -> Result<Agent, HttpError> {
        let https = uri.scheme_str() == Some("https");
        let place = format!(
            "{}://{}",
            uri.scheme_str().unwrap_or_default(),
            uri.authority().map_or("", |a| a.as_str())
        );
        if let Some(agent) = self.agents.borrow().get(&place) {
            return Ok(agent.clone());
        }
        let mut config = Agent::config_builder()
            .timeout_global(Some(self.limit))
            .timeout_connect(self.never_proxied.then_some(NEAR))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("keyward/", env!("CARGO_PKG_VERSION")))
            .proxy(self.proxy(uri, https)?);
        if https {
            config = config.tls_config(self.tls());
        }
        let agent = Agent::new_with_config(config.build());
        self.agents.borrow_mut().insert(place, agent.clone());
        Ok(agent)
    }

    fn proxy(&self, uri: &http::Uri, https: bool) -> Result<Option<Proxy>, HttpError> {
        if self.never_proxied {
            return Ok(None);
        }
        let host = uri.host().unwrap_or_default();
        // Metadata services; a proxy could not reach them, and must not see what is asked there.
        if is_link_local(host) {
            return Ok(None);
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let var = |name: &str| self.surroundings.var(name)?.into_string().ok();
        let named = proxy::from_environment(https, host, port, var)
            .map_err(|error| HttpError::text(error.to_string()))?;
        let Some(named) = named else { return Ok(None) };
        let proxy = Proxy::new(&named)
            .map_err(|_| HttpError::text(format!("the proxy `{}` cannot be used", mask(&named))))?;
        Ok(Some(proxy))
    }

    fn tls(&self) -> TlsConfig {
        let system = if self.trust.danger_any {
            Vec::new()
        } else {
            rustls_native_certs::load_native_certs().certs
        };
        let roots = system.iter().chain(&self.trust.authorities);
        let roots: Vec<_> = roots.map(|der| Certificate::from_der(der).to_owned()).collect();
        let identity = self.trust.identity.as_ref().and_then(|(chain, key)| {
            let chain: Vec<_> =
                chain.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
            Some(ClientCert::new_with_certs(&chain, private_key(key)?))
        });
        TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::from(roots))
            .client_cert(identity)
            .disable_verification(self.trust.danger_any)
            .build()
    }
}

/// The key as ureq takes it: its kind is in the text.
fn private_key(key: &PrivateKeyDer<'_>) -> Option<PrivateKey<'static>> {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    let pem = Zeroizing::new(pem::encode(label, key.secret_der()));
    PrivateKey::from_pem(pem.as_bytes()).ok()
}

/// Checks an address before a secret leaves for it: https, or this machine.
pub(crate) fn require_https(address: &str, what: &str) -> Result<(), Refusal> {
    let uri: Option<http::Uri> = address.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let local = is_local(host);
    match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("https") if !host.is_empty() => Ok(()),
        Some("http") if local => Ok(()),
        _ => Err(Refusal::BadConfig(format!(
            "{what} must begin with `https://`: `{}`",
            shown(address)
        ))),
    }
}

/// Checks the address of a service that knows this machine: https, this machine, or its link.
pub(crate) fn require_https_or_near(address: &str, what: &str) -> Result<(), Refusal> {
    let uri: Option<http::Uri> = address.parse().ok();
    let plain = uri.filter(|uri| uri.scheme_str() == Some("http"));
    if plain.is_some_and(|uri| uri.host().is_some_and(is_near)) {
        return Ok(());
    }
    require_https(address, what)
}

/// All but the unreserved characters of RFC 3986: metadata services may look for `api-version` as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The fields of a form or a query, encoded.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let fields = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    fields.collect::<Vec<_>>().join("&")
}

/// An address for messages: without a password, and without its query, which may hold a code.
pub(crate) fn shown(address: &str) -> String {
    inline(&mask(address.split('?').next().unwrap_or(address)))
}

/// Why a server gave no answer.
#[derive(Debug)]
pub(crate) struct HttpError {
    text: String,
    untrusted: bool,
}

impl HttpError {
    /// An error that is not a server's.
    pub(crate) fn text(text: String) -> Self {
        Self { text, untrusted: false }
    }

    fn new(address: &str, error: &ureq::Error, limit: Duration) -> Self {
        let text = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => "no connection in time".to_owned(),
            ureq::Error::Timeout(_) => format!("no answer within {} s", limit.as_secs()),
            ureq::Error::HostNotFound => "no address is known for the host".to_owned(),
            ureq::Error::BodyExceedsLimit(limit) => {
                format!("the answer is longer than {limit} bytes")
            }
            other => with_causes(other),
        };
        let untrusted = tls_error(error)
            .is_some_and(|error| matches!(error, rustls::Error::InvalidCertificate(_)));
        Self { text: format!("cannot use `{address}`: {text}"), untrusted }
    }

    /// Whether the server's certificate is the reason.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.untrusted
    }
}

fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => io::Error::get_ref(error)?.downcast_ref(),
        _ => None,
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for HttpError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
        thread::JoinHandle,
    };

    use keyward_process::{clock::SystemClock, surroundings::Fixed};

    use super::*;

    /// A server for one request: gives this answer and returns the first line.
    fn server(answer: String) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            // The client may hang up in the middle.
            let _ = (&stream).write_all(answer.as_bytes());
            first
        });
        (address, thread)
    }

    fn http(vars: &[(&str, &str)]) -> Http {
        let vars = vars.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let surroundings = Surroundings::fixed(Fixed { vars, ..Fixed::default() });
        let call = Call::with("test".into(), Vec::new(), surroundings, Arc::new(SystemClock));
        Http::new(&call, Trust::default())
    }

    fn get(http: &Http, address: &str) -> Result<Response<Vec<u8>>, HttpError> {
        http.call(Request::get(address).body(Vec::new()).unwrap())
    }

    #[test]
    fn a_proxy_of_the_environment_is_asked() {
        let (proxy, asked) = server("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".into());
        let http = http(&[("HTTP_PROXY", &format!("http://{proxy}"))]);
        let _ = get(&http, "http://idp.example/keys");
        let line = asked.join().unwrap();
        assert!(line.contains("idp.example"), "{line}");
    }

    #[test]
    fn pitfall_07_link_local_is_never_asked_through_a_proxy() {
        let http = http(&[("HTTP_PROXY", "http://proxy.example:3128")]);
        let proxied =
            |address: &str| http.proxy(&address.parse().unwrap(), false).unwrap().is_some();
        assert!(proxied("http://idp.example/"));
        for address in [
            "http://169.254.169.254/",
            "http://[::ffff:169.254.169.254]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://127.0.0.1/",
        ] {
            assert!(!proxied(address), "{address}");
        }
    }

    #[test]
    fn pitfall_18_secrets_leave_for_https_or_this_machine_alone() {
        for good in
            ["https://a.example/x", "http://127.0.0.1:1/", "http://[::1]/", "http://localhost/"]
        {
            assert!(require_https(good, "it").is_ok(), "{good}");
        }
        for bad in [
            "http://a.example/",
            "ftp://127.0.0.1/",
            "a.example",
            "https:///x",
            "http://127.0.0.1.example/",
        ] {
            let refusal = require_https(bad, "it").unwrap_err().to_string();
            assert!(refusal.starts_with("it must begin with `https://`"), "{bad}: {refusal}");
        }
    }

    #[test]
    fn forms_encode_what_has_a_meaning_and_nothing_else() {
        let fields = [("api-version", "1.0"), ("a b", "c&d=e/+ä"), ("_", "~")];
        assert_eq!(form(&fields), "api-version=1.0&a%20b=c%26d%3De%2F%2B%C3%A4&_=~");
    }

    #[test]
    fn a_redirect_is_returned_and_not_followed() {
        let answer =
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
        let (address, asked) = server(answer.into());
        let response = get(&http(&[]), &format!("http://{address}/")).unwrap();
        assert_eq!(response.status(), 302);
        asked.join().unwrap();
    }

    #[test]
    fn an_answer_without_end_is_refused_and_no_query_is_shown() {
        let body = "x".repeat(2 << 20);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let (address, asked) = server(answer);
        let error = get(&http(&[]), &format!("http://{address}/keys?code=s3cr3t")).unwrap_err();
        assert!(error.to_string().contains("the answer is longer than 1048576 bytes"), "{error}");
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
        asked.join().unwrap();
    }
}
