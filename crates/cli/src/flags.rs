//! The flags that every command accepts, before or after its name, spelled as in kubectl.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{
    Arg, Args, Command, ValueHint,
    builder::{BoolishValueParser, StringValueParser, TypedValueParser as _},
};
use clap_complete::ArgValueCandidates;
use keyward_host::Environment;
use keyward_protocol::{Secret, exec::Form};

use crate::{commands::completions::names, duration, output::Format};

const IDENTITY: &str = "Cluster and identity (as kubectl spells them)";
const PLUGINS: &str = "Plugins";
const GENERAL: &str = "General";

/// The flags of every command.
///
/// An empty value counts as unset, as with kubectl.
#[derive(Args, Clone, Default)]
pub(crate) struct Flags {
    /// Path to the kubeconfig file, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Name of the kubeconfig context to use
    #[arg(long, add = ArgValueCandidates::new(names::contexts), global = true, value_name = "NAME", help_heading = IDENTITY)]
    pub(crate) context: Vec<String>,

    /// Name of the kubeconfig cluster to use
    #[arg(long, add = ArgValueCandidates::new(names::clusters), global = true, value_name = "NAME", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) cluster: Option<String>,

    /// Name of the kubeconfig user to use
    #[arg(long, add = ArgValueCandidates::new(names::users), global = true, value_name = "NAME", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) user: Option<String>,

    /// Namespace to use
    #[arg(short, long, global = true, value_name = "NAME", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) namespace: Option<String>,

    /// Address of the API server
    #[arg(short, long, global = true, value_name = "URL", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) server: Option<String>,

    /// Name to check the server's certificate against, if it is not the host of the address
    #[arg(long, global = true, value_name = "NAME", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) tls_server_name: Option<String>,

    /// Path to the certificate authority of the server
    #[arg(long, value_hint = ValueHint::FilePath, global = true, value_name = "FILE", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) certificate_authority: Option<String>,

    /// Do not check the server's certificate: connections are open to attack
    #[arg(
        long, global = true, value_name = "BOOL", help_heading = IDENTITY, hide_short_help = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    pub(crate) insecure_skip_tls_verify: Option<bool>,

    /// URL of the proxy to the server (http, https or socks5)
    #[arg(long, global = true, value_name = "URL", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) proxy_url: Option<String>,

    /// Ask the server not to compress its answers
    #[arg(
        long, global = true, value_name = "BOOL", help_heading = IDENTITY, hide_short_help = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    pub(crate) disable_compression: Option<bool>,

    /// Bearer token; no plugin runs
    #[arg(long, global = true, value_name = "TOKEN", help_heading = IDENTITY, hide_short_help = true, value_parser = StringValueParser::new().map(Secret::new))]
    pub(crate) token: Option<Secret>,

    /// User name for basic authentication
    #[arg(long, global = true, value_name = "NAME", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) username: Option<String>,

    /// Password for basic authentication
    #[arg(long, global = true, value_name = "PASSWORD", help_heading = IDENTITY, hide_short_help = true, value_parser = StringValueParser::new().map(Secret::new))]
    pub(crate) password: Option<Secret>,

    /// Path to a client certificate
    #[arg(long, value_hint = ValueHint::FilePath, global = true, value_name = "FILE", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) client_certificate: Option<String>,

    /// Path to the key of the client certificate
    #[arg(long, value_hint = ValueHint::FilePath, global = true, value_name = "FILE", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) client_key: Option<String>,

    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "NAME", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) as_user: Option<String>,

    /// Group to impersonate; can be repeated
    #[arg(long, global = true, value_name = "NAME", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) as_group: Vec<String>,

    /// UID to impersonate
    #[arg(long, global = true, value_name = "UID", help_heading = IDENTITY, hide_short_help = true)]
    pub(crate) as_uid: Option<String>,

    /// How long one request to the server may take (5s, 2m; 0 for no limit)
    #[arg(long, global = true, value_name = "DURATION", help_heading = IDENTITY, hide_short_help = true, value_parser = duration::timeout)]
    pub(crate) request_timeout: Option<Duration>,

    /// Path to the kuberc file with the plugin policy, instead of $KUBERC or ~/.kube/kuberc
    #[arg(long, global = true, value_name = "FILE", help_heading = PLUGINS, hide_short_help = true)]
    pub(crate) kuberc: Option<PathBuf>,

    /// How long a plugin may take (1m30s, 500ms); the default is 60s, or 10m with a person at the
    /// terminal
    #[arg(long, global = true, value_name = "DURATION", help_heading = PLUGINS, hide_short_help = true, value_parser = duration::budget)]
    pub(crate) plugin_timeout: Option<Duration>,

    /// What a plugin sees of our environment: `inherit` (all of it), `clean` (nothing), or names
    /// separated by commas
    #[arg(long, global = true, value_name = "inherit|clean|NAME,…", help_heading = PLUGINS, hide_short_help = true, value_parser = plugin_env)]
    pub(crate) plugin_env: Option<Environment>,

    /// Run this plugin although others could change its file; can be repeated
    #[arg(long, global = true, value_name = "PATH", help_heading = PLUGINS, hide_short_help = true)]
    pub(crate) trust_plugin: Vec<PathBuf>,

    /// Ask plugins in the form of the original proposals: with v1alpha1 as `kind: ExecInfo`, and in
    /// `plugin test --image` without a version
    #[arg(long, global = true, help_heading = PLUGINS, hide_short_help = true)]
    pub(crate) proposal_form: bool,

    /// Treat warnings as errors
    #[arg(long, global = true, help_heading = PLUGINS, hide_short_help = true)]
    pub(crate) strict: bool,

    /// Print more on stderr; repeat it or give a level (-v, -vv, -v=2)
    #[arg(
        short, global = true, value_name = "N", help_heading = GENERAL,
        num_args = 0..=1, require_equals = true, default_missing_value = "1"
    )]
    pub(crate) verbose: Vec<u8>,

    /// Log format: text, or one JSON object per line
    #[arg(
        long, global = true, value_name = "text|json", help_heading = GENERAL, value_enum,
        default_value_t, hide_default_value = true, hide_possible_values = true
    )]
    pub(crate) log_format: Format,
}

/// The flags for clusters and identities, hidden: for commands that use none.
///
/// Hidden flags are still accepted, because an alias may put one in front of every command.
pub(crate) fn no_cluster() -> Vec<Arg> {
    hidden(&[IDENTITY])
}

/// All flags but the general ones, hidden: for commands that use no cluster and run no plugin.
pub(crate) fn only_general() -> Vec<Arg> {
    hidden(&[IDENTITY, PLUGINS])
}

/// All flags but the general ones and `--kubeconfig`, hidden: for commands that choose something by the kubeconfig.
pub(crate) fn only_kubeconfig() -> Vec<Arg> {
    only_general().into_iter().filter(|arg| arg.get_id() != "kubeconfig").collect()
}

fn hidden(headings: &[&str]) -> Vec<Arg> {
    let flags = Flags::augment_args(Command::new("flags"));
    let under = |arg: &&Arg| arg.get_help_heading().is_some_and(|own| headings.contains(&own));
    flags.get_arguments().filter(under).map(|arg| arg.clone().hide(true)).collect()
}

impl Flags {
    /// The form in which exec plugins are asked under v1alpha1.
    pub(crate) fn form(&self) -> Form {
        if self.proposal_form { Form::ExecInfo } else { Form::ExecCredential }
    }

    /// The context to use; the last one if several are given, as with kubectl.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.last().map(String::as_str)
    }

    /// The kubeconfig that was given.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// The kuberc that was given.
    pub(crate) fn kuberc(&self) -> Option<&Path> {
        self.kuberc.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// How much to log: 0 warnings, 1 what happens, 2 and more everything.
    pub(crate) fn verbosity(&self) -> u8 {
        self.verbose.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// What a plugin sees of our environment.
fn plugin_env(text: &str) -> Result<Environment, String> {
    match text {
        "inherit" => Ok(Environment::Inherit),
        "clean" => Ok(Environment::Clean),
        names => names
            .split(',')
            .map(|name| match name.trim() {
                "" => Err("a name is empty; use `inherit`, `clean`, or names separated by commas"
                    .to_owned()),
                name if name.contains('=') => Err("names only, without values".to_owned()),
                name => Ok(name.to_owned()),
            })
            .collect::<Result<_, _>>()
            .map(Environment::Only),
    }
}

/// Secrets hide themselves because they are [`Secret`]s; the rest is of no use in a log.
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flags").field("context", &self.context).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Environment, plugin_env};
    use crate::args::Cli;

    fn flags(line: &str) -> super::Flags {
        match Cli::try_parse_from(line.split(' ')) {
            Ok(cli) => cli.flags,
            Err(wrong) => panic!("{wrong}"),
        }
    }

    #[test]
    fn a_flag_may_stand_before_or_after_the_command() {
        for line in
            ["keyward --context a plan", "keyward plan --context a", "keyward plan --context=a"]
        {
            assert_eq!(flags(line).context(), Some("a"), "{line}");
        }
    }

    #[test]
    fn levels_are_counted_or_given() {
        for (line, level) in [
            ("keyward plan", 0),
            ("keyward plan -v", 1),
            ("keyward -vv plan", 2),
            ("keyward plan -v -v -v", 3),
            ("keyward plan -v=6", 6),
        ] {
            assert_eq!(flags(line).verbosity(), level, "{line}");
        }
    }

    #[test]
    fn switches_are_bare_or_have_a_value() {
        for (line, value) in [
            ("keyward plan", None),
            ("keyward plan --insecure-skip-tls-verify", Some(true)),
            ("keyward --insecure-skip-tls-verify plan", Some(true)),
            ("keyward plan --insecure-skip-tls-verify=false", Some(false)),
        ] {
            assert_eq!(flags(line).insecure_skip_tls_verify, value, "{line}");
        }
    }

    #[test]
    fn the_environment_is_a_word_or_names() {
        for (text, value) in [
            ("inherit", Environment::Inherit),
            ("clean", Environment::Clean),
            ("A,B", Environment::Only(vec!["A".into(), "B".into()])),
        ] {
            assert_eq!(flags(&format!("keyward plan --plugin-env {text}")).plugin_env, Some(value));
        }
        for wrong in ["A,,B", "A=1", ","] {
            assert!(plugin_env(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_command_shows_only_the_flags_that_apply_to_it_and_accepts_all() {
        let mut all = crate::command();
        all.build();
        for (path, cluster, plugin) in [
            ("plan", true, true),
            ("proxy", true, true),
            ("image credentials", true, true),
            ("plugin test", false, true),
            ("agent status", false, false),
            ("completions", false, false),
            ("demo", false, false),
            ("help", false, false),
            ("image install", false, false),
            ("image match", false, false),
            ("proxy status", false, false),
            ("version", false, false),
        ] {
            let mut command = &all;
            for name in path.split(' ') {
                command = command.find_subcommand(name).expect(path);
            }
            let help = command.clone().render_long_help().to_string();
            assert_eq!(help.contains("--context <NAME>"), cluster, "`{path}`: {help}");
            assert_eq!(help.contains("--plugin-timeout <DURATION>"), plugin, "`{path}`: {help}");
        }
        for line in ["keyward completions bash --context x", "keyward --context x completions bash"]
        {
            assert_eq!(flags(line).context(), Some("x"), "{line}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", flags("keyward plan --token s3cr3t --password pa55word"));
        assert!(!shown.contains("s3cr3t") && !shown.contains("pa55word"), "{shown}");
    }
}
