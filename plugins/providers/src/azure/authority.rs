//! Where Entra ID gives tokens: the authority of a cloud, and a tenant in it.

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use crate::link::is_local;

/// The clouds, with the names that `--environment` and `azure.json` have for them.
const CLOUDS: [(&[&str], &str); 3] = [
    (&["AzurePublicCloud", "AzureCloud", "AzurePublic"], "https://login.microsoftonline.com/"),
    (&["AzureUSGovernmentCloud", "AzureUSGovernment"], "https://login.microsoftonline.us/"),
    (&["AzureChinaCloud"], "https://login.chinacloudapi.cn/"),
];

/// A tenant of Entra ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    /// The cloud's address, which ends with a slash.
    pub(crate) host: String,
    pub(crate) tenant: String,
}

impl Authority {
    /// A tenant at this address, which has to be one of https: secrets go there.
    pub(crate) fn new(host: &str, tenant: &str) -> Result<Self, Refusal> {
        let uri: Option<http::Uri> = host.parse().ok();
        let good = uri.is_some_and(|uri| {
            uri.scheme_str() == Some("https")
                && uri.query().is_none()
                && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        });
        if !good {
            return Err(Refusal::BadConfig(format!(
                "the authority `{}` has to be an address that begins with `https://`",
                inline(host)
            )));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if tenant.is_empty() || !tenant.chars().all(is_name) {
            return Err(Refusal::BadConfig(format!(
                "the tenant is an ID or a domain, not `{}`\n\n\
                 hint: `az account show --query tenantId` shows it; set `--tenant-id`",
                inline(tenant)
            )));
        }
        let host = format!("{}/", host.trim_end_matches('/'));
        Ok(Self { host, tenant: tenant.to_owned() })
    }

    /// A tenant at an address that flags name. Flags may be those of a stranger's kubeconfig, and secrets are this
    /// person's, so an address that is neither a known cloud's nor this machine's has to be the one that `trusted`,
    /// the environment, names.
    pub(crate) fn of_flags(
        host: &str,
        tenant: &str,
        trusted: Option<&str>,
    ) -> Result<Self, Refusal> {
        let authority = Self::new(host, tenant)?;
        let place = place(host);
        let mut known = CLOUDS.iter().map(|(_, host)| *host).chain(trusted);
        let local = place.as_ref().is_some_and(|(host, _)| is_local(host));
        if local || (place.is_some() && known.any(|known| self::place(known) == place)) {
            return Ok(authority);
        }
        Err(Refusal::BadConfig(format!(
            "`{}` is not the authority of a known cloud, so no secret is sent there\n\n\
             hint: if it is your cloud's, set `AZURE_AUTHORITY_HOST` to the same address",
            inline(host)
        )))
    }

    /// An endpoint, such as `token`.
    pub(crate) fn endpoint(&self, name: &str) -> String {
        format!("{}{}/oauth2/v2.0/{name}", self.host, self.tenant)
    }
}

/// The host and port of an address of https.
fn place(address: &str) -> Option<(String, u16)> {
    let uri: http::Uri = address.parse().ok()?;
    Some((uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(443)))
}

/// The address of a cloud. A name that is not known is refused, because the public cloud would see the secrets of
/// another one.
pub(crate) fn authority_of_cloud(name: &str) -> Result<&'static str, Refusal> {
    let same = |known: &&&str| known.eq_ignore_ascii_case(name);
    let found = CLOUDS.iter().find(|(names, _)| names.iter().any(|known| same(&known)));
    found.map(|(_, host)| *host).ok_or_else(|| {
        let names: Vec<_> = CLOUDS.iter().map(|(names, _)| names[0]).collect();
        Refusal::BadConfig(format!(
            "there is no Azure environment `{}`: it is {}\n\n\
             hint: the address of another cloud goes into `--authority-host` and `AZURE_AUTHORITY_HOST`",
            inline(name),
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_authority_is_https_and_its_tenant_is_one_part_of_the_path() {
        let tenant = Authority::new("https://login.example", "t-1").unwrap();
        assert_eq!(tenant.endpoint("token"), "https://login.example/t-1/oauth2/v2.0/token");
        for host in ["http://login.example/", "login.example", "https://a@b/", "https://a/?b", ""] {
            assert!(Authority::new(host, "t").is_err(), "{host}");
        }
        for tenant in ["", "a/b", "a?b", "a b", "..%2f"] {
            assert!(Authority::new("https://login.example/", tenant).is_err(), "{tenant}");
        }
        assert_eq!(
            authority_of_cloud("AZURECHINACLOUD").unwrap(),
            "https://login.chinacloudapi.cn/"
        );
        assert!(
            authority_of_cloud("AzureStackCloud")
                .unwrap_err()
                .to_string()
                .contains("--authority-host")
        );
    }
}
