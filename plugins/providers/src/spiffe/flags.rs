//! The flags of `keyward-spiffe`.

use crate::flags::{Flag, HELP, Kind, flag};

/// All of them, in the order of the help.
pub(super) const FLAGS: &[Flag] = &[
    flag("audience", Kind::List),
    flag("x509", Kind::Switch),
    flag("socket", Kind::Text),
    flag("spiffe-id", Kind::Text),
    flag("hint", Kind::Text),
    HELP,
];

pub(super) const USAGE: &str = "\
Prints the SPIFFE identity of this workload as a Kubernetes ExecCredential.

Usage: keyward-spiffe --audience NAME [flags]     a JWT-SVID as the token
       keyward-spiffe --x509 [flags]              an X.509-SVID as the client certificate
       keyward-spiffe --audience NAME --x509      both

  --audience NAME      who the token is for, as in the API server's configuration; may be repeated
  --x509               print the certificate and its key
  --socket ADDRESS     Workload API, as unix:///path or tcp://ip:port; default: SPIFFE_ENDPOINT_SOCKET
  --spiffe-id ID       identity to print, if the workload has several (default: the first)
  --hint HINT          identity to print, by the hint in its registration entry

  --explain            show the identity and its expiry, and print no credential
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
