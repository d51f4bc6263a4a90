//! The flags of `keyward-oidc`: those of kubelogin and `kubectl oidc-login`, the settings of the kubeconfig's
//! `auth-provider: oidc` under their own names, and ours.

use crate::flags::{Flag, HELP, Kind, flag};

const FILES: &str = "tokens are kept by the agent, never in files";

/// All of them, in the order of the help.
pub(super) const FLAGS: &[Flag] = &[
    // kubelogin's, as its page of usage lists them.
    flag("oidc-issuer-url", Kind::Text),
    flag("oidc-client-id", Kind::Text),
    flag("oidc-client-secret", Kind::Text),
    flag("oidc-redirect-url", Kind::Text),
    flag("oidc-extra-scope", Kind::List),
    flag("oidc-use-access-token", Kind::Switch),
    flag("oidc-request-header", Kind::List),
    flag("force-refresh", Kind::Switch),
    flag("token-cache-dir", Kind::Ignored(FILES)),
    flag("token-cache-storage", Kind::Text),
    flag("certificate-authority", Kind::List),
    flag("certificate-authority-data", Kind::List),
    flag("insecure-skip-tls-verify", Kind::Switch),
    flag("tls-renegotiation-once", Kind::Refused(RENEGOTIATION)),
    flag("tls-renegotiation-freely", Kind::Refused(RENEGOTIATION)),
    flag("oidc-pkce-method", Kind::Text),
    flag("grant-type", Kind::Text),
    flag("listen-address", Kind::List),
    flag("skip-open-browser", Kind::Switch),
    flag("browser-command", Kind::Text),
    flag("authentication-timeout-sec", Kind::Text),
    flag("local-server-cert", Kind::Text),
    flag("local-server-key", Kind::Text),
    flag("open-url-after-authentication", Kind::Text),
    flag("oidc-auth-request-extra-params", Kind::List),
    flag("username", Kind::Text),
    flag("password", Kind::Text),
    HELP,
    // Its mode without a subcommand, which writes tokens into the kubeconfig.
    flag("kubeconfig", Kind::Refused(STANDALONE)),
    flag("context", Kind::Refused(STANDALONE)),
    flag("user", Kind::Refused(STANDALONE)),
    // Another program has the name `kubelogin`, too.
    flag("server-id", Kind::Refused(AZURE)),
    flag("login", Kind::Refused(AZURE)),
    // The settings of `auth-provider: oidc`.
    flag("idp-issuer-url", Kind::Text),
    flag("client-id", Kind::Text),
    flag("client-secret", Kind::Text),
    flag("extra-scopes", Kind::List),
    flag("idp-certificate-authority", Kind::List),
    flag("idp-certificate-authority-data", Kind::List),
    // Ours.
    flag("client-secret-file", Kind::Text),
    flag("client-key", Kind::Text),
    flag("client-key-id", Kind::Text),
    flag("client-assertion-file", Kind::Text),
    flag("client-certificate", Kind::Text),
    flag("client-certificate-key", Kind::Text),
    flag("password-file", Kind::Text),
    flag("store", Kind::Text),
];

const RENEGOTIATION: &str = "rustls never renegotiates, because TLS 1.3 has no renegotiation; the provider has to ask for a \
     client certificate in the first handshake (`--client-certificate`)";

const STANDALONE: &str = "it belongs to the mode that writes tokens into the kubeconfig; a kubeconfig with `exec` needs no such \
     file, and the agent keeps the tokens";

const AZURE: &str = "it is a flag of Azure/kubelogin, another program of that name; this one stands for int128/kubelogin";

pub(super) const USAGE: &str = "\
Prints a token of an OpenID provider as a Kubernetes ExecCredential.

Usage: keyward-oidc [get-token] --oidc-issuer-url URL --oidc-client-id ID [flags]
       keyward-oidc setup --oidc-issuer-url URL --oidc-client-id ID [flags]
       keyward-oidc clean --oidc-issuer-url URL --oidc-client-id ID [flags]
       keyward-oidc version

get-token prints the credential, setup logs in and shows the claims and the kubeconfig entry, clean makes the
agent forget the login. kubelogin and kubectl-oidc_login are other names of this program.

Provider
  --oidc-issuer-url URL                 issuer, as in the API server's configuration
  --oidc-client-id ID                   client
  --oidc-extra-scope SCOPE              scope besides `openid`; repeat it, or separate with commas
  --oidc-use-access-token               print the access token instead of the ID token
  --oidc-request-header NAME=VALUE      header of every request to the provider
  --certificate-authority FILE          authority besides those of the system; may be repeated
  --certificate-authority-data BASE64   the same, in the flag itself
  --insecure-skip-tls-verify            accept every certificate

Client authentication
  --client-secret-file FILE             secret of the client
  --oidc-client-secret SECRET           the same, visible in the list of processes; also
                                        KEYWARD_OIDC_CLIENT_SECRET, which is not
  --client-key FILE                     private key in PEM that signs assertions (private_key_jwt)
  --client-key-id ID                    `kid` of that key
  --client-assertion-file FILE          assertion that another program renews, such as a projected token
  --client-certificate FILE             certificate chain in PEM for mutual TLS
  --client-certificate-key FILE         its key in PEM; default: in the same file

Login
  --grant-type TYPE                     auto, authcode, authcode-keyboard, device-code, password or
                                        client-credentials; auto is password with --username, otherwise
                                        authcode, or device-code where no browser can be opened
  --listen-address HOST:PORT            address for the browser's return; the first free one is used; port 0
                                        is any (default 127.0.0.1:8000, then 127.0.0.1:18000)
  --oidc-redirect-url URL               redirect URL (default http://localhost with the port)
  --oidc-pkce-method METHOD             auto and S256 use PKCE, no does not
  --oidc-auth-request-extra-params K=V  parameter of the login page, or of the client-credentials request
  --browser-command COMMAND             program that opens the page
  --skip-open-browser                   only print the address of the page
  --authentication-timeout-sec SECONDS  time to log in (default 600)
  --local-server-cert FILE, --local-server-key FILE
                                        serve the browser's return with TLS
  --open-url-after-authentication URL   page to show after the login
  --username NAME, --password-file FILE, --password PASSWORD
                                        for grant type password; what is missing is asked for
  --force-refresh                       do not print the token that is kept
  --store WHERE, --token-cache-storage WHERE
                                        agent keeps logins in memory (default); keyring also saves the
                                        refresh token in the desktop's keyring; none keeps nothing

  --explain                             show what was done, and print no credential
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_that_does_something_is_in_the_help_and_each_name_is_there_once() {
        let mut names = std::collections::HashSet::new();
        let old = ["idp-", "client-id", "client-secret", "extra-scopes", "help"];
        for flag in FLAGS {
            assert!(names.insert(flag.name), "`{}` is there twice", flag.name);
            let works = matches!(flag.kind, Kind::Text | Kind::Switch | Kind::List);
            let alias = old.iter().any(|old| flag.name == *old || flag.name.starts_with("idp-"));
            assert!(
                !works || alias || USAGE.contains(&format!("--{}", flag.name)),
                "`--{}` is not in the help",
                flag.name
            );
        }
    }
}
