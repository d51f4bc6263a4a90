//! Judges in Python: each is one process, shared by all tests. Here is how to start one, and the one with awscli,
//! botocore and moto.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde_json::{Value, json};

use crate::program;

/// The judge. It ends when this process does, because its input ends then.
pub(crate) struct Judge {
    _child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What the judge prepared.
pub(crate) struct Prepared {
    /// The URL of moto: STS and IAM.
    pub(crate) moto: String,
    /// The URL of the services that moto lacks.
    pub(crate) stand_in: String,
    /// Access keys and secrets of moto's users.
    pub(crate) users: BTreeMap<String, (String, String)>,
}

static JUDGE: OnceLock<(Mutex<Judge>, Prepared)> = OnceLock::new();

fn started() -> &'static (Mutex<Judge>, Prepared) {
    JUDGE.get_or_init(|| {
        let mut judge = Judge::start("judge.py");
        let prepared = judge.ask(&json!({"operation": "prepare"}));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let users = prepared["users"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, keys)| (name.clone(), (text(&keys["key"]), text(&keys["secret"]))));
        let prepared = Prepared {
            moto: text(&prepared["moto"]),
            stand_in: text(&prepared["standIn"]),
            users: users.collect(),
        };
        (Mutex::new(judge), prepared)
    })
}

/// The judge, for one test at a time.
pub(crate) fn judge() -> MutexGuard<'static, Judge> {
    started().0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the judge prepared.
pub(crate) fn prepared() -> &'static Prepared {
    &started().1
}

impl Judge {
    /// Starts one of the scripts in `judges/python`.
    pub(crate) fn start(script: &str) -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("judges/python");
        let mut child = Command::new(python())
            .arg(scripts.join(script))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let questions = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { _child: child, questions, answers }
    }

    /// Asks it something.
    pub(crate) fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the judge has ended; see its output above");
        serde_json::from_str(&line).unwrap()
    }

    /// How often the stand-in was asked for this.
    pub(crate) fn count(&mut self, what: &str) -> u64 {
        self.ask(&json!({"operation": "counts"}))[what].as_u64().unwrap_or(0)
    }
}

/// The Python that `cargo xtask test` installed the judges for.
fn python() -> PathBuf {
    let target = program::path().ancestors().nth(2).unwrap().to_owned();
    let python = target.join("judges/python/bin/python");
    assert!(
        python.is_file(),
        "`{}` does not exist: `cargo xtask test` installs it, with the Debian package `python3-venv`",
        python.display()
    );
    python
}
