//! What `keyward image migrate` prints and writes.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    entry::{ACR, ECR, Entry, GAR},
    kubelet::{AZURE, BIN_DIR, CONFIG as CONFIG_FLAG, Kubelet},
    plan::{Found, Note, Plan},
};
use crate::{
    bridge::Bridge,
    output::{self, Style, inline, list, quoted},
};

/// The name of the new configuration.
pub(super) const CONFIG: &str = "providers.yaml";
/// The name of the file with the flags.
const FLAGS: &str = "kubelet-flags";
/// The name of the file with the report.
const REPORT: &str = "migration.txt";

/// The report. Documented in `docs/cli.md`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    root: PathBuf,
    found: Vec<Found>,
    providers: Vec<Entry>,
    /// The new configuration.
    config: String,
    kubelet: Flags,
    install: Vec<String>,
    roll_back: Vec<String>,
    notes: Vec<Note>,
    /// The files that were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) written: Vec<PathBuf>,
}

/// How the kubelet's flags change.
#[derive(Debug, Serialize)]
struct Flags {
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'static str>,
    /// Where the kubelet's flags come from.
    files: Vec<PathBuf>,
    /// The flags to set.
    set: Vec<String>,
    /// Today's flags that go.
    remove: Vec<String>,
}

impl Report {
    /// Reports a plan whose files are in `directory` on the node.
    pub(super) fn new(
        root: &Path,
        kubelet: Kubelet,
        plan: Plan,
        config: String,
        directory: &Path,
    ) -> Self {
        let set = [(CONFIG_FLAG, directory.join(CONFIG)), (BIN_DIR, plan.bin_dir.clone())];
        let set = set.map(|(name, path)| format!("--{name}={}", path.display())).to_vec();
        let today = [CONFIG_FLAG, BIN_DIR, AZURE].into_iter();
        let today =
            today.filter_map(|name| Some(format!("--{name}={}", kubelet.flag(name)?.value)));
        let remove: Vec<String> = today.filter(|flag| !set.contains(flag)).collect();
        Self {
            root: root.to_owned(),
            install: install(&plan),
            found: plan.found,
            providers: plan.entries,
            config,
            roll_back: roll_back(&kubelet, &set, &remove, directory),
            kubelet: Flags {
                service: kubelet.service,
                files: kubelet.settings.map_or(kubelet.files, |file| vec![file]),
                set,
                remove,
            },
            notes: plan.notes,
            written: Vec::new(),
        }
    }

    /// The files to write: names and texts.
    pub(super) fn files(&self) -> [(&'static str, String); 3] {
        let flags = self.kubelet.set.join("\n") + "\n";
        [(CONFIG, self.config.clone()), (FLAGS, flags), (REPORT, self.summary(Style::plain()))]
    }

    /// The whole report for people.
    pub(super) fn layout(&self, style: Style) -> String {
        let mut out = self.summary(style);
        _ = writeln!(out, "\n{} ({CONFIG})\n", style.label("configuration"));
        out.push_str(&self.config);
        match self.written.as_slice() {
            [] => out.push_str("\nnothing was written; `--write DIR` writes these files\n"),
            written => {
                for path in written {
                    _ = writeln!(out, "\nwrote `{}`", output::path(path));
                }
            }
        }
        out
    }

    /// What changes, without the configuration itself.
    fn summary(&self, style: Style) -> String {
        let section = |heading: &str, lines: &str| format!("{}\n{lines}", style.label(heading));
        let Flags { set, remove, files, .. } = &self.kubelet;
        let removed = remove.iter().map(|flag| format!("  - {}\n", inline(flag)));
        let added = set.iter().map(|flag| format!("  + {}\n", inline(flag)));
        let read = files.iter().map(|file| format!("  read from `{}`\n", output::path(file)));
        let step = |step: &String| format!("  {}\n", inline(step));
        let steps = |steps: &[String]| steps.iter().map(step).collect::<String>();
        let mut sections = vec![
            section("today", &self.found.iter().map(found_text).collect::<String>()),
            section("new providers", &self.providers.iter().map(provider_text).collect::<String>()),
            section("kubelet", &removed.chain(added).chain(read).collect::<String>()),
        ];
        if !self.install.is_empty() {
            sections.push(section("install the programs", &steps(&self.install)));
        }
        sections.push(section("roll back", &steps(&self.roll_back)));
        if !self.notes.is_empty() {
            sections.push(section("notes", &self.notes_text(style)));
        }
        sections.join("\n")
    }

    /// The notes, one on each line.
    pub(super) fn notes_text(&self, style: Style) -> String {
        let text = |note: &Note| {
            format!("  {} {}\n", style.severity(note.severity), inline(&note.message))
        };
        self.notes.iter().map(text).collect()
    }
}

fn found_text(found: &Found) -> String {
    format!("  {} (`{}`)\n", found.what, output::path(&found.file))
}

fn provider_text(entry: &Entry) -> String {
    let (name, old) = (inline(&entry.name), inline(&entry.replaces));
    let mut out = if name == old {
        format!("  `{name}` (as today)\n")
    } else if old.contains(' ') {
        format!("  `{name}` (today: {old})\n")
    } else {
        format!("  `{name}` (today: `{old}`)\n")
    };
    _ = writeln!(out, "    for {}", list(&entry.patterns));
    if !entry.added.is_empty() {
        _ = writeln!(out, "    new: {}", list(&entry.added));
    }
    if let Some(identity) = &entry.identity {
        _ = writeln!(out, "    as {identity}");
    }
    out
}

/// The commands that put Keyward's programs where the kubelet looks.
fn install(plan: &Plan) -> Vec<String> {
    let named =
        |names: &[&str]| plan.entries.iter().any(|entry| names.contains(&entry.name.as_str()));
    let directory = quoted(&plan.bin_dir.display().to_string());
    let mut commands = Vec::new();
    if named(&[ECR, ACR, GAR]) {
        commands.push(format!("keyward-providers install {directory}"));
    }
    if named(&Bridge::ALL.map(Bridge::name)) {
        commands.push(format!("keyward image install {directory}"));
    }
    commands
}

fn roll_back(
    kubelet: &Kubelet,
    set: &[String],
    remove: &[String],
    directory: &Path,
) -> Vec<String> {
    let mut steps = Vec::new();
    if !remove.is_empty() {
        steps.push(format!("set the old flags again: {}", list(remove)));
    }
    // A flag that the kubelet has today gets its old value back.
    let is_new = |flag: &&String| {
        let name = flag.trim_start_matches("--").split('=').next().unwrap_or(flag);
        kubelet.flag(name).is_none()
    };
    let new: Vec<String> = set.iter().filter(is_new).cloned().collect();
    if !new.is_empty() {
        steps.push(format!("remove {}", list(&new)));
    }
    let service = kubelet.service.unwrap_or("kubelet");
    steps.push(format!("systemctl daemon-reload && systemctl restart {service}"));
    let shown = output::path(directory);
    steps.push(format!("then `{shown}` can be deleted; no other file was changed"));
    steps
}
