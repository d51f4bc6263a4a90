use std::{error::Error, fmt, io, path::Path};

use keyward_protocol::text::with_causes;

/// Why there is no credential. Each variant documents what the host does next.
///
/// The protocol has one kind of failure, a non-zero exit: stdout is discarded, the request that needed the
/// credential fails, and stderr is all that a person gets to see. So write there what to do about it.
/// The exit code tells scripts, and hosts that look at it, the variant.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// A failure that may pass: a service is down, a file does not exist yet.
    ///
    /// The host fails the request and asks again when the next one needs a credential. `kubectl` does
    /// so at the next command, Keyward after a pause that grows from one second to a minute. Exit
    /// code 1.
    Failed(String),

    /// The kubeconfig, the arguments or the environment must change first.
    ///
    /// Handled like [`Refusal::Failed`]; retries do not help until a person has changed something. Exit
    /// code 2.
    BadConfig(String),

    /// A person must answer a prompt, and there is none
    /// ([`Question::interactive`](crate::Question::interactive) is false).
    ///
    /// The host fails the request; it does not start the plugin again with a terminal by itself. The
    /// person repeats the command at a terminal, or logs in some other way first. Exit code 3.
    NeedsTerminal(String),

    /// The person or the cluster is known and must not get a credential.
    ///
    /// Handled like [`Refusal::Failed`]. Exit code 4.
    NotAllowed(String),

    /// For an external signer: the PIN that the configuration holds or points to is wrong.
    ///
    /// Keyward does not ask again with this configuration as long as it runs, because a token locks
    /// itself after a few tries. A PIN that was mistyped is [`Refusal::NotAllowed`]. Exit code 5.
    WrongPin(String),

    /// For an external signer: the key cannot sign as it was asked to.
    ///
    /// The host fails the request. Exit code 2.
    Unsupported(String),

    /// The person at the prompt pressed Ctrl-C or Ctrl-D.
    ///
    /// The host fails the request. Exit code 130, which shells show for an interrupted program.
    Interrupted,
}

impl Refusal {
    /// [`Refusal::Failed`] with this text or error.
    pub fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }

    /// [`Refusal::BadConfig`] with this text or error.
    pub fn bad_config(why: impl fmt::Display) -> Self {
        Self::BadConfig(why.to_string())
    }

    /// For `map_err`: fails with the name of the file that could not be used, which an [`io::Error`] does
    /// not know.
    ///
    /// ```
    /// # use keyward_plugin::Refusal;
    /// let path = "/no/such/file";
    /// let refusal = std::fs::read_to_string(path).map_err(Refusal::file(path)).unwrap_err();
    /// assert!(refusal.to_string().starts_with("cannot use file `/no/such/file`: "));
    /// ```
    pub fn file(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("cannot use file `{}`: {error}", path.as_ref().display()))
    }

    /// The exit code of the plugin.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::BadConfig(_) | Self::Unsupported(_) => 2,
            Self::NeedsTerminal(_) => 3,
            Self::NotAllowed(_) => 4,
            Self::WrongPin(_) => 5,
            Self::Interrupted => 130,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why)
            | Self::BadConfig(why)
            | Self::NeedsTerminal(why)
            | Self::NotAllowed(why)
            | Self::WrongPin(why)
            | Self::Unsupported(why) => f.write_str(why),
            Self::Interrupted => f.write_str("interrupted at the prompt"),
        }
    }
}

impl Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}

/// Any error, with its causes, so that `?` works on a boxed one.
impl From<Box<dyn Error + Send + Sync>> for Refusal {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::Failed(with_causes(&*error))
    }
}
