//! Metrics over HTTP: the flags that say where, and the server.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
};

use keyward_proxy::MetricsServer;

use crate::{failure::Failure, output, server};

/// Where to serve metrics.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Listen {
    /// Serve `/metrics` and `/healthz` here until a signal ends the command, without TLS
    #[arg(long = "listen", value_name = "ADDRESS", value_parser = address)]
    pub(crate) address: Option<SocketAddr>,

    /// Listen on addresses other than loopback, under these names
    #[arg(
        long, value_name = "NAME,…", num_args = 0..=1, require_equals = true,
        default_missing_value = "", value_delimiter = ',', requires = "address"
    )]
    danger_listen_remote: Option<Vec<String>>,
}

impl Listen {
    /// Serves at this address what `scrape` returns, until a signal ends the process.
    pub(crate) fn serve<S, F>(&self, address: SocketAddr, scrape: S) -> Result<(), Failure>
    where
        S: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        server::runtime()?.block_on(async {
            let remote = self.danger_listen_remote.as_deref();
            let server = MetricsServer::bind(address, remote).await?;
            output::tell(&format!("metrics {}\n", server.url()));
            server.serve(scrape).await;
            Ok(())
        })
    }
}

/// An address with a port. Kubernetes gives pods IPv6 addresses without the brackets that an address with a port has.
fn address(text: &str) -> Result<SocketAddr, String> {
    let loose = || {
        let (ip, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port.parse().ok()?))
    };
    text.parse().ok().or_else(loose).ok_or_else(|| {
        "it must be an IP address with a port, such as `127.0.0.1:9876` or `[::1]:9876`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv6_needs_no_brackets() {
        for text in ["[fd00::1]:9877", "fd00::1:9877"] {
            assert_eq!(address(text).unwrap().to_string(), "[fd00::1]:9877");
        }
        assert_eq!(address("10.0.0.1:80").unwrap().to_string(), "10.0.0.1:80");
        for text in ["fd00::1", "10.0.0.1", "localhost:80", ":80", "fd00::1:99999"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
