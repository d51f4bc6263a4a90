//! `cargo xtask attack`: every attack that we know of, on the programs as they are built.
//!
//! Each attack runs in a process of its own with a directory of its own, as a *victim* who uses
//! Keyward and, where it takes one, an *attacker* with another user id. It ends in one of three
//! ways: it **held**, it **got through**, or it **could not be tried**, which counts as a failure
//! and names what is missing.

mod attacks;
mod h2;
mod process;
mod role;
mod stage;
mod upstream;
mod wire;

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::stage::Stage;

/// An attack: `id` is its number in `docs/attacks.md`, `what` a sentence that says what must not
/// happen.
pub struct Attack {
    /// The number that names the attack.
    pub id: &'static str,
    /// What is attempted.
    pub what: &'static str,
    /// Whether it belongs to the short run.
    pub short: bool,
    /// Attempts it; `Ok` says what was seen while it held.
    pub run: fn(&Stage) -> Outcome,
}

/// What became of an attack.
pub type Outcome = Result<String, Failure>;

/// Why an attack has failed the programs, or the suite.
#[derive(Debug)]
pub enum Failure {
    /// The attacker had what he wanted.
    GotThrough(String),
    /// Something is missing here.
    Untried(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GotThrough(how) => write!(f, "got through: {how}"),
            Self::Untried(why) => write!(f, "could not be tried: {why}"),
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Untried(error.to_string())
    }
}

/// The attacker had what he wanted.
pub fn got_through<T>(how: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::GotThrough(how.into()))
}

/// The attack cannot be tried on this machine.
pub fn untried<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Untried(why.into()))
}

/// Only a hang gets there.
const LIMIT: Duration = Duration::from_secs(120);
const LONG_LIMIT: Duration = Duration::from_secs(1800);

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "role") {
        return role::play(&args[1..]);
    }
    let options = match Options::read(args.into_iter()) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("attack: {wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = match &options.one {
        Some(id) => one(id, &options),
        None => all(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("attack: {error}");
        ExitCode::FAILURE
    })
}

const USAGE: &str =
    "usage: attack --binary PATH [--short] [--attempts N] [--jobs N] [--keep] [WORD]
  --binary PATH    the program `keyward`; the others are beside it
  --short          leave out what takes minutes
  --attempts N     how often a race is tried: 300 in a short run, else 10000
  --jobs N         attacks at the same time: 4 in a short run, where most of them wait, else 2
  --keep           leave the directories of the attacks in place
  WORD             only the attacks with this word in their id or description";

/// What is asked for.
#[derive(Debug)]
struct Options {
    binary: PathBuf,
    short: bool,
    attempts: Option<usize>,
    jobs: Option<usize>,
    keep: bool,
    word: String,
    /// The attack that this process is for; its directory is `at`.
    one: Option<String>,
    at: PathBuf,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            binary: PathBuf::new(),
            short: false,
            attempts: None,
            jobs: None,
            keep: false,
            word: String::new(),
            one: None,
            at: PathBuf::new(),
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("`{arg}` needs a value"));
            let number = |text: String| {
                text.parse::<usize>().map_err(|_| format!("`{text}` is not a number"))
            };
            match arg.as_str() {
                "--binary" => options.binary = value()?.into(),
                "--short" => options.short = true,
                "--attempts" => options.attempts = Some(number(value()?)?),
                "--jobs" => options.jobs = Some(number(value()?)?.max(1)),
                "--keep" => options.keep = true,
                "--one" => options.one = Some(value()?),
                "--at" => options.at = value()?.into(),
                other if other.starts_with('-') => return Err(format!("`{other}` is not known")),
                word => word.clone_into(&mut options.word),
            }
        }
        if options.binary.as_os_str().is_empty() {
            return Err("`--binary` is needed".to_owned());
        }
        Ok(options)
    }

    fn attempts(&self) -> usize {
        self.attempts.unwrap_or(if self.short { 300 } else { 10_000 })
    }

    fn jobs(&self) -> usize {
        self.jobs.unwrap_or(if self.short { 4 } else { 2 })
    }

    fn wants(&self, attack: &Attack) -> bool {
        let word = self.word.to_lowercase();
        let id = attack.id.to_lowercase();
        // `L1` is not for `L10`.
        let named = id == word
            || id.starts_with(&format!("{word}-"))
            || word.contains('-') && id.starts_with(&word)
            || attack.what.to_lowercase().contains(&word);
        named && (attack.short || !self.short || !self.word.is_empty())
    }
}

/// Runs one attack in this process, which ends with everything that it started.
fn one(id: &str, options: &Options) -> Result<ExitCode, String> {
    let attack = attacks::all().into_iter().find(|attack| attack.id == id).ok_or("no such id")?;
    // What the programs leave behind becomes ours, so that it can be found and ended.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let stage = Stage::new(&options.at, options.attempts(), options.short);
    let outcome = stage.and_then(|stage| (attack.run)(&stage));
    process::end_all_below(std::process::id());
    let (word, text) = match outcome {
        Ok(seen) => ("held", seen),
        Err(Failure::GotThrough(how)) => ("got through", how),
        Err(Failure::Untried(why)) => ("could not be tried", why),
    };
    println!("{word}\t{}", text.replace(['\n', '\t', '\r'], " "));
    // Servers on threads of ours do not have to end in order.
    std::process::exit(0);
}

/// An attack under way, in a process of its own.
struct Running<'a> {
    attack: &'a Attack,
    child: Child,
    began: Instant,
}

fn all(options: &Options) -> Result<ExitCode, String> {
    // Where the victim can get at the programs, wherever they were built.
    let base = tempfile::Builder::new().prefix("keyward-attack-").tempdir().map_err(text)?;
    let mode = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(text)
    };
    mode(base.path())?;
    let bin = base.path().join("bin");
    stage::gather(&options.binary, &bin)?;
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));

    let attacks = attacks::all();
    let mut waiting: Vec<&Attack> =
        attacks.iter().filter(|attack| options.wants(attack)).rev().collect();
    let (mut passed, mut failed, mut through) = (0, 0, Vec::new());
    let mut running: Vec<Running<'_>> = Vec::new();
    let began = Instant::now();
    while !waiting.is_empty() || !running.is_empty() {
        if running.len() < options.jobs()
            && let Some(attack) = waiting.pop()
        {
            running.push(start(attack, options, base.path())?);
            continue;
        }
        let limit = if options.short { LIMIT } else { LONG_LIMIT };
        let over = |running: &mut Running<'_>| {
            !matches!(running.child.try_wait(), Ok(None)) || running.began.elapsed() > limit
        };
        let Some(place) = running.iter_mut().position(over) else {
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let done = running.swap_remove(place);
        let (attack, took) = (done.attack, done.began.elapsed().as_secs_f64());
        let (word, seen) = finish(done);
        if word == "held" {
            passed += 1;
        } else {
            failed += 1;
            through.push(attack.id);
        }
        let mark = if word == "held" { "ok     " } else { "FAILED " };
        println!("{mark} {} {} ({took:.1} s): {word}: {seen}", attack.id, attack.what);
    }
    if !through.is_empty() {
        println!("failed: {}", through.join(" "));
    }
    println!("in {:.0} s", began.elapsed().as_secs_f64());
    println!("{passed} passed, {failed} failed");
    if options.keep {
        println!("kept: {}", base.keep().display());
    }
    Ok(if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn start<'a>(attack: &'a Attack, options: &Options, base: &Path) -> Result<Running<'a>, String> {
    let own = env::current_exe().map_err(text)?;
    let mut command = Command::new(own);
    command.args(["--one", attack.id, "--attempts", &options.attempts().to_string()]);
    command.arg("--binary").arg(&options.binary).arg("--at").arg(base.join(attack.id));
    if options.short {
        command.arg("--short");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().map_err(text)?;
    Ok(Running { attack, child, began: Instant::now() })
}

/// How it ended. One that hangs is ended with all that it has started.
fn finish(mut running: Running<'_>) -> (String, String) {
    let hung = matches!(running.child.try_wait(), Ok(None));
    if hung {
        process::end_all_below(running.child.id());
        let _ = running.child.kill();
    }
    let output = running.child.wait_with_output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    match said.trim_end().split_once('\t') {
        Some((word, seen)) => (word.to_owned(), seen.to_owned()),
        None if hung => ("could not be tried".to_owned(), "it hung".to_owned()),
        None => ("could not be tried".to_owned(), format!("it broke off: {}", said.trim_end())),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` wants")]
fn text(error: std::io::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Options, String> {
        Options::read(args.iter().map(ToString::to_string))
    }

    #[test]
    fn a_race_is_tried_less_often_in_a_short_run() {
        let options = |args: &[&str]| read(args).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_eq!(options(&["--binary", "k"]).attempts(), 10_000);
        assert_eq!(options(&["--binary", "k", "--short"]).attempts(), 300);
        assert_eq!(options(&["--binary", "k", "--attempts", "7"]).attempts(), 7);
        assert!(read(&["--short"]).is_err() && read(&["--binary", "k", "--frob"]).is_err());
    }

    #[test]
    fn no_two_attacks_have_one_id() {
        let mut ids: Vec<_> = attacks::all().iter().map(|attack| attack.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn every_attack_has_a_line_on_its_page() {
        let page = include_str!("../../docs/attacks.md");
        let missing: Vec<_> = attacks::all()
            .iter()
            .map(|attack| attack.id)
            .filter(|id| !page.contains(&format!("| {id} |")))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
