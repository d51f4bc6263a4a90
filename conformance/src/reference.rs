//! The reference: the Go program beside us, built once and asked in batches.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{areas::Area, obstacle::Obstacle};

/// The running program; it ends when this is dropped.
pub struct Reference {
    child: Child,
    stdin: Option<BufWriter<ChildStdin>>,
    stdout: BufReader<ChildStdout>,
}

/// What the reference says to one case.
pub enum Answer {
    /// The case with its `expect`, and the reference's own message.
    Is(Value, String),
    /// The reference answers this case one way now and another way next time.
    Unstable,
    /// The case could not be put to it.
    Broken(String),
}

impl Reference {
    /// Builds the program into `target` and starts it.
    pub fn start(root: &Path, target: &Path) -> Result<Self, Obstacle> {
        let program = build(root, target, ".", "reference")?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start `{}`: {e}", program.display()))?;
        let stdin = child.stdin.take().map(BufWriter::new);
        let stdout = BufReader::new(child.stdout.take().ok_or("no stdout".to_owned())?);
        Ok(Self { child, stdin, stdout })
    }

    /// Puts all `cases` of one area and returns the answers in their order.
    pub fn ask(&mut self, area: &Area, cases: &[Value]) -> Result<Vec<Answer>, String> {
        let gone = |e| format!("the reference went away: {e}");
        let stdin = self.stdin.as_mut().ok_or("the reference was told to end")?;
        for case in cases {
            writeln!(stdin, "{}", json!({ "area": area.name, "case": case })).map_err(gone)?;
        }
        writeln!(stdin).and_then(|()| stdin.flush()).map_err(gone)?;
        let mut answers = Vec::with_capacity(cases.len());
        let mut line = String::new();
        for case in cases {
            line.clear();
            self.stdout.read_line(&mut line).map_err(gone)?;
            let said: Value = serde_json::from_str(&line)
                .map_err(|e| format!("the reference said no JSON: {e}: {line:?}"))?;
            answers.push(Answer::read(area, case, &said));
        }
        Ok(answers)
    }
}

impl Answer {
    fn read(area: &Area, case: &Value, said: &Value) -> Self {
        if said["unstable"] == true {
            return Self::Unstable;
        }
        if let Some(why) = said["broken"].as_str() {
            return Self::Broken(why.to_owned());
        }
        let mut case = case.clone();
        match (area.name, said["expect"].as_object()) {
            // These vectors say it beside what goes in.
            ("image-match", Some(fields)) => {
                for (name, value) in fields {
                    case[name] = value.clone();
                }
            }
            _ => case["expect"] = said["expect"].clone(),
        }
        if !said["spoken"].is_null() {
            // What it does once v1alpha1 is replaced: see `departures`.
            case["spoken"] = said["spoken"].clone();
        }
        Self::Is(case, said["said"].as_str().unwrap_or_default().to_owned())
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // The end of its stdin is its end.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Builds a package of `conformance/go`; the paths of this machine are left out so that builds share what they compile.
pub(crate) fn build(
    root: &Path,
    target: &Path,
    package: &str,
    name: &str,
) -> Result<PathBuf, Obstacle> {
    let program = target.join(name);
    let folder = root.join("conformance/go");
    fs::create_dir_all(target).map_err(|e| format!("cannot make `{}`: {e}", target.display()))?;
    let go = go()?;
    let mut child = Command::new(go)
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(package)
        .current_dir(&folder)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start go: {e}"))?;
    let mut said = String::new();
    for line in child.stderr.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|e| format!("cannot read what go says: {e}"))?;
        eprintln!("{line}");
        said.push_str(&line);
        said.push('\n');
    }
    if child.wait().map_err(|e| format!("go went away: {e}"))?.success() {
        return Ok(program);
    }
    // Go's exit code is the same for a mistake of ours and for a proxy out of reach: look at what it has.
    let listed = Command::new(go)
        .args(["list", "-deps", package])
        .env("GOPROXY", "off")
        .current_dir(&folder)
        .output()
        .map_err(|e| format!("cannot start go: {e}"))?;
    Err(if unfetched(&said, &String::from_utf8_lossy(&listed.stderr)) {
        Obstacle::Absent(
            "the reference's modules could not be fetched from the Go module proxy; see above"
                .to_owned(),
        )
    } else {
        Obstacle::Broken("the reference could not be built; see above".to_owned())
    })
}

/// Whether a build failed for modules that are not here and did not come, and for nothing else: by what
/// the build said, and by what Go says to the same packages when it may fetch nothing.
fn unfetched(said: &str, offline: &str) -> bool {
    // Answers of a proxy that was reached: what we ask for is wrong, or is not what we asked for.
    const OURS: &[&str] = &[
        "checksum mismatch",
        "missing go.sum entry",
        "404 Not Found",
        "410 Gone",
        "unknown revision",
        "invalid version",
    ];
    offline.contains("module lookup disabled by GOPROXY=off")
        && !OURS.iter().any(|word| said.contains(word))
}

/// The Go on PATH, when it is new enough.
fn go() -> Result<&'static str, Obstacle> {
    let output = Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output();
    let output = match output {
        Ok(output) => output,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Obstacle::Absent(
                "there is no `go` on PATH: install Go 1.26 or newer (Debian's package `golang` is \
                 older than what the reference needs)"
                    .to_owned(),
            ));
        }
        Err(e) => return Err(format!("cannot start go: {e}").into()),
    };
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || version.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("`go` on PATH does not say its version: {why}").into());
    }
    if recent(&version) {
        Ok("go")
    } else {
        Err(Obstacle::Absent(format!(
            "the reference needs Go 1.26 or newer, and `go` on PATH is {version}"
        )))
    }
}

/// Whether this is a Go of 1.26 or newer.
fn recent(version: &str) -> bool {
    let mut numbers =
        version.trim_start_matches("go").split('.').map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version >= (1, 26))
}

/// Where the build's results are kept: cargo's target directory.
pub fn target(root: &Path) -> PathBuf {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    folder.join("conformance")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFLINE: &str =
        "main.go:9:2: k8s.io/klog/v2@v2.140.0: module lookup disabled by GOPROXY=off";

    #[test]
    fn only_modules_that_did_not_come_are_nobodys_fault() {
        let unreachable = "go: k8s.io/klog/v2@v2.140.0: Get \"…\": dial tcp: connection refused\n";
        assert!(unfetched(unreachable, OFFLINE));
        // All modules are here: what does not compile is ours.
        assert!(!unfetched("./main.go:12:2: undefined: answer\n", ""));
        assert!(!unfetched("main.go:9:2: missing go.sum entry for module\n", OFFLINE));
        assert!(!unfetched("verifying k8s.io/klog/v2@v2.140.0: checksum mismatch\n", OFFLINE));
        assert!(!unfetched("reading …/v2.140.0.info: 404 Not Found\n", OFFLINE));
    }

    #[test]
    fn a_go_is_recent_from_1_26_on() {
        assert!(recent("go1.26") && recent("go1.26.8") && recent("go1.30.1"));
        assert!(!recent("go1.25.9") && !recent("go1.19.8") && !recent("gccgo"));
    }
}
