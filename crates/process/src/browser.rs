//! Opens a page in the user's browser, where one can be opened.

use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use crate::{harden, surroundings::Surroundings};

/// A command that opens a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browser {
    program: OsString,
    args: Vec<String>,
}

impl Browser {
    /// The first program of `$BROWSER` that exists, or what the desktop opens pages with. An error says
    /// why there is none.
    pub fn find(surroundings: &Surroundings) -> Result<Self, &'static str> {
        let var = |name: &str| {
            surroundings.var(name)?.into_string().ok().filter(|value| !value.is_empty())
        };
        if let Some(commands) = var("BROWSER") {
            // Several are separated by colons.
            let mut known = commands.split(':').filter_map(Self::parse);
            let found = known.find(|browser| is_on_path(surroundings, &browser.program));
            return found.ok_or("none of the programs in `BROWSER` is on `PATH`");
        }
        if cfg!(target_os = "macos") {
            return Ok(Self { program: "open".into(), args: Vec::new() });
        }
        let wsl = var("WSL_DISTRO_NAME").is_some();
        let screen = var("DISPLAY").is_some() || var("WAYLAND_DISPLAY").is_some();
        let programs: &[(&str, &[&str])] = match (wsl, screen) {
            (true, _) => &[("wslview", &[]), ("xdg-open", &[])],
            (false, true) => &[("xdg-open", &[]), ("gio", &["open"])],
            (false, false) => {
                return Err("there is no screen: neither `DISPLAY` nor `WAYLAND_DISPLAY` is set");
            }
        };
        let found =
            programs.iter().find(|(program, _)| is_on_path(surroundings, &OsString::from(program)));
        let (program, args) =
            found.ok_or("neither `xdg-open` nor another program to open pages is on `PATH`")?;
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Ok(Self { program: program.into(), args })
    }

    /// The program and arguments of a command; `None` if it is empty.
    ///
    /// ```
    /// # use keyward_process::browser::Browser;
    /// assert!(Browser::parse("firefox --new-window %s").is_some());
    /// assert_eq!(Browser::parse(" "), None);
    /// ```
    pub fn parse(command: &str) -> Option<Self> {
        let mut words = command.split_whitespace();
        let program = words.next()?.into();
        Some(Self { program, args: words.map(str::to_owned).collect() })
    }

    /// Opens a page, and does not wait for the browser to end. `%s` among the arguments is the address;
    /// without it the address comes last.
    #[expect(
        clippy::disallowed_methods,
        reason = "a browser is no run: nobody waits for its end or reads its output, and it may outlive us"
    )]
    pub fn open(&self, address: &str) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        let has_place = self.args.iter().any(|arg| arg.contains("%s"));
        command.args(self.args.iter().map(|arg| arg.replace("%s", address)));
        if !has_place {
            command.arg(address);
        }
        // Stdout is for data, and Ctrl-C at the terminal is not meant for the browser.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        harden::restore(child.id());
        std::thread::Builder::new().name("reaper".into()).spawn(move || child.wait())?;
        Ok(())
    }
}

fn is_on_path(surroundings: &Surroundings, program: &OsString) -> bool {
    if Path::new(program).components().count() > 1 {
        return Path::new(program).is_file();
    }
    let path = surroundings.var("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Fixed;

    #[test]
    fn the_environment_decides_which_browser_opens() {
        let find = |vars: &[(&str, &str)]| {
            let vars = vars.iter().map(|(name, value)| (name.into(), value.into())).collect();
            Browser::find(&Surroundings::fixed(Fixed { vars, ..Fixed::default() }))
        };
        let path = ("PATH", "/usr/bin:/bin");
        assert!(find(&[path]).is_err_and(|why| why.contains("no screen")));
        let chosen = find(&[path, ("BROWSER", "missing-browser:sh -c"), ("DISPLAY", ":0")]);
        assert_eq!(chosen.ok(), Browser::parse("sh -c"));
        assert!(find(&[path, ("BROWSER", "missing-browser")]).is_err());
        let desktop = find(&[("PATH", "/nowhere"), ("DISPLAY", ":0")]);
        assert!(desktop.is_err_and(|why| why.contains("xdg-open")));
    }
}
