//! The flags of `keyward-kms`, for its commands. As a signer it takes the same words from the kubeconfig.

use crate::flags::{Flag, HELP, Kind, flag};

/// All of them, in the order of the help.
pub(super) const FLAGS: &[Flag] = &[
    flag("key", Kind::Text),
    flag("certificate", Kind::Text),
    flag("region", Kind::Text),
    flag("profile", Kind::Text),
    flag("mount", Kind::Text),
    flag("namespace", Kind::Text),
    flag("version", Kind::Text),
    flag("user", Kind::Text),
    flag("group", Kind::List),
    HELP,
];

pub(super) const USAGE: &str = "\
Signs TLS handshakes with a key in AWS KMS, or in the transit engine of OpenBao or Vault.

Usage: keyward-kms                                        as the external signer of a kubeconfig
       keyward-kms csr --key KEY --user NAME [flags]      print a certificate request, signed by the key
       keyward-kms import FILE --key KEY --certificate FILE   check and store a certificate; `-` is stdin
       keyward-kms --explain --key KEY [flags]            show where credentials come from, and sign once

Key, as entries of the kubeconfig or as flags
  --key KEY           ARN, id or alias (alias/jane) of a key in AWS KMS, or transit:NAME
  --certificate FILE  its certificate in PEM, with the intermediates after it
  --region REGION     region of AWS KMS, if no ARN names it
  --profile NAME      profile of the AWS configuration
  --mount PATH        where the transit engine is mounted (default: transit)
  --namespace NAME    namespace of the server
  --version NUMBER    version of the transit key (default: the latest)

Request
  --user NAME         user name in the cluster
  --group NAME        group in the cluster; may be repeated

AWS credentials are found as the `aws` command finds them. The address of OpenBao or Vault is in BAO_ADDR or VAULT_ADDR,
and the token in BAO_TOKEN, VAULT_TOKEN or ~/.vault-token. A kubeconfig can name neither an address nor a credential.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_the_help() {
        for flag in FLAGS.iter().filter(|flag| flag.name != "help") {
            assert!(USAGE.contains(&format!("  --{} ", flag.name)), "`--{}`", flag.name);
        }
    }
}
