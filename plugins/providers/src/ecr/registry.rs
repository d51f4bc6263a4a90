//! Names of registries, and the API that gives logins for them.

use crate::aws::is_region;

/// The domains of private registries, with the API's domain and whether that is dual-stack. There is one
/// entry for each kind in each partition of AWS; government regions have the domains of the first.
const DOMAINS: [(&str, &str, bool); 10] = [
    ("amazonaws.com", "amazonaws.com", false),
    ("amazonaws.com.cn", "amazonaws.com.cn", false),
    ("amazonaws.eu", "amazonaws.eu", false),
    ("c2s.ic.gov", "c2s.ic.gov", false),
    ("sc2s.sgov.gov", "sc2s.sgov.gov", false),
    ("cloud.adc-e.uk", "cloud.adc-e.uk", false),
    ("csp.hci.ic.gov", "csp.hci.ic.gov", false),
    ("on.aws", "api.aws", true),
    ("on.amazonwebservices.com.cn", "api.amazonwebservices.com.cn", true),
    ("on.amazonwebservices.eu", "api.amazonwebservices.eu", true),
];

/// The hosts of the public registry, with those of its API.
const PUBLIC: [(&str, &str); 2] = [
    ("public.ecr.aws", "api.ecr-public.us-east-1.amazonaws.com"),
    ("ecr-public.aws.com", "ecr-public.us-east-1.api.aws"),
];

/// The patterns that match every registry of Amazon ECR, in all partitions, with FIPS and dual-stack.
pub(super) fn patterns() -> Vec<String> {
    let private = DOMAINS.iter().flat_map(|(domain, _, dual_stack)| {
        let service = if *dual_stack { "dkr-ecr" } else { "dkr.ecr" };
        ["", "-fips"].map(|fips| format!("*.{service}{fips}.*.{domain}"))
    });
    private.chain(PUBLIC.map(|(host, _)| host.to_owned())).collect()
}

/// The API that gives logins for a registry of Amazon ECR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registry {
    pub(super) region: String,
    /// The name of the service in signatures and in `AWS_ENDPOINT_URL_…`.
    pub(super) service: &'static str,
    /// The operation that gives a login.
    pub(super) target: &'static str,
    /// The host of the API.
    pub(super) host: String,
}

impl Registry {
    /// The API for this host, which may have a scheme, a port or a path; `None` if it is not one of Amazon's: no
    /// token may go there.
    pub(super) fn parse(server: &str) -> Option<Self> {
        let host = server.strip_prefix("https://").unwrap_or(server);
        let host = host.split('/').next()?;
        let host = host.split_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
        if let Some((_, api)) = PUBLIC.into_iter().find(|(known, _)| *known == host) {
            return Some(Self {
                region: "us-east-1".to_owned(),
                service: "ecr-public",
                target: "SpencerFrontendService.GetAuthorizationToken",
                host: api.to_owned(),
            });
        }
        let (account, rest) = host.split_once('.')?;
        if account.len() != 12 || !account.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let rest = rest.strip_prefix("dkr.ecr").or_else(|| rest.strip_prefix("dkr-ecr"))?;
        let (fips, rest) = match rest.strip_prefix("-fips.") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix('.')?),
        };
        // Region, domain and `dkr.ecr` or `dkr-ecr` are not compared with each other, nor do the tools that
        // this replaces compare them: whatever the combination, the host is Amazon's, and so is the API's.
        let (region, domain) = rest.split_once('.')?;
        let (_, domain, dual_stack) = DOMAINS.into_iter().find(|(known, ..)| *known == domain)?;
        is_region(region).then(|| Self {
            region: region.to_owned(),
            service: "ecr",
            target: "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
            host: private_host(region, domain, fips, dual_stack),
        })
    }
}

/// The host of the API for private registries. Its names follow no rule; botocore's are the judge of this table.
fn private_host(region: &str, domain: &str, fips: bool, dual_stack: bool) -> String {
    let american = region.starts_with("us-") && domain != "c2s.ic.gov" && domain != "sc2s.sgov.gov";
    let service = match (fips, dual_stack) {
        (false, false) => "api.ecr",
        (false, true) if domain == "api.amazonwebservices.eu" => "api.ecr",
        (false, true) => "ecr",
        (true, false) if domain == "amazonaws.com" => "ecr-fips",
        (true, true) if domain == "api.aws" && american => "ecr-fips",
        (true, _) => "api.ecr-fips",
    };
    format!("{service}.{region}.{domain}")
}
