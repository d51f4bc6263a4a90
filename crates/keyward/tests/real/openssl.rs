//! `openssl`: makes keys and certificates, and serves as somebody else's server.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Runs `openssl` in a directory, and fails with what it printed.
pub(crate) fn openssl(directory: &Path, args: &[&str]) {
    let output = Command::new("openssl")
        .args(args)
        .current_dir(directory)
        .output()
        .expect("openssl is on PATH (Debian package `openssl`)");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `openssl s_server -www`, on a port of the system's choice. Ended when dropped.
pub(crate) struct SServer {
    child: Child,
    pub(crate) port: String,
}

impl SServer {
    /// Serves at `host` with `server.pem` and `server.key` of this directory.
    pub(crate) fn start(directory: &Path, host: &str, flags: &[&str]) -> Self {
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", &format!("{host}:0"), "-www"])
            .args(["-cert", "server.pem", "-key", "server.key"])
            .args(flags)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is on PATH (Debian package `openssl`)");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let port = loop {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "openssl s_server ended");
            if let Some(address) = line.trim().strip_prefix("ACCEPT ") {
                break address.rsplit(':').next().unwrap().to_owned();
            }
        };
        // Read on, or it would block.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Self { child, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

impl Drop for SServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
