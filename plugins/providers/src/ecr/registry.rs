//! Names of registries, and the API that gives logins for them.

use crate::aws::is_region;

/// The domains of private registries, with the API's domain and whether that is dual-stack.
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

/// The hosts of the public registry.
const PUBLIC_HOSTS: [&str; 2] = ["public.ecr.aws", "ecr-public.aws.com"];

/// The patterns that match every registry of Amazon ECR, in all partitions, with FIPS and dual-stack.
pub(super) fn patterns() -> Vec<String> {
    let private = DOMAINS.iter().flat_map(|(domain, _, dual_stack)| {
        let service = if *dual_stack { "dkr-ecr" } else { "dkr.ecr" };
        ["", "-fips"].map(|fips| format!("*.{service}{fips}.*.{domain}"))
    });
    private.chain(PUBLIC_HOSTS.map(str::to_owned)).collect()
}

/// The region of the public registry.
const PUBLIC: &str = "us-east-1";

/// A registry of Amazon ECR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Registry {
    /// `public.ecr.aws`, or its dual-stack name.
    Public {
        /// Whether it was named by the dual-stack name.
        dual_stack: bool,
    },
    /// A private one.
    Private {
        region: String,
        /// The domain of the API.
        domain: &'static str,
        fips: bool,
        dual_stack: bool,
    },
}

impl Registry {
    /// The registry of this host, which may have a scheme, a port or a path; `None` if it is not one of Amazon's:
    /// no token may go there.
    pub(super) fn parse(server: &str) -> Option<Self> {
        let host = server.strip_prefix("https://").unwrap_or(server);
        let host = host.split('/').next()?;
        let host = host.split_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
        match host.as_str() {
            host if host == PUBLIC_HOSTS[0] => return Some(Self::Public { dual_stack: false }),
            host if host == PUBLIC_HOSTS[1] => return Some(Self::Public { dual_stack: true }),
            _ => {}
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
        let (region, domain) = rest.split_once('.')?;
        let (_, domain, dual_stack) = DOMAINS.iter().find(|(known, ..)| *known == domain)?;
        is_region(region).then(|| Self::Private {
            region: region.to_owned(),
            domain,
            fips,
            dual_stack: *dual_stack,
        })
    }

    /// The region of the API.
    pub(super) fn region(&self) -> &str {
        match self {
            Self::Public { .. } => PUBLIC,
            Self::Private { region, .. } => region,
        }
    }

    /// The name of the service in signatures and in `AWS_ENDPOINT_URL_…`.
    pub(super) fn service(&self) -> &'static str {
        match self {
            Self::Public { .. } => "ecr-public",
            Self::Private { .. } => "ecr",
        }
    }

    /// The operation that gives a login.
    pub(super) fn target(&self) -> &'static str {
        match self {
            Self::Public { .. } => "SpencerFrontendService.GetAuthorizationToken",
            Self::Private { .. } => "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
        }
    }

    /// The host of the API. Its names follow no rule; botocore's are the judge of this table.
    pub(super) fn api(&self) -> String {
        match self {
            Self::Public { dual_stack: false } => "api.ecr-public.us-east-1.amazonaws.com".into(),
            Self::Public { dual_stack: true } => "ecr-public.us-east-1.api.aws".into(),
            Self::Private { region, domain, fips, dual_stack, .. } => {
                let american = region.starts_with("us-")
                    && *domain != "c2s.ic.gov"
                    && *domain != "sc2s.sgov.gov";
                let service = match (fips, dual_stack) {
                    (false, false) => "api.ecr",
                    (false, true) if *domain == "api.amazonwebservices.eu" => "api.ecr",
                    (false, true) => "ecr",
                    (true, false) if *domain == "amazonaws.com" => "ecr-fips",
                    (true, true) if *domain == "api.aws" && american => "ecr-fips",
                    (true, _) => "api.ecr-fips",
                };
                format!("{service}.{region}.{domain}")
            }
        }
    }
}
