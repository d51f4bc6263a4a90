//! Who hands out credentials: the identity provider of the demo, behind a socket in its folder.
//!
//! Each run of the plugin is one connection, so runs are counted from outside of what is shown.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use keyward_host::clock::{Clock, SystemClock};
use keyward_testing::server::{Server, User};
use rustix::process::Pid;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};

/// The server takes a credential for a little longer than was told: clocks differ, and a request
/// takes its time.
const LEEWAY: Duration = Duration::from_secs(1);

/// How an account's questions are answered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Manner {
    /// With a token that lives so long, in whole seconds.
    Token(Duration),
    /// With a certificate that lives so long.
    Certificate(Duration),
    /// Never.
    Silence,
    /// With a reason why not.
    No,
}

/// The handle of a running issuer.
pub(super) struct Issuer(Arc<Shared>);

struct Shared {
    server: Arc<Server>,
    accounts: Mutex<BTreeMap<String, Account>>,
}

#[derive(Default)]
struct Account {
    manner: Option<Manner>,
    /// Says the same again, whatever has become of it.
    stuck: bool,
    last: Option<Value>,
    tokens: Vec<String>,
    runs: Vec<Option<Pid>>,
}

impl Issuer {
    /// Listens at `socket`. Must be called inside the runtime that serves it.
    pub(super) fn start(server: Arc<Server>, socket: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let shared = Arc::new(Shared { server, accounts: Mutex::default() });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                tokio::spawn(async move {
                    // A plugin that was ended in the middle is no news.
                    let _ = shared.serve(stream).await;
                });
            }
        });
        Ok(Self(shared))
    }

    /// How an account is answered from now on.
    pub(super) fn answer(&self, account: &str, manner: Manner) {
        self.0.accounts().entry(account.to_owned()).or_default().manner = Some(manner);
    }

    /// From now on the account gets the same answer again, whatever has become of it.
    pub(super) fn repeat(&self, account: &str) {
        self.0.accounts().entry(account.to_owned()).or_default().stuck = true;
    }

    /// Makes the server refuse every token of the account. How many that are.
    pub(super) fn revoke(&self, account: &str) -> usize {
        let mut accounts = self.0.accounts();
        let tokens = std::mem::take(&mut accounts.entry(account.to_owned()).or_default().tokens);
        tokens.iter().filter(|token| self.0.server.users().revoke_token(token)).count()
    }

    /// How often the account's plugin ran.
    pub(super) fn runs(&self, account: &str) -> usize {
        self.0.accounts().get(account).map_or(0, |account| account.runs.len())
    }

    /// How often any plugin ran.
    pub(super) fn all_runs(&self) -> usize {
        self.0.accounts().values().map(|account| account.runs.len()).sum()
    }

    /// The process of the account's last run.
    pub(super) fn process(&self, account: &str) -> Option<Pid> {
        self.0.accounts().get(account).and_then(|account| *account.runs.last()?)
    }
}

impl Shared {
    /// One run of the plugin.
    async fn serve(&self, stream: UnixStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut question = String::new();
        stream.read_line(&mut question).await?;
        let (account, pid) = question.trim().split_once(' ').unwrap_or_default();
        let pid = pid.parse().ok().and_then(Pid::from_raw);
        match self.decide(account, pid)? {
            Some(answer) => stream.write_all(answer.to_string().as_bytes()).await,
            // Until the other end is gone.
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
                let (told, until) = ends(lifetime);
                let token = random()?;
                self.server.users().token_until(&token, User::new(name).group("demo"), until);
                account.tokens.push(token.clone());
                json!({ "token": token, "expires": told })
            }
            Some(Manner::Certificate(lifetime)) => {
                let (told, until) = ends(lifetime);
                let request = self.server.authority().client(name).group("demo").until(until);
                let issued = request.issue().map_err(io::Error::other)?;
                json!({
                    "certificate": issued.certificate_pem(),
                    "key": issued.key_pem(),
                    "expires": told,
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

/// The last second that is told, and the moment from which on the server refuses.
fn ends(lifetime: Duration) -> (u64, SystemTime) {
    let now = u64::try_from(SystemClock.wall_millis()).unwrap_or_default() / 1000;
    let told = now + lifetime.as_secs();
    (told, UNIX_EPOCH + Duration::from_secs(told) + LEEWAY)
}

/// Nobody else on this machine shall guess a token while the server runs.
fn random() -> io::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
