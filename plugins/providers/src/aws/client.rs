//! HTTP and the runtime that the SDK needs, opened only when something has to be asked over the network.

use std::time::{Duration, SystemTime};

use aws_config::provider_config::ProviderConfig;
use aws_sdk_sts::config::{
    BehaviorVersion, IdentityCache, Region, retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_smithy_async::{
    rt::sleep::{SharedAsyncSleep, TokioSleep},
    time::TimeSource,
};
use aws_smithy_http_client::{
    Builder, Connector,
    proxy::ProxyConfig,
    tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector as _, HttpConnectorSettings, SharedHttpClient},
    orchestrator::HttpRequest,
    runtime_components::RuntimeComponents,
};
use aws_smithy_types::{body::SdkBody, byte_stream::ByteStream};
use keyward_plugin::{Refusal, Url};
use keyward_process::{
    clock::SharedClock,
    file::{self, Limits},
};
use keyward_protocol::{
    Secret,
    text::{inline, with_causes},
};
use tokio::runtime::Runtime;

use super::{Aws, Keys, config::Config};
use crate::link;

/// How long a connection may take to open, and a whole exchange with its retries.
const CONNECT: Duration = Duration::from_secs(5);
const EXCHANGE: Duration = Duration::from_secs(30);

/// The longest answer to a request of our own.
const LONGEST: usize = 1 << 20;

/// The runtime, and what connections need.
pub(super) struct Network {
    runtime: Runtime,
    tls: TlsContext,
}

/// The answer to a request of our own.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The body, which may contain a credential.
    pub(crate) body: Secret,
}

/// How an address is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Without TLS and proxy: the endpoints of instances and containers. No certificates have to be read.
    Plain,
    /// Without a proxy: link-local and loopback addresses are never behind one.
    Direct,
    /// As the environment says.
    Proxied,
}

impl Network {
    pub(super) fn open(config: &Config<'_>) -> Result<Self, Refusal> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Refusal::Failed(format!("no runtime: {error}")))?;
        let mut roots = TrustStore::default();
        if let Some(path) = config.setting("AWS_CA_BUNDLE", "ca_bundle") {
            let bundle = file::read(path.as_ref(), &Limits::NAMED).map_err(|error| {
                Refusal::BadConfig(format!(
                    "cannot read `{}`, which `AWS_CA_BUNDLE` or the profile's `ca_bundle` names: {error}",
                    inline(&path)
                ))
            })?;
            roots = roots.with_pem_certificate(bundle.to_vec());
        }
        let tls = TlsContext::builder().with_trust_store(roots).build();
        let tls = tls.map_err(|error| Refusal::Failed(format!("no TLS: {error}")))?;
        Ok(Self { runtime, tls })
    }

    /// Waits for an answer.
    pub(super) fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }

    /// The client for this URL; `None` is a public endpoint of AWS.
    pub(super) fn client(&self, url: Option<&str>) -> SharedHttpClient {
        let (route, tls) = (Self::route(url), self.tls.clone());
        Builder::new().build_with_connector_fn(move |settings, components| {
            route.connector(&tls, settings, components.and_then(RuntimeComponents::sleep_impl))
        })
    }

    fn route(url: Option<&str>) -> Route {
        match url {
            Some(url) if is_near(url) && url.starts_with("http://") => Route::Plain,
            Some(url) if is_near(url) => Route::Direct,
            _ => Route::Proxied,
        }
    }
}

impl Route {
    fn connector(
        self,
        tls: &TlsContext,
        settings: Option<&HttpConnectorSettings>,
        sleep: Option<SharedAsyncSleep>,
    ) -> Connector {
        let mut builder = Connector::builder();
        builder.set_connector_settings(settings.cloned());
        builder.set_sleep_impl(sleep);
        match self {
            Self::Plain => return builder.build_http(),
            Self::Direct => {}
            Self::Proxied => builder = builder.proxy_config(ProxyConfig::from_env()),
        }
        builder.tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(tls.clone()).build()
    }
}

/// Whether an address is on this machine or its link, where no proxy can help.
fn is_near(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.host().is_some_and(link::is_near))
}

impl Aws<'_> {
    /// A client of STS, which signs with these keys or not at all.
    pub(super) fn sts_client(&self, keys: Option<&Keys>) -> Result<aws_sdk_sts::Client, Refusal> {
        let region = self.region().ok_or_else(no_region)?;
        let network = self.network()?;
        let url = self.config.endpoint("STS");
        // They choose among the public endpoints; the SDK refuses them together with another one.
        let switch = |variable, name| url.is_none() && self.config.switch(variable, name);
        let mut builder = aws_sdk_sts::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region))
            .http_client(network.client(url.as_deref()))
            .identity_cache(IdentityCache::no_cache())
            .retry_config(RetryConfig::standard())
            .timeout_config(limits())
            .time_source(Time(self.call.clock.clone()))
            .use_fips(switch("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"))
            .use_dual_stack(switch("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"));
        builder.set_endpoint_url(url);
        if let Some(keys) = keys {
            builder = builder.credentials_provider(keys.to_sdk());
        }
        Ok(aws_sdk_sts::Client::from_conf(builder.build()))
    }

    /// The URL that the environment or the profile configures for a service, such as `STS`.
    pub(crate) fn endpoint(&self, service: &str) -> Option<String> {
        self.config.endpoint(service)
    }

    /// Sends a request that the SDK has no client for here, once, and returns the answer whatever its status is.
    pub(crate) fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, Refusal> {
        let host = Url::parse(url).ok();
        let host = host.as_ref().and_then(Url::host).map_or_else(String::new, inline);
        let failed = |error: &(dyn std::error::Error + 'static)| {
            Refusal::Failed(format!("cannot ask `{host}`: {}", inline(&with_causes(error))))
        };
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method(method).map_err(|error| failed(&error))?;
        request.set_uri(url).map_err(|error| failed(&error))?;
        for (name, value) in headers {
            request.headers_mut().insert((*name).to_owned(), (*value).to_owned());
        }
        let network = self.network()?;
        let settings = HttpConnectorSettings::builder()
            .connect_timeout(CONNECT)
            .read_timeout(EXCHANGE)
            .build();
        let connector = Network::route(Some(url)).connector(
            &network.tls,
            Some(&settings),
            Some(SharedAsyncSleep::new(TokioSleep::new())),
        );
        let exchange = async {
            let answer = connector.call(request).await.map_err(|error| failed(&error))?;
            let status = answer.status().as_u16();
            let mut stream = ByteStream::new(answer.into_body());
            let mut body = Vec::new();
            while let Some(part) = stream.next().await {
                body.extend_from_slice(&part.map_err(|error| failed(&error))?);
                if body.len() > LONGEST {
                    return Err(Refusal::Failed(format!(
                        "cannot ask `{host}`: the answer is longer than {LONGEST} bytes"
                    )));
                }
            }
            Ok(Answer { status, body: Secret::from_bytes(body) })
        };
        let answer = network.wait(async { tokio::time::timeout(EXCHANGE, exchange).await });
        answer.unwrap_or_else(|_| {
            let limit = EXCHANGE.as_secs();
            Err(Refusal::Failed(format!("cannot ask `{host}`: no answer within {limit} s")))
        })
    }

    /// The settings for providers of `aws-config`, for the service at this URL.
    pub(super) fn provider_config(
        &self,
        url: Option<&str>,
        region: Option<String>,
    ) -> Result<ProviderConfig, Refusal> {
        Ok(ProviderConfig::without_region()
            .with_region(region.map(Region::new))
            .with_http_client(self.network()?.client(url))
            .with_timeout_config(limits())
            .with_time_source(Time(self.call.clock.clone())))
    }
}

fn limits() -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(CONNECT).operation_timeout(EXCHANGE).build()
}

pub(crate) fn no_region() -> Refusal {
    Refusal::bad_config(
        "no AWS region is configured\n\nhint: give `--region`, set `AWS_REGION`, or set `region` in the profile",
    )
}

/// The clock of the call, for the SDK.
#[derive(Clone)]
struct Time(SharedClock);

impl TimeSource for Time {
    fn now(&self) -> SystemTime {
        self.0.now().into()
    }
}

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_link_are_near() {
        for url in [
            "http://127.0.0.1:80/x",
            "http://localhost:5000",
            "http://[::1]:80",
            "http://169.254.169.254",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::254]",
        ] {
            assert!(is_near(url), "{url}");
        }
        for url in ["https://sts.amazonaws.com", "http://10.0.0.1", "http://[fd00:ec3::1]"] {
            assert!(!is_near(url), "{url}");
        }
    }
}
