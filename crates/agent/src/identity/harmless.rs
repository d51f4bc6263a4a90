//! Variables that select no identity, and variables that can make a plugin run other code.

use std::sync::LazyLock;

/// Variables that no plugin chooses an account by: they describe a terminal, a window, a shell or a
/// session. For an unknown plugin every other variable counts. `docs/agent.md` publishes this list.
pub const HARMLESS: &[&str] = &[
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "PS1",
    "PS2",
    "PROMPT",
    "PROMPT_COMMAND",
    "TERM",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "TERMINATOR_*",
    "COLORTERM",
    "COLORFGBG",
    "COLUMNS",
    "LINES",
    "LS_COLORS",
    "LSCOLORS",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "NO_COLOR",
    "FORCE_COLOR",
    "GREP_COLORS",
    "LESS",
    "LESSOPEN",
    "LESSCLOSE",
    "PAGER",
    "MANPAGER",
    "EDITOR",
    "VISUAL",
    "KUBE_EDITOR",
    "HISTFILE",
    "HISTSIZE",
    "HISTCONTROL",
    "HISTFILESIZE",
    "HISTTIMEFORMAT",
    "HISTIGNORE",
    "WINDOWID",
    "WINDOWPATH",
    "TMUX",
    "TMUX_PANE",
    "TMUX_PLUGIN_MANAGER_PATH",
    "STY",
    "WINDOW",
    "ZELLIJ",
    "ZELLIJ_*",
    "ITERM_*",
    "KITTY_*",
    "ALACRITTY_*",
    "WEZTERM_*",
    "KONSOLE_*",
    "GNOME_TERMINAL_*",
    "VTE_VERSION",
    "WT_SESSION",
    "WT_PROFILE_ID",
    "VSCODE_*",
    "STARSHIP_*",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_TTY",
    "GPG_AGENT_INFO",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DESKTOP_SESSION",
    "SESSION_MANAGER",
    "XDG_SESSION_*",
    "XDG_VTNR",
    "XDG_SEAT",
    "XDG_CURRENT_DESKTOP",
    "XDG_MENU_PREFIX",
    "DESKTOP_STARTUP_ID",
    "XDG_ACTIVATION_TOKEN",
    "GNOME_DESKTOP_SESSION_ID",
    "GNOME_SETUP_DISPLAY",
    "GNOME_SHELL_SESSION_MODE",
    "GDMSESSION",
    "KDE_*",
    "GTK_*",
    "QT_*",
    "XMODIFIERS",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_EXEC_PID",
    "MANAGERPID",
    "MAIL",
    "HUSHLOGIN",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "SECURITYSESSIONID",
    "COMMAND_MODE",
    "__CFBundleIdentifier",
    "__CF_USER_TEXT_ENCODING",
    "XPC_FLAGS",
    "XPC_SERVICE_NAME",
    "KUBERNETES_EXEC_INFO",
    "KEYWARD_AGENT",
    "KEYWARD_AGENT_SOCK",
    "KEYWARD_SYSTEM_AGENT_SOCK",
    "KEYWARD_CHAIN",
];

/// Variables that load code into a program, or point it to files that name programs to run. The
/// agent runs a plugin itself only if they have the values they had when the command was
/// registered: a process that reaches the socket must not be able to start something new through
/// it.
pub(crate) const STEERING: &[&str] = &[
    // Loaders and interpreters.
    "LD_*",
    "DYLD_*",
    "PYTHON*",
    "NODE_*",
    "PERL5*",
    "PERLLIB",
    "RUBY*",
    "GEM_*",
    "BUNDLE_*",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "BASH_ENV",
    "BASH_FUNC_*",
    "ENV",
    "ZDOTDIR",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "GCONV_PATH",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "GODEBUG",
    "VIRTUAL_ENV",
    "CONDA_*",
    // Locations of configuration files, which may name programs (`credential_process`, `exec`,
    // `executable`).
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_HOME",
    "XDG_DATA_DIRS",
    "KUBECONFIG",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_DATA_PATH",
    "BOTO_*",
    "BOTOCORE_*",
    "CLOUDSDK_CONFIG",
    "CLOUDSDK_PYTHON*",
    "CLOUDSDK_ROOT_DIR",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_CONFIG_DIR",
    "AZURE_EXTENSION_DIR",
    "TELEPORT_HOME",
    "TELEPORT_GLOBAL_TSH_CONFIG",
    "TELEPORT_TOOLS_VERSION",
    "BROWSER",
];

/// A long list by the first byte of its entries: each variable of each request is looked up in it.
struct Index(Vec<Vec<&'static str>>);

static HARMLESS_INDEX: LazyLock<Index> = LazyLock::new(|| Index::new(HARMLESS));
static STEERING_INDEX: LazyLock<Index> = LazyLock::new(|| Index::new(STEERING));

impl Index {
    fn new(list: &[&'static str]) -> Self {
        let mut lists = vec![Vec::new(); 256];
        for entry in list {
            if let Some(first) = entry.bytes().next() {
                lists[usize::from(first)].push(*entry);
            }
        }
        Self(lists)
    }

    fn contains(&self, name: &[u8]) -> bool {
        name.first().is_some_and(|first| is_in(&self.0[usize::from(*first)], name))
    }
}

/// Whether no plugin chooses an account by a variable.
pub fn is_harmless(name: &[u8]) -> bool {
    HARMLESS_INDEX.contains(name)
}

/// Whether a variable can make a plugin run other code.
pub(crate) fn is_steering(name: &[u8]) -> bool {
    STEERING_INDEX.contains(name)
}

/// Whether a list contains a variable; an entry that ends in `*` matches a prefix.
pub(super) fn is_in(list: &[&str], name: &[u8]) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == entry.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_its_index_contain_the_same() {
        let names = HARMLESS.iter().chain(STEERING).flat_map(|entry| {
            let name = entry.trim_end_matches('*');
            [name.to_owned(), format!("{name}X"), name[..name.len() - 1].to_owned()]
        });
        for name in names.map(String::into_bytes) {
            assert_eq!(is_harmless(&name), is_in(HARMLESS, &name), "{name:?}");
            assert_eq!(is_steering(&name), is_in(STEERING, &name), "{name:?}");
        }
    }

    #[test]
    fn the_published_list_is_this_one() {
        let page = include_str!("../../../../docs/agent.md");
        let quoted =
            page.lines().filter_map(|line| line.strip_prefix("> ")).flat_map(str::split_whitespace);
        let published: Vec<_> = quoted.map(|name| name.trim_matches('`')).collect();
        assert_eq!(published, HARMLESS);
    }

    #[test]
    fn no_variable_that_loads_code_or_finds_files_is_harmless() {
        for name in STEERING {
            assert!(!is_in(HARMLESS, name.trim_end_matches('*').as_bytes()), "{name}");
        }
        for name in ["HOME", "USER", "PATH", "AWS_PROFILE", "KUBECONFIG", "HTTPS_PROXY", "SSH_KEY"]
        {
            assert!(!is_in(HARMLESS, name.as_bytes()), "{name}");
        }
    }
}
