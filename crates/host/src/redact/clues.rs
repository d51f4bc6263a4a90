//! Finds the secrets among a run's values: by their names, and by where they are.

use keyward_protocol::{
    Node, Secret,
    node::Value,
    text::{may_be_secret, sounds_secret},
    url,
};
use zeroize::Zeroizing;

use super::{Redactor, SHORTEST_VALUE};

/// A word of an answer that is at least this long is not an ordinary word.
const LONG: usize = 12;

impl Redactor {
    /// A variable that a plugin inherits from us: a secret if its name says so, and always the
    /// password of a URL in it.
    pub(crate) fn add_inherited(&mut self, name: &str, value: &str) {
        self.add_urls(value);
        // Names such as `SSH_AUTH_SOCK` and `AUTH_MODE` are not worth hiding a path or a word for.
        let likely = value.len() >= SHORTEST_VALUE && !value.starts_with('/');
        if sounds_secret(name) || may_be_secret(name) && likely {
            self.add(value);
        }
    }

    /// A variable that the configuration gives to a plugin: a secret whatever its name is.
    pub(crate) fn add_configured(&mut self, value: &str) {
        self.add_urls(value);
        self.add(value);
    }

    /// The passwords of every URL in a text.
    fn add_urls(&mut self, text: &str) {
        self.add_all(&url_passwords(text));
    }

    /// The values of arguments that are called secret (`--client-secret=x`, `--token x`, `-p x`, `-px`),
    /// the passwords of URLs and of `name:password`, and what follows `Bearer` or `Basic`.
    pub(crate) fn add_args(&mut self, args: &[String]) {
        for (index, arg) in args.iter().enumerate() {
            self.add_urls(arg);
            self.add_header(arg);
            let next = args.get(index + 1).filter(|next| !next.starts_with("--"));
            match (arg.split_once('='), next) {
                (Some((name, value)), _) if sounds_secret(name) || may_be_secret(name) => {
                    self.add(value);
                }
                (None, Some(next)) if matches!(arg.as_str(), "-p" | "-P") => self.add(next),
                (None, Some(next)) if matches!(arg.as_str(), "-u" | "--user" | "--userpwd") => {
                    self.add(next.split_once(':').map_or("", |(_, password)| password));
                }
                (None, Some(next)) if arg.starts_with('-') && sounds_secret(arg) => self.add(next),
                (None, Some(next)) if arg.starts_with('-') && may_be_secret(arg) => {
                    self.add(next);
                }
                _ => {}
            }
            // `-phunter2`, but not the long names after one dash that Go's programs have.
            if let Some(glued) = arg.strip_prefix("-p")
                && glued.contains(|c: char| !c.is_ascii_alphabetic() && c != '-')
            {
                self.add(glued.trim_start_matches('='));
            }
        }
    }

    fn add_header(&mut self, text: &str) {
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            if ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme)) {
                self.add(words.next().unwrap_or_default());
            }
        }
    }

    /// The long words of an answer, whatever it was: a plugin that fails may have told its token on
    /// both channels.
    pub(crate) fn add_answer(&mut self, stdout: &[u8]) {
        const ENOUGH: usize = 256 << 10;
        let text = String::from_utf8_lossy(&stdout[..stdout.len().min(ENOUGH)]);
        let of_token = |c: char| c.is_ascii_alphanumeric() || "-_.~+/=".contains(c);
        // Line breaks inside JSON texts are written as `\n`; the `n` must not stick to a word.
        let text = Zeroizing::new(text.replace("\\n", "\n"));
        for word in text.split(|c| !of_token(c)) {
            if word.len() >= LONG && !FRAME.contains(&word) {
                self.add(word);
            }
        }
    }

    /// Every `password` of a JSON answer, however short. `false` for an answer that has none.
    pub(crate) fn add_passwords(&mut self, stdout: &[u8]) -> bool {
        Node::from_json(stdout).is_ok_and(|node| self.add_passwords_of(&node))
    }

    fn add_passwords_of(&mut self, node: &Node) -> bool {
        let mut found = false;
        for entry in node.entries() {
            match &entry.value.value {
                Value::Text(text) if entry.key == "password" => {
                    self.add(text);
                    found = true;
                }
                _ => found |= self.add_passwords_of(&entry.value),
            }
        }
        found
    }

    /// Secrets that are known as such.
    pub(crate) fn add_all<'a>(&mut self, secrets: impl IntoIterator<Item = &'a Secret>) {
        secrets.into_iter().for_each(|secret| self.add(secret.expose()));
    }
}

/// The passwords of every URL in a text.
pub(crate) fn url_passwords(text: &str) -> Vec<Secret> {
    let urls = text.split_whitespace().filter(|word| word.contains("//"));
    urls.flat_map(url::passwords).collect()
}

/// What follows the first line: of a text that was cut it may be the end of a secret, which nobody
/// would recognise as one. Where there are no lines, what follows the first word.
pub(crate) fn without_first_line(text: &[u8]) -> &[u8] {
    let after = |end: fn(&u8) -> bool| text.iter().position(end).map(|at| at + 1);
    let start = after(|byte| *byte == b'\n').or_else(|| after(u8::is_ascii_whitespace));
    &text[start.unwrap_or(text.len())..]
}

/// Words of every answer.
const FRAME: [&str; 18] = [
    "CredentialProviderResponse",
    "RegistryCredentialPluginResponse",
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "cacheKeyType",
    "cacheDuration",
    "ExecCredential",
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1alpha1",
    "expirationTimestamp",
    "clientCertificateData",
    "clientKeyData",
    "-----BEGIN",
    "CERTIFICATE-----",
    "certificate-authority-data",
    "tls-server-name",
];
