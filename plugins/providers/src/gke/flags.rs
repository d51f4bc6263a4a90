//! The flags of `keyward-gke`: those of `gke-gcloud-auth-plugin`, and ours.

use crate::flags::{Flag, HELP, Kind, flag};

/// All of them, in the order of the help.
pub(super) const FLAGS: &[Flag] = &[
    flag("use_application_default_credentials", Kind::Switch),
    flag("account", Kind::Text),
    flag("project", Kind::Text),
    flag("impersonate_service_account", Kind::Text),
    flag("use_edge_cloud", Kind::Switch),
    flag("location", Kind::Text),
    flag("cluster", Kind::Text),
    HELP,
    // Ours.
    flag("source", Kind::Text),
    flag("gdch-audience", Kind::Text),
];

pub(super) const USAGE: &str = "\
Prints a token for Google Kubernetes Engine as a Kubernetes ExecCredential.

Usage: keyward-gke [flags]
       gke-gcloud-auth-plugin [flags]

  --source WHERE                         gcloud (default): gcloud's login, or adc if gcloud is not on PATH; adc:
                                         application default credentials; auto: adc, or gcloud if adc finds nothing
  --use_application_default_credentials  the same as --source adc
  --account NAME                         which of gcloud's logins to use
  --project NAME                         project, for gcloud
  --impersonate_service_account NAME     service account that gcloud impersonates
  --use_edge_cloud                       token of a Distributed Cloud cluster, from gcloud; needs --project,
                                         --location and --cluster
  --location NAME                        location of that cluster
  --cluster NAME                         name of that cluster
  --gdch-audience URL                    API that the token of a gdch_service_account is for
  --version                              print the version

  --explain                              show which source is used and which are skipped, and print no credential
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_that_does_something_is_in_the_help() {
        for flag in FLAGS {
            let works = matches!(flag.kind, Kind::Text | Kind::Switch | Kind::List);
            assert!(
                !works || flag.name == "help" || USAGE.contains(&format!("--{}", flag.name)),
                "`--{}` is not in the help",
                flag.name
            );
        }
    }
}
