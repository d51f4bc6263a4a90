use std::time::Duration;

use keyward_process::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use super::{promise::Promise, scene::Scene};
use crate::{
    failure::Failure,
    globals::Globals,
    output::{self, Format, Style},
    progress::Progress,
};

/// The results, printed as they come.
pub(super) struct Report {
    format: Format,
    style: Style,
    start: Duration,
    lines: Vec<Line>,
    left_out: Vec<(Promise, String)>,
    progress: Progress,
}

struct Line {
    at: Duration,
    promise: Promise,
    kept: bool,
    seen: String,
    figures: Value,
}

impl Report {
    pub(super) fn new(format: Format, globals: &Globals) -> Self {
        let style = Style::of_stdout(globals);
        Self {
            format,
            style,
            start: SystemClock.elapsed(),
            lines: Vec::new(),
            left_out: Vec::new(),
            progress: Progress::new("showing"),
        }
    }

    /// Says on a terminal which promises are shown next.
    pub(super) fn announce(&self, promises: &[Promise]) {
        let names: Vec<_> = promises.iter().map(ToString::to_string).collect();
        self.progress.say(&names.join(", "));
    }

    /// Prints where the server and the kubeconfig are.
    pub(super) fn begin(&self, scene: &Scene) -> Result<(), Failure> {
        self.say(&format!(
            "server      {}, in this process\nkubeconfig  {}\nplugin      this program, in a separate process\n\n",
            scene.server.url(),
            scene.kubeconfig.display(),
        ))
    }

    /// Records what was seen, with figures, and whether it is what was promised.
    pub(super) fn see(
        &mut self,
        promise: Promise,
        kept: bool,
        seen: String,
        figures: Value,
    ) -> Result<(), Failure> {
        let line = Line {
            at: SystemClock.elapsed().saturating_sub(self.start),
            promise,
            kept,
            seen,
            figures,
        };
        self.say(&line.text(self.style))?;
        self.lines.push(line);
        Ok(())
    }

    /// Records a promise that cannot be shown on this machine, and why.
    pub(super) fn leave_out(&mut self, promise: Promise, why: &str) -> Result<(), Failure> {
        self.say(&format!("{:17}{promise:<8}  not shown: {why}\n", ""))?;
        self.left_out.push((promise, why.to_owned()));
        Ok(())
    }

    /// Records a promise that could not be observed at all.
    pub(super) fn fail(&mut self, promise: Promise, failure: &Failure) -> Result<(), Failure> {
        let causes = failure.notes().map(|(_, note)| format!("; {note}"));
        let seen = output::inline(&causes.fold(failure.message().to_owned(), |a, b| a + &b));
        self.see(promise, false, seen, json!({}))
    }

    /// Whether the promise has a line already.
    pub(super) fn has(&self, promise: Promise) -> bool {
        self.lines.iter().any(|line| line.promise == promise)
    }

    /// Prints the summary and, if the scene is kept, where it is.
    pub(super) fn end(&self, kept: Option<&Scene>) -> Result<(), Failure> {
        self.progress.clear();
        let took = SystemClock.elapsed().saturating_sub(self.start);
        let good = self.lines.iter().filter(|line| line.kept).count();
        if self.format == Format::Text {
            let (seconds, all) = (took.as_secs_f64(), self.lines.len());
            return self.say(&format!("\n{good} of {all} promises kept in {seconds:.1} s\n"));
        }
        let mut document = json!({
            "kept": good == self.lines.len(),
            "seconds": rounded(took.as_secs_f64()),
            "lines": self.lines.iter().map(Line::json).collect::<Vec<_>>(),
            "leftOut": self.left_out.iter().map(absent).collect::<Vec<_>>(),
        });
        if let Some(scene) = kept {
            document["server"] = scene.server.url().into();
            document["kubeconfig"] = scene.kubeconfig.display().to_string().into();
        }
        output::print_json(&document)
    }

    /// Fails if any promise was broken.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let broken: Vec<&Line> = self.lines.iter().filter(|line| !line.kept).collect();
        if broken.is_empty() {
            return Ok(());
        }
        let (count, all) = (broken.len(), self.lines.len());
        let message = format!("{count} of {all} promises were not kept");
        Err(broken.iter().fold(Failure::failed(message), |failure, line| {
            failure.note(line.promise.to_string(), line.promise.words())
        }))
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        match self.format {
            Format::Text => {
                self.progress.clear();
                output::print(text)
            }
            Format::Json => Ok(()),
        }
    }
}

impl Line {
    fn text(&self, style: Style) -> String {
        let (at, promise) = (self.at.as_secs_f64(), self.promise);
        let mark = if self.kept { "kept  ".to_owned() } else { style.error("BROKEN") };
        let seen = format!("{at:5.2} s  {mark}  {promise:<8}  {}\n", self.seen);
        if self.kept {
            return seen;
        }
        // Aligned with the text above.
        format!("{seen}{:27}promised: {}\n", "", promise.words())
    }

    fn json(&self) -> Value {
        json!({
            "at": rounded(self.at.as_secs_f64()),
            "promise": self.promise,
            "words": self.promise.words(),
            "kept": self.kept,
            "seen": self.seen,
            "figures": self.figures,
        })
    }
}

fn absent((promise, why): &(Promise, String)) -> Value {
    json!({ "promise": promise, "words": promise.words(), "why": why })
}

/// Seconds, rounded to milliseconds.
pub(super) fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}
