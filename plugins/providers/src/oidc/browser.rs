//! Opens the login page, where a browser can be opened.

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::{Command, Stdio},
};

use super::settings::Settings;
use crate::Call;

/// A command that opens a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Browser {
    program: OsString,
    args: Vec<String>,
}

impl Browser {
    /// The command to use here, or why there is none.
    pub(super) fn find(call: &Call, settings: &Settings) -> Result<Self, &'static str> {
        if settings.skip_browser {
            return Err("`--skip-open-browser` is set");
        }
        if let Some(command) = &settings.browser {
            return Self::parse(command).ok_or("`--browser-command` is empty");
        }
        if let Some(commands) = call.var("BROWSER") {
            // Several are separated by colons; the first that exists is used.
            let known = commands.split(':').filter_map(Self::parse);
            let found = known.into_iter().find(|browser| is_on_path(call, &browser.program));
            return found.ok_or("none of the programs in `BROWSER` is on `PATH`");
        }
        if cfg!(target_os = "macos") {
            return Ok(Self { program: "open".into(), args: Vec::new() });
        }
        let wsl = call.var("WSL_DISTRO_NAME").is_some();
        let screen = call.var("DISPLAY").is_some() || call.var("WAYLAND_DISPLAY").is_some();
        let programs: &[(&str, &[&str])] = match (wsl, screen) {
            (true, _) => &[("wslview", &[]), ("xdg-open", &[])],
            (false, true) => &[("xdg-open", &[]), ("gio", &["open"])],
            (false, false) => {
                return Err("there is no screen: neither `DISPLAY` nor `WAYLAND_DISPLAY` is set");
            }
        };
        let found = programs.iter().find(|(program, _)| is_on_path(call, &OsString::from(program)));
        let (program, args) =
            found.ok_or("neither `xdg-open` nor another program to open pages is on `PATH`")?;
        Ok(Self {
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        })
    }

    fn parse(command: &str) -> Option<Self> {
        let mut words = command.split_whitespace();
        let program = words.next()?.into();
        Some(Self { program, args: words.map(str::to_owned).collect() })
    }

    /// Opens a page, and does not wait for the browser to end. `%s` among the arguments is the address;
    /// without it the address comes last.
    #[expect(
        clippy::disallowed_methods,
        reason = "a browser outlives the login that opened it, which the runner of plugins never lets happen"
    )]
    pub(super) fn open(&self, address: &str) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        let has_place = self.args.iter().any(|arg| arg.contains("%s"));
        command.args(self.args.iter().map(|arg| arg.replace("%s", address)));
        if !has_place {
            command.arg(address);
        }
        // Stdout is for the credential, and Ctrl-C at the terminal is not meant for the browser.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        std::thread::Builder::new().name("reaper".into()).spawn(move || child.wait())?;
        Ok(())
    }
}

fn is_on_path(call: &Call, program: &OsString) -> bool {
    if Path::new(program).components().count() > 1 {
        return Path::new(program).is_file();
    }
    let path = call.surroundings.var("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
