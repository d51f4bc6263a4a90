//! The flags of `keyward-exchange`.

use crate::flags::{Flag, HELP, Kind, flag};

/// All of them.
pub(super) const TABLES: [&[Flag]; 4] = [COMMON, OF_EXCHANGE, OF_LOGIN, OF_POST];

/// Those that every method has.
pub(super) const COMMON: &[Flag] = &[
    flag("token-file", Kind::Text),
    flag("token-variable", Kind::Text),
    flag("pass", Kind::Switch),
    flag("token-url", Kind::Text),
    flag("jwt-login", Kind::Text),
    flag("post", Kind::Text),
    flag("registry", Kind::List),
    flag("username", Kind::Text),
    flag("username-annotation", Kind::Text),
    flag("username-at", Kind::Text),
    flag("password-at", Kind::Text),
    flag("expiry-at", Kind::Text),
    flag("lifetime", Kind::Text),
    flag("certificate-authority", Kind::List),
    flag("certificate-authority-data", Kind::List),
    flag("client-certificate", Kind::Text),
    flag("client-certificate-key", Kind::Text),
    HELP,
];

/// Those of the token exchange.
pub(super) const OF_EXCHANGE: &[Flag] = &[
    flag("audience", Kind::List),
    flag("resource", Kind::List),
    flag("scope", Kind::List),
    flag("subject-token-type", Kind::Text),
    flag("requested-token-type", Kind::Text),
    flag("parameter", Kind::List),
    flag("client-id", Kind::Text),
    flag("client-secret-file", Kind::Text),
    flag("client-key", Kind::Text),
    flag("client-key-id", Kind::Text),
    flag("client-assertion-file", Kind::Text),
];

/// Those of the JWT login.
pub(super) const OF_LOGIN: &[Flag] = &[
    flag("mount", Kind::Text),
    flag("role", Kind::Text),
    flag("namespace", Kind::Text),
    flag("read", Kind::Text),
];

/// Those of the POST request.
pub(super) const OF_POST: &[Flag] =
    &[flag("body", Kind::Text), flag("body-file", Kind::Text), flag("header", Kind::List)];

pub(super) const USAGE: &str = "\
Exchanges an identity token for the login of a registry or the token of a cluster.

Usage: keyward-exchange METHOD --registry HOST [flags]          as the kubelet's credential provider
       keyward-exchange METHOD --token-file FILE [get-token]    as a kubeconfig's plugin; by hand, with get-token
       keyward-exchange METHOD --token-file FILE --explain [IMAGE]

Method, one of these
  --pass                         the token itself is the login
  --token-url URL                OAuth 2.0 Token Exchange (RFC 8693) at this token endpoint
  --jwt-login URL                JWT login at this OpenBao or Vault server
  --post URL                     POST request with a JSON body from a template

Token
  --token-file FILE              file with the token, read each time; the kubelet passes the pod's token itself
  --token-variable NAME          variable with the token, such as a CI system's ID token

Token exchange
  --audience NAME                who the new token is for; may be repeated
  --resource URL                 what the new token is for; may be repeated
  --scope SCOPE                  scope of the new token; may be repeated
  --requested-token-type TYPE    access_token, id_token, jwt or another URN
  --subject-token-type TYPE      type of the token that is sent (default: jwt)
  --parameter NAME=VALUE         another parameter of the request; may be repeated
  --client-id ID                 client at the token endpoint
  --client-secret-file FILE      its secret
  --client-key FILE              private key in PEM that signs assertions (private_key_jwt)
  --client-key-id ID             `kid` of that key
  --client-assertion-file FILE   assertion that another program renews

JWT login
  --mount PATH                   where the login method is mounted (default: jwt)
  --role NAME                    role to log in as
  --namespace NAME               namespace of the server
  --read PATH                    secret with the login, such as secret/data/registry; default: the server's own token

POST request
  --body JSON                    body, with placeholders in its strings
  --body-file FILE               the same, in a file
  --header NAME=VALUE            header, with placeholders; may be repeated

Result
  --registry HOST                registry that may get the login, as in matchImages (*.registry.example); may be repeated
  --username NAME                user name (default: service-account)
  --username-annotation KEY      annotation of the service account that has the user name
  --username-at POINTER          place of the user name in the answer, as a JSON pointer (/data/username)
  --password-at POINTER          place of the password or token
  --expiry-at POINTER            place of the expiry: seconds, a time or a duration
  --lifetime DURATION            how long to use a result that states no expiry (default: 5m)

Connection
  --certificate-authority FILE   authority in addition to those of the system; may be repeated
  --certificate-authority-data BASE64   the same, in the flag itself
  --client-certificate FILE      certificate chain in PEM for mutual TLS
  --client-certificate-key FILE  its key in PEM; default: in the same file

Placeholders in --audience, --resource, --scope, --parameter, --role, --read, --body, --header and --username:
{image}, {registry}, {repository} and {annotation:KEY}; in --parameter, --body and --header also {token}.
";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_flag_is_in_the_help_and_each_name_is_there_once() {
        let mut seen = HashSet::new();
        for flag in TABLES.into_iter().flatten() {
            assert!(seen.insert(flag.name), "`--{}` is there twice", flag.name);
            let shown = flag.name == "help" || USAGE.contains(&format!("  --{} ", flag.name));
            assert!(shown || USAGE.contains(&format!("  --{}  ", flag.name)), "`--{}`", flag.name);
        }
    }
}
