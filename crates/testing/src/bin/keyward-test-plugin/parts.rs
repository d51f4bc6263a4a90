//! What the modes are made of.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// An answer that every host accepts: what `KEYWARD_TEST_ANSWER` says, else one of the exec protocol.
pub(crate) fn text() -> String {
    #[expect(clippy::disallowed_methods, reason = "a program of its own, not the product")]
    std::env::var("KEYWARD_TEST_ANSWER").unwrap_or_else(|_| ANSWER.to_owned())
}

const ANSWER: &str = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"test-plugin-token"}}"#;

/// Longer than any test waits; a process that a test has lost ends by itself.
const LONG: Duration = Duration::from_secs(120);

pub(crate) fn note_pid() {
    #[expect(clippy::disallowed_methods, reason = "a program of its own, not the product")]
    let Some(file) = std::env::var_os("KEYWARD_TEST_PIDS") else {
        return;
    };
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(file) {
        let _ = writeln!(file, "{}", std::process::id());
    }
}

pub(crate) fn answer() {
    say(text().as_bytes());
}

pub(crate) fn say(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

pub(crate) fn complain(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

pub(crate) fn hang() {
    sleep(LONG);
}

#[expect(clippy::disallowed_methods, reason = "being slow is what it is for")]
pub(crate) fn sleep(time: Duration) {
    thread::sleep(time);
}

/// Writes without end, or until the reader is gone.
pub(crate) fn flood(mut stream: impl Write) {
    let piece = [b'x'; 8192];
    while stream.write_all(&piece).is_ok() {}
}

pub(crate) fn read_all() -> usize {
    let mut bytes = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut bytes);
    bytes.len()
}

/// Closes a standard stream as far as safe Rust can: the null device takes its place.
pub(crate) fn close_stdout() {
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

pub(crate) fn close_stderr() {
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(null);
    }
}

/// Starts ourselves in another mode, with only the named streams of ours.
#[expect(clippy::disallowed_methods, reason = "misbehaving is what it is for")]
pub(crate) fn start(mode: &str, stdout: bool, stderr: bool) -> Option<Child> {
    let stream = |keep: bool| if keep { Stdio::inherit() } else { Stdio::null() };
    let own = std::env::current_exe().ok()?;
    let mut child = Command::new(own);
    child.arg(mode).stdin(Stdio::null());
    child.stdout(stream(stdout)).stderr(stream(stderr));
    child.spawn().ok()
}
