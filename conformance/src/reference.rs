//! The reference: the Go program beside us, built once and asked in batches.

use std::{
    env, fs,
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::areas::Area;

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
    pub fn start(root: &Path, target: &Path) -> Result<Self, String> {
        let program = build(root, target)?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start `{}`: {e}", program.display()))?;
        let stdin = child.stdin.take().map(BufWriter::new);
        let stdout = BufReader::new(child.stdout.take().ok_or("the reference has no stdout")?);
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

/// Builds `conformance/go`; the paths of this machine are left out so that builds share what they compile.
fn build(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let program = target.join("reference");
    fs::create_dir_all(target).map_err(|e| format!("cannot make `{}`: {e}", target.display()))?;
    let status = Command::new(go()?)
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(root.join("conformance/go"))
        .status()
        .map_err(|e| format!("cannot start go: {e}"))?;
    if status.success() {
        Ok(program)
    } else {
        Err("the reference could not be built; see above (its modules come from the Go module proxy)"
            .to_owned())
    }
}

/// The Go on PATH, when it is new enough.
fn go() -> Result<&'static str, String> {
    let output = Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output();
    let version = match &output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(_) => {
            return Err(
                "there is no `go` on PATH: install Go 1.26 or newer (Debian's package `golang` is \
                 older than what the reference needs)"
                    .to_owned(),
            );
        }
    };
    let mut numbers =
        version.trim_start_matches("go").split('.').map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= (1, 26) => Ok("go"),
        _ => Err(format!("the reference needs Go 1.26 or newer, and `go` on PATH is {version:?}")),
    }
}

/// Where the build's results are kept: cargo's target folder.
pub fn target(root: &Path) -> PathBuf {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    folder.join("conformance")
}
