//! The report as text: a line for each step, and under a fault its facts and its fix.

use std::fmt::Write as _;

use super::step::{Report, State, Step};
use crate::output::{self, Style, block, inline};

/// The width of the column with the step's name.
const WIDTH: usize = 13;

pub(super) fn layout(report: &Report, style: Style) -> String {
    let mut text = String::new();
    for step in &report.steps {
        line(&mut text, step, style);
    }
    let count = |state| report.steps.iter().filter(|step| step.state == state).count();
    let faults: Vec<String> = report.faults().iter().map(ToString::to_string).collect();
    let notes = match count(State::Note) {
        0 => String::new(),
        some => format!(", {}", output::count(some, "note")),
    };
    let _ = match faults.as_slice() {
        [] => writeln!(text, "\nno faults{notes}"),
        [one] => writeln!(text, "\nfault in {one}{notes}"),
        many => writeln!(text, "\nfaults in {}{notes}", many.join(", ")),
    };
    text
}

fn line(text: &mut String, step: &Step, style: Style) {
    let word = match step.state {
        State::Ok => "ok     ".to_owned(),
        State::Note => style.warning("note   "),
        State::Fault => style.error("fault  "),
        State::Skipped => "skipped".to_owned(),
    };
    let took = step.took.as_ref().map(|took| format!(" ({took})")).unwrap_or_default();
    let _ = writeln!(text, "{word}  {:<WIDTH$}  {}{took}", step.check, inline(&step.message));
    let mut more = |label: &str, value: &str| {
        let value = block(value).replace('\n', "\n             ");
        let _ = writeln!(text, "           {} {value}", style.label(&format!("{label}:")));
    };
    if let (State::Fault | State::Note, Some(file)) = (step.state, &step.file) {
        let line = step.line.map(|line| format!(":{line}")).unwrap_or_default();
        more("at", &format!("{}{line}", file.display()));
    }
    for detail in &step.details {
        more(&detail.label, &detail.text);
    }
    if let Some(fix) = &step.fix {
        more("fix", fix);
    }
    if let Some(advice) = &step.advice {
        more("advice", advice);
    }
}
