use std::{fmt, io, net::TcpStream, time::Duration};

use keyward_protocol::{Node, Url, exec::Cluster, url, x509};

use crate::{QuestionError, tunnel};

/// How to reach the cluster that a credential is for, ready for a client and without a credential.
///
/// It contains what the kubeconfig says about the cluster, including the proxy, and nothing of the
/// environment: `HTTPS_PROXY` is up to your HTTP library.
///
/// [`Endpoint::connect`] opens the connection, through the proxy where there is one. TLS on it is
/// the plugin's: give your TLS library [`Endpoint::server_name`] and [`Endpoint::authorities`]. The
/// example `token_over_tls` does that with rustls.
#[derive(Clone)]
pub struct Endpoint {
    cluster: Cluster,
    proxy: Option<Url>,
}

impl Endpoint {
    /// Fails if the proxy is not a URL. The server is checked when it is used, as the reference
    /// does.
    pub(crate) fn new(cluster: &Cluster) -> Result<Self, QuestionError> {
        let proxy = match cluster.proxy_url.as_str() {
            "" => None,
            text => Some(
                Url::parse(text)
                    .map_err(|e| QuestionError::BadCluster(format!("`proxy-url` is {e}")))?,
            ),
        };
        Ok(Self { cluster: cluster.clone(), proxy })
    }

    /// URL of the API server, as written in the kubeconfig.
    pub fn server(&self) -> &str {
        &self.cluster.server
    }

    /// The host to connect to.
    pub fn host(&self) -> Option<String> {
        Some(self.url()?.host()?.to_owned())
    }

    /// The port to connect to: the URL's, or the default of its scheme.
    pub fn port(&self) -> u16 {
        let url = self.url();
        let standard =
            if url.as_ref().is_some_and(|url| url.scheme() == "http") { 80 } else { 443 };
        url.and_then(|url| url.port()).unwrap_or(standard)
    }

    /// The name to send in the handshake (SNI) and to check the server's certificate against: the
    /// cluster's `tls-server-name`, or else the URL's host.
    pub fn server_name(&self) -> Option<String> {
        match self.cluster.tls_server_name.as_str() {
            "" => self.host(),
            name => Some(name.to_owned()),
        }
    }

    /// The cluster's `tls-server-name`, as written in the kubeconfig; empty if it is not set.
    pub fn tls_server_name(&self) -> &str {
        &self.cluster.tls_server_name
    }

    /// Whether the kubeconfig says not to check the server's certificate. Think twice before you
    /// send a secret there.
    pub fn insecure(&self) -> bool {
        self.cluster.insecure_skip_tls_verify
    }

    /// The certificate authorities of the cluster, in PEM; empty means the system's.
    pub fn authorities_pem(&self) -> &[u8] {
        &self.cluster.certificate_authority_data
    }

    /// The certificate authorities of the cluster, each in DER; none means the system's.
    pub fn authorities(&self) -> Result<Vec<Vec<u8>>, QuestionError> {
        certificates(self.authorities_pem()).ok_or_else(|| {
            QuestionError::BadCluster(
                "`certificate-authority-data` holds no certificate in PEM".into(),
            )
        })
    }

    /// The proxy to go through.
    pub fn proxy(&self) -> Option<&Url> {
        self.proxy.as_ref()
    }

    /// Whether to ask for compressed responses.
    pub fn compression(&self) -> bool {
        !self.cluster.disable_compression
    }

    /// What the kubeconfig's cluster says to this plugin: its extension
    /// `client.authentication.k8s.io/exec`.
    pub fn config(&self) -> Option<&Node> {
        self.cluster.config.as_ref()
    }

    /// Opens a connection to the server, through the proxy where there is one (`http` by CONNECT,
    /// `socks5` and `socks5h`; a proxy that itself uses TLS is not supported and an
    /// error). Each step may take `patience`, which also becomes the stream's read and write limit.
    pub fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        let host = self.host().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the server's URL has no host")
        })?;
        match &self.proxy {
            None => tunnel::dial(&host, self.port(), patience),
            Some(proxy) => tunnel::through(proxy, &host, self.port(), patience),
        }
    }

    /// The server's URL; a bare `host:port` is taken for `https`.
    fn url(&self) -> Option<Url> {
        let server = &self.cluster.server;
        if server.contains("://") {
            return Url::parse(server).ok();
        }
        Url::parse(&format!("https://{server}")).ok()
    }
}

/// Shows the server, but not the plugin's configuration in the kubeconfig.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("server", &url::mask(&self.cluster.server))
            .field("server_name", &self.server_name())
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

/// The certificates of a PEM text, as Go reads a bundle of authorities; `None` when there is text but
/// no certificate.
fn certificates(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
    let found: Vec<_> = x509::bundle(pem).collect();
    (!found.is_empty() || pem.trim_ascii().is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBLjCB4aADAgECAhRZ0yrHh+iReVR7NIZkgmpD9JlzODAFBgMrZXAwDDEKMAgG\n\
A1UEAwwBYTAgFw0yNjExMTcwMDAwMTJaGA8yMTI2MTAyNDAwMDAxMlowDDEKMAgG\n\
A1UEAwwBYTAqMAUGAytlcAMhABdU/SFMLuG4fDo9sMmwBY7rZL4gPM6TGn/nOgki\n\
jmYAo1MwUTAdBgNVHQ4EFgQUAfjD4tKxKzHchFog0pMDbqkKQ4swHwYDVR0jBBgw\n\
FoAUAfjD4tKxKzHchFog0pMDbqkKQ4swDwYDVR0TAQH/BAUwAwEB/zAFBgMrZXAD\n\
QQCE8/mkY04tjqOYbwSzffcPDkRZ4IZDEQnkNmSNxFqqayDvGI9vZMk1Tnn+Uzck\n\
SEMs1HhZvYj3ioiC769p3EgJ\n\
-----END CERTIFICATE-----\n\
";

    fn endpoint(cluster: &Cluster) -> Endpoint {
        Endpoint::new(cluster).unwrap()
    }

    #[test]
    fn the_server_name_is_the_clusters_before_the_urls() {
        let mut cluster =
            Cluster { server: "https://10.0.0.1:6443/path".into(), ..Cluster::default() };
        assert_eq!(endpoint(&cluster).server_name().unwrap(), "10.0.0.1");
        cluster.tls_server_name = "api.example".into();
        assert_eq!(endpoint(&cluster).server_name().unwrap(), "api.example");
    }

    #[test]
    fn a_server_without_scheme_is_reached_by_tls() {
        let bare = endpoint(&Cluster { server: "localhost:8443".into(), ..Cluster::default() });
        assert_eq!((bare.host().as_deref(), bare.port()), (Some("localhost"), 8443));
        let plain = endpoint(&Cluster { server: "http://h".into(), ..Cluster::default() });
        assert_eq!(plain.port(), 80);
    }

    #[test]
    fn debug_shows_no_password() {
        let cluster = Cluster {
            server: "https://ann:s3cr3t@h".into(),
            proxy_url: "http://bea:s3cr3t@p".into(),
            ..Cluster::default()
        };
        let shown = format!("{:?}", endpoint(&cluster));
        assert!(shown.contains("bea") && !shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn a_proxy_that_is_no_url_is_a_bad_cluster() {
        let cluster = Cluster { proxy_url: "a b\n".into(), ..Cluster::default() };
        assert!(matches!(Endpoint::new(&cluster), Err(QuestionError::BadCluster(_))));
    }

    #[test]
    fn authorities_are_taken_out_of_their_pem() {
        let cut = &AUTHORITY[..100];
        let pem = format!("# one is cut off\n{cut}\n{AUTHORITY}{AUTHORITY}");
        let found = certificates(pem.as_bytes()).unwrap();
        assert_eq!((found.len(), found[0][0]), (2, 0x30));
        assert_eq!(certificates(b" \n").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(certificates(b"some"), None);
    }
}
