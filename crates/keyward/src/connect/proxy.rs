//! Proxies: `http`, `https` and `socks5`.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_protocol::{Secret, Url};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

use super::{Stream, Tracer, no_tls, socks, tcp};
use crate::{
    Error,
    error::Kind,
    tls::{Trust, server_name},
};

/// More than any proxy answers to `CONNECT`.
const HEAD_LIMIT: usize = 16 * 1024;

/// A proxy on the way to a server.
#[derive(Clone)]
pub(crate) struct Proxy {
    scheme: Scheme,
    host: String,
    port: u16,
    login: Option<Arc<Login>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    Socks5,
}

/// User name and password, decoded.
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
}

impl Proxy {
    /// Parses a `proxy-url`. Errors never contain the URL's user name or password.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let bad = |what: &str| Error::new(Kind::BadConfig, format!("the proxy's URL {what}"));
        let url = Url::parse(url).map_err(|error| bad(&format!("is {error}")))?;
        let (scheme, default_port) = match url.scheme() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            // As in Go, names are resolved by the proxy under both.
            "socks5" | "socks5h" => (Scheme::Socks5, 1080),
            "" => return Err(bad("has no scheme")),
            _ => return Err(bad("is neither `http`, `https` nor `socks5`")),
        };
        let host = url.host().ok_or_else(|| bad("has no usable host"))?.to_owned();
        let port = match url.port() {
            Some(port) => port,
            None if url.has_port() => return Err(bad("has no usable port")),
            None => default_port,
        };
        let login = url.user().map(|user| {
            let password = user.password.clone().unwrap_or_else(|| Secret::new(""));
            Arc::new(Login { user: user.name.clone(), password })
        });
        Ok(Self { scheme, host, port, login })
    }

    /// Opens a stream to `host` through this proxy. The server's own TLS goes inside it.
    pub(super) async fn tunnel(
        &self,
        host: &str,
        port: u16,
        trust: &Trust,
        tracer: &Tracer,
    ) -> Result<Stream, Error> {
        let socket = tcp::dial(&self.host, self.port, tracer).await.map_err(|error| {
            let message = format!("{} could not be reached", self.describe(host, port));
            Error::because(Kind::Connect, message, error)
        })?;
        let stream = match self.scheme {
            Scheme::Http => self.connect(Either::Left(socket), host, port).await,
            Scheme::Https => {
                let secured = self.secure(socket, trust).await?;
                self.connect(Either::Right(secured), host, port).await
            }
            Scheme::Socks5 => {
                socks::connect(socket, host, port, self.login.as_deref()).await.map(Either::Left)
            }
        };
        stream.map_err(|refusal| {
            if matches!(refusal, Refusal::Login) {
                tracer.login_rejected();
            }
            refusal.into_error(self, host, port)
        })
    }

    /// Names the proxy and the server behind it, for messages.
    pub(super) fn describe(&self, host: &str, port: u16) -> String {
        format!("proxy `{self}` on the way to `{host}` port {port}")
    }

    async fn secure(
        &self,
        socket: TcpStream,
        trust: &Trust,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Error> {
        trust.prepare(true).await;
        let connector = TlsConnector::from(Arc::new(trust.proxy_config()?));
        let connected = connector.connect(server_name(&self.host)?, socket).await;
        connected.map_err(|error| no_tls(&self.to_string(), error))
    }

    async fn connect(&self, mut stream: Stream, host: &str, port: u16) -> Result<Stream, Refusal> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let mut head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(login) = &self.login {
            head.push_str("Proxy-Authorization: Basic ");
            let plain = Secret::new(format!("{}:{}", login.user, login.password.expose()));
            STANDARD.encode_string(plain.expose(), &mut head);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        let head = Secret::new(head);
        stream.write_all(head.expose().as_bytes()).await?;
        stream.flush().await?;
        match status(&read_head(&mut stream).await?) {
            Some(200..300) => Ok(stream),
            Some(407) => Err(Refusal::Login),
            Some(code) => Err(Refusal::Other(format!("answered {code}"))),
            None => Err(Refusal::Other("did not answer in HTTP".into())),
        }
    }
}

/// Why a proxy opened no tunnel.
#[derive(Debug)]
pub(super) enum Refusal {
    Io(std::io::Error),
    Login,
    Other(String),
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl Refusal {
    fn into_error(self, proxy: &Proxy, host: &str, port: u16) -> Error {
        let proxy = proxy.describe(host, port);
        match self {
            Self::Io(error) => {
                Error::because(Kind::Connect, format!("{proxy} closed the connection"), error)
            }
            Self::Login => {
                Error::new(Kind::Connect, format!("{proxy} wants another user name and password"))
            }
            Self::Other(what) => Error::new(Kind::Connect, format!("{proxy} {what}")),
        }
    }
}

/// Reads up to the empty line and not a byte further: what follows comes from the server.
async fn read_head(stream: &mut Stream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_LIMIT {
            return Err(std::io::Error::other("the answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    words.next()?.starts_with("HTTP/1.").then_some(())?;
    words.next()?.parse().ok()
}

/// Shows no user name or password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Socks5 => "socks5",
        };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_login_is_decoded_and_never_shown() {
        let proxy = Proxy::parse("http://me:p%40ss%3Aword@proxy.example").unwrap();
        assert_eq!(format!("{proxy:?}"), "Proxy(http://proxy.example:80)");
        let login = proxy.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.expose()), ("me", "p@ss:word"));
    }

    #[test]
    fn each_scheme_has_its_port() {
        let shown = |url: &str| Proxy::parse(url).unwrap().to_string();
        assert_eq!(shown("https://p"), "https://p:443");
        assert_eq!(shown("socks5h://p/"), "socks5://p:1080");
        assert_eq!(shown("socks5://[::1]:9"), "socks5://[::1]:9");
    }

    #[test]
    fn a_bad_proxy_url_is_rejected_without_its_password() {
        for url in [
            "ftp://me:hush@p",
            "http://me:hush@",
            "http://me:hush@h:port",
            "http://me:hush@h:99999",
            "http://me:hush%zz@h",
            "me:hush@p",
        ] {
            let message = Proxy::parse(url).unwrap_err().to_string();
            assert!(!message.contains("hush"), "{message}");
        }
    }

    #[test]
    fn only_a_status_line_is_a_status() {
        assert_eq!(status(b"HTTP/1.0 200 Connection established\r\n\r\n"), Some(200));
        assert_eq!(status(b"SSH-2.0 200\r\n\r\n"), None);
    }
}
