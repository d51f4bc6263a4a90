//! A login, fully described: what flags and variables ask for, checked.

use std::{path::PathBuf, time::Duration};

use keyward_plugin::Refusal;
use keyward_protocol::Secret;

use super::flags::REFUSED;
use crate::{
    Call,
    azure::{Authority, authority_of_cloud},
    flags::{Flags, duration, wrong_value},
    store::Key,
};

/// The ways to log in, with their names.
const METHODS: [(&str, Method); 9] = [
    ("devicecode", Method::DeviceCode),
    ("interactive", Method::Interactive),
    ("spn", Method::ServicePrincipal),
    ("ropc", Method::Password),
    ("msi", Method::ManagedIdentity),
    ("azurecli", Method::AzureCli),
    ("azd", Method::DeveloperCli),
    ("workloadidentity", Method::WorkloadIdentity),
    ("azurepipelines", Method::Pipelines),
];

/// How long `az` may take.
const PROGRAM: Duration = Duration::from_mins(1);

/// How to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    DeviceCode,
    Interactive,
    ServicePrincipal,
    Password,
    ManagedIdentity,
    AzureCli,
    DeveloperCli,
    WorkloadIdentity,
    Pipelines,
}

/// A login.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) method: Method,
    /// The name of the method.
    pub(super) name: &'static str,
    /// What the token is for.
    pub(super) scope: String,
    host: String,
    /// The authority that the environment names.
    trusted: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) client: Option<String>,
    pub(super) secret: Option<Secret>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) certificate_password: Option<Secret>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) identity: Option<String>,
    pub(super) federated_file: Option<PathBuf>,
    pub(super) connection: Option<String>,
    pub(super) subscription: Option<String>,
    /// The name that the login page shows.
    pub(super) hint: Option<String>,
    pub(super) redirect: Option<String>,
    pub(super) timeout: Duration,
}

impl Login {
    /// Reads flags and variables.
    pub(super) fn new(call: &Call, flags: &Flags) -> Result<Self, Refusal> {
        for (name, why) in REFUSED {
            if flags.is_set(name) {
                return Err(Refusal::BadConfig(format!("`--{name}` is not supported: {why}")));
            }
        }
        let overridden = !flags.is_set("disable-environment-override");
        let var = |name: &str| call.var(name).filter(|_| overridden);
        let flag = |name: &str| flags.filled(name).map(str::to_owned);
        // The last variable that is set wins, and any of them over the flag.
        let value = |name: &str, variables: &[&str]| {
            variables.iter().rev().find_map(|name| var(name)).or_else(|| flag(name))
        };
        let terraform = flags.is_set("use-azurerm-env-vars");
        let principal = |name: &str, own: &[&str], terraforms: &str| {
            if terraform { value(name, &[terraforms]) } else { value(name, own) }
        };
        let path = |text: String| call.surroundings.absolute(&PathBuf::from(text));
        let method = value("login", &["AAD_LOGIN_METHOD"]).unwrap_or_else(|| "devicecode".into());
        let (name, method) = method_named(&method)?;
        let pipelines = |name: &str| var(name).filter(|_| method == Method::Pipelines);
        let workload = method == Method::WorkloadIdentity;
        let host =
            var("AZURE_AUTHORITY_HOST").filter(|_| workload).or_else(|| flag("authority-host"));
        let host = match host {
            Some(host) => host,
            None => {
                let cloud = flag("environment").unwrap_or_else(|| "AzurePublicCloud".into());
                authority_of_cloud(&cloud)?.to_owned()
            }
        };
        let mut client = principal(
            "client-id",
            &["AAD_SERVICE_PRINCIPAL_CLIENT_ID", "AZURE_CLIENT_ID"],
            "ARM_CLIENT_ID",
        );
        if workload {
            client = var("AZURE_CLIENT_ID").or(client);
        }
        let server = flag("server-id").ok_or_else(|| missing(call, "server-id"))?;
        Ok(Self {
            method,
            name,
            scope: scope(&server),
            host,
            trusted: call.var("AZURE_AUTHORITY_HOST"),
            tenant: principal("tenant-id", &["AZURE_TENANT_ID"], "ARM_TENANT_ID")
                .or_else(|| pipelines("AZURESUBSCRIPTION_TENANT_ID")),
            client: client.or_else(|| pipelines("AZURESUBSCRIPTION_CLIENT_ID")),
            secret: principal(
                "client-secret",
                &["AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", "AZURE_CLIENT_SECRET"],
                "ARM_CLIENT_SECRET",
            )
            .map(Secret::new),
            certificate: principal(
                "client-certificate",
                &["AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE", "AZURE_CLIENT_CERTIFICATE_PATH"],
                "ARM_CLIENT_CERTIFICATE_PATH",
            )
            .map(path),
            certificate_password: principal(
                "client-certificate-password",
                &[
                    "AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE_PASSWORD",
                    "AZURE_CLIENT_CERTIFICATE_PASSWORD",
                ],
                "ARM_CLIENT_CERTIFICATE_PASSWORD",
            )
            .map(Secret::new),
            username: value("username", &["AAD_USER_PRINCIPAL_NAME", "AZURE_USERNAME"]),
            password: value("password", &["AAD_USER_PRINCIPAL_PASSWORD", "AZURE_PASSWORD"])
                .map(Secret::new),
            identity: flag("identity-resource-id"),
            federated_file: var("AZURE_FEDERATED_TOKEN_FILE")
                .filter(|_| workload)
                .or_else(|| flag("federated-token-file"))
                .map(path),
            connection: flag("azure-pipelines-service-connection-id")
                .or_else(|| pipelines("AZURESUBSCRIPTION_SERVICE_CONNECTION_ID")),
            subscription: flag("subscription"),
            hint: flag("login-hint"),
            redirect: flag("redirect-url"),
            timeout: timeout(flags, var("AZURE_CLI_TIMEOUT").as_deref())?,
        })
    }

    /// The client, or a refusal if none is named.
    pub(super) fn client(&self) -> Result<&str, Refusal> {
        self.client.as_deref().ok_or_else(|| self.needs("--client-id", "AZURE_CLIENT_ID"))
    }

    /// The tenant and its address, or a refusal if none is named.
    pub(super) fn authority(&self) -> Result<Authority, Refusal> {
        let tenant = self.tenant.as_deref();
        let tenant = tenant.ok_or_else(|| self.needs("--tenant-id", "AZURE_TENANT_ID"))?;
        Authority::of_flags(&self.host, tenant, self.trusted.as_deref())
    }

    /// The identity that logs in: everything that decides whose token it is.
    pub(super) fn key(&self, proof: &str) -> Key {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Key::new("entra")
            .with("authority", self.host.clone())
            .with("tenant", text(&self.tenant))
            .with("client", text(&self.client))
            .with("user", self.username.clone().or_else(|| self.hint.clone()).unwrap_or_default())
            .with("scope", self.scope.clone())
            .with("login", self.name)
            .with("proof", proof)
    }

    /// The refusal of a login that lacks something.
    pub(super) fn needs(&self, flag: &str, variable: &str) -> Refusal {
        Refusal::BadConfig(format!("`--login {}` needs `{flag}` or `{variable}`", self.name))
    }
}

fn method_named(name: &str) -> Result<(&'static str, Method), Refusal> {
    METHODS.into_iter().find(|(known, _)| *known == name).ok_or_else(|| {
        let names = METHODS.map(|(name, _)| name).join(", ");
        wrong_value("--login", &format!("one of {names}"), name)
    })
}

fn missing(call: &Call, flag: &str) -> Refusal {
    let other = if call.name == "kubelogin" {
        " (or `--oidc-issuer-url`, for logins with other OpenID providers)"
    } else {
        ""
    };
    Refusal::BadConfig(format!("`--{flag}` is missing{other}\n\nhint: `keyward-entra --help`"))
}

/// The scope of all permissions for an application.
fn scope(server: &str) -> String {
    let server = server.trim_end_matches('/');
    if server.ends_with("/.default") { server.to_owned() } else { format!("{server}/.default") }
}

/// The time for `az` and `azd`. A variable that is not a time is ignored, as with kubelogin.
fn timeout(flags: &Flags, variable: Option<&str>) -> Result<Duration, Refusal> {
    let read = |text: &str| duration(text).filter(|time| !time.is_zero());
    if let Some(time) = variable.and_then(read) {
        return Ok(time);
    }
    let Some(text) = flags.text("timeout") else { return Ok(PROGRAM) };
    read(text).ok_or_else(|| wrong_value("--timeout", "a time such as `30s`", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_no_time_is_ignored() {
        for variable in [None, Some("0s"), Some("soon"), Some("")] {
            assert_eq!(timeout(&Flags::default(), variable).unwrap(), PROGRAM, "{variable:?}");
        }
        let seconds = timeout(&Flags::default(), Some("5s")).unwrap();
        assert_eq!(seconds, Duration::from_secs(5));
    }

    #[test]
    fn the_scope_asks_for_everything_that_was_granted() {
        for server in ["6dae", "6dae/", "6dae/.default"] {
            assert_eq!(scope(server), "6dae/.default");
        }
    }
}
