//! Hides secrets in what a plugin wrote to its stderr.

pub(crate) use keyward_protocol::text::sounds_secret;
use keyward_protocol::{Node, Secret, node::Value, text};
use zeroize::Zeroizing;

/// What stands in the place of a secret.
const HIDDEN: &str = "[hidden]";
/// Anything shorter is more likely to be a part of ordinary words than a secret worth the name.
const SHORTEST: usize = 4;
/// A word of an answer that is at least this long is not an ordinary word.
const LONG: usize = 12;

/// Secrets to be hidden.
#[derive(Default)]
pub(crate) struct Mask(Vec<Secret>);

impl Mask {
    /// Hides this text, and each of its lines: a key may be told line by line.
    pub(crate) fn learn(&mut self, secret: &str) {
        let whole = secret.trim();
        for part in std::iter::once(whole).chain(whole.lines().map(str::trim)) {
            if part.len() >= SHORTEST && !part.starts_with("-----") {
                self.0.push(Secret::new(part));
            }
        }
    }

    /// Hides the long words of an answer, whatever it was: a plugin that fails may have told its
    /// token on both channels.
    pub(crate) fn learn_answer(&mut self, stdout: &[u8]) {
        const ENOUGH: usize = 256 << 10;
        let text = String::from_utf8_lossy(&stdout[..stdout.len().min(ENOUGH)]);
        let of_token = |c: char| c.is_ascii_alphanumeric() || "-_.~+/=".contains(c);
        // Line breaks inside JSON texts are written as `\n`; the `n` must not stick to a word.
        let text = Zeroizing::new(text.replace("\\n", "\n"));
        for line in text.split(|c| !of_token(c)) {
            if line.len() >= LONG && !FRAME.contains(&line) {
                self.0.push(Secret::new(line));
            }
        }
    }

    /// Hides every `password` of a JSON answer, however short. `false` for an answer that has none.
    pub(crate) fn learn_passwords(&mut self, stdout: &[u8]) -> bool {
        let before = self.0.len();
        if let Ok(node) = Node::from_json(stdout) {
            self.learn_passwords_of(&node);
        }
        self.0.len() > before
    }

    fn learn_passwords_of(&mut self, node: &Node) {
        let Value::Map(entries) = &node.value else { return };
        for entry in entries {
            match &entry.value.value {
                Value::Text(text) if entry.key == "password" => self.learn(text),
                _ => self.learn_passwords_of(&entry.value),
            }
        }
    }

    /// The values of arguments that are called secret: `--client-secret=x`, `--token x`.
    pub(crate) fn learn_args(&mut self, args: &[String]) {
        for (index, arg) in args.iter().enumerate() {
            match arg.split_once('=') {
                Some((name, value)) if sounds_secret(name) => self.learn(value),
                None if arg.starts_with('-') && sounds_secret(arg) => {
                    if let Some(next) = args.get(index + 1) {
                        self.learn(next);
                    }
                }
                _ => {}
            }
        }
    }

    /// The text, safe to show: control characters by their names, known secrets hidden, and
    /// whatever looks like a token or a private key.
    pub(crate) fn apply(mut self, raw: &[u8]) -> String {
        // A secret that contains another must be replaced first, or its rest would show.
        self.0.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        let mut shown = text::clean(&String::from_utf8_lossy(raw));
        for secret in &self.0 {
            // The text was cleaned, so what is looked for in it must be too.
            let secret = Zeroizing::new(text::clean(secret.expose()));
            if shown.contains(secret.as_str()) {
                shown = shown.replace(secret.as_str(), HIDDEN);
            }
        }
        hide_words(&hide_keys(&shown))
    }
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

/// What follows the first line: of a text that was cut it may be the end of a secret, which nobody
/// would recognise as one. Where there are no lines, what follows the first word.
pub(crate) fn without_first_line(text: &[u8]) -> &[u8] {
    let after = |end: fn(&u8) -> bool| text.iter().position(end).map(|at| at + 1);
    let start = after(|byte| *byte == b'\n').or_else(|| after(u8::is_ascii_whitespace));
    &text[start.unwrap_or(text.len())..]
}

/// Private keys in PEM, whole: from their first line to their last, or to the end of the text. Where
/// the first line is missing, from the beginning of the text.
fn hide_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        if line.contains("-----BEGIN") && line.contains("PRIVATE KEY-----") {
            inside = true;
            out.push_str(HIDDEN);
            out.push('\n');
        }
        if !inside {
            out.push_str(line);
        }
        if inside && line.contains("-----END") {
            inside = false;
        } else if line.contains("-----END") && line.contains("PRIVATE KEY-----") {
            out.clear();
            out.push_str(HIDDEN);
            out.push('\n');
        }
    }
    out
}

/// What looks like a JWT, and what follows `Bearer` or `Basic`.
fn hide_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_scheme = false;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || "\"'`,;<>()[]{}".contains(c)) {
        let end = word
            .char_indices()
            .next_back()
            .filter(|(_, c)| c.is_whitespace() || "\"'`,;<>()[]{}".contains(*c));
        let (core, tail) = word.split_at(end.map_or(word.len(), |(at, _)| at));
        let value = core.rsplit(['=', ':']).next().unwrap_or(core);
        if after_scheme && core.len() >= SHORTEST {
            out.push_str(HIDDEN);
        } else if is_jwt(value) {
            out.push_str(&core[..core.len() - value.len()]);
            out.push_str(HIDDEN);
        } else {
            out.push_str(core);
        }
        out.push_str(tail);
        if !core.is_empty() {
            after_scheme = ["bearer", "basic"].iter().any(|s| core.eq_ignore_ascii_case(s));
        }
    }
    out
}

/// Three parts of base64url, the first of which begins an object.
fn is_jwt(word: &str) -> bool {
    word.starts_with("eyJ")
        && word.split('.').count() >= 2
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.=".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_are_hidden_the_longer_first() {
        let mut mask = Mask::default();
        mask.learn("token");
        mask.learn("token-and-more");
        assert_eq!(mask.apply(b"a token-and-more b token c"), "a [hidden] b [hidden] c");
    }

    #[test]
    fn what_looks_like_a_secret_is_hidden() {
        let shown = |text: &str| Mask::default().apply(text.as_bytes());
        assert_eq!(shown("got eyJhbGciOi.eyJzdWIi.c2ln!"), "got eyJhbGciOi.eyJzdWIi.c2ln!");
        assert_eq!(shown("got eyJhbGciOi.eyJzdWIi.c2ln, ok"), "got [hidden], ok");
        assert_eq!(shown("id_token=eyJhbGciOi.eyJzdWIi.c2ln"), "id_token=[hidden]");
        assert_eq!(
            shown("Authorization: Bearer abcdef\nnext"),
            "Authorization: Bearer [hidden]\nnext"
        );
        assert_eq!(
            shown("x\n-----BEGIN EC PRIVATE KEY-----\nMIIabc\n-----END EC PRIVATE KEY-----\ny"),
            "x\n[hidden]\ny"
        );
    }

    #[test]
    fn the_end_of_a_key_is_hidden_even_if_its_beginning_is_gone() {
        assert_eq!(
            Mask::default().apply(b"MIIabc\nMIIdef\n-----END EC PRIVATE KEY-----\nno session\n"),
            "[hidden]\nno session\n"
        );
    }

    #[test]
    fn the_rest_of_a_cut_line_is_dropped() {
        assert_eq!(without_first_line(b"ret key\nnext\nlast"), b"next\nlast");
        assert_eq!(without_first_line(b"ret and more"), b"and more");
        assert_eq!(without_first_line(b"ret"), b"");
    }

    #[test]
    fn a_secret_with_a_control_character_is_hidden() {
        let mut mask = Mask::default();
        mask.learn("pass\u{1b}word");
        assert_eq!(mask.apply(b"it is pass\x1bword"), "it is [hidden]");
    }

    #[test]
    fn words_of_the_answer_are_hidden() {
        let mut mask = Mask::default();
        mask.learn_answer(br#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"opaque-token-1"}}"#);
        assert_eq!(
            mask.apply(b"client.authentication.k8s.io/v1 says opaque-token-1"),
            "client.authentication.k8s.io/v1 says [hidden]"
        );
    }

    #[test]
    fn secret_arguments_are_hidden_in_both_forms() {
        let mut mask = Mask::default();
        mask.learn_args(&[
            "--client-secret=abcd".into(),
            "--token".into(),
            "efgh".into(),
            "prod".into(),
        ]);
        assert_eq!(mask.apply(b"abcd efgh prod"), "[hidden] [hidden] prod");
    }

    #[test]
    fn control_characters_are_named() {
        assert_eq!(Mask::default().apply(b"\x1b[31mred\n"), "U+001B[31mred\n");
    }
}
