//! The log of `-v`: one line per event on stderr, as `level: message name=value`, secrets masked.

use std::{fmt, io};

use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer},
    registry::LookupSpan,
};

use crate::{globals::Globals, mask::Mask, output};

/// Starts the log at the level the flags ask for; without any, warnings only.
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
        })
        .with_writer(Stderr(globals.mask.clone()))
        .finish();
    // Fails only if a log is there already, and then that one is as good.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// The look of a line.
struct Line {
    style: output::Style,
    /// Say which module it comes from.
    detailed: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => self.style.error("error:"),
            Level::WARN => self.style.warning("warning:"),
            Level::INFO => self.style.label("info:"),
            Level::DEBUG => "debug:".to_owned(),
            Level::TRACE => "trace:".to_owned(),
        };
        write!(writer, "{level} ")?;
        if self.detailed {
            write!(writer, "{}: ", event.metadata().target())?;
        }
        let mut fields = String::new();
        context.field_format().format_fields(Writer::new(&mut fields), event)?;
        writeln!(writer, "{}", output::inline(&fields))
    }
}

/// Stderr behind the mask.
struct Stderr(Mask);

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Masked<'a>;

    fn make_writer(&'a self) -> Masked<'a> {
        Masked(&self.0)
    }
}

/// The formatter hands over whole lines, so a secret is never cut in two.
struct Masked<'a>(&'a Mask);

impl io::Write for Masked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        output::tell(&self.0.apply(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
