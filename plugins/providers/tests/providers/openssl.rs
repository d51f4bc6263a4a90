//! A server that is not ours, for certificates of clients.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use keyward_testing::authority::Authority;

/// `openssl s_server`, which demands a certificate and shows it to whoever asks.
pub(crate) struct Openssl {
    child: Child,
    pub(crate) url: String,
}

impl Openssl {
    pub(crate) fn start(directory: &Path, authority: &Authority, version: &str) -> Self {
        let identity = authority.server(&["localhost", "127.0.0.1"]).unwrap();
        fs::write(directory.join("server.pem"), identity.certificate_pem()).unwrap();
        fs::write(directory.join("server.key"), identity.key_pem()).unwrap();
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-www", version, "-CAfile", "ca.pem"])
            .args(["-cert", "server.pem", "-key", "server.key"])
            .args(["-Verify", "2", "-verify_return_error"])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`openssl` starts; it is in the Debian package openssl");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("ACCEPT ").map(str::to_owned));
        // What else it prints is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: format!("https://{}", address.unwrap()) }
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
