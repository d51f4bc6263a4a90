//! The table of families: which name selects what.

use std::{ffi::OsStr, fmt::Write as _, path::Path, process::ExitCode};

use keyward_plugin::Refusal;

use crate::{Call, NAME};

/// One kind of login, and the tools it replaces.
#[derive(Debug)]
pub struct Family {
    /// The name of its link, such as `keyward-eks`; without `keyward-` it is a word of the program.
    pub name: &'static str,
    /// The names of the programs that it stands in for. `install --drop-in` creates links of these names, too.
    pub replaces: &'static [&'static str],
    /// What it provides, in one line of `--help`.
    pub about: &'static str,
    /// Runs it.
    pub(crate) run: fn(&Call) -> Result<ExitCode, Refusal>,
}

/// All families of this build.
pub const FAMILIES: &[Family] = &[
    #[cfg(feature = "eks")]
    Family {
        name: "keyward-eks",
        replaces: &["aws-iam-authenticator"],
        about: "tokens for Amazon EKS clusters",
        run: crate::eks::run,
    },
    #[cfg(feature = "ecr")]
    Family {
        name: "keyward-ecr",
        replaces: &["ecr-credential-provider", "docker-credential-ecr-login"],
        about: "logins for Amazon ECR, for the kubelet and docker",
        run: crate::ecr::run,
    },
    #[cfg(feature = "acr")]
    Family {
        name: "keyward-acr",
        replaces: &[
            "acr-credential-provider",
            "azure-acr-credential-provider",
            "docker-credential-acr-env",
        ],
        about: "logins for Azure Container Registry, for the kubelet and docker",
        run: crate::acr::run,
    },
    #[cfg(feature = "entra")]
    Family {
        name: "keyward-entra",
        // `kubelogin` is here below, because two tools have that name; their flags tell them apart.
        replaces: &[],
        about: "tokens of Microsoft Entra ID for AKS clusters, also as kubelogin",
        run: crate::entra::run,
    },
    #[cfg(feature = "gke")]
    Family {
        name: "keyward-gke",
        replaces: &["gke-gcloud-auth-plugin"],
        about: "tokens for Google Kubernetes Engine",
        run: crate::gke::run,
    },
    #[cfg(feature = "gar")]
    Family {
        name: "keyward-gar",
        replaces: &["auth-provider-gcp", "docker-credential-gcr", "docker-credential-gcloud"],
        about: "logins for Google Artifact Registry, for the kubelet and docker",
        run: crate::gar::run,
    },
    #[cfg(feature = "oidc")]
    Family {
        name: "keyward-oidc",
        replaces: &["kubectl-oidc_login", "kubelogin"],
        about: "tokens of OpenID providers",
        run: crate::oidc::run,
    },
    #[cfg(feature = "exchange")]
    Family {
        name: "keyward-exchange",
        replaces: &[],
        about: "logins and tokens in exchange for a pod's identity",
        run: crate::exchange::run,
    },
    #[cfg(feature = "kms")]
    Family {
        name: "keyward-kms",
        replaces: &[],
        about: "signatures of TLS client keys in AWS KMS, OpenBao and Vault",
        run: crate::kms::run,
    },
    #[cfg(feature = "spiffe")]
    Family {
        name: "keyward-spiffe",
        replaces: &[],
        about: "the SPIFFE identity of a workload, as a token or certificate",
        run: crate::spiffe::run,
    },
];

/// The families that are also credential helpers of docker, with the names of those links. Docker calls a helper by
/// its name without `docker-credential-`.
const DOCKER: [(&str, &str); 5] = [
    ("keyward-ecr", "docker-credential-keyward-ecr"),
    ("keyward-acr", "docker-credential-keyward-acr"),
    ("keyward-gar", "docker-credential-keyward-gar"),
    // Two helpers with different identities become these.
    ("keyward-gar", "docker-credential-keyward-gcr"),
    ("keyward-gar", "docker-credential-keyward-gcloud"),
];

impl Family {
    /// The word that selects it after the name of the program.
    pub fn word(&self) -> &'static str {
        self.name.strip_prefix("keyward-").unwrap_or(self.name)
    }

    /// The names of its own links.
    pub fn links(&self) -> impl Iterator<Item = &'static str> {
        let docker = DOCKER.iter().filter(|(name, _)| *name == self.name).map(|(_, link)| *link);
        std::iter::once(self.name).chain(docker)
    }

    /// All names that select it.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.links().chain(self.replaces.iter().copied())
    }
}

/// The family that a program of this name is.
pub(crate) fn by_name(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.names().any(|known| known == name))
}

/// The family that the first argument names, and the name that it stands for.
pub(crate) fn by_word(word: &str) -> Option<(&'static Family, String)> {
    let short = FAMILIES.iter().find(|family| family.word() == word);
    match short {
        Some(family) => Some((family, family.name.to_owned())),
        None => by_name(word).map(|family| (family, word.to_owned())),
    }
}

/// The name of a program without its directory and, on Windows, its extension.
pub(crate) fn file_name(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(std::env::consts::EXE_SUFFIX).unwrap_or(&name).to_owned()
}

/// The text of `--help`.
pub(crate) fn usage() -> String {
    let mut out = format!(
        "Credential plugins for Kubernetes, in one program.\n\n\
         Usage: {NAME} PROVIDER [ARGS]...\n       \
         {NAME} install DIR [--drop-in]\n\n\
         Providers, each with the link that `install` creates and, with `--drop-in`, the names of the tools it \
         replaces:\n"
    );
    for family in FAMILIES {
        let replaces = match family.replaces {
            [] => String::new(),
            names => format!(" ({})", names.join(", ")),
        };
        _ = writeln!(out, "  {:<10} {:<18} {}{replaces}", family.word(), family.name, family.about);
    }
    out.push_str(
        "\n`--help` after a provider's name shows its flags. `--explain` with a provider shows which source of \
         credentials it uses, which it skips and why, and prints no credential.\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_selects_one_family() {
        let mut seen = HashSet::new();
        for family in FAMILIES {
            for name in family.names().chain([family.word()]) {
                assert!(seen.insert(name), "`{name}` selects two families");
            }
        }
    }

    #[test]
    fn a_path_selects_by_its_last_part() {
        assert_eq!(file_name(OsStr::new("/usr/bin/keyward-eks")), "keyward-eks");
        assert_eq!(file_name(OsStr::new("")), "");
    }

    #[cfg(feature = "eks")]
    #[test]
    fn words_and_drop_in_names_select_a_family_as_arguments() {
        let name = |word| by_word(word).map(|(_, name)| name);
        assert_eq!(name("eks").as_deref(), Some("keyward-eks"));
        assert_eq!(name("aws-iam-authenticator").as_deref(), Some("aws-iam-authenticator"));
        assert_eq!(name("sse"), None);
    }
}
