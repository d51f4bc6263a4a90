//! `docker-registry` with TLS and passwords, on a port of the system's choice.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex, mpsc},
    thread,
    time::Duration,
};

use keyward_testing::authority::Authority;

/// The registry. Ended when dropped.
pub(crate) struct Server {
    folder: PathBuf,
    child: Child,
    port: u16,
    log: Arc<Log>,
}

/// What it has said so far.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Server {
    /// Starts it in this directory, with one account.
    pub(crate) fn start(folder: &Path, user: &str, password: &str) -> Self {
        let authority = Authority::new("registry tests").unwrap();
        let issued = authority.server(&["127.0.0.1"]).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        fs::create_dir(folder.join("trust")).unwrap();
        write("trust/ca.crt", authority.pem());
        write("tls.crt", issued.certificate_pem());
        write("tls.key", issued.key_pem());
        set_password(folder, user, password);
        let here = folder.display();
        write(
            "registry.yml",
            &format!(
                "version: 0.1\nlog: {{level: info}}\n\
                 storage: {{filesystem: {{rootdirectory: '{here}/data'}}}}\n\
                 http:\n  addr: 127.0.0.1:0\n  secret: unused\n  \
                 tls: {{certificate: '{here}/tls.crt', key: '{here}/tls.key'}}\n\
                 auth: {{htpasswd: {{realm: tests, path: '{here}/htpasswd'}}}}\n"
            ),
        );
        let mut child = program("docker-registry", "docker-registry")
            .arg("serve")
            .arg(folder.join("registry.yml"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::<Log>::default();
        let (tell, told) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        listen(BufReader::new(stdout), &log, tell.clone());
        listen(BufReader::new(child.stderr.take().unwrap()), &log, tell);
        let port = told.recv_timeout(Duration::from_secs(60));
        // Ended when this panics.
        let server =
            Self { folder: folder.to_owned(), child, port: *port.as_ref().unwrap_or(&0), log };
        assert!(port.is_ok(), "no port was told: {:?}", server.log.lines.lock().unwrap());
        server
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Changes the password of an account.
    pub(crate) fn password(&self, user: &str, password: &str) {
        set_password(&self.folder, user, password);
    }

    /// Waits until it has said this.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        let lines = self.log.lines.lock().unwrap();
        let silent = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(text));
        let (lines, waited) =
            self.log.more.wait_timeout_while(lines, Duration::from_secs(60), silent).unwrap();
        assert!(!waited.timed_out(), "no `{text}` in {lines:#?}");
    }

    /// The names under which requests got in.
    pub(crate) fn users(&self) -> Vec<String> {
        let lines = self.log.lines.lock().unwrap();
        let name = |line: &String| {
            let rest = line.split_once("auth.user.name=")?.1;
            Some(rest.split([' ', '"']).find(|part| !part.is_empty())?.to_owned())
        };
        let mut names: Vec<String> = lines.iter().filter_map(name).collect();
        names.sort();
        names.dedup();
        names
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps every line, and tells the port once it is there. Ends with the process.
fn listen(lines: impl BufRead + Send + 'static, log: &Arc<Log>, tell: mpsc::Sender<u16>) {
    let log = Arc::clone(log);
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if let Some((_, rest)) = line.split_once("listening on 127.0.0.1:") {
                let port = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
                let _ = tell.send(port.parse().unwrap_or_default());
            }
            log.lines.lock().unwrap().push(line);
            log.more.notify_all();
        }
    });
}

/// The registry reads the file again when it has changed; a rename is never half of one.
fn set_password(folder: &Path, user: &str, password: &str) {
    let mut child = program("htpasswd", "apache2-utils")
        .args(["-Bin", user])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "htpasswd failed");
    fs::write(folder.join("htpasswd.new"), output.stdout).unwrap();
    fs::rename(folder.join("htpasswd.new"), folder.join("htpasswd")).unwrap();
}

/// A program of a Debian package, which is named when it is missing.
pub(crate) fn program(name: &str, package: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    assert!(found, "`{name}` is missing: install the Debian package `{package}`");
    Command::new(name)
}
