//! Reads the command lines of the tools that families replace: one table of flags for each tool.
//!
//! The rules are those of Go's `pflag`, which most of the tools use: `--name value`, `--name=value`, `-n value`,
//! `-nvalue`, `-n=value`, `--switch`, `--switch=false`, and `--` before words that begin with a dash.

use std::{collections::HashMap, ffi::OsString, fmt, time::Duration};

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

/// A flag of a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// The name after `--`.
    pub(crate) name: &'static str,
    /// The letter after `-`.
    pub(crate) short: Option<char>,
    /// What it takes and does.
    pub(crate) kind: Kind,
}

/// What a flag takes and does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value; of several the last counts.
    Text,
    /// No value, or `=true` and `=false`.
    Switch,
    /// A value; several are kept.
    List,
    /// A value that changes nothing here. The text says why, for the page and the table test.
    Ignored(#[allow(dead_code, reason = "documents the flag")] &'static str),
    /// A switch that changes nothing here, and why.
    IgnoredSwitch(#[allow(dead_code, reason = "documents the flag")] &'static str),
    /// A flag that the tool has and this program refuses: the reason.
    Refused(&'static str),
}

/// A flag without a letter.
pub(crate) const fn flag(name: &'static str, kind: Kind) -> Flag {
    Flag { name, short: None, kind }
}

/// A flag with a letter.
pub(crate) const fn short(letter: char, name: &'static str, kind: Kind) -> Flag {
    Flag { name, short: Some(letter), kind }
}

/// The flag that prints the usage.
pub(crate) const HELP: Flag = short('h', "help", Kind::Switch);

/// Why flags for logging change nothing.
pub(crate) const LOG: &str = "messages go to stderr, and there are no log files";

/// The flags of Kubernetes' logging library, which most of the tools have.
pub(crate) const KLOG: &[Flag] = &[
    flag("add_dir_header", Kind::IgnoredSwitch(LOG)),
    flag("alsologtostderr", Kind::IgnoredSwitch(LOG)),
    flag("legacy_stderr_threshold_behavior", Kind::IgnoredSwitch(LOG)),
    flag("log_backtrace_at", Kind::Ignored(LOG)),
    flag("log_dir", Kind::Ignored(LOG)),
    flag("log_file", Kind::Ignored(LOG)),
    flag("log_file_max_size", Kind::Ignored(LOG)),
    flag("logtostderr", Kind::IgnoredSwitch(LOG)),
    flag("one_output", Kind::IgnoredSwitch(LOG)),
    flag("skip_headers", Kind::IgnoredSwitch(LOG)),
    flag("skip_log_headers", Kind::IgnoredSwitch(LOG)),
    flag("stderrthreshold", Kind::Ignored(LOG)),
    short('v', "v", Kind::Ignored(LOG)),
    flag("vmodule", Kind::Ignored(LOG)),
];

/// A command line that was read.
#[derive(Default)]
pub(crate) struct Flags {
    values: HashMap<&'static str, Vec<String>>,
    words: Vec<String>,
}

impl Flags {
    /// Reads a command line. Unknown flags are errors that name the most similar flag.
    pub(crate) fn read(tables: &[&[Flag]], args: &[OsString]) -> Result<Self, Refusal> {
        let mut flags = Self::default();
        let mut args = args.iter().map(text);
        while let Some(arg) = args.next() {
            let arg = arg?;
            if arg == "--" {
                for word in args.by_ref() {
                    flags.words.push(word?);
                }
            } else if let Some(long) = arg.strip_prefix("--") {
                let (name, value) = split(long);
                let flag = tables.iter().copied().flatten().find(|flag| flag.name == name);
                let flag = flag.ok_or_else(|| unknown(tables, name))?;
                flags.take(*flag, &format!("--{name}"), value, &mut args)?;
            } else if let Some(letters) = arg.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                flags.letters(tables, letters, &mut args)?;
            } else {
                flags.words.push(arg);
            }
        }
        Ok(flags)
    }

    /// Reads what follows one dash: letters of switches, and at most one flag with a value, which comes last.
    fn letters(
        &mut self,
        tables: &[&[Flag]],
        letters: &str,
        args: &mut impl Iterator<Item = Result<String, Refusal>>,
    ) -> Result<(), Refusal> {
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            let flag = tables.iter().copied().flatten().find(|flag| flag.short == Some(letter));
            let flag = *flag.ok_or_else(|| {
                Refusal::BadConfig(format!("there is no flag `-{}`", inline(&letter.to_string())))
            })?;
            let shown = format!("-{letter}");
            match (flag.kind.takes_value(), rest.strip_prefix('=')) {
                (true, None) if !rest.is_empty() => {
                    return self.take(flag, &shown, Some(rest), args);
                }
                (_, Some(value)) => return self.take(flag, &shown, Some(value), args),
                _ => self.take(flag, &shown, None, args)?,
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        flag: Flag,
        shown: &str,
        value: Option<&str>,
        args: &mut impl Iterator<Item = Result<String, Refusal>>,
    ) -> Result<(), Refusal> {
        if let Kind::Refused(why) = flag.kind {
            return Err(Refusal::BadConfig(format!("`{shown}` is not supported: {why}")));
        }
        let value = match value {
            Some(value) => value.to_owned(),
            None if !flag.kind.takes_value() => "true".to_owned(),
            None => args.next().unwrap_or_else(|| {
                Err(Refusal::BadConfig(format!("the flag `{shown}` needs a value")))
            })?,
        };
        if !flag.kind.takes_value() && boolean(&value).is_none() {
            return Err(Refusal::BadConfig(format!(
                "the flag `{shown}` is `true` or `false`, not `{}`",
                inline(&value)
            )));
        }
        let values = self.values.entry(flag.name).or_default();
        if flag.kind != Kind::List {
            values.clear();
        }
        values.push(value);
        Ok(())
    }

    /// The value of a flag, if it was given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// The value of a flag, unless it is missing or empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|value| !value.is_empty())
    }

    /// All values of a flag that may be repeated.
    pub(crate) fn list(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// The flags that were given, and their values.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        self.values.iter().map(|(name, values)| (*name, values.as_slice()))
    }

    /// Whether a switch is on.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.text(name).and_then(boolean).unwrap_or(false)
    }

    /// The words that are no flags.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }
}

/// Names only: values may be secrets.
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.values.keys().collect();
        names.sort_unstable();
        f.debug_struct("Flags").field("names", &names).finish_non_exhaustive()
    }
}

impl Kind {
    fn takes_value(self) -> bool {
        !matches!(self, Self::Switch | Self::IgnoredSwitch(_))
    }
}

/// The refusal of a value that a flag or a variable cannot have.
pub(crate) fn wrong_value(name: &str, right: &str, value: &str) -> Refusal {
    Refusal::BadConfig(format!("`{name}` is {right}, not `{}`", inline(value)))
}

/// A duration as Go writes it, such as `1m30s`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    u64::try_from(keyward_protocol::duration::parse(text)?).ok().map(Duration::from_nanos)
}

/// What Go's `strconv.ParseBool` takes.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn split(long: &str) -> (&str, Option<&str>) {
    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)))
}

fn text(arg: &OsString) -> Result<String, Refusal> {
    let text = arg.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Refusal::BadConfig(format!(
            "the argument `{}` is not UTF-8",
            inline(&arg.to_string_lossy())
        ))
    })
}

fn unknown(tables: &[&[Flag]], name: &str) -> Refusal {
    let flags = tables.iter().copied().flatten();
    let near = flags.map(|flag| (strsim::damerau_levenshtein(flag.name, name), flag.name));
    let hint = match near.min() {
        Some((distance, near)) if distance <= 3 => format!("\n\nhint: there is `--{near}`"),
        _ => String::new(),
    };
    Refusal::BadConfig(format!("there is no flag `--{}`{hint}", inline(name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TABLE: &[Flag] = &[
        Flag { name: "cluster-id", short: Some('i'), kind: Kind::Text },
        Flag { name: "cache", short: Some('c'), kind: Kind::Switch },
        Flag { name: "scope", short: None, kind: Kind::List },
        Flag { name: "old", short: None, kind: Kind::Refused("nobody has it") },
        Flag { name: "log", short: Some('l'), kind: Kind::Ignored("there is no log") },
    ];

    fn read(args: &[&str]) -> Result<Flags, String> {
        let args: Vec<_> = args.iter().map(OsString::from).collect();
        Flags::read(&[TABLE], &args).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn values_come_in_every_form_that_pflag_takes() {
        for args in [
            &["--cluster-id", "a"][..],
            &["--cluster-id=a"],
            &["-i", "a"],
            &["-ia"],
            &["-i=a"],
            &["-ci", "a"],
            &["--cluster-id=b", "-ia"],
        ] {
            assert_eq!(read(args).unwrap().text("cluster-id"), Some("a"), "{args:?}");
        }
    }

    #[test]
    fn switches_are_off_when_they_say_so() {
        assert!(read(&["--cache"]).unwrap().is_set("cache"));
        assert!(read(&["-c"]).unwrap().is_set("cache"));
        assert!(!read(&["--cache=false"]).unwrap().is_set("cache"));
        assert!(!read(&[]).unwrap().is_set("cache"));
        assert_eq!(
            read(&["--cache=x"]).unwrap_err(),
            "the flag `--cache` is `true` or `false`, not `x`"
        );
    }

    #[test]
    fn words_lists_and_ignored_flags_are_kept_apart() {
        let flags =
            read(&["token", "--scope", "a", "--scope=b", "-l", "json", "--", "-x"]).unwrap();
        assert_eq!(flags.words(), ["token", "-x"]);
        assert_eq!(flags.list("scope"), ["a", "b"]);
    }

    #[test]
    fn debug_output_has_names_and_no_values() {
        let flags = read(&["--scope=s3cr3t", "-i", "s3cr3t", "s3cr3t"]).unwrap();
        assert_eq!(format!("{flags:?}"), r#"Flags { names: ["cluster-id", "scope"], .. }"#);
    }

    #[test]
    fn what_cannot_be_read_is_said_with_the_nearest_name() {
        assert_eq!(
            read(&["--cluster-di=a"]).unwrap_err(),
            "there is no flag `--cluster-di`\n\nhint: there is `--cluster-id`"
        );
        assert_eq!(read(&["-z"]).unwrap_err(), "there is no flag `-z`");
        assert_eq!(read(&["-i"]).unwrap_err(), "the flag `-i` needs a value");
        assert_eq!(read(&["--old=1"]).unwrap_err(), "`--old` is not supported: nobody has it");
    }

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("60s", Some(60_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("250ms", Some(250)),
            ("60", None),
            ("", None),
            ("s", None),
            ("-5s", None),
            ("9000000000000000000s9000000000000000000s9000000000000000000s", None),
        ] {
            let read = duration(text).map(|time| time.as_millis());
            assert_eq!(read, expected, "{text}");
        }
    }
}
