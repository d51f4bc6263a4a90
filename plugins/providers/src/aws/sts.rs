//! The host of AWS STS for a region, by the rules that the SDK has from AWS.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use aws_sdk_sts::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::Aws;

/// Where a request for STS goes, and the region that signs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The host, without scheme.
    pub(crate) host: String,
    /// The region in the signature.
    pub(crate) region: String,
}

impl Aws<'_> {
    /// The endpoint of STS in this region, as the servers that check EKS tokens know it. An endpoint that the
    /// environment or a profile configures does not count here: no server accepts a token for it.
    pub(crate) fn sts_endpoint(&self, region: &str) -> Result<Endpoint, Refusal> {
        let switch = |variable, name| self.config.switch(variable, name);
        let global = self.config.setting("AWS_STS_REGIONAL_ENDPOINTS", "sts_regional_endpoints");
        let params = Params::builder()
            .region(region)
            .use_fips(switch("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"))
            .use_dual_stack(switch("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"))
            .use_global_endpoint(global.is_some_and(|value| value == "legacy"));
        let bad = |why: &dyn std::fmt::Display| {
            Refusal::BadConfig(format!(
                "AWS STS has no endpoint for the region `{}`: {why}",
                inline(region)
            ))
        };
        let params = params.build().map_err(|error| bad(&error))?;
        let resolver = DefaultResolver::new();
        let found = now_or_never(resolver.resolve_endpoint(&params));
        let found =
            found.ok_or_else(|| bad(&"it is not in memory"))?.map_err(|error| bad(&error))?;
        let host = found.url().trim_start_matches("https://").trim_end_matches('/').to_owned();
        let scheme = found.auth_schemes().first();
        let signing = scheme.and_then(|scheme| scheme.get("signingRegion"));
        // The global region has no signatures of its own.
        let own = if region == "aws-global" { "us-east-1" } else { region };
        let signing = signing.and_then(|region| region.as_string()).unwrap_or(own);
        Ok(Endpoint { host, region: signing.to_owned() })
    }
}

/// The result of a future that has nothing to wait for.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
