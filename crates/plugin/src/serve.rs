use std::{
    env,
    io::{self, Read, Write},
    path::Path,
    process::ExitCode,
};

use jiff::Timestamp;
use keyward_protocol::exec::{REQUEST_VARIABLE, Version};
use zeroize::Zeroizing;

use crate::{Credential, Question, QuestionError, Refusal, stdout::Stdout};

/// A credential plugin. This is the whole contract; [`serve()`] does the rest.
///
/// Closures that take a [`Question`] implement it.
pub trait Plugin {
    /// Returns a credential that is valid now, or why there is none.
    ///
    /// Called once. Without a person ([`Question::interactive`] is false) be quick: the client waits
    /// with a time limit.
    fn credential(&self, question: &Question) -> Result<Credential, Refusal>;
}

impl<F> Plugin for F
where
    F: Fn(&Question) -> Result<Credential, Refusal>,
{
    fn credential(&self, question: &Question) -> Result<Credential, Refusal> {
        self(question)
    }
}

/// Answers the client that started this process: the whole `main` of a plugin.
///
/// Reads the question from the environment, asks the plugin, and prints the answer in the version of
/// the question. Until then stdout is moved aside: whatever the plugin, a library or a child process
/// prints goes to stderr. Call this first: what was printed before cannot be taken back.
///
/// A credential that no client could use (empty, expired, not PEM, with a line break in the token)
/// is not printed; it becomes a failure that explains why.
///
/// # Exit codes
///
/// | code | meaning |
/// |---|---|
/// | 0 | the credential was printed |
/// | 1 | [`Refusal::Failed`], or stdout could not be written |
/// | 2 | [`Refusal::BadConfig`], or there was no question that could be read |
/// | 3 | [`Refusal::NeedsTerminal`] |
/// | 4 | [`Refusal::NotAllowed`] |
/// | 101 | the plugin panicked |
/// | 130 | [`Refusal::Interrupted`] |
#[expect(clippy::needless_pass_by_value, reason = "`serve(Plugin)` is the whole `main`")]
pub fn serve(plugin: impl Plugin) -> ExitCode {
    end(answer(&plugin, || match Question::from_env() {
        Err(QuestionError::Missing) => Err(Refusal::BadConfig(by_hand())),
        other => Ok(other?),
    }))
}

/// Answers like [`serve()`], but in this version if there is no request, as a plugin that replaces an older
/// tool has to: most of them print v1beta1 when a person or a script starts them without
/// `KUBERNETES_EXEC_INFO`.
///
/// ```no_run
/// use std::process::ExitCode;
/// use keyward_plugin::{Credential, Question, Version, serve_or};
///
/// fn main() -> ExitCode {
///     serve_or(Version::V1Beta1, |_: &Question| Ok(Credential::token("t")))
/// }
/// ```
#[expect(clippy::needless_pass_by_value, reason = "`serve_or(…, Plugin)` is the whole `main`")]
pub fn serve_or(version: Version, plugin: impl Plugin) -> ExitCode {
    end(answer(&plugin, || Ok(Question::from_env_or(version)?)))
}

#[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
fn answer(
    plugin: &impl Plugin,
    question: impl FnOnce() -> Result<Question, Refusal>,
) -> Result<(), Refusal> {
    let mut stdout = Stdout::take()?;
    let question = question()?;
    for remark in question.remarks() {
        complain(&format!("warning: {remark}"));
    }
    let credential = plugin.credential(&question)?;
    let answer = credential.answer(question.request(), Timestamp::now())?;
    stdout.print(answer.expose())
}

/// The message if there is no request: most likely a person tries the plugin in a shell.
fn by_hand() -> String {
    let name = program();
    format!(
        "`{REQUEST_VARIABLE}` is not set: `{name}` is a credential plugin, which a Kubernetes \
         client starts\n\n\
         hint: to try it by hand\n  \
         export {REQUEST_VARIABLE}='{{\"kind\":\"ExecCredential\",\"apiVersion\":\
         \"client.authentication.k8s.io/v1\",\"spec\":{{\"interactive\":false}}}}'\n\
         or check it all with `keyward plugin test -- {name}`"
    )
}

/// Ends a plugin of any kind: prints the reason of a refusal to stderr and returns its exit code.
pub(crate) fn end(outcome: Result<(), Refusal>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            complain(&format!("error: {refusal}"));
            ExitCode::from(refusal.exit_code())
        }
    }
}

/// A request contains a name, a token or a login, and annotations: far less than this.
const MOST: u64 = 1 << 20;

/// The request on stdin; `None` if it is too long.
pub(crate) fn read_request(stdin: impl Read) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    // Room for most requests from the start: growing would leave copies of a secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(64 * 1024));
    stdin.take(MOST + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= MOST))
}

/// The name this program was started by.
pub(crate) fn program() -> String {
    let program = env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name();
    name.map_or_else(|| "PLUGIN".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Prints to stderr. If that fails too, nothing can be done.
fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
