//! The flags of `keyward-entra`: those of Azure/kubelogin.

use crate::flags::{Flag, HELP, Kind, flag, short};

const FILES: &str = "tokens are kept by the agent, never in files";
const LOG: &str = "messages go to stderr, and there is no log";
const POP: &str = "proof-of-possession tokens need a new RSA key on each machine, which ring cannot make; clusters take \
     bearer tokens unless they are reached through Azure Arc's cluster connect";
const LEGACY: &str = "it asks the endpoint 1.0 of Entra ID for tokens of AKS's legacy integration, which Azure has ended; \
     leave it out";
const CONVERT: &str =
    "it belongs to `convert-kubeconfig`; `keyward wrap --native` converts a kubeconfig";

/// The flags that tell Azure/kubelogin from int128/kubelogin.
pub(super) const OWN: &[Flag] = &[
    short('l', "login", Kind::Text),
    flag("server-id", Kind::Text),
    short('t', "tenant-id", Kind::Text),
    short('e', "environment", Kind::Text),
    flag("authority-host", Kind::Text),
    flag("client-certificate-password", Kind::Text),
    flag("identity-resource-id", Kind::Text),
    flag("federated-token-file", Kind::Text),
    flag("azure-pipelines-service-connection-id", Kind::Text),
    short('s', "subscription", Kind::Text),
    flag("login-hint", Kind::Text),
    flag("use-azurerm-env-vars", Kind::Switch),
    flag("disable-environment-override", Kind::Switch),
    flag("disable-instance-discovery", Kind::IgnoredSwitch("instances are never discovered")),
    // A switch that is off asks for nothing.
    flag("legacy", Kind::Switch),
    flag("pop-enabled", Kind::Switch),
];

/// The others.
pub(super) const FLAGS: &[Flag] = &[
    flag("client-id", Kind::Text),
    flag("client-secret", Kind::Text),
    flag("client-certificate", Kind::Text),
    flag("username", Kind::Text),
    flag("password", Kind::Text),
    flag("redirect-url", Kind::Text),
    flag("timeout", Kind::Text),
    flag("cache-dir", Kind::Ignored(FILES)),
    flag("token-cache-dir", Kind::Ignored(FILES)),
    flag("pop-claims", Kind::Refused(POP)),
    HELP,
    // Its flags for logging.
    flag("logtostderr", Kind::IgnoredSwitch(LOG)),
    short('v', "v", Kind::Ignored(LOG)),
    // Those of `convert-kubeconfig`.
    flag("kubeconfig", Kind::Refused(CONVERT)),
    flag("context", Kind::Refused(CONVERT)),
    flag("azure-config-dir", Kind::Refused(CONVERT)),
    // Ours.
    flag("browser-command", Kind::Text),
    flag("skip-open-browser", Kind::Switch),
    flag("authentication-timeout-sec", Kind::Text),
];

/// Switches that are refused when they are on, and why.
pub(super) const REFUSED: [(&str, &str); 2] = [("legacy", LEGACY), ("pop-enabled", POP)];

pub(super) const USAGE: &str = "\
Prints a token of Microsoft Entra ID for an AKS cluster as a Kubernetes ExecCredential.

Usage: keyward-entra [get-token] --server-id ID [flags]
       keyward-entra version

Started as kubelogin with flags that only Azure/kubelogin has, this program does the same. Variables (in parentheses)
override flags, as with Azure/kubelogin, unless --disable-environment-override is given.

  --server-id ID                  application ID of the API server; 6dae42f8-4368-4678-94ff-3960e28e3630 for AKS
  -t, --tenant-id ID              tenant (AZURE_TENANT_ID)
  --client-id ID                  ID of the application that logs in, or of the managed identity
                                  (AZURE_CLIENT_ID, AAD_SERVICE_PRINCIPAL_CLIENT_ID)
  -e, --environment NAME          AzurePublicCloud (default), AzureUSGovernmentCloud or AzureChinaCloud
  --authority-host URL            address of another cloud; AZURE_AUTHORITY_HOST has to name it, too
  -l, --login METHOD              how to log in (AAD_LOGIN_METHOD):

devicecode        a page on any machine, where you confirm a code (default)
interactive       a page in the browser of this machine
  --login-hint NAME               user name for the page
  --redirect-url URL              redirect URL with the port to listen at (default http://localhost, any port)
  --browser-command COMMAND       program that opens the page
  --skip-open-browser             only print the address of the page
  --authentication-timeout-sec N  time to log in (default 600)
spn               an application (service principal), with a secret or a certificate
  --client-secret SECRET          (AZURE_CLIENT_SECRET, AAD_SERVICE_PRINCIPAL_CLIENT_SECRET)
  --client-certificate FILE       certificate and RSA key in PEM
                                  (AZURE_CLIENT_CERTIFICATE_PATH, AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE)
  --client-certificate-password PASSWORD
                                  accepted, but pfx files are not: convert them to PEM
  --use-azurerm-env-vars          read ARM_CLIENT_ID, ARM_CLIENT_SECRET, ARM_CLIENT_CERTIFICATE_PATH,
                                  ARM_CLIENT_CERTIFICATE_PASSWORD and ARM_TENANT_ID instead
ropc              user name and password
  --username NAME, --password PASSWORD
                                  (AZURE_USERNAME, AZURE_PASSWORD, AAD_USER_PRINCIPAL_NAME,
                                  AAD_USER_PRINCIPAL_PASSWORD); prompts for what is missing
msi               managed identity of the machine, App Service, Azure Machine Learning, Cloud Shell or Azure Arc
  --identity-resource-id PATH     resource ID of the identity, if --client-id is not given
workloadidentity  token of the pod, or of the job in GitHub Actions
  --federated-token-file FILE     token of the pod (AZURE_FEDERATED_TOKEN_FILE)
azurepipelines    job in Azure Pipelines (SYSTEM_ACCESSTOKEN, SYSTEM_OIDCREQUESTURI)
  --azure-pipelines-service-connection-id ID
                                  (AZURESUBSCRIPTION_SERVICE_CONNECTION_ID)
azurecli, azd     login of `az` or `azd`
  -s, --subscription NAME         subscription of `az`
  --timeout DURATION              time for `az` or `azd`, such as 30s (default 60s; AZURE_CLI_TIMEOUT)

  --explain                       show what is used and what is skipped, and print no credential
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_that_does_something_is_in_the_help_and_each_name_is_there_once() {
        let mut names = std::collections::HashSet::new();
        for flag in OWN.iter().chain(FLAGS) {
            assert!(names.insert(flag.name), "`{}` is there twice", flag.name);
            let works = matches!(flag.kind, Kind::Text | Kind::Switch | Kind::List);
            let refused = REFUSED.iter().any(|(name, _)| *name == flag.name);
            assert!(
                !works
                    || refused
                    || flag.name == "help"
                    || USAGE.contains(&format!("--{}", flag.name)),
                "`--{}` is not in the help",
                flag.name
            );
        }
    }
}
