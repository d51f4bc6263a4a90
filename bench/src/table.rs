//! The table that people read and the JSON that scripts do.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{measure::Report, peer};

/// A report as lines of text.
pub fn text(report: &Report) -> String {
    let rounds = report.lines.iter().map(|line| line.rounds.len()).max().unwrap_or(0);
    let mut out = format!("\n{} (load {}, {rounds} rounds)\n", report.name, report.load);
    let limit = report.lines.first().map_or("", |l| l.label);
    for line in &report.lines {
        match &line.figures {
            Ok(figures) => {
                let _ = writeln!(
                    out,
                    "  {:<44} {:>10} {:<6} {:>6.2}x   ({} … {})",
                    line.label,
                    number(figures[figures.len() / 2]),
                    report.unit,
                    report.ratio(line.label, limit),
                    number(figures[0]),
                    number(figures[figures.len() - 1]),
                );
            }
            Err(missing) => {
                // Some have more to say than fits.
                let reason = missing.lines().next().unwrap_or_default();
                let _ = writeln!(out, "  {:<44} missing: {reason}", line.label);
            }
        }
    }
    for bar in &report.bars {
        let verdict = match bar {
            bar if bar.open => {
                let _ = writeln!(out, "  not judged, for want of a peer: {}", bar.promise);
                continue;
            }
            bar if bar.holds => "holds ",
            _ => "BROKEN",
        };
        let (seen, most) = (number(bar.seen), number(bar.most));
        let _ = writeln!(out, "  {verdict} {}: {seen} (at most {most})", bar.promise);
    }
    out
}

/// All reports as one JSON document.
pub fn json(reports: &[Report]) -> Value {
    let rows: Vec<Value> = reports
        .iter()
        .map(|report| {
            let limit = report.lines.first().map_or("", |line| line.label);
            let variants: Vec<Value> = report
                .lines
                .iter()
                .map(|line| match &line.figures {
                    Ok(figures) => json!({
                        "label": line.label,
                        "median": figures[figures.len() / 2],
                        "ratio": report.ratio(line.label, limit),
                        "least": figures[0],
                        "most": figures[figures.len() - 1],
                        "rounds": line.rounds,
                    }),
                    Err(missing) => json!({ "label": line.label, "missing": missing }),
                })
                .collect();
            let bars: Vec<Value> = report
                .bars
                .iter()
                .map(|b| json!({ "promise": b.promise, "seen": b.seen, "most": b.most, "holds": b.holds, "judged": !b.open }))
                .collect();
            json!({ "row": report.name, "load": report.load, "unit": report.unit, "variants": variants, "bars": bars })
        })
        .collect();
    json!({ "peers": peer::versions(), "rows": rows })
}

/// Three digits that mean something.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
