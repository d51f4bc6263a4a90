//! The policy for plugins: kuberc's rules, and the state of the file itself.
//!
//! The policy decides exactly as kubectl's does. What kubectl lets pass with a warning, a kuberc that
//! cannot be fully understood, stops every plugin here: a policy must not be lost by a typing error.

mod kuberc;
mod lookup;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

pub use lookup::Missing;
pub(crate) use lookup::clean;

use keyward_process::trust;

use keyward_process::{FileId, surroundings::Surroundings};

use crate::{Error, Kind, error::inline};

/// kuberc's `credentialPluginPolicy` with its allowlist, validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Policy {
    /// Everything may run.
    #[default]
    AllowAll,
    /// Nothing may run.
    DenyAll,
    /// Only these, by name or path.
    Allowlist(Vec<String>),
}

/// The policy in force, where it came from, and how strict we are about files.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Rules {
    /// The policy.
    pub policy: Policy,
    /// The kuberc it came from.
    pub origin: Option<PathBuf>,
    /// The variable that switched kuberc off, if one did.
    pub switched_off: Option<&'static str>,
    /// Why the kuberc in the default place could not be understood. While this is set nothing runs.
    pub fault: Option<Error>,
    /// Programs allowed although their file is writable or owned by others, by name or path.
    pub trusted: Vec<PathBuf>,
    /// Directories searched after `PATH`, for programs that were not started from a shell. None by
    /// default.
    pub folders: Vec<PathBuf>,
}

/// A program that was found and may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The absolute path that will be executed.
    pub path: PathBuf,
    /// The file that was checked; it is compared again right before the run.
    pub file_id: FileId,
    /// What is odd about it but allowed (group-writable, or trusted by name).
    pub warnings: Vec<String>,
}

/// What the policy says about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Allowed, because everything is.
    Allowed,
    /// Allowed by this entry.
    Listed(String),
    /// Nothing may run.
    DeniedAll,
    /// No entry of the allowlist is this program.
    NotListed,
    /// Not listed by its text, and the command leads to no program to compare.
    Unresolvable,
    /// The policy file is not understood, so nothing may run.
    Unknown,
}

impl Policy {
    /// Validates a policy as kuberc writes it (PP-01 to PP-04): its name, and the allowlist, where
    /// `None` is "not there", which differs from empty.
    pub fn new(name: &str, allowlist: Option<Vec<String>>) -> Result<Self, Error> {
        let wrong = |message: String| Err(Error::new(Kind::BadConfig, message));
        let policy = match name {
            "" | "AllowAll" => Self::AllowAll,
            "DenyAll" => Self::DenyAll,
            "Allowlist" => {
                let Some(list) = allowlist else {
                    return wrong("the plugin policy is `Allowlist` and there is no list".into());
                };
                if list.is_empty() {
                    return wrong(
                        "the plugin policy is `Allowlist` and the list is empty; `DenyAll` says that nothing may run".into(),
                    );
                }
                for (index, entry) in list.iter().enumerate() {
                    let number = index + 1;
                    if entry.is_empty() {
                        return wrong(format!("entry {number} of the plugin allowlist is blank"));
                    }
                    if clean(Path::new(entry)).as_os_str() != OsStr::new(entry) {
                        return wrong(format!(
                            "entry {number} of the plugin allowlist is not a clean path (no `./`, `..` or trailing `/`)"
                        ));
                    }
                }
                return Ok(Self::Allowlist(list));
            }
            other => {
                return wrong(format!(
                    "`{}` is no plugin policy: it is `AllowAll`, `DenyAll` or `Allowlist`",
                    inline(other)
                ));
            }
        };
        if allowlist.is_some() {
            return wrong(format!(
                "there is a plugin allowlist, but the plugin policy is `{}`",
                policy.name()
            ));
        }
        Ok(policy)
    }

    /// The policy of a kuberc file's content. Fails when any of it that matters is not understood.
    pub fn from_kuberc(content: &[u8]) -> Result<Self, Error> {
        kuberc::policy(content)
    }

    /// The policy's name in kuberc.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllowAll => "AllowAll",
            Self::DenyAll => "DenyAll",
            Self::Allowlist(_) => "Allowlist",
        }
    }
}

impl Rules {
    /// Rules with this policy and nothing else.
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Reads `--kuberc`, `$KUBERC` or `~/.kube/kuberc` (PP-14 to PP-19).
    ///
    /// Fails closed (D4): a file that was asked for and cannot be understood is an error; one in the
    /// default place becomes [`Rules::fault`], so that users without a plugin are left alone and no
    /// plugin runs.
    pub fn load(surroundings: &Surroundings, explicit: Option<&Path>) -> Result<Self, Error> {
        kuberc::load(surroundings, explicit)
    }

    /// The file that [`Rules::load`] looks for, whether or not it is there.
    pub fn path(surroundings: &Surroundings, explicit: Option<&Path>) -> Option<PathBuf> {
        kuberc::place(surroundings, explicit).map(|(file, _)| surroundings.absolute(&file))
    }

    /// Decides by policy (PP-05). Looks at no file but to find the program. Returns what the policy says,
    /// and where the command leads, as the text that was compared.
    pub fn judge(
        &self,
        command: &str,
        surroundings: &Surroundings,
    ) -> (Verdict, Result<PathBuf, Missing>) {
        let find = |command: &str| lookup::find(command, surroundings, &self.folders);
        let found = find(command);
        let verdict = match &self.policy {
            _ if self.fault.is_some() => Verdict::Unknown,
            Policy::AllowAll => Verdict::Allowed,
            Policy::DenyAll => Verdict::DeniedAll,
            Policy::Allowlist(list) => judge_by_list(list, command, found.as_deref(), find),
        };
        (verdict, found)
    }

    /// Finds `command` (`PATH` for a bare name, EX-03), decides by policy and checks the file.
    ///
    /// Fails with [`Kind::NotAllowed`], [`Kind::NotFound`], or [`Kind::Failed`] for a file that is
    /// there and cannot be executed.
    pub fn admit(&self, command: &str, surroundings: &Surroundings) -> Result<Program, Error> {
        let (verdict, found) = self.judge(command, surroundings);
        self.admit_judged(command, &verdict, &found, surroundings)
    }

    /// Does what [`Rules::admit`] does with a command that [`Rules::judge`] has looked at.
    pub(crate) fn admit_judged(
        &self,
        command: &str,
        verdict: &Verdict,
        found: &Result<PathBuf, Missing>,
        surroundings: &Surroundings,
    ) -> Result<Program, Error> {
        if let Some(refusal) = self.refusal(command, verdict) {
            return Err(refusal);
        }
        let found = found.as_ref().map_err(|missing| not_found(command, missing))?;
        let path = surroundings.absolute(found);
        let by_name =
            matches!(verdict, Verdict::Listed(_)) || is_trusted(&self.trusted, command, &path);
        let hint = "correct the owner and the mode, or trust it as it is: name the plugin \
                    in the kuberc's allowlist, or its path with `--trust-plugin`";
        check(command, path, by_name, surroundings, hint)
    }

    fn refusal(&self, command: &str, verdict: &Verdict) -> Option<Error> {
        let command = inline(command);
        let why = match verdict {
            Verdict::Allowed | Verdict::Listed(_) => return None,
            Verdict::Unknown => return self.fault.clone(),
            Verdict::DeniedAll => "no plugin may run",
            Verdict::NotListed => "it is not in the allowlist",
            Verdict::Unresolvable => {
                "it is not in the allowlist by its name, and no such program was found"
            }
        };
        let error = Error::new(
            Kind::NotAllowed,
            format!("plugin `{command}` is not allowed by policy: {why}"),
        )
        .note("policy", self.policy.name());
        Some(match &self.origin {
            Some(origin) => error.note("set in", format!("`{}`", origin.display())),
            None => error,
        })
    }
}

impl Program {
    /// The program of an image credential provider, or of a helper that one needs: in `directory`, the
    /// one of the providers, or else through `PATH`. No policy stands in its way: whoever wrote the
    /// configuration chose the program. It is refused if another user could change it, unless `trusted`
    /// has its name or path.
    pub fn locate(
        name: &str,
        directory: Option<&Path>,
        trusted: &[PathBuf],
        surroundings: &Surroundings,
    ) -> Result<Self, Error> {
        let found = match directory {
            // A directory of providers is never searched beyond its own files.
            Some(_) if !lookup::is_bare(name) || matches!(name, "" | "." | "..") => {
                Err(Missing::Nowhere { looked: Vec::new(), unusable: None })
            }
            Some(directory) => lookup::named(&directory.join(name), surroundings),
            None => lookup::find(name, surroundings, &[]),
        };
        let path = found.map_err(|missing| not_found(name, &missing))?;
        let path = surroundings.absolute(&path);
        let by_name = is_trusted(trusted, name, &path);
        let hint = "correct the owner and the mode, or trust it as it is: `--trust-plugin`, or \
                    `KEYWARD_TRUST_PLUGIN` for the bridges, names it";
        check(name, path, by_name, surroundings, hint)
    }
}

fn judge_by_list(
    list: &[String],
    command: &str,
    found: Result<&Path, &Missing>,
    find: impl Fn(&str) -> Result<PathBuf, Missing>,
) -> Verdict {
    let text = if lookup::is_bare(command) {
        clean(Path::new(command))
    } else {
        lookup::explicit(command)
    };
    // A program behind a relative element of `PATH` has a path to compare, although it will not run.
    let path = match found {
        Ok(path) => path,
        Err(Missing::Relative(path)) => path,
        Err(_) => &text,
    };
    let named = |entry: &&String| {
        let entry = OsStr::new(entry.as_str());
        entry == text.as_os_str() || entry == path.as_os_str()
    };
    if let Some(entry) = list.iter().find(named) {
        return Verdict::Listed(entry.clone());
    }
    let Ok(path) = found else {
        return Verdict::Unresolvable;
    };
    let leads_there = |entry: &&String| {
        Path::new(entry.as_str()).file_name() == path.file_name()
            && find(entry).is_ok_and(|other| other.as_os_str() == path.as_os_str())
    };
    match list.iter().find(leads_there) {
        Some(entry) => Verdict::Listed(entry.clone()),
        None => Verdict::NotListed,
    }
}

fn is_trusted(trusted: &[PathBuf], command: &str, path: &Path) -> bool {
    trusted.iter().any(|entry| entry.as_os_str() == OsStr::new(command) || entry == path)
}

/// Refuses a program that another user could change, unless it was trusted `by_name`.
fn check(
    command: &str,
    path: PathBuf,
    by_name: bool,
    surroundings: &Surroundings,
    hint: &str,
) -> Result<Program, Error> {
    let checked = trust::program(&path, surroundings.var("PATH").as_deref()).map_err(|error| {
        Error::new(Kind::Failed, format!("cannot look at plugin `{}`", inline(command)))
            .note("file", path.display().to_string())
            .because(error)
    })?;
    let text = |finding: &trust::Finding| inline(&finding.to_string());
    let mut warnings: Vec<String> = checked.warnings().map(text).collect();
    if checked.faults().next().is_some() {
        if !by_name {
            let error = Error::new(
                Kind::NotAllowed,
                format!("plugin `{}` is refused: others could change it", inline(command)),
            );
            let noted = |error: Error, fault| error.note("because", text(fault));
            return Err(checked.faults().fold(error, noted).with_hint(hint));
        }
        warnings.extend(checked.faults().map(text));
    }
    Ok(Program { path, file_id: checked.file_id, warnings })
}

fn not_found(command: &str, missing: &Missing) -> Error {
    let plugin = inline(command);
    let list = |folders: &[PathBuf]| {
        let texts: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        if texts.is_empty() { "no folder: `PATH` is empty".to_owned() } else { texts.join(", ") }
    };
    let unfit = |what: &str, path: &Path| {
        Error::new(Kind::Failed, format!("plugin `{plugin}` {what}"))
            .note("file", path.display().to_string())
    };
    match missing {
        Missing::Nowhere { looked, unusable } => {
            let error = Error::new(Kind::NotFound, format!("plugin `{plugin}` was not found"));
            let error = error.note("looked in", list(looked));
            match unusable {
                Some(path) => error.note(
                    "passed over",
                    format!("`{}`, which may not be executed", path.display()),
                ),
                None => error,
            }
        }
        Missing::Relative(path) => Error::new(
            Kind::NotFound,
            format!("plugin `{plugin}` was found only through a relative element of `PATH`"),
        )
        .note(
            "passed over",
            format!("`{}`, which depends on the working directory", path.display()),
        ),
        Missing::Unreachable(path) => unfit("cannot be reached", path),
        Missing::Folder(path) => unfit("is a folder, not a program", path),
        Missing::NotExecutable(path) => {
            // No device or pipe becomes a program by that.
            let hint = || format!("chmod +x {}", inline(&path.to_string_lossy()));
            unfit("may not be executed", path).with_hint_if(path.is_file().then(hint))
        }
    }
}
