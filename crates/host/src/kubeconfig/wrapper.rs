//! `keyward-exec --` in front of a plugin's command, as `keyward wrap` puts it there.

use std::path::Path;

use super::Exec;

impl Exec {
    /// The name of the program that `keyward wrap` puts in front of plugin commands.
    pub const WRAPPER: &str = "keyward-exec";

    /// What `keyward wrap` writes as `installHint`, before the hint that was there.
    pub const WRAPPER_HINT: &str = "this kubeconfig was changed by `keyward wrap`: install Keyward \
        and run `keyward wrap` again, or `keyward unwrap` to have the plugin's own command back.";

    /// The plugin's own command and arguments, if the command is [`Exec::WRAPPER`].
    pub fn wrapped(&self) -> Option<(&str, &[String])> {
        let is_wrapper =
            Path::new(&self.command).file_name().is_some_and(|name| name == Self::WRAPPER);
        match self.args.as_slice() {
            [dashes, command, args @ ..] if is_wrapper && dashes == "--" => Some((command, args)),
            _ => None,
        }
    }

    /// The stanza without [`Exec::WRAPPER`]: what policy, plan and cache go by, because that is what runs.
    #[must_use]
    pub fn without_wrapper(mut self) -> Self {
        if let Some((command, args)) = self.wrapped() {
            (self.command, self.args) = (command.to_owned(), args.to_vec());
            if let Some(hint) = self.install_hint.strip_prefix(Self::WRAPPER_HINT) {
                self.install_hint = hint.trim_start().to_owned();
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(command: &str, args: &[&str]) -> Exec {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Exec { command: command.into(), args, ..Exec::default() }
    }

    #[test]
    fn only_what_wrap_writes_is_taken_for_a_wrapper() {
        let wrapped = exec("/opt/bin/keyward-exec", &["--", "aws", "eks", "--"]);
        assert_eq!(wrapped.wrapped(), Some(("aws", &["eks".into(), "--".into()][..])));
        for (command, args) in [
            ("keyward-exec", &["--"][..]),
            ("keyward-exec", &["aws"]),
            ("keyward-exec2", &["--", "aws"]),
            ("aws", &["--", "keyward-exec"]),
        ] {
            assert_eq!(exec(command, args).wrapped(), None, "{command} {args:?}");
        }
    }

    #[test]
    fn the_hint_of_the_plugin_comes_back() {
        for (hint, own) in [("", ""), (" get it", "get it")] {
            let mut exec = exec("keyward-exec", &["--", "aws"]);
            exec.install_hint = format!("{}{hint}", Exec::WRAPPER_HINT);
            assert_eq!(exec.without_wrapper().install_hint, own);
        }
    }
}
