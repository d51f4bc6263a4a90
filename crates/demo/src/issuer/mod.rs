//! An identity provider for a [`Server`], behind a Unix socket.
//!
//! [`serve`] is the whole `main` of its plugin, and [`serve_images`] that of its image credential
//! provider. Each run of them opens one connection, so runs are counted outside of the code under
//! test.

mod plugin;

pub use plugin::{serve, serve_images};

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rustix::process::Pid;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};

use crate::{
    Error,
    authority::Authority,
    clock,
    server::{Server, User, Users},
};

/// The server accepts a credential a little longer than its expiry says: clocks differ, and a
/// request takes time.
const LEEWAY: Duration = Duration::from_secs(1);

/// How the issuer answers an account.
#[derive(Debug, Clone, Copy)]
pub enum Manner {
    /// With a token of this lifetime, in whole seconds.
    Token(Duration),
    /// With a certificate of this lifetime.
    Certificate(Duration),
    /// Never.
    Silence,
    /// With an error.
    No,
}

/// The handle of a running issuer. It ends with the runtime it was started in.
pub struct Issuer(Arc<Shared>);

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

struct Shared {
    users: Arc<Users>,
    authority: Arc<Authority>,
    accounts: Mutex<BTreeMap<String, Account>>,
}

#[derive(Default)]
struct Account {
    manner: Option<Manner>,
    /// Repeats the last answer, even if it has been revoked.
    stuck: bool,
    last: Option<Value>,
    issues: Vec<(Mark, Issue)>,
    runs: Vec<Option<Pid>>,
}

/// An issued credential.
#[derive(Debug, Clone, Copy)]
pub struct Issue {
    /// When it was issued.
    pub at: SystemTime,
    /// The expiry that the client was told.
    pub end: SystemTime,
    /// When it was revoked.
    pub revoked: Option<SystemTime>,
}

/// What the server recognises a credential by.
enum Mark {
    Token(String),
    Serial(u64),
}

impl Issuer {
    /// Listens at `socket`. Must be called inside the runtime that serves it.
    pub fn start(server: &Server, socket: &Path) -> Result<Self, Error> {
        let listener = UnixListener::bind(socket).map_err(Error::of("listen for plugins"))?;
        let shared = Arc::new(Shared {
            users: server.users().clone(),
            authority: server.authority().clone(),
            accounts: Mutex::default(),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                tokio::spawn(async move {
                    // A plugin that was killed half-way is no news.
                    let _ = shared.serve(stream).await;
                });
            }
        });
        Ok(Self(shared))
    }

    /// Sets how an account is answered from now on.
    pub fn answer(&self, account: &str, manner: Manner) {
        self.0.accounts().entry(account.to_owned()).or_default().manner = Some(manner);
    }

    /// Repeats the account's last answer from now on, even if it has been revoked.
    pub fn repeat(&self, account: &str) {
        self.0.accounts().entry(account.to_owned()).or_default().stuck = true;
    }

    /// Revokes every credential of the account. Returns how many were valid until now.
    pub fn revoke(&self, account: &str) -> usize {
        let (users, now) = (&self.0.users, clock::now());
        let mut accounts = self.0.accounts();
        let mut count = 0;
        for (mark, issue) in &mut accounts.entry(account.to_owned()).or_default().issues {
            if issue.revoked.is_some() {
                continue;
            }
            match mark {
                Mark::Token(token) => drop(users.revoke_token(token)),
                Mark::Serial(serial) => users.revoke_certificate(*serial),
            }
            issue.revoked = Some(now);
            count += usize::from(now <= issue.end);
        }
        count
    }

    /// The credentials issued to the account, in order.
    pub fn history(&self, account: &str) -> Vec<Issue> {
        let accounts = self.0.accounts();
        let issues = accounts.get(account).map(|account| &account.issues);
        issues.into_iter().flatten().map(|(_, issue)| *issue).collect()
    }

    /// How often the account's plugin ran.
    pub fn runs(&self, account: &str) -> usize {
        self.0.accounts().get(account).map_or(0, |account| account.runs.len())
    }

    /// How often any plugin ran.
    pub fn all_runs(&self) -> usize {
        self.0.accounts().values().map(|account| account.runs.len()).sum()
    }

    /// The process of the account's last run.
    pub fn process(&self, account: &str) -> Option<Pid> {
        self.0.accounts().get(account).and_then(|account| *account.runs.last()?)
    }
}

impl Shared {
    /// Serves one run of the plugin.
    async fn serve(&self, stream: UnixStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut question = String::new();
        stream.read_line(&mut question).await?;
        let (account, pid) = question.trim().split_once(' ').unwrap_or_default();
        let pid = pid.parse().ok().and_then(Pid::from_raw);
        match self.decide(account, pid)? {
            Some(answer) => stream.write_all(answer.to_string().as_bytes()).await,
            // Until the other end closes.
            None => stream.read_to_end(&mut Vec::new()).await.map(|_| ()),
        }
    }

    fn decide(&self, name: &str, pid: Option<Pid>) -> io::Result<Option<Value>> {
        let mut accounts = self.accounts();
        let account = accounts.entry(name.to_owned()).or_default();
        account.runs.push(pid);
        if account.stuck && account.last.is_some() {
            return Ok(account.last.clone());
        }
        let answer = match account.manner {
            None => json!({ "refusal": format!("`{name}` has no account here") }),
            Some(Manner::Silence) => return Ok(None),
            Some(Manner::No) => json!({ "refusal": "not today" }),
            Some(Manner::Token(lifetime)) => {
                let issue = begin(lifetime);
                let (token, user) = (random()?, User::new(name).group("demo"));
                self.users.token_until(&token, user, issue.end + LEEWAY);
                account.issues.push((Mark::Token(token.clone()), issue));
                json!({ "token": token, "expires": seconds(issue.end) })
            }
            Some(Manner::Certificate(lifetime)) => {
                let issue = begin(lifetime);
                let request = self.authority.client(name).group("demo");
                let issued = request.until(issue.end + LEEWAY).issue().map_err(io::Error::other)?;
                account.issues.push((Mark::Serial(issued.serial()), issue));
                json!({
                    "certificate": issued.certificate_pem(),
                    "key": issued.key_pem(),
                    "expires": seconds(issue.end),
                })
            }
        };
        account.last = Some(answer.clone());
        Ok(Some(answer))
    }

    fn accounts(&self) -> MutexGuard<'_, BTreeMap<String, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The protocol has whole seconds only, so a lifetime is cut to end on one.
fn begin(lifetime: Duration) -> Issue {
    let at = clock::now();
    let end = UNIX_EPOCH + Duration::from_secs(seconds(at + lifetime));
    Issue { at, end, revoked: None }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A random token: nobody else on this machine must be able to guess one while the server runs.
fn random() -> io::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
