//! The inputs by which known plugins choose an identity.
//!
//! A *profile* is what the agent knows of a plugin; profiles in files of AWS are something else. Each was
//! checked against the source of its plugin; `docs/agent.md` lists the files that were read. A profile is
//! complete: the plugin does not choose by anything else.

use std::path::{Path, PathBuf};

use super::{
    Asker,
    files::{Files, Script},
};
use keyward_process::FileId;

/// A credential plugin that the agent knows, or [`Profile::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// `aws eks get-token`.
    Aws,
    /// `aws-iam-authenticator token`.
    Authenticator,
    /// `gke-gcloud-auth-plugin`.
    Gke,
    /// Azure's `kubelogin get-token`.
    Azure,
    /// int128's kubelogin: `kubectl oidc-login get-token`.
    Oidc,
    /// `tsh kube credentials`.
    Tsh,
    /// Any other plugin.
    Unknown,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 7] = [
        Self::Aws,
        Self::Authenticator,
        Self::Gke,
        Self::Azure,
        Self::Oidc,
        Self::Tsh,
        Self::Unknown,
    ];

    /// The plugin's name, for people and in registrations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Authenticator => "aws-iam-authenticator",
            Self::Gke => "gke-gcloud-auth-plugin",
            Self::Azure => "azure-kubelogin",
            Self::Oidc => "oidc-login",
            Self::Tsh => "tsh",
            Self::Unknown => "unknown",
        }
    }

    /// The profile with this name; [`Profile::Unknown`] for any other name.
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|profile| profile.name() == name).unwrap_or(Self::Unknown)
    }

    /// Whether the plugin may open a browser or show a code when its login has expired.
    pub fn may_open_browser(self) -> bool {
        matches!(self, Self::Azure | Self::Oidc | Self::Tsh)
    }

    /// Whether the plugin may run before expiry without a person: it never prompts.
    pub fn keep_warm(self) -> bool {
        matches!(self, Self::Aws | Self::Authenticator | Self::Gke)
    }

    /// The profile of a command, by its program's name and the shape of its arguments.
    pub fn of_command(command: &[u8], args: &[Vec<u8>]) -> Self {
        let name = command.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let has = |wanted: &[u8]| args.iter().any(|arg| arg == wanted);
        let flag = |wanted: &[u8]| {
            args.iter().any(|arg| {
                arg.strip_prefix(wanted).is_some_and(|rest| matches!(rest, [] | [b'=', ..]))
            })
        };
        match name {
            b"aws" if has(b"eks") && has(b"get-token") => Self::Aws,
            b"keyward-eks" if args.first().is_some_and(|arg| arg == b"token") => {
                Self::Authenticator
            }
            b"keyward-eks" => Self::Aws,
            b"keyward-entra" => Self::Azure,
            b"keyward-oidc" => Self::Oidc,
            b"aws-iam-authenticator" | b"heptio-authenticator-aws" if has(b"token") => {
                Self::Authenticator
            }
            b"keyward-gke" | b"gke-gcloud-auth-plugin" => Self::Gke,
            b"kubelogin" | b"kubectl-oidc_login" if has(b"get-token") => {
                match (flag(b"--oidc-issuer-url"), flag(b"--server-id")) {
                    (true, false) => Self::Oidc,
                    (false, true) if name == b"kubelogin" => Self::Azure,
                    _ => Self::Unknown,
                }
            }
            b"kubectl" if args.first().is_some_and(|arg| arg == b"oidc-login") => Self::Oidc,
            b"tsh" if has(b"kube") && has(b"credentials") => Self::Tsh,
            _ => Self::Unknown,
        }
    }

    /// The profile of a command whose program was found. A script that only has the name of a known
    /// plugin may choose by anything.
    pub(super) fn of_program(
        asker: &Asker<'_>,
        program: Option<(&Path, FileId)>,
        files: &mut Files,
    ) -> Self {
        let profile = Self::of_command(asker.command, asker.args);
        let Some((path, file_id)) = program else { return Self::Unknown };
        match (profile, files.script(path, file_id)) {
            (profile, Script::None) => profile,
            (Self::Aws, Script::Python) => Self::Aws,
            _ => Self::Unknown,
        }
    }

    /// The variables that the plugin chooses by; an entry that ends in `*` matches a prefix.
    pub(super) fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Aws => &["AWS_*", "BOTO_*", "BOTOCORE_*", "HOME", "REQUESTS_CA_BUNDLE"],
            Self::Authenticator => {
                &["AWS_*", "DEFAULT_ROLE", "KUBERNETES_AWS_AUTHENTICATOR_*", "HOME"]
            }
            Self::Gke => {
                &["CLOUDSDK_*", "GOOGLE_*", "GCE_METADATA_*", "NO_GCE_CHECK", "KUBECONFIG", "HOME"]
            }
            Self::Azure => &[
                "AZURE_*",
                "AAD_*",
                "ARM_*",
                "AZURESUBSCRIPTION_*",
                "SYSTEM_ACCESSTOKEN",
                "SYSTEM_OIDCREQUESTURI",
                "ACTIONS_ID_TOKEN_REQUEST_*",
                "IDENTITY_*",
                "MSI_*",
                "IMDS_ENDPOINT",
                "KUBECACHEDIR",
                "HOME",
            ],
            Self::Oidc => &["KUBECACHEDIR", "KUBECONFIG", "HOME", "KEYWARD_OIDC_*"],
            Self::Tsh => &["TELEPORT_*", "TSH_*", "KUBECONFIG", "HOME", "USER", "LOGNAME"],
            Self::Unknown => &[],
        }
    }

    /// Variables that do not select an identity, but that the plugin may need to reach its servers.
    pub fn network_variables() -> &'static [&'static str] {
        &[
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "NO_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "no_proxy",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "USER",
            "LOGNAME",
            "LANG",
            "TZ",
        ]
    }

    /// Variables that name an account or a configuration and are not secret: `keyward wrap --pin`
    /// writes them into a kubeconfig.
    pub fn pinnable(self) -> &'static [&'static str] {
        match self {
            Self::Aws | Self::Authenticator => &[
                "AWS_PROFILE",
                "AWS_DEFAULT_PROFILE",
                "AWS_REGION",
                "AWS_DEFAULT_REGION",
                "AWS_CONFIG_FILE",
                "AWS_SHARED_CREDENTIALS_FILE",
                "AWS_ROLE_ARN",
                "AWS_STS_REGIONAL_ENDPOINTS",
            ],
            Self::Gke => &[
                "CLOUDSDK_CONFIG",
                "CLOUDSDK_ACTIVE_CONFIG_NAME",
                "CLOUDSDK_CORE_ACCOUNT",
                "CLOUDSDK_CORE_PROJECT",
            ],
            Self::Azure => &[
                "AZURE_CONFIG_DIR",
                "AZURE_TENANT_ID",
                "AZURE_CLIENT_ID",
                "AAD_LOGIN_METHOD",
                "KUBECACHEDIR",
            ],
            Self::Oidc => &["KUBECACHEDIR"],
            Self::Tsh => &["TELEPORT_HOME", "TELEPORT_PROXY", "TELEPORT_CLUSTER", "TELEPORT_USER"],
            Self::Unknown => &[],
        }
    }

    /// Programs that the plugin starts by name.
    pub(super) fn helpers(self, asker: &Asker<'_>) -> &'static [&'static str] {
        match self {
            Self::Gke => &["gcloud"],
            Self::Azure => &["az", "azd"],
            Self::Oidc if asker.command.ends_with(b"kubectl") => &["kubectl-oidc_login"],
            _ => &[],
        }
    }

    /// The files that the plugin chooses by.
    pub(super) fn files(self, asker: &Asker<'_>) -> Vec<PathBuf> {
        let home = asker.path("HOME").unwrap_or_default();
        let or = |name: &str, rest: &str| asker.path(name).unwrap_or_else(|| home.join(rest));
        let named = |names: &[&str]| names.iter().filter_map(|name| asker.path(name)).collect();
        let flags = |names: &'static [&'static str]| {
            names.iter().filter_map(|name| asker.flag(name.as_bytes()))
        };
        match self {
            Self::Aws | Self::Authenticator => {
                let mut files: Vec<_> = named(&[
                    "AWS_WEB_IDENTITY_TOKEN_FILE",
                    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                    "AWS_CREDENTIAL_FILE",
                    "BOTO_CONFIG",
                ]);
                files.push(or("AWS_CONFIG_FILE", ".aws/config"));
                files.push(or("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"));
                files.push(home.join(".boto"));
                files.extend(listed(&home.join(".aws/sso/cache"), ".json"));
                files.extend(listed(&or("AWS_LOGIN_CACHE_DIRECTORY", ".aws/login/cache"), ".json"));
                files
            }
            Self::Gke => {
                let config = or("CLOUDSDK_CONFIG", ".config/gcloud");
                let mut files: Vec<_> = named(&["GOOGLE_APPLICATION_CREDENTIALS"]);
                files.extend(
                    ["active_config", "properties", "credentials.db"].map(|name| config.join(name)),
                );
                files.push(config.join("application_default_credentials.json"));
                files.extend(listed(&config.join("configurations"), ""));
                files
            }
            Self::Azure => {
                let config = or("AZURE_CONFIG_DIR", ".azure");
                let cache = asker
                    .flag(b"--cache-dir")
                    .or_else(|| asker.flag(b"--token-cache-dir"))
                    .or_else(|| asker.path("KUBECACHEDIR"))
                    .unwrap_or_else(|| home.join(".kube/cache/kubelogin"));
                let mut files: Vec<_> = named(&[
                    "AZURE_FEDERATED_TOKEN_FILE",
                    "AZURE_CLIENT_CERTIFICATE_PATH",
                    "AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE",
                    "ARM_CLIENT_CERTIFICATE_PATH",
                ]);
                files.extend(flags(&["--federated-token-file", "--client-certificate"]));
                files.push(config.join("azureProfile.json"));
                files.push(config.join("clouds.config"));
                files.push(cache.join("auth.json"));
                files
            }
            Self::Oidc => {
                let cache = asker
                    .flag(b"--token-cache-dir")
                    .or_else(|| asker.path("KUBECACHEDIR").map(|path| path.join("oidc-login")))
                    .unwrap_or_else(|| home.join(".kube/cache/oidc-login"));
                let mut files = listed(&cache, "");
                // Flags of `keyward-oidc` that say which client logs in, or who.
                files.extend(flags(&[
                    "--client-secret-file",
                    "--client-key",
                    "--client-assertion-file",
                    "--client-certificate",
                    "--password-file",
                ]));
                files
            }
            Self::Tsh => {
                let config = or("TELEPORT_HOME", ".tsh");
                let mut files: Vec<_> = named(&["TELEPORT_IDENTITY_FILE"]);
                files.push(or("TELEPORT_GLOBAL_TSH_CONFIG", "/etc/tsh.yaml"));
                files.extend(
                    ["current-profile", "config/config.yaml"].map(|name| config.join(name)),
                );
                files.extend(listed(&config, ".yaml"));
                files
            }
            Self::Unknown => Vec::new(),
        }
    }
}

/// The files in a directory with this ending, sorted, without lock files.
fn listed(directory: &Path, end: &str) -> Vec<PathBuf> {
    /// More entries than anybody has; later ones are ignored.
    const MOST: usize = 4096;
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.ends_with(end.as_bytes()) && !name.ends_with(b".lock")
    };
    let entries = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|t| !t.is_dir()));
    let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(fits).take(MOST).collect();
    found.sort_unstable();
    found
}
