//! The log of `-v`: one line per event on stderr, as `level: message name=value` or in JSON, with
//! secrets redacted.

use std::{
    fmt::{self, Write as _},
    io,
};

use keyward_host::redact::redact;
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::text::escape_json;
use serde_json::{Value, json};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use crate::{
    globals::Globals,
    log_limit::LogLimit,
    output::{self, Format},
};

/// Starts the log at the level that the flags select; by default, warnings only.
pub(crate) fn start(globals: &Globals) {
    let level = match globals.flags.verbosity() {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .event_format(Line {
            style: output::Style::of_stderr(globals),
            detailed: level > LevelFilter::INFO,
            format: globals.flags.log_format,
            limit: LogLimit::default(),
        })
        .with_writer(|| Stderr)
        .finish();
    // Fails only if a logger already exists, which then serves as well.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// The layout of a line.
struct Line {
    style: output::Style,
    /// Whether to print the module.
    detailed: bool,
    format: Format,
    limit: LogLimit,
}

/// The fields of an event, in order.
#[derive(Default)]
struct Said {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.fields.push((field.name(), text.into()));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), value.into()));
    }
}

impl Said {
    /// `message name=value`, with the value in quotes unless it is a single plain word.
    fn text(&self) -> String {
        let mut out = self.message.clone();
        for (name, value) in &self.fields {
            let plain = |text: &str| {
                !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "\"=".contains(c))
            };
            let _ = match value {
                Value::String(text) if plain(text) => write!(out, " {name}={text}"),
                Value::String(text) => write!(out, " {name}={text:?}"),
                other => write!(out, " {name}={other}"),
            };
        }
        out
    }

    /// One object. Its texts are redacted before escaping could hide a secret from the writer.
    fn json(self, level: Level, target: &str) -> Value {
        let mut object = json!({
            "time": SystemClock.now().to_string(),
            "level": level.as_str().to_ascii_lowercase(),
            "target": target,
            "message": redact(&self.message),
        });
        for (name, value) in self.fields {
            object[name] = match value {
                Value::String(text) => redact(&text).into(),
                other => other,
            };
        }
        object
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut said = Said::default();
        event.record(&mut said);
        let metadata = event.metadata();
        // Events requested by `-v` are not limited.
        if *metadata.level() == Level::WARN {
            match self.limit.admit(&said.message, SystemClock.elapsed()) {
                None => return Ok(()),
                Some(0) => {}
                Some(count) => said.fields.push(("suppressed", count.into())),
            }
        }
        if self.format == Format::Json {
            let object = said.json(*metadata.level(), metadata.target());
            return writeln!(writer, "{}", escape_json(&object.to_string()));
        }
        let level = match *metadata.level() {
            Level::ERROR => self.style.error("error:"),
            Level::WARN => self.style.warning("warning:"),
            Level::INFO => self.style.label("info:"),
            Level::DEBUG => "debug:".to_owned(),
            Level::TRACE => "trace:".to_owned(),
        };
        write!(writer, "{level} ")?;
        if self.detailed {
            write!(writer, "{}: ", metadata.target())?;
        }
        writeln!(writer, "{}", output::inline(&said.text()))
    }
}

/// Stderr, with secrets redacted. The formatter writes whole lines, so a secret is never cut in
/// two.
struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        output::tell(&redact(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Said {
        let fields = vec![
            ("path", "/a b\"c".into()),
            ("context", "prod".into()),
            ("none", "".into()),
            ("status", 200.into()),
        ];
        Said { message: "request".to_owned(), fields }
    }

    #[test]
    fn a_value_that_is_no_word_is_quoted() {
        assert_eq!(said().text(), r#"request path="/a b\"c" context=prod none="" status=200"#);
    }

    #[test]
    fn in_json_everything_has_its_name_and_its_type() {
        let object = said().json(Level::INFO, "keyward");
        assert_eq!((&object["level"], &object["message"]), (&"info".into(), &"request".into()));
        assert_eq!((&object["path"], &object["status"]), (&"/a b\"c".into(), &200.into()));
        let time = object["time"].as_str().unwrap_or_default();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
}
