//! Arguments of a plugin without what may be a secret, so that a plan can be pasted into an issue.
//!
//! Shown are the names of flags, values that select something (`--region eu-west-1`), and the words of
//! commands (`eks get-token`). Everything else is hidden: a value has to be known as harmless by its
//! name, and must not look like a secret.

use keyward_host::redact::{HIDDEN, redact};
use keyward_protocol::text::{may_be_secret, sounds_secret, words};

/// Keeps what selects things and hides everything that may be a secret.
pub(super) fn mask(args: &[String]) -> Vec<String> {
    // The flag whose value the next argument is, if it has one.
    let mut flag = None;
    args.iter()
        .map(|arg| {
            let of = flag.take();
            match Arg::parse(arg) {
                Arg::Plain => arg.clone(),
                Arg::Flag(name) => {
                    flag = (!is_switch(name)).then_some(name);
                    arg.clone()
                }
                Arg::Assigned { dashes, name, value } => {
                    let shown = selects(name) && is_harmless(name, value);
                    format!("{dashes}{name}={}", if shown { value } else { HIDDEN })
                }
                Arg::Word => {
                    let shown = match of {
                        Some(name) => selects(name) && is_harmless(name, arg),
                        None => is_command(arg),
                    };
                    if shown { arg.clone() } else { HIDDEN.to_owned() }
                }
            }
        })
        .collect()
}

/// How an argument is written.
enum Arg<'a> {
    /// `-` or `--`.
    Plain,
    /// `--region`, `-i`, or `-region` as Go's programs have it.
    Flag(&'a str),
    /// `--region=eu`.
    Assigned { dashes: &'a str, name: &'a str, value: &'a str },
    /// Anything else: a value or a command.
    Word,
}

impl<'a> Arg<'a> {
    fn parse(arg: &'a str) -> Self {
        if matches!(arg, "-" | "--") {
            return Self::Plain;
        }
        let (flag, value) = match arg.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (arg, None),
        };
        let (dashes, name) = flag.split_at(flag.len() - flag.trim_start_matches('-').len());
        let known = match dashes {
            "--" => is_name(name),
            // After one dash, more than a letter may be a value glued to its flag (`-psecret`).
            "-" => is_name(name) && (name.len() == 1 || selects(name)),
            _ => false,
        };
        match value {
            _ if !known => Self::Word,
            Some(value) => Self::Assigned { dashes, name, value },
            None => Self::Flag(name),
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Whether a flag selects something that is no secret: by one of its words, unless another one says
/// that the value may be secret.
fn selects(name: &str) -> bool {
    const WORDS: &str = "\
        account address app application arn audience authority cloud cluster context domain \
        endpoint env environment format group groups host hostname id instance issuer \
        kubeconfig location method mode name namespace org organization output partition \
        port profile project provider realm region resource role scope scopes server stage \
        subscription team tenant url version workspace zone";
    if name == "login" {
        // As kubelogin has it: the way to log in, such as `azurecli`.
        return true;
    }
    !sounds_secret(name)
        && !may_be_secret(name)
        && words(name).any(|word| lists(WORDS, &word.to_ascii_lowercase()))
}

/// Whether a list of words, separated by spaces, contains this one.
fn lists(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// Whether a flag has no value, so that a command may follow it.
fn is_switch(name: &str) -> bool {
    matches!(name, "debug" | "verbose" | "quiet" | "legacy") || name.starts_with("no-")
}

/// Whether a word is a command of a credential plugin: every part of `get-token` is a known one.
fn is_command(word: &str) -> bool {
    const PARTS: &str = "\
        access account aks auth aws az ce cluster clusters cmd config container create \
        credential credentials eks exec fetch gcloud generate get gke helper iam id identity \
        ibmcloud k8s ks kube kubeconfig kubectl kubelogin kubernetes login oci oidc plugin \
        print session show sso ssh sts token user whoami";
    word.split('-').all(|part| lists(PARTS, part))
}

/// Whether a value cannot be a secret that somebody gave to a harmless flag by mistake.
fn is_harmless(name: &str, value: &str) -> bool {
    const LONGEST: usize = 200;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:~,@".contains(c);
    value.len() <= LONGEST
        && value.chars().all(plain)
        && !has_userinfo(value)
        && !PREFIXES.split(' ').any(|prefix| value.starts_with(prefix))
        && !sounds_secret(value)
        && redact(value) == value
        && (is_identifier(name)
            || !value.split(|c: char| !c.is_ascii_alphanumeric()).any(is_random))
}

/// Whether a value may be `name:password`, with or without a host: it has a colon that is not one of a
/// URL, of a name such as `arn:aws:…`, or before a port.
fn has_userinfo(value: &str) -> bool {
    let Some((before, after)) = value.split_once(':') else { return false };
    let is_port = !after.is_empty() && after.chars().all(|c| c.is_ascii_digit());
    let is_url = matches!(before, "http" | "https") && after.starts_with("//");
    value.contains('@') || !(is_port || is_url || matches!(before, "arn" | "urn" | "api"))
}

/// How the secrets of well-known issuers begin.
const PREFIXES: &str = "\
    AIza AKIA ASIA SG. eyJ dop_v1_ gho_ ghp_ ghs_ github_pat_ glpat- hvb. hvs. \
    k8s-aws-v1. npm_ pypi- sk- xoxb- xoxp- ya29.";

/// Whether a flag has an identifier that an issuer chose, which may look random: `--client-id`.
fn is_identifier(name: &str) -> bool {
    const OF: &str = "\
        account app application client cluster server subscription tenant";
    let mut words: Vec<_> = words(name).map(str::to_ascii_lowercase).collect();
    words.pop().is_some_and(|last| last == "id") && words.pop().is_some_and(|word| lists(OF, &word))
}

/// Whether letters and digits are mixed as only a generator does it. `KubernetesAdminV2`, a date and an
/// account number are not.
fn is_random(run: &str) -> bool {
    let digits: Vec<bool> = run.chars().map(|c| c.is_ascii_digit()).collect();
    let changes = digits.windows(2).filter(|pair| pair[0] != pair[1]).count();
    run.len() >= 32 || run.len() >= 12 && changes >= 3
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn what_selects_something_is_shown_and_the_rest_is_hidden() {
        for (args, shown) in [
            // As the plugins' own tools write them.
            (
                "--region eu-west-1 eks get-token --cluster-name prod --output json --profile dev",
                "--region eu-west-1 eks get-token --cluster-name prod --output json --profile dev",
            ),
            (
                "token -i prod --role arn:aws:iam::123456789012:role/KubernetesAdminV2",
                "token -i [hidden] --role arn:aws:iam::123456789012:role/KubernetesAdminV2",
            ),
            (
                "get-token --login azurecli --environment AzurePublicCloud \
                 --server-id 6dae42f8-4368-4678-94ff-3960e28e3630 \
                 --tenant-id 0f1f1a2b-0000-4678-94ff-3960e28e3630 --client-id 80faf920190844f391b8",
                "get-token --login azurecli --environment AzurePublicCloud \
                 --server-id 6dae42f8-4368-4678-94ff-3960e28e3630 \
                 --tenant-id 0f1f1a2b-0000-4678-94ff-3960e28e3630 --client-id 80faf920190844f391b8",
            ),
            (
                "oidc-login get-token --oidc-issuer-url=https://id.example.test/realms/dev \
                 --oidc-client-id=kubernetes --oidc-client-secret=hush --oidc-extra-scope=email",
                "oidc-login get-token --oidc-issuer-url=https://id.example.test/realms/dev \
                 --oidc-client-id=kubernetes --oidc-client-secret=[hidden] --oidc-extra-scope=email",
            ),
            (
                "kubernetes cluster kubeconfig exec-credential --context=default",
                "kubernetes cluster kubeconfig exec-credential --context=default",
            ),
            (
                "ce cluster generate-token --debug --cluster-id ocid1.cluster",
                "ce cluster generate-token --debug --cluster-id ocid1.cluster",
            ),
            ("-cluster prod -psecret", "-cluster prod [hidden]"),
            // By name.
            ("--token abc", "--token [hidden]"),
            ("--client-secret=abc --password abc", "--client-secret=[hidden] --password [hidden]"),
            ("--session-id abc --key-id abc", "--session-id [hidden] --key-id [hidden]"),
            ("--unknown abc --unknown=abc", "--unknown [hidden] --unknown=[hidden]"),
            ("-i abc -i=abc -p abc", "-i [hidden] -i=[hidden] -p [hidden]"),
            // By shape, although the name is harmless.
            ("--region Xk39fjWq81Lm", "--region [hidden]"),
            ("--role ghp_abcdef", "--role [hidden]"),
            ("--audience eyJhbGciOiJub25lIn0.e30.", "--audience [hidden]"),
            ("--server-url https://ann:hush@host.test", "--server-url [hidden]"),
            ("--server-url https://host.test/?code=abc", "--server-url [hidden]"),
            (
                "--profile ann:hush --host localhost:8080",
                "--profile [hidden] --host localhost:8080",
            ),
            ("--name 9f86d081884c7d659a2feaa0c55ad015", "--name [hidden]"),
            ("--name my-secret", "--name [hidden]"),
            // Neither a flag nor a command.
            ("hunter", "[hidden]"),
            ("key=value -----BEGIN", "[hidden] [hidden]"),
            ("-- - sh -c", "-- - [hidden] -c"),
        ] {
            let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
            let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(mask(&args).join(" "), shown, "{args:?}");
        }
        assert_eq!(
            mask(&[String::new(), "--name".into(), "a b".into()]),
            ["[hidden]", "--name", "[hidden]"]
        );
    }
}
